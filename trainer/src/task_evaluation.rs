//! Tasks that are scored by themselves, without a run that learns.

use std::sync::Arc;

use fulgurite_types::{AttemptStatus, NewRollout, RolloutConfig, RolloutRecord, RolloutStatus, StepRecord};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::options::{FailureOptions, RewardRules, temperature_of};
use crate::publishing::{PolicyEndpoint, PolicyResource, resources_id};
use crate::rollouts::{Phase, Policy};
use crate::run::leftovers;
use crate::scores::{FINAL, HELD_OUT, Scores, TaskScore, tags};
use crate::sources::{GroupTasks, Plan, gather, new_rollouts};
use crate::weights::VersionDistances;
use crate::{Record, Reporter, RunIdentity, TrainError};

/// The metadata key and value of rollouts that are of an evaluation by itself.
const KIND: (&str, &str) = ("kind", EVALUATION_KIND);

/// What the record calls a run that scores, and does not learn.
pub const EVALUATION_KIND: &str = "evaluation";

/// Which tasks are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluatedTasks {
    /// Those that progress is measured on.
    HeldOut,
    /// Those that are scored once.
    Final,
}

impl EvaluatedTasks {
    /// As the record has it.
    pub fn as_str(self) -> &'static str {
        self.phase().as_str()
    }

    fn phase(self) -> Phase {
        match self {
            Self::HeldOut => Phase::HeldOut,
            Self::Final => Phase::Final,
        }
    }
}

/// Scores tasks by the weights that are behind a model, in a run of its own in the record. Nothing of it is ever trained.
///
/// What was sampled before is not sampled again: rollouts have their places for ids.
pub struct TaskEvaluation {
    /// Where rollouts are enqueued and read.
    pub record: Arc<dyn Record>,
    /// The run of the evaluation, which is begun already.
    pub identity: RunIdentity,
    /// Updates that made the weights: seeds are those with which a run scored them then.
    pub step: u64,
    /// What is scored.
    pub evaluated: EvaluatedTasks,
    /// The tasks.
    pub tasks: Vec<Value>,
    /// Rollouts of each.
    pub samples: usize,
    /// Timeouts and retries of each rollout.
    pub rollout_config: RolloutConfig,
    /// Fingerprint of the model's tokenizer; empty if its calls are passed on.
    pub tokenizer: String,
    /// What rewards are held against.
    pub reward_rules: RewardRules,
    /// What agents are told to send with their calls.
    pub sampling_parameters: Map<String, Value>,
    /// Where agents find the model.
    pub endpoint: PolicyEndpoint,
    /// A message here says that nobody is left to run rollouts.
    pub runner: watch::Receiver<Option<String>>,
}

impl TaskEvaluation {
    /// Has run what has not been, and gives what each task earned.
    pub async fn run(&self, reporter: &mut dyn Reporter) -> Result<Vec<TaskScore>, TrainError> {
        let record = self.record.as_ref();
        let run_id = &self.identity.run_id;
        let (endpoint, sampling_parameters) = (self.endpoint.clone(), self.sampling_parameters.clone());
        PolicyResource { endpoint, sampling_parameters }.store(record, run_id, self.step).await?;
        let plan = self.plan();
        let rollouts = new_rollouts(&plan, &GroupTasks { tasks: self.tasks.clone(), groups_before: 0 });
        let rollouts = self.with_ids(rollouts).await?;
        let enqueued = record.enqueue_rollouts(rollouts).await?;
        let ids = enqueued.into_iter().map(|rollout| rollout.rollout_id).collect();
        let mut runner = self.runner.clone();
        let collected = gather(record, &plan, ids, &mut runner, reporter).await?;
        let scores = collected.groups.iter().filter_map(|members| TaskScore::of(members)).collect();
        if record.steps(run_id).await?.is_empty() {
            let mut metrics = Map::new();
            let prefix = match self.evaluated {
                EvaluatedTasks::HeldOut => HELD_OUT,
                EvaluatedTasks::Final => FINAL,
            };
            metrics.insert("step".to_owned(), self.step.into());
            Scores::of(collected.groups.iter().flatten()).write(prefix, &mut metrics);
            let uses = collected.uses();
            let late = leftovers(record, run_id, &uses).await?;
            record.record_uses(run_id, late).await?;
            let weights_version = self.step;
            let (run_id, metrics) = (run_id.clone(), Value::Object(metrics));
            record
                .record_step(StepRecord {
                    run_id,
                    step: 1,
                    metrics,
                    weights_version,
                    uses,
                    checkpoint: None,
                    teacher_logprobs: Vec::new(),
                })
                .await?;
        }
        Ok(scores)
    }

    fn plan(&self) -> Plan<'_> {
        Plan {
            run_id: &self.identity.run_id,
            run_seed: self.identity.seed,
            phase: self.evaluated.phase(),
            step: self.step,
            group_size: self.samples,
            config: &self.rollout_config,
            resources_id: resources_id(&self.identity.run_id, self.step),
            policy: Policy {
                tokenizer: self.tokenizer.clone(),
                model: self.endpoint.model.clone(),
                temperature: temperature_of(&self.sampling_parameters),
                // Nothing of it is trained.
                distances: VersionDistances::default(),
                max_staleness: 0,
            },
            reward_rules: self.reward_rules,
            // What was lost is sampled under an id of its own, so that an evaluation can be gone on with.
            failures: FailureOptions { reruns: 0, ..FailureOptions::default() },
        }
    }

    /// The rollouts under ids that their places make, so that those that are there already stay as they are. One that
    /// was lost with its runner each time that it was tried is sampled under a further id.
    async fn with_ids(&self, rollouts: Vec<NewRollout>) -> Result<Vec<NewRollout>, TrainError> {
        let mut named = Vec::with_capacity(rollouts.len());
        let mut open: Vec<(NewRollout, u32)> = rollouts.into_iter().map(|rollout| (rollout, 0)).collect();
        for (index, (rollout, _)) in open.iter_mut().enumerate() {
            let metadata = rollout.metadata.get_or_insert_default();
            metadata.insert(KIND.0.to_owned(), KIND.1.into());
            let tags = tags(&rollout.input);
            if !tags.is_empty() {
                metadata.insert("tags".to_owned(), tags.into());
            }
            let (group, member) = (index / self.samples, index % self.samples);
            rollout.rollout_id = Some(format!("{}-{group}-{member}", self.identity.run_id));
        }
        loop {
            let ids: Vec<String> = open.iter().filter_map(|(rollout, _)| rollout.rollout_id.clone()).collect();
            let records = self.record.rollout_records(&ids).await?;
            let mut lost = false;
            for ((rollout, tries), recorded) in open.iter_mut().zip(records) {
                if recorded.is_some_and(|recorded| is_lost(&recorded)) {
                    *tries += 1;
                    let first = rollout.rollout_id.take().unwrap_or_default();
                    let first = first.strip_suffix(&format!("-again-{}", *tries - 1)).unwrap_or(&first);
                    rollout.rollout_id = Some(format!("{first}-again-{tries}"));
                    lost = true;
                }
            }
            if !lost {
                named.extend(open.into_iter().map(|(rollout, _)| rollout));
                return Ok(named);
            }
        }
    }
}

/// Whether a rollout is over only because nobody was there to run it to its end.
fn is_lost(recorded: &RolloutRecord) -> bool {
    let last = recorded.attempts.last().map(|attempt| attempt.status);
    recorded.rollout.status == RolloutStatus::Failed && last == Some(AttemptStatus::Unresponsive)
}
