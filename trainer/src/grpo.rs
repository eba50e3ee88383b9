use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fulgurite_backends::{AdamParameters, Learner, LossFunction};
use fulgurite_types::{CheckpointRecord, GenerationUse, RolloutConfig, Step, StepRecord, TokenUse, WeightsVersion};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::accounting;
use crate::batch::{self, Batch};
use crate::checkpoints::{CheckpointState, Checkpoints, file_digests};
use crate::collection::{self, Collected, Member, Phase, Plan, Policy};
use crate::harvest::{self, HarvestState};
use crate::metrics_file::MetricsFile;
use crate::policy_metrics::{GREATEST_LOGPROB_DIFFERENCE, PolicyMetrics, policy_metrics};
use crate::publishing::{self, resources_id};
use crate::reward_check;
use crate::summary::Scores;
use crate::task_order::tasks_at;
use crate::without_gradient::{self, Decode};
use crate::{GrpoOptions, PolicyEndpoint, Record, Reporter, RunSummary, Tasks, TrainError, TrainEvent};

/// Where the metrics of an evaluation of the held-out tasks stand; the name is tinker-cookbook's.
const HELD_OUT: &str = "test/env/all";
/// Where those of the final tasks stand.
const FINAL: &str = "final/env/all";

/// Which run it is and where its files go.
#[derive(Clone, Debug, PartialEq)]
pub struct RunIdentity {
    /// Its id in the store.
    pub run_id: String,
    /// Everything random follows from it.
    pub seed: u64,
    /// `metrics.jsonl` and `checkpoints/` are here.
    pub directory: PathBuf,
}

/// Group-relative policy optimisation, driven through the store.
///
/// Each step: score the held-out tasks now and then, enqueue groups of rollouts, wait until whoever takes them off
/// the queue has run them, make datums of what was recorded, update, and put the new weights behind the sampler.
pub struct Grpo {
    /// Where rollouts are enqueued and read.
    pub record: Arc<dyn Record>,
    /// What learns.
    pub learner: Arc<dyn Learner>,
    /// How.
    pub options: GrpoOptions,
    /// On what.
    pub tasks: Tasks,
    /// Which run.
    pub identity: RunIdentity,
    /// Timeouts and retries of each rollout.
    pub rollout_config: RolloutConfig,
    /// Fingerprint of the tokenizer that the learner's model speaks.
    pub tokenizer: String,
    /// Reads that tokenizer's tokens, for people.
    pub decode: Decode,
    /// Where agents find the model.
    pub endpoint: PolicyEndpoint,
    /// A message here says that nobody is left to run rollouts.
    pub runner: watch::Receiver<Option<String>>,
}

/// Where the run stands between two steps.
struct Progress {
    /// Updates made; also the version of the weights.
    step: u64,
    data_cursor: u64,
    harvest: HarvestState,
    /// None until what is recorded has been told.
    metrics_file: Option<MetricsFile>,
}

/// How a run ended.
struct End {
    /// Updates made.
    step: u64,
    stopped_by_rule: bool,
}

impl Grpo {
    /// Trains until the stop rule or the limit of steps ends it, then scores the final tasks once.
    ///
    /// With `resume`, goes on from the run's last checkpoint that is whole; what came after it is undone in the record.
    pub async fn run(&mut self, resume: bool, reporter: &mut dyn Reporter) -> Result<RunSummary, TrainError> {
        self.options.check()?;
        let started = Instant::now();
        if resume && let Some(end) = self.recorded_end().await? {
            self.tell_recorded(reporter).await?;
            return self.summarize(end, started, reporter).await;
        }
        let mut progress = self.begin(resume, reporter).await?;
        reporter.report(TrainEvent::RunStarted {
            run_id: self.identity.run_id.clone(),
            directory: self.identity.directory.clone(),
            step: progress.step,
            max_steps: self.options.max_steps,
        });
        progress.metrics_file = Some(self.tell_recorded(reporter).await?);
        let end = loop {
            let evaluation = self.evaluate_if_due(&progress, reporter).await?;
            let met = match &evaluation {
                Some(evaluation) => self.is_met_by(evaluation).await?,
                None => false,
            };
            if met || progress.step >= self.options.max_steps {
                self.finish(&mut progress, evaluation, reporter).await?;
                break End { step: progress.step, stopped_by_rule: met };
            }
            self.step(&mut progress, evaluation, reporter).await?;
        };
        self.summarize(end, started, reporter).await
    }

    /// Where the run ended, if it has; a limit of steps that was raised since lets it go on.
    async fn recorded_end(&self) -> Result<Option<End>, TrainError> {
        let steps = self.record.steps(&self.identity.run_id).await?;
        // Only the record after the last update has no update of its own.
        let Some(last) = steps.last().filter(|last| last.weights_version < last.step) else { return Ok(None) };
        let stopped_by_rule = self.options.stop.is_met(&held_out_scores(&steps));
        let is_over = stopped_by_rule || last.weights_version >= self.options.max_steps;
        Ok(is_over.then_some(End { step: last.weights_version, stopped_by_rule }))
    }

    /// Restores the last checkpoint that is whole, or starts at the weights that the learner was opened with.
    async fn begin(&self, resume: bool, reporter: &mut dyn Reporter) -> Result<Progress, TrainError> {
        let run_id = &self.identity.run_id;
        let mut state = self.state(0, 0, HarvestState::default());
        if resume {
            if let Some(restored) = self.checkpoints().restore(reporter).await? {
                state = restored;
            }
            self.record.rewind_run(run_id, state.step).await?;
            let undone = accounting::undone(self.record.as_ref(), run_id).await?;
            self.record.record_uses(run_id, undone).await?;
        }
        self.publish(state.step).await?;
        let CheckpointState { step, data_cursor, harvest, .. } = state;
        Ok(Progress { step, data_cursor, harvest, metrics_file: None })
    }

    /// Tells of the steps that are recorded and stand in no metrics file, which is to say that a crash came before they
    /// could be told of; and writes that file anew.
    async fn tell_recorded(&self, reporter: &mut dyn Reporter) -> Result<MetricsFile, TrainError> {
        let path = self.identity.directory.join("metrics.jsonl");
        let told = MetricsFile::steps(&path);
        let steps = self.record.steps(&self.identity.run_id).await?;
        let recorded: Vec<Map<String, Value>> =
            steps.into_iter().filter_map(|step| step.metrics.as_object().cloned()).collect();
        for metrics in &recorded {
            match metrics.get("step").and_then(Value::as_u64) {
                Some(step) if !told.contains(&step) => {
                    reporter.report(TrainEvent::Step { step, metrics: metrics.clone() });
                }
                _ => reporter.report(TrainEvent::StepRecalled { metrics: metrics.clone() }),
            }
        }
        MetricsFile::rewrite(&path, &recorded)
    }

    /// Puts the learner's weights behind the sampler, and tells agents of them.
    async fn publish(&self, version: u64) -> Result<(), TrainError> {
        self.learner.publish_weights(WeightsVersion(version)).await?;
        let resources_id = resources_id(&self.identity.run_id, version);
        publishing::publish(self.record.as_ref(), &resources_id, &self.endpoint, &self.options.sampling_parameters)
            .await
    }

    async fn evaluate_if_due(
        &mut self,
        progress: &Progress,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<Evaluation>, TrainError> {
        let last = progress.step >= self.options.max_steps;
        let is_due = last || progress.step.is_multiple_of(self.options.evaluation.every);
        // Who harvests has nobody to run them.
        if !is_due || self.tasks.held_out.is_empty() {
            return Ok(None);
        }
        let tasks = self.tasks.held_out.clone();
        Ok(Some(self.evaluate(Phase::HeldOut, progress.step, tasks, reporter).await?))
    }

    /// Whether this evaluation, after those in the record, ends the training.
    async fn is_met_by(&self, evaluation: &Evaluation) -> Result<bool, TrainError> {
        let steps = self.record.steps(&self.identity.run_id).await?;
        let mut all = held_out_scores(&steps);
        all.push(evaluation.scores.clone());
        Ok(self.options.stop.is_met(&all))
    }

    async fn evaluate(
        &mut self,
        phase: Phase,
        step: u64,
        tasks: Vec<Value>,
        reporter: &mut dyn Reporter,
    ) -> Result<Evaluation, TrainError> {
        let started = Instant::now();
        let samples = self.options.evaluation.samples_per_task;
        let collected = self.collect(phase, step, tasks, samples, reporter).await?;
        Ok(Evaluation {
            odd_rewards: report_odd_rewards(&collected, step, reporter),
            scores: scores(collected.groups.iter().flatten()),
            uses: accounting::uses(&collected),
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    async fn collect(
        &mut self,
        phase: Phase,
        step: u64,
        tasks: Vec<Value>,
        group_size: usize,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let plan = Plan {
            run_id: &self.identity.run_id,
            run_seed: self.identity.seed,
            phase,
            step,
            tasks,
            group_size,
            config: &self.rollout_config,
            resources_id: resources_id(&self.identity.run_id, step),
            policy: self.policy(step),
            reward_bounds: self.options.reward_bounds,
        };
        collection::collect(self.record.as_ref(), plan, &mut self.runner, reporter).await
    }

    /// One update.
    async fn step(
        &mut self,
        progress: &mut Progress,
        evaluation: Option<Evaluation>,
        reporter: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let started = Instant::now();
        let step = progress.step;
        let mut collected = self.collect_to_train(progress, reporter).await?;
        let sampling_seconds = started.elapsed().as_secs_f64();

        let harvest = self.options.harvest.as_ref();
        let batch = batch::assemble(&mut collected, &self.options.advantages, harvest.map(|_| &progress.harvest))?;
        let training = Instant::now();
        let mut metrics = self.step_metrics(step, &batch);
        for (key, count) in report_odd_rewards(&collected, step, reporter) {
            set(&mut metrics, &key, count);
        }
        self.update(&batch, &mut metrics).await?;
        self.publish(step + 1).await?;
        progress.step = step + 1;
        if let Some(harvest) = harvest {
            progress.harvest.learn(&batch.alone, harvest.baseline_decay);
            for (key, value) in progress.harvest.metrics(&batch.alone) {
                set(&mut metrics, key, value);
            }
        }
        set(&mut metrics, "time/sampling", sampling_seconds);
        set(&mut metrics, "time/training", training.elapsed().as_secs_f64());

        let mut uses = accounting::uses(&collected);
        let mut total = started.elapsed().as_secs_f64();
        if let Some(evaluation) = evaluation {
            evaluation.write_metrics(HELD_OUT, &mut metrics);
            set(&mut metrics, "time/evaluation", evaluation.seconds);
            total += evaluation.seconds;
            uses.extend(evaluation.uses);
        }
        let is_due = progress.step.is_multiple_of(self.options.checkpoint_every);
        let checkpoint = if is_due { Some(self.save_checkpoint(progress).await?) } else { None };
        set(&mut metrics, "time/total", total);
        let is_empty = batch.data.is_empty();
        let trained_uses = if is_empty { uses.clone() } else { Vec::new() };
        self.record(progress, step, metrics, uses, checkpoint, reporter).await?;
        if is_empty {
            let steps = self.record.steps(&self.identity.run_id).await?;
            without_gradient::warning(&steps, &collected, &trained_uses, &self.decode)
                .into_iter()
                .for_each(|warning| reporter.report(warning));
        }
        Ok(())
    }

    /// Rollouts of the next tasks; of a run that harvests, those that were rewarded next.
    async fn collect_to_train(
        &mut self,
        progress: &mut Progress,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let (step, run_id) = (progress.step, &self.identity.run_id);
        if let Some(options) = &self.options.harvest {
            let policy = Policy { max_staleness: options.max_staleness, ..self.policy(step) };
            let state = &mut progress.harvest;
            let (record, bounds) = (self.record.as_ref(), self.options.reward_bounds);
            return harvest::gather(record, options, policy, bounds, run_id, state, reporter).await;
        }
        let GrpoOptions { groups_per_batch, group_size, .. } = self.options;
        let indices = tasks_at(self.identity.seed, self.tasks.train.len(), progress.data_cursor, groups_per_batch);
        let tasks = indices.iter().map(|index| self.tasks.train[*index].clone()).collect();
        let collected = self.collect(Phase::Train, step, tasks, group_size, reporter).await?;
        progress.data_cursor += groups_per_batch as u64;
        Ok(collected)
    }

    /// What has to have sampled what is trained next.
    fn policy(&self, step: u64) -> Policy {
        let (tokenizer, model) = (self.tokenizer.clone(), self.endpoint.model.clone());
        Policy { tokenizer, model, weights_version: step, max_staleness: 0 }
    }

    fn step_metrics(&self, step: u64, batch: &Batch) -> Map<String, Value> {
        let mut metrics = Map::new();
        set(&mut metrics, "step", step);
        set(&mut metrics, "progress/batch", step);
        set(&mut metrics, "progress/done_frac", step as f64 / self.options.max_steps.max(1) as f64);
        set(&mut metrics, "optim/lr", self.options.learning_rate);
        for (key, value) in &batch.rollout_metrics {
            set(&mut metrics, key, *value);
        }
        metrics
    }

    /// Forward, backward, optimizer; nothing if no group has anything to teach.
    async fn update(&self, batch: &Batch, metrics: &mut Map<String, Value>) -> Result<(), TrainError> {
        set(metrics, "optim/datums", batch.data.len());
        if batch.data.is_empty() {
            return Ok(());
        }
        let pass = self.learner.forward_backward(Arc::clone(&batch.data), LossFunction::ImportanceSampling).await?;
        let policy = policy_metrics(&batch.data, &pass.logprobs)?;
        for (key, value) in policy.iter().flat_map(PolicyMetrics::entries) {
            set(metrics, key, value);
        }
        set(metrics, "optim/loss:sum", pass.loss_sum);
        let step = self
            .learner
            .optimizer_step(AdamParameters {
                learning_rate: self.options.learning_rate,
                beta1: self.options.beta1,
                beta2: self.options.beta2,
                gradient_clip_norm: self.options.gradient_clip_norm,
                ..AdamParameters::default()
            })
            .await?;
        set(metrics, "optim/gradient_norm", step.gradient_norm);
        let tokens = policy.map_or(0, |policy| policy.trained_tokens);
        if step.gradient_norm.is_finite() && tokens > 0 {
            set(metrics, "optim/gradient_norm_per_token", step.gradient_norm / tokens as f64);
            set(metrics, "optim/clip_factor", self.options.clip_factor(step.gradient_norm));
        }
        Ok(())
    }

    /// Saves the weights; the record that makes it a checkpoint is written with the step's.
    async fn save_checkpoint(&self, progress: &Progress) -> Result<CheckpointRecord, TrainError> {
        let step = progress.step;
        // Recorded as seen from the run's directory, so that a run can be moved.
        let name = format!("checkpoints/{step:06}");
        let directory = self.identity.directory.join(&name);
        // Left by a process that died between saving and recording: it counts for nothing.
        remove_directory(&directory)?;
        self.learner.save_checkpoint(&directory).await?;
        let files = file_digests(&directory).await?;
        let state = CheckpointState { files, ..self.state(step, progress.data_cursor, progress.harvest.clone()) };
        Ok(CheckpointRecord { directory: name, state: json!(state) })
    }

    fn state(&self, step: u64, data_cursor: u64, harvest: HarvestState) -> CheckpointState {
        CheckpointState { seed: self.identity.seed, step, data_cursor, harvest, files: BTreeMap::new() }
    }

    fn checkpoints(&self) -> Checkpoints<'_> {
        Checkpoints {
            record: self.record.as_ref(),
            learner: self.learner.as_ref(),
            run_id: &self.identity.run_id,
            seed: self.identity.seed,
            directory: &self.identity.directory,
            kept: self.options.keep_checkpoints,
        }
    }

    async fn record(
        &self,
        progress: &mut Progress,
        step: u64,
        metrics: Map<String, Value>,
        uses: Vec<GenerationUse>,
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
                checkpoint,
            })
            .await?;
        // Told first: a step that stands in the file has been.
        reporter.report(TrainEvent::Step { step, metrics: metrics.clone() });
        if let Some(file) = &mut progress.metrics_file {
            file.append(&metrics)?;
        }
        if saved {
            self.remove_old_checkpoints().await?;
        }
        Ok(())
    }

    async fn remove_old_checkpoints(&self) -> Result<(), TrainError> {
        let checkpoints = self.record.checkpoints(&self.identity.run_id).await?;
        let old = checkpoints.len().saturating_sub(self.options.keep_checkpoints);
        checkpoints[..old]
            .iter()
            .try_for_each(|checkpoint| remove_directory(&self.identity.directory.join(&checkpoint.directory)))
    }

    /// The last evaluation, the final tasks, and the account of every token.
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
        if let Some(evaluation) = evaluation {
            evaluation.write_metrics(HELD_OUT, &mut metrics);
            total += evaluation.seconds;
            uses.extend(evaluation.uses);
        }
        if !self.tasks.last.is_empty() {
            let evaluation = self.evaluate(Phase::Final, step, self.tasks.last.clone(), reporter).await?;
            evaluation.write_metrics(FINAL, &mut metrics);
            total += evaluation.seconds;
            uses.extend(evaluation.uses);
        }
        set(&mut metrics, "time/total", total);
        // Apart from the step: in a store that others use too, they may be many.
        let leftovers = accounting::leftovers(self.record.as_ref(), &self.identity.run_id, &uses).await?;
        self.record.record_uses(&self.identity.run_id, leftovers).await?;
        // A stop between two checkpoints would lose the updates after the last one.
        let saved = self.record.latest_checkpoint(&self.identity.run_id).await?;
        let is_saved = saved.is_some_and(|checkpoint| checkpoint.state["step"] == json!(step));
        let checkpoint = if is_saved || step == 0 { None } else { Some(self.save_checkpoint(progress).await?) };
        self.record(progress, step, metrics, uses, checkpoint, reporter).await
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
        let metrics: Vec<&Map<String, Value>> = steps.iter().filter_map(|step| step.metrics.as_object()).collect();
        let held_out = held_out_scores(&steps);
        let greatest = |key: &str| metrics.iter().filter_map(|metrics| metrics.get(key)?.as_f64()).fold(0.0, f64::max);
        let mut summary = RunSummary {
            run_id: run_id.clone(),
            directory: self.identity.directory.clone(),
            checkpoint: self
                .record
                .latest_checkpoint(run_id)
                .await?
                .map(|checkpoint| self.identity.directory.join(checkpoint.directory)),
            steps: end.step,
            stopped_by_rule: end.stopped_by_rule,
            held_out_before: held_out.first().cloned(),
            held_out_after: held_out.last().cloned(),
            final_after: metrics.last().and_then(|metrics| Scores::read(metrics, FINAL)),
            max_logprob_difference: greatest(GREATEST_LOGPROB_DIFFERENCE),
            wall_seconds: started.elapsed().as_secs_f64(),
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
        summary.untrained_tokens.entry("other".to_owned()).or_default();
        reporter.report(TrainEvent::Finished(Box::new(summary.clone())));
        Ok(summary)
    }
}

/// The recorded evaluations of the held-out tasks, oldest first.
fn held_out_scores(steps: &[Step]) -> Vec<Scores> {
    steps.iter().filter_map(|step| Scores::read(step.metrics.as_object()?, HELD_OUT)).collect()
}

/// Says which rewards of a set of rollouts are odd, and counts them by the names of their metrics.
fn report_odd_rewards(collected: &Collected, step: u64, reporter: &mut dyn Reporter) -> Vec<(String, usize)> {
    let findings = reward_check::findings(collected);
    let counts = reward_check::metrics(collected, &findings);
    if !findings.is_empty() {
        reporter.report(TrainEvent::OddRewards { phase: collected.phase.as_str(), step, findings });
    }
    counts
}

/// Scores of a set of tasks, and the account of what was sampled for them.
struct Evaluation {
    scores: Scores,
    /// How many rewards are odd, by the names of their metrics.
    odd_rewards: Vec<(String, usize)>,
    uses: Vec<GenerationUse>,
    seconds: f64,
}

impl Evaluation {
    fn write_metrics(&self, prefix: &str, metrics: &mut Map<String, Value>) {
        set(metrics, &format!("{prefix}/reward/total"), self.scores.reward);
        for (name, mean) in &self.scores.components {
            set(metrics, &format!("{prefix}/{name}"), *mean);
        }
        set(metrics, &format!("{prefix}/total_episodes"), self.scores.rollouts);
        set(metrics, &format!("{prefix}/failed_episodes"), self.scores.failed);
        for (key, count) in &self.odd_rewards {
            set(metrics, key, *count);
        }
    }
}

impl Scores {
    /// What [`Evaluation::write_metrics`] wrote, if it did.
    fn read(metrics: &Map<String, Value>, prefix: &str) -> Option<Self> {
        let number = |name: &str| metrics.get(&format!("{prefix}/{name}")).and_then(Value::as_f64);
        let count = |name: &str| number(name).unwrap_or(0.0) as usize;
        let components = metrics
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.strip_prefix('/')?, value.as_f64()?)))
            .filter(|(name, _)| !["reward/total", "total_episodes", "failed_episodes"].contains(name))
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let reward = number("reward/total")?;
        Some(Self { reward, components, rollouts: count("total_episodes"), failed: count("failed_episodes") })
    }
}

/// Means over the members that succeeded; a component's over those that report it.
fn scores<'a>(members: impl Iterator<Item = &'a Member>) -> Scores {
    let (mut rewards, mut failed) = (Vec::new(), 0);
    let mut components: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for member in members {
        if !member.succeeded() {
            failed += 1;
            continue;
        }
        rewards.push(member.total_reward);
        for (name, value) in member.reward().iter().flat_map(|reward| &reward.components) {
            components.entry(name.clone()).or_default().push(*value);
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Scores {
        reward: mean(&rewards),
        components: components.into_iter().map(|(name, values)| (name, mean(&values))).collect(),
        rollouts: rewards.len(),
        failed,
    }
}

fn set(metrics: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    metrics.insert(key.to_owned(), value.into());
}

fn remove_directory(directory: &Path) -> Result<(), TrainError> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(TrainError::File { path: directory.to_owned(), message: error.to_string() })
        }
        _ => Ok(()),
    }
}
