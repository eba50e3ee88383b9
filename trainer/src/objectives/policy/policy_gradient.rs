//! The policy gradient on groups of rollouts: rewards against their group's mean, under one of the per-token losses.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::{ForwardBackward, Learner, LossFunction, RatioBounds};
use fulgurite_types::{Datum, LossInputs, TeacherLogprobs, UntrainedCause, Verdict};
use serde_json::{Map, Value};

use super::super::objective::{Lesson, LossPart, Measurement, Objective, Pass};
use super::super::reference::Reference;
use super::super::target_distributions::{reverse_divergence, target_entropy};
use super::super::trained_rows::trained_rows;
use super::adaptive::{EntropyCoefficient, adapted_entropy, adapted_kl};
use super::credit::trained_tokens;
use super::drift_causes::{Origins, metrics_by_cause};
use super::importance_mask::mask_by_ratio;
use super::kl_loss::{KlRows, kl_loss};
use super::kl_penalty::{KlPenalty, penalize_kl};
use super::policy_metrics::{PolicyMetrics, policy_metrics_of};
use super::rollout_metrics::rollout_metrics;
use super::staleness::staleness_metrics;
use super::substeps::split_into_substeps;
use super::teaching::{MemberPlace, Teachers};
use super::top_entropy::mask_by_entropy;
use super::trajectories::{Batch, Credit, assemble, call_places};
use crate::options::{DistillationLoss, DistillationOptions, EntropyBonus, KlPlace, KlTarget, LossAggregation};
use crate::rollouts::{
    Collected, Decode, Member, StaleRollouts, failure_metrics, findings, reward_metrics, sample_answers,
};
use crate::sources::DataPosition;
use crate::weights::RunWeights;
use crate::{Reporter, TrainError, TrainEvent};

/// Learns from groups of rollouts.
pub(crate) struct PolicyGradient {
    pub(crate) credit: Credit,
    pub(crate) loss: LossFunction,
    pub(crate) aggregation: LossAggregation,
    /// What the sum of a rollout is divided by, where rollouts are summed.
    pub(crate) rollout_length: Option<usize>,
    /// At which agents sample.
    pub(crate) temperature: f32,
    /// Optimizer steps that a batch becomes.
    pub(crate) substeps: NonZeroUsize,
    /// Ratios outside of which a token teaches nothing.
    pub(crate) importance_mask: Option<RatioBounds>,
    /// The share of tokens, those of the greatest entropies, that teaches.
    pub(crate) top_entropy: Option<f64>,
    /// What the mean entropy of trained tokens is worth.
    pub(crate) entropy_bonus: EntropyBonus,
    /// The same in this update.
    pub(crate) entropy_coefficient: f64,
    /// Whose logprobs the policy is pulled to.
    pub(crate) teachers: Option<Teachers>,
    /// What leaving a reference costs.
    pub(crate) kl: Option<Kl>,
    /// Of a run that harvests, what the running baseline keeps of itself at each reward.
    pub(crate) baseline_decay: Option<f64>,
    /// Whether it is recorded what became of each trained token.
    pub(crate) records_tokens: bool,
    /// Reads tokens, for people.
    pub(crate) decode: Decode,
    /// What the lesson's rows are divided by, substep by substep.
    pub(crate) divisors: Vec<Vec<f64>>,
    /// The cost of leaving the reference, of the passes since the lesson: its sum, that of distances, and targets.
    pub(crate) kl_loss: Option<(f64, f64, usize)>,
    /// The weights that the run can name.
    pub(crate) weights: RunWeights,
    /// Which weights sampled the lesson's rows.
    pub(crate) origins: Origins,
}

/// What leaving a reference costs.
pub(crate) struct Kl {
    pub(crate) place: KlPlace,
    pub(crate) penalty: KlPenalty,
    /// What the penalty's coefficient is adapted to.
    pub(crate) target: Option<KlTarget>,
    pub(crate) reference: Reference,
}

#[async_trait]
impl Objective<Collected> for PolicyGradient {
    async fn lesson(
        &mut self,
        step: u64,
        mut collected: Collected,
        position: &mut DataPosition,
        learner: &dyn Learner,
        reporter: &mut dyn Reporter,
    ) -> Result<Lesson, TrainError> {
        if let Some(teachers) = &mut self.teachers {
            teachers.follow(step, learner).await?;
        }
        let harvest = self.baseline_decay.map(|_| &position.harvest);
        let reward_scale = |task: &Value| self.teachers.as_ref()?.options.reward_scale(task);
        let mut batch = assemble(&mut collected, self.credit, harvest, reward_scale)?;
        let mut metrics = self.describe(step, &collected, &batch, reporter);
        if let Some(decay) = self.baseline_decay {
            position.harvest.learn(&batch.alone, decay);
            for (key, value) in position.harvest.metrics(&batch.alone) {
                metrics.insert(key.to_owned(), value.into());
            }
            let stale = StaleRollouts::among(collected.members(), &self.weights.distances());
            let stale = stale.and(collected.passed_over.stale);
            for (key, value) in stale.metrics() {
                metrics.insert(key.to_owned(), value.into());
            }
        }
        let mut groups = std::mem::take(&mut batch.groups);
        let teacher_logprobs = match &self.teachers {
            Some(teachers) => self.taught(teachers, &mut groups, &batch.places, &collected, &mut metrics).await?,
            None => Vec::new(),
        };
        if let Some(teachers) = self.teachers.as_ref().filter(|teachers| teachers.options.loss.is_of_distributions()) {
            let rows: Vec<Datum> = groups.into_iter().flatten().flatten().collect();
            let rows = match teachers.options.loss {
                DistillationLoss::ReverseKl => {
                    reversed(rows, teachers.options.coefficient, learner, &mut metrics).await?
                }
                DistillationLoss::ForwardKl | DistillationLoss::PolicyGradient => rows,
            };
            let substeps = split_into_substeps(rows, self.substeps).into_iter().map(Into::into);
            let substeps = Lesson::substeps_of(substeps, LossFunction::CrossEntropy);
            let (uses, sampled_nll) = (collected.uses(), collected.sampled_nll());
            return Ok(Lesson { substeps, metrics, uses, teacher_logprobs, sampled_nll, ..Lesson::default() });
        }
        let places = call_places(&batch.places, &collected);
        let (groups, masked) = self.adapted(groups, position, learner, &mut metrics).await?;
        self.begin();
        self.origins.extend(places.clone());
        let trained_rows =
            if self.records_tokens { trained_rows(places, &groups, masked, self.loss) } else { Vec::new() };
        let answers = if groups.is_empty() { sample_answers(&collected, &self.decode) } else { Vec::new() };
        let substeps = split_into_substeps(groups, self.substeps);
        let substeps = substeps.into_iter().map(|groups| vec![self.part(groups)]).collect();
        let (uses, sampled_nll) = (collected.uses(), collected.sampled_nll());
        let lesson = Lesson { substeps, metrics, uses, teacher_logprobs, ..Lesson::default() };
        Ok(Lesson { trained_rows, answers, sampled_nll, ..lesson })
    }

    /// With the entropy's gradient, if it is worth anything: a mean over the part's trained tokens.
    async fn forward_backward(
        &mut self,
        part: &LossPart,
        learner: &dyn Learner,
    ) -> Result<ForwardBackward, TrainError> {
        let data = Arc::clone(&part.data);
        if self.entropy_coefficient == 0.0 {
            return Ok(learner.forward_backward(data, part.loss).await?);
        }
        let tokens: usize = data.iter().map(trained_tokens).sum();
        let weight = (self.entropy_coefficient / tokens.max(1) as f64) as f32;
        Ok(learner.forward_backward_with_entropy(data, part.loss, weight).await?)
    }

    /// The loss of leaving the reference, which needs the logprobs of the weights that the substep begins with.
    async fn addition(&mut self, pass: &Pass, learner: &dyn Learner) -> Result<Option<LossPart>, TrainError> {
        let Some(kl) = self.kl.as_ref().filter(|kl| kl.place == KlPlace::Loss) else { return Ok(None) };
        let divisors = self.divisors.get(pass.substep).map_or(&[][..], Vec::as_slice);
        let reference = kl.reference.logprobs(learner, Arc::clone(&pass.data)).await?;
        let rows = KlRows::at_temperature(self.temperature);
        let made = kl_loss(&pass.data, &pass.logprobs, &reference, kl.penalty.coefficient, divisors, rows)?;
        let (loss, distance, targets) = self.kl_loss.unwrap_or_default();
        self.kl_loss = Some((loss + made.loss, distance + made.distance, targets + made.targets));
        Ok(Some(LossPart { data: made.rows.into(), loss: rows.loss(), is_auxiliary: false }))
    }

    async fn save(&self, step: u64, checkpoint: &Path) -> Result<(), TrainError> {
        match &self.teachers {
            Some(teachers) => teachers.save(step, checkpoint).await,
            None => Ok(()),
        }
    }

    async fn restore(&mut self, step: u64, checkpoint: &Path) -> Result<(), TrainError> {
        match &mut self.teachers {
            Some(teachers) => teachers.restore(step, checkpoint).await,
            None => Ok(()),
        }
    }

    fn measure(&self, passes: &[Pass]) -> Result<Measurement, TrainError> {
        self.measured(passes, |pass| pass.substep > 0)
    }
}

impl PolicyGradient {
    /// The greatest difference of sampler and trainer is told of the passes before which no optimizer step of the update has
    /// moved the weights; all else of all. `is_moved` says of a pass whether one has.
    pub(super) fn measured(
        &self,
        passes: &[Pass],
        is_moved: impl Fn(&Pass) -> bool,
    ) -> Result<Measurement, TrainError> {
        if let Some(teachers) = self.teachers.as_ref().filter(|teachers| teachers.options.loss.is_of_distributions()) {
            return Ok(measured_distributions(passes, &teachers.options));
        }
        if !passes.iter().all(Pass::has_logprobs) {
            return Ok(unmeasured(passes));
        }
        let mut all = policy_metrics_of(passes.iter().map(|pass| (&*pass.data, pass.logprobs.as_slice())))?;
        let unmoved = passes.iter().filter(|pass| !is_moved(pass));
        let unmoved = policy_metrics_of(unmoved.map(|pass| (&*pass.data, pass.logprobs.as_slice())))?;
        if let (Some(unmoved), Some(all)) = (unmoved, &mut all) {
            all.greatest_logprob_difference = unmoved.greatest_logprob_difference;
        }
        let mut metrics: Vec<(&'static str, f64)> = all.iter().flat_map(PolicyMetrics::entries).collect();
        metrics.extend(metrics_by_cause(passes, &self.origins, is_moved)?);
        let entropies: Option<f64> = passes.iter().map(Pass::entropy_sum).sum();
        if let (Some(entropies), Some(all)) = (entropies, &all) {
            let mean = entropies / all.trained_tokens as f64;
            metrics.push(("optim/entropy_exact", mean));
            if self.entropy_bonus.is_set() {
                metrics.push(("optim/entropy_bonus", self.entropy_coefficient * mean));
            }
        }
        if let Some((loss, distance, targets)) = self.kl_loss {
            metrics.push(("optim/kl_loss:sum", loss));
            metrics.push(("kl_policy_base", distance / targets.max(1) as f64));
        }
        metrics.push(("optim/loss:sum", passes.iter().map(|pass| pass.loss_sum).sum()));
        Ok(Measurement { metrics, trained_tokens: all.map_or(0, |all| all.trained_tokens) })
    }

    /// Takes into the advantages what teachers make of the rows, and gives it by generation.
    async fn taught(
        &self,
        teachers: &Teachers,
        groups: &mut [Vec<Vec<Datum>>],
        places: &[Vec<MemberPlace>],
        collected: &Collected,
        metrics: &mut Map<String, Value>,
    ) -> Result<Vec<TeacherLogprobs>, TrainError> {
        let mut rollouts: Vec<Vec<Datum>> = groups.iter_mut().flatten().map(std::mem::take).collect();
        let places: Vec<MemberPlace> = places.iter().flatten().copied().collect();
        let teacher_logprobs = teachers.teach(&mut rollouts, &places, collected, metrics).await?;
        groups.iter_mut().flatten().zip(rollouts).for_each(|(place, rollout)| *place = rollout);
        Ok(teacher_logprobs)
    }

    /// As [`corrected`](Self::corrected), by coefficients that follow their targets.
    async fn adapted(
        &mut self,
        groups: Vec<Vec<Vec<Datum>>>,
        position: &mut DataPosition,
        learner: &dyn Learner,
        metrics: &mut Map<String, Value>,
    ) -> Result<(Vec<Vec<Vec<Datum>>>, Vec<Vec<usize>>), TrainError> {
        self.weigh_entropy(&groups, position, learner, metrics).await?;
        self.recall_kl(position);
        let rollouts = groups.iter().flatten().filter(|rollout| !rollout.is_empty()).count();
        let corrected = self.corrected(groups, learner, metrics).await?;
        self.adapt_kl(rollouts, position, metrics);
        Ok(corrected)
    }

    /// Finds what the entropy is worth in this update, and what it is to be worth before the next.
    async fn weigh_entropy(
        &mut self,
        groups: &[Vec<Vec<Datum>>],
        position: &mut DataPosition,
        learner: &dyn Learner,
        metrics: &mut Map<String, Value>,
    ) -> Result<(), TrainError> {
        let target = match self.entropy_bonus {
            EntropyBonus::Fixed(worth) => {
                self.entropy_coefficient = worth;
                return Ok(());
            }
            EntropyBonus::Adapted(target) => target,
        };
        let rows: Vec<Datum> = groups.iter().flatten().flatten().cloned().collect();
        if rows.is_empty() {
            return Ok(());
        }
        let entropies = learner.entropies(rows.as_slice().into()).await?;
        let entropy = mean_entropy(&rows, &entropies);
        let known = position.adapted.entropy.unwrap_or(target.start);
        let EntropyCoefficient { now, next } = adapted_entropy(known, entropy, target);
        (self.entropy_coefficient, position.adapted.entropy) = (now, Some(next));
        metrics.insert("optim/entropy_before".to_owned(), entropy.into());
        metrics.insert("optim/entropy_coefficient".to_owned(), now.into());
        Ok(())
    }

    /// Takes up the coefficient that the update before has left.
    fn recall_kl(&mut self, position: &DataPosition) {
        let Some(kl) = self.kl.as_mut().filter(|kl| kl.target.is_some()) else { return };
        kl.penalty.coefficient = position.adapted.kl.map_or(kl.penalty.coefficient, |known| known as f32);
    }

    /// Adapts the coefficient to the distance that this update has measured.
    fn adapt_kl(&self, rollouts: usize, position: &mut DataPosition, metrics: &mut Map<String, Value>) {
        let Some((penalty, target)) = self.kl.as_ref().and_then(|kl| Some((kl.penalty, kl.target?))) else { return };
        let Some(distance) = metrics.get("kl_policy_base").and_then(Value::as_f64) else { return };
        let known = position.adapted.kl.unwrap_or(f64::from(penalty.coefficient));
        metrics.insert("optim/kl_coefficient".to_owned(), known.into());
        position.adapted.kl = Some(adapted_kl(known, distance, rollouts, target));
    }

    /// Forgets the update before.
    pub(super) fn begin(&mut self) {
        (self.divisors, self.kl_loss) = (Vec::new(), None);
        self.origins = Origins::of_update(self.weights.distances());
    }

    /// What there is to say of the rollouts of a step.
    pub(super) fn describe(
        &self,
        step: u64,
        collected: &Collected,
        batch: &Batch,
        reporter: &mut dyn Reporter,
    ) -> Map<String, Value> {
        let mut metrics = Map::new();
        for (key, value) in rollout_metrics(&batch.trajectories) {
            metrics.insert(key, value.into());
        }
        metrics.insert("sampling/groups".to_owned(), collected.groups.len().into());
        metrics.insert("sampling/groups_without_signal".to_owned(), batch.idle_groups.into());
        metrics.insert("sampling/tokens_without_signal".to_owned(), batch.idle_tokens.into());
        if batch.uncounted_rollouts > 0 {
            metrics.insert("sampling/rollouts_untrainable".to_owned(), batch.uncounted_rollouts.into());
        }
        let outside = Verdict::Untrained(UntrainedCause::OutsideDifficulty);
        let is_outside = |group: &&Vec<Member>| group.iter().any(|member| member.verdicts.contains(&outside));
        let outside = collected.groups.iter().filter(is_outside).count();
        if outside > 0 {
            metrics.insert("sampling/groups_outside_difficulty".to_owned(), outside.into());
        }
        metrics.extend(collected.choice.iter().map(|(key, count)| ((*key).to_owned(), (*count).into())));
        if collected.passed_over.trained_before > 0 {
            metrics.insert("harvest/trained_before".to_owned(), collected.passed_over.trained_before.into());
        }
        for (key, count) in failure_metrics(collected.members().filter_map(|member| member.failure)) {
            metrics.insert(key.to_owned(), count.into());
        }
        for (key, count) in report_odd_rewards(collected, step, reporter) {
            metrics.insert(key, count.into());
        }
        metrics.extend(staleness_metrics(collected, &self.weights.distances()));
        if let Some(answer) = sample_answers(collected, &self.decode).into_iter().next() {
            reporter.report(TrainEvent::Sampled { step, answer });
        }
        metrics
    }

    /// The rows of some groups, of one optimizer step.
    pub(super) fn part(&mut self, groups: Vec<Vec<Vec<Datum>>>) -> LossPart {
        let mut rollouts: Vec<Vec<Datum>> = groups.into_iter().flatten().collect();
        self.divisors.push(self.aggregation.scale(&mut rollouts, self.rollout_length));
        LossPart { data: rollouts.into_iter().flatten().collect(), loss: self.loss, is_auxiliary: false }
    }

    /// The rows with what leaving the reference costs taken into their advantages, and without what has moved too far, of which
    /// it gives the targets, row by row.
    pub(super) async fn corrected(
        &self,
        groups: Vec<Vec<Vec<Datum>>>,
        learner: &dyn Learner,
        metrics: &mut Map<String, Value>,
    ) -> Result<(Vec<Vec<Vec<Datum>>>, Vec<Vec<usize>>), TrainError> {
        let in_reward = self.kl.as_ref().filter(|kl| kl.place == KlPlace::Reward);
        if groups.is_empty() || (in_reward.is_none() && self.importance_mask.is_none() && self.top_entropy.is_none()) {
            return Ok((groups, Vec::new()));
        }
        let sizes: Vec<Vec<usize>> = groups.iter().map(|group| group.iter().map(Vec::len).collect()).collect();
        let mut rows: Vec<Datum> = groups.into_iter().flatten().flatten().collect();
        if let Some(Kl { penalty, reference, .. }) = in_reward {
            let logprobs = reference.logprobs(learner, rows.as_slice().into()).await?;
            if let Some(mean) = penalize_kl(&mut rows, &logprobs, *penalty)? {
                metrics.insert("kl_policy_base".to_owned(), mean.into());
            }
        }
        let mut masked = Vec::new();
        if let Some(bounds) = self.importance_mask {
            let logprobs = learner.forward(rows.as_slice().into()).await?;
            let made = mask_by_ratio(&mut rows, &logprobs, bounds)?;
            if let Some(share) = made.share {
                metrics.insert("optim/importance_masked".to_owned(), share.into());
            }
            masked = made.targets;
        }
        if let Some(share) = self.top_entropy {
            let entropies = learner.entropies(rows.as_slice().into()).await?;
            let certain = mask_by_entropy(&mut rows, &entropies, share);
            masked.resize(rows.len(), Vec::new());
            for (masked, certain) in masked.iter_mut().zip(certain) {
                masked.extend(certain);
                masked.sort_unstable();
                masked.dedup();
            }
        }
        let mut rows = rows.into_iter();
        let mut of_rollout = |size: usize| rows.by_ref().take(size).collect();
        let groups = sizes.into_iter().map(|group| group.into_iter().map(&mut of_rollout).collect()).collect();
        Ok((groups, masked))
    }
}

/// The mean entropy of the distributions that predict trained tokens.
fn mean_entropy(rows: &[Datum], entropies: &[Vec<f32>]) -> f64 {
    let (mut sum, mut tokens) = (0.0, 0usize);
    for (row, entropies) in rows.iter().zip(entropies) {
        let LossInputs::Policy { mask, .. } = &row.loss_inputs else { continue };
        for (entropy, _) in entropies.iter().zip(mask).filter(|(_, mask)| **mask > 0.0) {
            (sum, tokens) = (sum + f64::from(*entropy), tokens + 1);
        }
    }
    sum / tokens as f64
}

/// Rows whose gradient is that of the reverse divergence, at the weights as they are.
async fn reversed(
    rows: Vec<Datum>,
    coefficient: f32,
    learner: &dyn Learner,
    metrics: &mut Map<String, Value>,
) -> Result<Vec<Datum>, TrainError> {
    let logprobs = learner.forward(rows.as_slice().into()).await?;
    let (mut reversed, mut sum) = (Vec::with_capacity(rows.len()), 0.0);
    let places: usize = rows.iter().map(|row| target_entropy(row).1).sum();
    for (row, logprobs) in rows.iter().zip(&logprobs) {
        let (row, divergence) = reverse_divergence(row, logprobs).unwrap_or_else(|| (row.clone(), 0.0));
        reversed.push(row);
        sum += divergence;
    }
    metrics.insert("teacher_reverse_kl".to_owned(), (sum / (places.max(1) as f64 * f64::from(coefficient))).into());
    Ok(reversed)
}

/// What there is to say of passes whose host reports no logprobs: how many tokens they train, and how likely the sampler found them.
fn unmeasured(passes: &[Pass]) -> Measurement {
    let (mut trained_tokens, mut sampled) = (0, 0.0);
    for row in passes.iter().flat_map(|pass| pass.data.iter()) {
        let LossInputs::Policy { logprobs, mask, .. } = &row.loss_inputs else { continue };
        let trained = logprobs.iter().zip(mask).filter(|(_, mask)| **mask > 0.0);
        for (logprob, _) in trained {
            (trained_tokens, sampled) = (trained_tokens + 1, sampled + f64::from(*logprob));
        }
    }
    let metrics = match trained_tokens {
        0 => Vec::new(),
        count => vec![("optim/entropy", -sampled / count as f64), ("optim/trained_tokens", count as f64)],
    };
    Measurement { metrics, trained_tokens }
}

/// What passes over the teacher's likeliest tokens say.
fn measured_distributions(passes: &[Pass], options: &DistillationOptions) -> Measurement {
    let rows = || passes.iter().flat_map(|pass| pass.data.iter());
    let trains = |row: &Datum| match &row.loss_inputs {
        LossInputs::SoftTargets { width, weights, .. } => {
            weights.chunks_exact(*width).filter(|place| place.iter().any(|weight| *weight != 0.0)).count()
        }
        LossInputs::Supervised { .. } | LossInputs::Policy { .. } => 0,
    };
    let trained_tokens: usize = rows().map(trains).sum();
    let loss_sum: f64 = passes.iter().map(|pass| pass.loss_sum).sum();
    let mut metrics = vec![("optim/trained_tokens", trained_tokens as f64)];
    if options.loss == DistillationLoss::ForwardKl {
        let (entropy, count) = (
            rows().map(|row| target_entropy(row).0).sum::<f64>(),
            trained_tokens.max(1) as f64 * f64::from(options.coefficient),
        );
        metrics.push(("teacher_cross_entropy", loss_sum / count));
        metrics.push(("teacher_entropy", entropy / count));
        metrics.push(("teacher_forward_kl", (loss_sum - entropy) / count));
    }
    Measurement { metrics, trained_tokens }
}

/// Says which rewards of a set of rollouts are odd, and counts them by the names of their metrics.
pub(crate) fn report_odd_rewards(
    collected: &Collected,
    step: u64,
    reporter: &mut dyn Reporter,
) -> Vec<(String, usize)> {
    let findings = findings(collected);
    let counts = reward_metrics(collected, &findings);
    if !findings.is_empty() {
        reporter.report(TrainEvent::OddRewards { phase: collected.phase.as_str(), step, findings });
    }
    counts
}
