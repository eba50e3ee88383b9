//! The loop of every run, whatever it learns from: evaluate, read data, update, publish, record; and going on from a
//! checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use fulgurite_backends::{AdamParameters, Learner};
use fulgurite_types::{CheckpointRecord, GenerationUse, Step, StepRecord, TeacherLogprobs, TokenUse, TrainedTokens};
use serde_json::{Map, Value, json};

use super::checkpoint_rules::{Checkpointing, SinceCheckpoint};
use super::checkpoints::checkpoint_name;
use super::files::metrics_file::MetricsFile;
use super::files::token_files;
use super::gate::{BehindModel, GateRule, PublishGate};
use super::ledger;
use super::own_record::{KeptCheckpointsAt, require_steps};
use super::safeguards::spikes::{SpikeGuard, UpdateSteps};
use super::safeguards::{divergence, without_gradient};
use crate::evaluation::{Evaluation, Evaluator};
use crate::objectives::{GREATEST_LOGPROB_DIFFERENCE, Lesson, Objective, learn, trained_tokens};
use crate::options::FinalWeights;
use crate::publishing::Publisher;
use crate::run_summary::{failed_rollouts, skipped_rows};
use crate::schedule::Schedule;
use crate::scores::{FINAL, HELD_OUT, HeldOutScore, Patience, Scores, ValidationScores, held_out_score};
use crate::sources::{DataPosition, Source};
use crate::weights::StartName;
use crate::{Record, Reporter, RunIdentity, RunSummary, SampleAnswer, TrainError, TrainEvent};

/// A run: data from a source, learnt from as an objective says, in the steps of a schedule.
pub(crate) struct TrainingRun<Data> {
    /// Where what happens is written.
    pub(super) record: Arc<dyn Record>,
    /// What learns.
    pub(super) learner: Arc<dyn Learner>,
    pub(super) identity: RunIdentity,
    pub(super) source: Box<dyn Source<Data>>,
    pub(super) objective: Box<dyn Objective<Data>>,
    pub(super) evaluator: Box<dyn Evaluator>,
    pub(super) schedule: Schedule,
    /// Its step size is the greatest of the schedule.
    pub(super) optimizer: AdamParameters,
    pub(super) checkpointing: Checkpointing,
    /// Ends it once its held-out score improves no more.
    pub(super) patience: Option<Patience>,
    /// Which weights are its own at its end.
    pub(super) final_weights: FinalWeights,
    /// Leaves out optimizer steps; without it none.
    pub(super) spikes: Option<SpikeGuard>,
    /// Updates one after another that may have nothing to learn from; 0 is as many as there are.
    pub(super) stop_without_gradient: u64,
    /// The mean negative logprob of the first rows that this process learnt from.
    pub(super) first_nll: Option<f64>,
    /// The same of the first tokens that the policy sampled.
    pub(super) first_sampled_nll: Option<f64>,
    /// Puts new weights behind a sampler; `None` if nobody samples.
    pub(super) publisher: Option<Publisher>,
    /// Which new weights it puts there; without it all.
    pub(super) publish_gate: Option<PublishGate>,
    /// Whether the weights that the run began with are asked for later.
    pub(super) keeps_reference: bool,
}

/// What the rows cost of a step whose weights have left all bounds.
const DIVERGED: &str = "optim/diverged_nll";

/// What an update tells.
#[derive(Default)]
struct Updated {
    /// What became of each token, where that is to be recorded.
    tokens: Vec<TrainedTokens>,
    /// The mean negative logprob of its rows, under the weights before it.
    nll: Option<f64>,
}

/// Where the run stands between two steps.
pub(super) struct Progress {
    /// Updates made.
    pub(super) step: u64,
    pub(super) position: DataPosition,
    pub(super) metrics_file: MetricsFile,
    /// What is behind the model, once that has been scored, of a run that looks at it.
    pub(super) behind: Option<BehindModel>,
    pub(super) evaluations: Evaluations,
    /// Tokens that were sampled for the steps since the last checkpoint.
    pub(super) sampled_since_checkpoint: u64,
    /// When the last checkpoint was made, or this process began.
    pub(super) last_checkpoint: Instant,
}

/// The held-out scores of a run so far: those that it has recorded, and those of this process.
#[derive(Default)]
pub(super) struct Evaluations {
    /// By the updates before them.
    pub(super) scores: BTreeMap<u64, HeldOutScore>,
    /// Their metrics, oldest first.
    metrics: Vec<Map<String, Value>>,
}

/// What is recorded of the tokens that a step was made of.
struct Consumed {
    uses: Vec<GenerationUse>,
    teacher_logprobs: Vec<TeacherLogprobs>,
}

/// How a run ended.
struct End {
    /// Updates made.
    step: u64,
    stopped_by_rule: bool,
}

impl Evaluations {
    /// Adds the metrics of a step, if they have held-out scores.
    fn add(&mut self, step: u64, metrics: &Map<String, Value>) {
        if let Some(score) = held_out_score(metrics) {
            self.scores.insert(step, score);
            self.metrics.push(metrics.clone());
        }
    }
}

impl<Data> TrainingRun<Data> {
    /// Trains until the stop rule or the limit of steps ends it, then scores once what is left for that.
    ///
    /// With `resume`, goes on from the run's last checkpoint that is whole; what came after it is undone in the record.
    pub(crate) async fn train(&mut self, resume: bool, reporter: &mut dyn Reporter) -> Result<RunSummary, TrainError> {
        let started = Instant::now();
        if resume && let Some(end) = self.recorded_end().await? {
            self.tell_recorded(reporter).await?;
            return self.summarize(end, started, reporter).await;
        }
        let (step, position, behind) = self.begin(resume, reporter).await?;
        reporter.report(TrainEvent::RunStarted {
            run_id: self.identity.run_id.clone(),
            directory: self.identity.directory.clone(),
            step,
            checkpoint: (step > 0).then(|| checkpoint_name(step)),
            max_steps: self.schedule.max_steps(),
        });
        let (metrics_file, evaluations) = self.tell_recorded(reporter).await?;
        let (sampled_since_checkpoint, last_checkpoint) = (0, Instant::now());
        let mut progress =
            Progress { step, position, metrics_file, behind, evaluations, sampled_since_checkpoint, last_checkpoint };
        let mut has_permission = false;
        let end = loop {
            if !has_permission {
                self.wait_for_permission(progress.step, reporter).await?;
            }
            let mut evaluation = self.evaluate_if_due(progress.step, reporter).await?;
            let judges = self.publish_gate.is_some_and(|gate| gate.rule == GateRule::NotWorse);
            if let Some(evaluation) = evaluation.as_mut().filter(|_| judges) {
                self.publish_if_not_worse(&mut progress, evaluation, reporter).await?;
            }
            let met = evaluation.as_ref().is_some_and(|Evaluation { metrics, .. }| {
                progress.evaluations.add(progress.step, metrics);
                self.stops(&progress.evaluations.metrics.iter().collect::<Vec<_>>())
            });
            if met {
                self.schedule.end_early(progress.step);
            }
            if self.schedule.is_over(progress.step) {
                self.finish(&mut progress, evaluation, reporter).await?;
                break End { step: progress.step, stopped_by_rule: met };
            }
            if let Some((gate, behind)) = self.publish_gate.zip(progress.behind.as_ref()) {
                gate.check(progress.step, behind.step, self.version_after(behind.step))?;
            }
            has_permission = self.step(&mut progress, evaluation, reporter).await?;
        };
        self.summarize(end, started, reporter).await
    }

    /// Where the run ended, if it has; a limit of steps that was raised since lets it go on.
    async fn recorded_end(&self) -> Result<Option<End>, TrainError> {
        let steps = self.record.steps(&self.identity.run_id).await?;
        // Only the record after the last update has no update of its own.
        let Some(last) = steps.last().filter(|last| last.weights_version < last.step) else { return Ok(None) };
        let mut schedule = self.schedule_after(&steps);
        let stopped_by_rule = self.stops(&history(&steps));
        if stopped_by_rule {
            schedule.end_early(last.weights_version);
        }
        let is_over = schedule.is_over(last.weights_version);
        Ok(is_over.then_some(End { step: last.weights_version, stopped_by_rule }))
    }

    /// Whether the evaluations among these metrics, oldest first, end it.
    fn stops(&self, history: &[&Map<String, Value>]) -> bool {
        let scores = history.iter().filter_map(|metrics| Some(held_out_score(metrics)?.score));
        self.patience.is_some_and(|patience| patience.is_met(scores)) || self.evaluator.is_met(history)
    }

    /// The schedule after these recorded steps: its cool-down begins where the first of their evaluations began it.
    fn schedule_after(&self, steps: &[Step]) -> Schedule {
        let mut schedule = self.schedule.clone();
        let history = history(steps);
        let began = |index: &usize| self.stops(&history[..=*index]);
        if schedule.cools_down()
            && let Some(index) = (0..steps.len()).find(began)
        {
            // An evaluation stands in the record of the update that came after it.
            schedule.end_early(steps[index].step - 1);
        }
        schedule
    }

    /// Restores the last checkpoint that is whole, or starts at the weights that the learner was opened with.
    async fn begin(
        &mut self,
        resume: bool,
        reporter: &mut dyn Reporter,
    ) -> Result<(u64, DataPosition, Option<BehindModel>), TrainError> {
        let run_id = self.identity.run_id.clone();
        if self.keeps_reference {
            self.learner.keep_reference().await?;
        }
        let (mut step, mut position, mut behind) = (0, DataPosition::default(), None);
        let mut origin = None;
        if resume {
            let identity = &self.identity;
            let checkpoints = match identity.archive {
                Some(_) => KeptCheckpointsAt::ObjectStore,
                None => KeptCheckpointsAt::Directory,
            };
            require_steps(self.record.as_ref(), &run_id, &identity.directory, checkpoints).await?;
            if let Some(restored) = self.checkpoints().newest_usable(reporter).await? {
                (step, origin) = (restored.step, restored.weights);
                self.objective.restore(step, &self.identity.directory.join(checkpoint_name(step))).await?;
                position = restored.position();
                behind = restored.behind.filter(|_| self.publish_gate.is_some());
            }
            token_files::forget_after(&self.identity.directory, step)?;
            self.record.rewind_run(&run_id, step).await?;
            let undone = ledger::undone(self.record.as_ref(), &run_id).await?;
            self.record.record_uses(&run_id, undone).await?;
            let steps = self.record.steps(&run_id).await?;
            self.schedule = self.schedule_after(&steps);
            self.spikes = self.spikes.as_ref().map(|guard| guard.after(&steps));
        }
        if let Some(publisher) = &self.publisher {
            let is_start_put_there = step == 0 || behind.as_ref().is_some_and(|behind| behind.step == 0);
            let start_name = if is_start_put_there { publisher.start_name() } else { StartName::Files };
            publisher.weights.begin(self.record.as_ref(), step, origin, start_name).await?;
        }
        self.publish_at_start(behind.as_ref(), step).await?;
        if matches!(self.publish_gate.map(|gate| gate.rule), Some(GateRule::WithinBounds { .. })) {
            behind = Some(BehindModel { step, costs: Vec::new() });
        }
        Ok((step, position, behind))
    }

    /// Tells of the steps that are recorded and stand in no metrics file, which is to say that a crash came before they
    /// could be told of; and writes that file anew. Next to it, the held-out scores that they have.
    async fn tell_recorded(&self, reporter: &mut dyn Reporter) -> Result<(MetricsFile, Evaluations), TrainError> {
        let path = self.identity.directory.join("metrics.jsonl");
        let written = MetricsFile::steps(&path);
        let steps = self.record.steps(&self.identity.run_id).await?;
        let mut recorded: Vec<Map<String, Value>> = Vec::with_capacity(steps.len());
        let mut evaluations = Evaluations::default();
        for Step { time, metrics, .. } in steps {
            let Value::Object(metrics) = metrics else { continue };
            let step = metrics.get("step").and_then(Value::as_u64);
            if let Some(step) = step {
                evaluations.add(step, &metrics);
            }
            match step {
                Some(step) if !written.contains(&step) => {
                    reporter.report(TrainEvent::Step { step, metrics: metrics.clone() });
                }
                _ => reporter.report(TrainEvent::StepRecalled { time, metrics: metrics.clone() }),
            }
            recorded.push(metrics);
        }
        Ok((MetricsFile::rewrite(&path, &recorded)?, evaluations))
    }

    async fn evaluate_if_due(
        &mut self,
        step: u64,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<Evaluation>, TrainError> {
        if self.schedule.is_over(step) || self.evaluator.is_due(step) {
            return self.evaluator.held_out(step, reporter).await;
        }
        Ok(None)
    }

    /// One update, and whether the run may make more. That is asked once: a run that waits has a checkpoint of where it waits,
    /// and leave that is taken back in between counts after the next update.
    async fn step(
        &mut self,
        progress: &mut Progress,
        evaluation: Option<Evaluation>,
        reporter: &mut dyn Reporter,
    ) -> Result<bool, TrainError> {
        let started = Instant::now();
        let step = progress.step;
        let data = self.source.next(step, &mut progress.position, reporter).await?;
        let sampling_seconds = started.elapsed().as_secs_f64();

        let training = Instant::now();
        let learner = self.learner.as_ref();
        let mut lesson = self.objective.lesson(step, data, &mut progress.position, learner, reporter).await?;
        let mut metrics = self.step_metrics(step, &mut lesson);
        let is_empty = lesson.is_empty();
        let waited = lesson.waited.as_secs_f64();
        let Updated { tokens, nll } = self.update(step, &mut lesson, &mut metrics, reporter).await?;
        let bounds = divergence::check(step, nll, &mut self.first_nll)
            .and_then(|()| divergence::check_sampled(step, lesson.sampled_nll, &mut self.first_sampled_nll));
        if let Err(TrainError::Diverged { nll, .. }) = &bounds {
            set(&mut metrics, DIVERGED, *nll);
        }
        self.name_update(step + 1).await?;
        if bounds.is_ok() {
            self.publish_update(progress, step + 1, &lesson, &mut metrics, reporter).await?;
        }
        progress.step = step + 1;
        set(&mut metrics, "time/sampling", sampling_seconds + waited);
        set(&mut metrics, "time/training", training.elapsed().as_secs_f64() - waited);

        let mut uses = lesson.uses;
        let total = started.elapsed().as_secs_f64() + evaluation.as_ref().map_or(0.0, |evaluation| evaluation.seconds);
        if let Some(evaluation) = evaluation {
            set(&mut metrics, "time/evaluation", evaluation.seconds);
            metrics.extend(evaluation.metrics);
            uses.extend(evaluation.uses);
        }
        let untrained = if is_empty { uses.clone() } else { Vec::new() };
        progress.sampled_since_checkpoint += uses.iter().map(|used| used.tokens).sum::<u64>();
        let seconds = progress.last_checkpoint.elapsed().as_secs_f64();
        let since = SinceCheckpoint { tokens: progress.sampled_since_checkpoint, seconds };
        let has_permission = self.may_go_on(progress.step).await?;
        // The best weights can only be kept where all that are scored have a checkpoint.
        let is_scored = self.keeps_scored() && self.evaluator.is_due(progress.step);
        let is_due = self.checkpointing.triggers.are_met(progress.step, since) || !has_permission || is_scored;
        set(&mut metrics, "time/total", total);
        let is_sound = bounds.is_ok() && !self.is_out_of_bounds(progress);
        let checkpoint = if is_due && is_sound { Some(self.save_checkpoint(progress).await?) } else { None };
        if let Some(checkpoint) = &checkpoint {
            self.upload(progress, checkpoint, &mut metrics, true, reporter).await?;
        }
        let consumed = Consumed { uses, teacher_logprobs: lesson.teacher_logprobs };
        // Before the step is recorded: a step that is there has its file.
        token_files::write(&self.identity.directory, &self.identity.run_id, progress.step, tokens).await?;
        self.record(progress, step, metrics, consumed, checkpoint, reporter).await?;
        bounds?;
        self.spikes.as_ref().map_or(Ok(()), SpikeGuard::check)?;
        if is_empty {
            self.check_gradient(&untrained, lesson.answers, reporter).await?;
        }
        Ok(has_permission)
    }

    /// Warns, and ends the run in time, where steps in a row had nothing to learn from.
    async fn check_gradient(
        &self,
        untrained: &[GenerationUse],
        answers: Vec<SampleAnswer>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let steps = self.record.steps(&self.identity.run_id).await?;
        if let Some(warning) = without_gradient::warning(&steps, untrained, answers) {
            reporter.report(warning);
        }
        without_gradient::check(&steps, self.stop_without_gradient)
    }

    fn step_metrics(&self, step: u64, lesson: &mut Lesson) -> Map<String, Value> {
        let mut metrics = Map::new();
        set(&mut metrics, "step", step);
        set(&mut metrics, "progress/batch", step);
        set(&mut metrics, "progress/done_frac", step as f64 / self.schedule.max_steps().max(1) as f64);
        set(&mut metrics, "optim/lr", self.optimizer_at(step).learning_rate);
        metrics.append(&mut lesson.metrics);
        metrics
    }

    fn optimizer_at(&self, step: u64) -> AdamParameters {
        AdamParameters { learning_rate: self.optimizer.learning_rate * self.schedule.share(step), ..self.optimizer }
    }

    /// Forward and backward over each part, and the optimizer once for each substep; nothing if there is nothing to learn. Gives
    /// what became of each token, where that is to be recorded.
    async fn update(
        &mut self,
        step: u64,
        lesson: &mut Lesson,
        metrics: &mut Map<String, Value>,
        reporter: &mut dyn Reporter,
    ) -> Result<Updated, TrainError> {
        let parts = lesson.substeps.iter().flatten().map(|part| part.data.len());
        let datums = parts.chain(lesson.passes.iter().map(|pass| pass.data.len())).sum::<usize>();
        set(metrics, "optim/datums", datums);
        if lesson.is_empty() {
            return Ok(Updated::default());
        }
        let optimizer = self.optimizer_at(step);
        let mut passes = std::mem::take(&mut lesson.passes);
        let mut steps = UpdateSteps::new(self.spikes.as_ref());
        if !passes.is_empty() {
            steps.make(self.learner.as_ref(), optimizer).await?;
        }
        let mut learnt = passes.iter().map(|pass| pass.data.len()).sum();
        for (substep, parts) in lesson.substeps.iter().enumerate() {
            for part in parts {
                reporter.report(TrainEvent::Learning { step, done: learnt, total: datums });
                learnt += part.data.len();
                passes.push(learn(self.objective.as_mut(), substep, part, self.learner.as_ref()).await?);
            }
            steps.make(self.learner.as_ref(), optimizer).await?;
        }
        let measured = self.objective.measure(&passes)?;
        for (key, value) in measured.metrics {
            set(metrics, key, value);
        }
        let greatest_norm = steps.greatest_norm();
        if let Some(warning) = steps.write(step, self.spikes.as_mut(), metrics) {
            reporter.report(warning);
        }
        if greatest_norm.is_finite() && measured.trained_tokens > 0 {
            set(metrics, "optim/gradient_norm_per_token", greatest_norm / measured.trained_tokens as f64);
            set(metrics, "optim/clip_factor", clip_factor(greatest_norm, optimizer.gradient_clip_norm));
        }
        let nll = divergence::mean_nll(passes.iter().map(|pass| pass.logprobs.as_slice()));
        Ok(Updated { tokens: trained_tokens(&lesson.trained_rows, &passes), nll })
    }

    async fn record(
        &self,
        progress: &mut Progress,
        step: u64,
        metrics: Map<String, Value>,
        Consumed { uses, teacher_logprobs }: Consumed,
        checkpoint: Option<CheckpointRecord>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        // The record counts from 1, so that an update has the number of the weights that it made.
        let number = step + 1;
        let saved = checkpoint.is_some();
        self.record
            .record_step(StepRecord {
                run_id: self.identity.run_id.clone(),
                step: number,
                weights_version: progress.step,
                metrics: Value::Object(metrics.clone()),
                uses,
                teacher_logprobs,
                checkpoint,
            })
            .await?;
        // Told first: a step that stands in the file has been.
        reporter.report(TrainEvent::Step { step, metrics: metrics.clone() });
        progress.metrics_file.append(&metrics)?;
        if saved {
            (progress.sampled_since_checkpoint, progress.last_checkpoint) = (0, Instant::now());
            self.remove_old_checkpoints(progress).await?;
        }
        Ok(())
    }

    /// The last evaluation, what is scored once, and the account of every token.
    async fn finish(
        &mut self,
        progress: &mut Progress,
        evaluation: Option<Evaluation>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let step = progress.step;
        let mut metrics = Map::new();
        set(&mut metrics, "step", step);
        set(&mut metrics, "progress/batch", step);
        set(&mut metrics, "progress/done_frac", 1.0);
        let mut uses = Vec::new();
        let mut total = 0.0;
        // A stop between two checkpoints would lose the updates after the last one.
        let saved = self.record.latest_checkpoint(&self.identity.run_id).await?;
        let is_saved = saved.is_some_and(|checkpoint| checkpoint.state["step"] == json!(step));
        let is_unsound = self.is_out_of_bounds(progress);
        let checkpoint =
            if is_saved || is_unsound || step == 0 { None } else { Some(self.save_checkpoint(progress).await?) };
        let settled = self.settle(step, &progress.evaluations).await?;
        let last = self.evaluator.last(settled, reporter).await?;
        for evaluation in [evaluation, last].into_iter().flatten() {
            metrics.extend(evaluation.metrics);
            total += evaluation.seconds;
            uses.extend(evaluation.uses);
        }
        set(&mut metrics, "time/total", total);
        let ahead = self.source.sampled_for_nothing(step, reporter).await?;
        if !ahead.is_empty() {
            self.record.record_uses(&self.identity.run_id, ahead).await?;
        }
        // Apart from the step: in a store that others use too, they may be many.
        let leftovers = ledger::leftovers(self.record.as_ref(), &self.identity.run_id, &uses).await?;
        self.record.record_uses(&self.identity.run_id, leftovers).await?;
        if let Some(checkpoint) = &checkpoint {
            self.upload(progress, checkpoint, &mut metrics, false, reporter).await?;
        }
        let consumed = Consumed { uses, teacher_logprobs: Vec::new() };
        self.record(progress, step, metrics, consumed, checkpoint, reporter).await
    }

    /// Tells how the run went. Everything is read back from the store, so that a resumed run tells the whole.
    async fn summarize(
        &self,
        end: End,
        started: Instant,
        reporter: &mut dyn Reporter,
    ) -> Result<RunSummary, TrainError> {
        let run_id = &self.identity.run_id;
        let steps = self.record.steps(run_id).await?;
        let metrics = history(&steps);
        let held_out: Vec<Scores> = metrics.iter().filter_map(|metrics| Scores::read(metrics, HELD_OUT)).collect();
        let greatest =
            |key: &str| metrics.iter().filter_map(|metrics| metrics.get(key)?.as_f64()).max_by(f64::total_cmp);
        let mut evaluations = Evaluations::default();
        for metrics in &metrics {
            metrics.get("step").and_then(Value::as_u64).into_iter().for_each(|step| evaluations.add(step, metrics));
        }
        let best = self.best_weights(&evaluations).await?;
        let is_best = self.final_weights == FinalWeights::Best;
        let checkpoint = match best.as_ref().filter(|_| is_best) {
            Some(best) => Some(best.checkpoint.clone()),
            None => {
                let last = self.record.latest_checkpoint(run_id).await?;
                last.map(|last| self.identity.directory.join(last.directory))
            }
        };
        let scores = evaluations.scores.values().map(|held_out| held_out.score);
        let is_without = |patience: &Patience| patience.is_met(scores.clone());
        let mut summary = RunSummary {
            run_id: run_id.clone(),
            directory: self.identity.directory.clone(),
            checkpoint,
            best,
            final_weights: self.final_weights,
            evaluations_without_improvement: self.patience.filter(is_without).map(Patience::evaluations),
            steps: end.step,
            stopped_by_rule: end.stopped_by_rule,
            held_out_before: held_out.first().cloned(),
            held_out_after: held_out.last().cloned(),
            final_after: metrics.last().and_then(|metrics| Scores::read(metrics, FINAL)),
            validation_before: metrics.iter().find_map(|metrics| ValidationScores::read(metrics)),
            validation_after: metrics.iter().rev().find_map(|metrics| ValidationScores::read(metrics)),
            skipped_rows: skipped_rows(&metrics),
            failed_rollouts: failed_rollouts(&metrics),
            max_logprob_difference: greatest(GREATEST_LOGPROB_DIFFERENCE),
            untrained_tokens: BTreeMap::from([("other".to_owned(), 0)]),
            wall_seconds: started.elapsed().as_secs_f64(),
            peak_memory_bytes: peak_memory(),
            ..RunSummary::default()
        };
        for row in self.record.token_ledger(run_id).await? {
            summary.sampled_tokens += row.tokens;
            if row.cause == TokenUse::Trained {
                summary.trained_tokens += row.tokens;
            } else {
                summary.untrained_tokens.insert(row.cause.to_string(), row.tokens);
            }
        }
        reporter.report(TrainEvent::Finished(Box::new(summary.clone())));
        Ok(summary)
    }
}

/// Bytes of memory that this process has had at most, as Linux counts them; `None` elsewhere.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The metrics of steps, oldest first.
fn history(steps: &[Step]) -> Vec<&Map<String, Value>> {
    steps.iter().filter_map(|step| step.metrics.as_object()).collect()
}

/// What a gradient of this norm is multiplied by, so that its norm is `greatest` at most; 0 does not clip.
fn clip_factor(norm: f64, greatest: f64) -> f64 {
    if greatest > 0.0 && norm > greatest { greatest / norm } else { 1.0 }
}

pub(super) fn set(metrics: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    metrics.insert(key.to_owned(), value.into());
}
