//! Training on rollouts: tasks that the run has done in groups, or whatever rewarded rollouts there are.

use std::collections::VecDeque;
use std::sync::Arc;

use fulgurite_backends::{Learner, RatioBounds};
use fulgurite_renderers::Renderer;
use fulgurite_types::{RolloutConfig, WeightsId};
use tokio::sync::watch;

use crate::conversations::{ConversationFile, HeldOutRows, Rendering, Sequences, Split};
use crate::evaluation::{ConversationScores, DataEvaluator, Evaluator, TaskEvaluator};
use crate::objectives::{
    AuxiliaryConversations, ConversationLoss, Credit, Kl, KlPenalty, Minibatches, Objective, Origins, PolicyGradient,
    Reference, Teachers,
};
use crate::options::{
    AuxiliaryConversationOptions, ConversationForm, LossReduction, MAX_STEPS, PolicyLoss, PublishRule, RolloutOptions,
    RolloutPlan, SamplingSchedule, TrainOn, Truncation, UnusableRows,
};
use crate::publishing::{PolicyEndpoint, PolicyResource, Publisher, WeightsAtStart};
use crate::rollouts::{Collected, Decode, GroupJudge, Pairwise, Policy};
use crate::run::{Course, GateRule, PublishGate, Publishing, RunBuilder, TrainingRun};
use crate::sft::{ConversationsFile, sequence_limit};
use crate::sources::{
    AuxiliarySource, ConversationSource, DrivenTasks, HarvestedRollouts, RolloutGroups, Source, Tasks,
};
use crate::weights::{DigestingLearner, RunWeights, VersionDistances};
use crate::{Record, Reporter, RunIdentity, RunSummary, TrainError, TrainEvent};

/// Conversations whose mean cost has an interval.
const LEAST_COMPARED: u64 = 2;
/// Conversations of a harvest's validation that are read together.
const VALIDATION_BATCH: usize = 64;

/// Group-relative policy optimisation (GRPO: Shao et al. 2024) and its relatives.
///
/// Each step: score the held-out tasks now and then, enqueue groups of rollouts, wait until whoever takes them off
/// the queue has run them (or read those that were rewarded), make datums of what was recorded, update, and put the new
/// weights behind the sampler.
#[derive(Clone)]
pub struct Grpo {
    /// Where rollouts are enqueued and read.
    pub record: Arc<dyn Record>,
    /// What learns.
    pub learner: Arc<dyn Learner>,
    /// How.
    pub plan: RolloutPlan,
    /// What it is kept near to, if the options say so.
    pub reference: Reference,
    /// Whose logprobs it is pulled to, if the objective is to learn from teachers.
    pub teachers: Option<Teachers>,
    /// Who compares the answers of a group, if the options say so.
    pub judge: Option<GroupJudge>,
    /// The conversations that it learns from beside, if the options say so.
    pub conversations: Option<AuxiliaryFile>,
    /// The conversations that a harvest is scored on, if the options say so.
    pub validation: Option<AuxiliaryFile>,
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
    /// The weights that the run starts from: those that the learner was opened with.
    pub start: WeightsId,
    /// What the start does with those that are behind the model.
    pub at_start: WeightsAtStart,
    /// A message here says that nobody is left to run rollouts.
    pub runner: watch::Receiver<Option<String>>,
}

/// Conversations that a run learns from beside its rollouts.
#[derive(Clone)]
pub struct AuxiliaryFile {
    /// Where they are.
    pub file: ConversationsFile,
    /// Renders them.
    pub renderer: Arc<dyn Renderer>,
    /// Tokens that a sequence of the model may have, where that is known.
    pub context_length: Option<usize>,
}

impl AuxiliaryFile {
    async fn open(&self, options: &AuxiliaryConversationOptions) -> Result<ConversationFile, TrainError> {
        let max_tokens = sequence_limit("[trainer] conversations.max_tokens", options.max_tokens, self.context_length)?;
        self.render(options.form, options.train_on, max_tokens).await
    }

    async fn render(
        &self,
        form: ConversationForm,
        train_on: TrainOn,
        max_tokens: Option<usize>,
    ) -> Result<ConversationFile, TrainError> {
        let renderer = self.renderer.clone();
        let rendering = Rendering {
            form: form.into(),
            renderer,
            train_on: form.train_on(train_on),
            max_tokens,
            truncate: Truncation::default(),
            cut: Default::default(),
            reasoning: Default::default(),
        };
        let ConversationsFile { path, name, unit } = &self.file;
        ConversationFile::open(path, name, *unit, rendering, UnusableRows::Refuse).await
    }
}

impl Grpo {
    /// Trains until the stop rule or the limit of steps ends it, then scores the final tasks once.
    ///
    /// With `resume`, goes on from the run's last checkpoint that is whole; what came after it is undone in the record.
    pub async fn run(&self, resume: bool, reporter: &mut dyn Reporter) -> Result<RunSummary, TrainError> {
        if let Some(teachers) = &self.teachers {
            teachers.check(&self.tasks.train).await?;
        }
        let rollouts = self.rollouts();
        let max_staleness = rollouts.schedule.max_staleness();
        if max_staleness > 0 && rollouts.loss == PolicyLoss::ImportanceSampling && rollouts.importance_mask.is_none() {
            reporter.report(TrainEvent::NoTrustRegion { max_staleness });
        }
        let identity = &self.identity;
        let weights = RunWeights::new(&self.endpoint.model, &identity.run_id, &identity.instance, self.start);
        let policy = self.objective(&weights)?;
        match rollouts.schedule {
            SamplingSchedule::Minibatches(count) => {
                let source = Box::new(self.driven(&weights));
                self.train(weights, source, Box::new(Minibatches { policy, count }), resume, reporter).await
            }
            SamplingSchedule::Sync | SamplingSchedule::Async { .. } => {
                let source = self.source(&weights);
                self.train(weights, source, Box::new(policy), resume, reporter).await
            }
        }
    }

    /// Learns from rollouts, and from conversations beside if there are any.
    async fn train<Data: Send + 'static>(
        &self,
        weights: RunWeights,
        main: Box<dyn Source<Data>>,
        objective: Box<dyn Objective<Data>>,
        resume: bool,
        reporter: &mut dyn Reporter,
    ) -> Result<RunSummary, TrainError> {
        let (Some(options), Some(file)) = (&self.rollouts().conversations, &self.conversations) else {
            return self.training_run(weights, main, objective).await?.train(resume, reporter).await;
        };
        let conversations: Arc<dyn Sequences> = Arc::new(file.open(options).await?);
        let split = Arc::new(Split::new(self.identity.seed, conversations.count(), 0).into());
        let source = AuxiliarySource {
            main,
            conversations: ConversationSource { conversations, split, batch_size: options.batch_size },
        };
        let tokenizer = file.renderer.tokenizer().clone();
        let objective = AuxiliaryConversations {
            main: objective,
            conversations: ConversationLoss { reduction: options.reduction, pack_into: None, tokenizer },
            weight: options.weight,
        };
        self.training_run(weights, Box::new(source), Box::new(objective)).await?.train(resume, reporter).await
    }

    /// What the run is scored on: the conversations of a harvest, or else tasks.
    async fn evaluator(&self, weights: &RunWeights) -> Result<Box<dyn Evaluator>, TrainError> {
        let RolloutOptions { evaluation, stop, .. } = self.rollouts();
        let Some(file) = &self.validation else {
            return Ok(Box::new(TaskEvaluator {
                groups: self.groups(weights),
                options: evaluation.clone(),
                stop: stop.clone(),
                held_out: self.tasks.held_out.clone(),
                last: self.tasks.last.clone(),
            }));
        };
        let conversations = file.render(ConversationForm::default(), TrainOn::default(), file.context_length).await?;
        let count = conversations.count();
        if self.plan.options.publish_rule() == PublishRule::NotWorse && count < LEAST_COMPARED {
            let message =
                format!("holds {count} conversations, and publish_if compares means of {LEAST_COMPARED} at least");
            return Err(TrainError::Option { key: "[trainer] harvest.validation".to_owned(), message });
        }
        Ok(Box::new(DataEvaluator {
            learner: self.learner.clone(),
            sets: vec![HeldOutRows::all(None, Arc::new(conversations))],
            batch_size: VALIDATION_BATCH,
            every: evaluation.every,
            scores: ConversationScores::new(LossReduction::default(), file.renderer.tokenizer().clone()),
        }))
    }

    async fn training_run<Data>(
        &self,
        weights: RunWeights,
        source: Box<dyn Source<Data>>,
        objective: Box<dyn Objective<Data>>,
    ) -> Result<TrainingRun<Data>, TrainError> {
        let rollouts = self.rollouts();
        let is_at_start = matches!(self.reference, Reference::Start);
        let learner = Arc::new(DigestingLearner::new(self.learner.clone()));
        let temperature = rollouts.temperature();
        if temperature != 1.0 {
            learner.set_sampling_temperature(temperature).await?;
            if let Reference::Model(reference) = &self.reference {
                reference.set_sampling_temperature(temperature).await?;
            }
        }
        let evaluator = self.evaluator(&weights).await?;
        let resource = PolicyResource {
            endpoint: self.endpoint.clone(),
            sampling_parameters: rollouts.sampling_parameters.clone(),
        };
        let publisher = Publisher { resource, weights, learner: learner.clone(), at_start: self.at_start };
        let builder =
            RunBuilder::new(&self.record, learner, &self.identity, Course::of(&self.plan.common, self.max_steps()))
                .stop_without_gradient(rollouts.stop_without_gradient)
                .publish(Publishing { publisher, gate: self.publish_gate() })
                .keep_reference_if(rollouts.kl.is_some() && is_at_start);
        Ok(builder.build(source, objective, evaluator))
    }

    fn publish_gate(&self) -> Option<PublishGate> {
        let options = &self.plan.options;
        let rule = match options.publish_rule() {
            PublishRule::Always => return None,
            PublishRule::NotWorse => GateRule::NotWorse,
            PublishRule::WithinBounds => GateRule::WithinBounds { max_kl: options.publish_max_kl },
        };
        let most_behind = options.harvest.as_ref().map_or(0, |harvest| harvest.max_staleness);
        Some(PublishGate { rule, most_behind })
    }

    fn source(&self, weights: &RunWeights) -> Box<dyn Source<Collected>> {
        match &self.plan.options.harvest {
            Some(harvest) => Box::new(HarvestedRollouts {
                record: self.record.clone(),
                options: harvest.clone(),
                policy: self.policy(),
                weights: weights.clone(),
                is_served_elsewhere: self.at_start != WeightsAtStart::Publish,
                reward_rules: self.rollouts().reward_rules(),
                run_id: self.identity.run_id.clone(),
            }),
            None => Box::new(self.driven(weights)),
        }
    }

    fn driven(&self, weights: &RunWeights) -> DrivenTasks {
        let rollouts = self.rollouts();
        DrivenTasks {
            groups: self.groups(weights),
            tasks: self.tasks.train.clone(),
            groups_per_batch: rollouts.groups_per_batch,
            group_size: rollouts.group_size,
            dynamic: self.plan.options.dynamic_sampling,
            max_staleness: rollouts.schedule.max_staleness(),
            max_steps: self.max_steps(),
            ahead: VecDeque::new(),
        }
    }

    fn objective(&self, weights: &RunWeights) -> Result<PolicyGradient, TrainError> {
        let rollouts = self.rollouts();
        let kl = rollouts.kl.as_ref().map(|kl| Kl {
            place: kl.place,
            penalty: KlPenalty { coefficient: kl.coefficient, discount: kl.discount },
            reference: self.reference.clone(),
        });
        Ok(PolicyGradient {
            credit: Credit { advantages: rollouts.advantages, zero_reward_on_limit: rollouts.zero_reward_on_limit },
            loss: rollouts.loss_function()?,
            aggregation: rollouts.loss_aggregation,
            rollout_length: rollouts.rollout_length,
            temperature: rollouts.temperature(),
            substeps: rollouts.substeps,
            importance_mask: rollouts.importance_mask.map(|[low, high]| RatioBounds { low, high }),
            top_entropy: rollouts.top_entropy,
            entropy_bonus: rollouts.entropy_bonus,
            teachers: self.teachers.clone(),
            kl,
            records_tokens: rollouts.record_tokens,
            baseline_decay: self.plan.options.harvest.as_ref().map(|harvest| harvest.baseline_decay),
            decode: self.decode.clone(),
            divisors: Vec::new(),
            kl_loss: None,
            weights: weights.clone(),
            origins: Origins::default(),
        })
    }

    fn groups(&self, weights: &RunWeights) -> RolloutGroups {
        RolloutGroups {
            record: self.record.clone(),
            identity: self.identity.clone(),
            config: self.rollout_config.clone(),
            policy: self.policy(),
            weights: weights.clone(),
            reward_rules: self.rollouts().reward_rules(),
            failures: self.rollouts().failures,
            runner: self.runner.clone(),
            pairwise: self.judge.clone().map(|judge| {
                let options = self.plan.options.pairwise.as_ref();
                Pairwise {
                    judge,
                    zero_on_limit: self.rollouts().zero_reward_on_limit,
                    reward: options.map(|options| options.reward).unwrap_or_default(),
                    undecided_limit: options.map_or(1.0, |options| options.undecided_limit),
                }
            }),
        }
    }

    fn rollouts(&self) -> &RolloutOptions {
        &self.plan.options.rollouts
    }

    /// Updates at most.
    fn max_steps(&self) -> u64 {
        self.plan.common.max_steps.unwrap_or(MAX_STEPS)
    }

    /// What has to have sampled what is trained.
    fn policy(&self) -> Policy {
        let (tokenizer, model) = (self.tokenizer.clone(), self.endpoint.model.clone());
        let temperature = self.rollouts().temperature();
        Policy { tokenizer, model, temperature, distances: VersionDistances::default(), max_staleness: 0 }
    }
}
