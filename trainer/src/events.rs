use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::{ConversationForm, Failures, RewardFinding, RunSummary, SampleAnswer, StaleRollouts};

/// What a training loop tells while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainEvent {
    /// A supervised step was made.
    SupervisedStep {
        /// Steps made so far.
        step: u64,
        /// Steps at most.
        max_steps: u64,
        /// Mean negative logprob of the batch's trained tokens, in nats.
        loss: f64,
        /// Share of validation tokens that the model gives more than half of the probability; measured now and then.
        validation_accuracy: Option<f64>,
    },
    /// A run begins, or goes on after `step` updates.
    RunStarted {
        /// Its id.
        run_id: String,
        /// Where its files are.
        directory: PathBuf,
        /// Updates already made.
        step: u64,
        /// The checkpoint that it goes on from, as seen from the run's directory.
        checkpoint: Option<String>,
        /// Updates at most.
        max_steps: u64,
    },
    /// The program that writes what a base model is made from is at work, or done.
    Corpus {
        /// The program's name.
        program: String,
        /// Lines that it has written so far.
        lines: u64,
        /// Whether these are all.
        is_whole: bool,
    },
    /// The run's own server shows it on a page.
    PageServed {
        /// Where.
        url: String,
    },
    /// The run has made as many updates as it may, and waits for leave to make more.
    Waiting {
        /// Updates made.
        step: u64,
    },
    /// A checkpoint that a resumed run should go on from is damaged or gone, and the one before it is tried.
    CheckpointPassedOver {
        /// Where it is, as seen from the run's directory.
        directory: String,
        /// What is wrong with it.
        message: String,
    },
    /// A checkpoint could not be uploaded. The run goes on; the next one is tried again.
    CheckpointNotUploaded {
        /// Where it is, as seen from the run's directory.
        directory: String,
        /// Why not.
        message: String,
    },
    /// No runner was started; rollouts wait for those that others start.
    RunnersAwaited {
        /// Where the server is.
        url: String,
    },
    /// Nobody is told to run anything; agents that call the server, and are rewarded, are learnt from.
    AgentsAwaited {
        /// Where the server is.
        url: String,
    },
    /// A judge of rewards was held against what people say, before anything is run.
    JudgeOnLabels {
        /// Its name.
        judge: String,
        /// What it judged.
        criterion: String,
        /// Answers that people have judged too.
        labels: u64,
        /// The share of them on which it agrees with people.
        share: f64,
        /// Cohen's kappa of the two, where there is one.
        kappa: Option<f64>,
    },
    /// Rollouts are being run, or harvested.
    Rollouts {
        /// `train`, `held_out`, `final` or `harvest`.
        phase: &'static str,
        /// Updates made so far.
        step: u64,
        /// How many have ended.
        done: usize,
        /// How many there are.
        total: usize,
    },
    /// The learner makes its passes over what a step learns from.
    Learning {
        /// Updates made so far.
        step: u64,
        /// Datums that it has learnt from.
        done: usize,
        /// Datums of the step.
        total: usize,
    },
    /// Something that the policy said in a step.
    Sampled {
        /// Updates made so far.
        step: u64,
        /// The task, the answer, and what it earned.
        answer: SampleAnswer,
    },
    /// Optimizer steps were left out, since their gradient is a spike.
    StepsSkipped {
        /// Updates made before.
        step: u64,
        /// How many steps of this one.
        skipped: u64,
        /// The greatest norm of its gradients; `None` where that is no number.
        norm: Option<f64>,
        /// What it may be at most, once that is known.
        bound: Option<f64>,
        /// Updates one after another that left something out, this one among them.
        in_a_row: u64,
    },
    /// At least half of the rollouts of a step failed. If all did, the run ends with an error that says the same.
    RolloutsFailed {
        /// `train`, `held_out` or `final`.
        phase: &'static str,
        /// Updates made so far.
        step: u64,
        /// How many, and why.
        failures: Failures,
    },
    /// Rollouts are run ahead, and the loss does not keep a step near the weights that sampled.
    NoTrustRegion {
        /// Updates that those may be behind.
        max_staleness: u64,
    },
    /// What the rows of a file were found to be, where the config does not say it.
    RowsFound {
        /// The file.
        file: PathBuf,
        /// Their form.
        form: ConversationForm,
    },
    /// Trained words of the data spell control tokens of the model, and are trained as text.
    MarksAsText {
        /// Rows that have any.
        rows: u64,
        /// How many they have.
        marks: u64,
    },
    /// A judge of comparisons said neither letter of some.
    JudgeUndecided {
        /// Updates made so far.
        step: u64,
        /// Comparisons of which it said none; they tie.
        undecided: u64,
        /// Comparisons that it was asked for.
        comparisons: u64,
        /// What it said in place of a letter.
        answer: String,
    },
    /// Several updates in a row had nothing to learn from.
    WithoutGradient {
        /// Updates made so far.
        step: u64,
        /// How many of the last ones.
        updates: usize,
        /// Sampled tokens of the last one that were not trained, by cause; those of its evaluation count too.
        untrained: BTreeMap<String, u64>,
        /// What the policy said.
        answers: Vec<SampleAnswer>,
    },
    /// Rewards that somebody should look at.
    OddRewards {
        /// `train`, `held_out` or `final`.
        phase: &'static str,
        /// Updates made so far.
        step: u64,
        /// What is odd, rollout by rollout.
        findings: Vec<RewardFinding>,
    },
    /// A harvest lost rewarded rollouts because of the weights that sampled them: all of the step so far.
    StaleHarvest {
        /// Updates made so far.
        step: u64,
        /// How many, and how old.
        stale: StaleRollouts,
        /// What `harvest.max_staleness` allows.
        max_staleness: u64,
    },
    /// The weights of an update are not put behind the model: it has moved what it learnt from too far.
    WeightsMovedTooFar {
        /// The updates that made them.
        step: u64,
        /// What is behind the model.
        version: u64,
        /// Nats a token between what sampled and what is there now, in the mean.
        kl: f64,
        /// As many may be.
        max_kl: f64,
    },
    /// New weights were held against those behind the model, on what is held out.
    WeightsJudged {
        /// The updates that made the new ones.
        step: u64,
        /// Those that made the ones which are behind the model now.
        version: u64,
        /// Whether these are the new ones.
        is_published: bool,
        /// What a conversation costs more under the new ones, in the mean, in nats a token.
        difference: f64,
    },
    /// A step is over: what `metrics.jsonl` has of it.
    Step {
        /// Updates made before it.
        step: u64,
        /// The line of `metrics.jsonl`.
        metrics: Map<String, Value>,
    },
    /// A step that was told of before the run was resumed: for whoever lays out a step by those before it.
    StepRecalled {
        /// When it was recorded, in seconds since 1970.
        time: f64,
        /// The line of `metrics.jsonl`.
        metrics: Map<String, Value>,
    },
    /// The run is over.
    Finished(Box<RunSummary>),
}

/// Whoever listens to a training loop.
pub trait Reporter: Send {
    /// Takes an event. Must not block for long.
    fn report(&mut self, event: TrainEvent);
}
