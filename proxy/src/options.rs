use std::time::Duration;

use fulgurite_renderers::ContinuationPolicy;

use crate::attempt::attribution::RolloutDefaults;
use crate::attempt::budget::Budget;
use crate::models::weights::without_new_weights::WithoutNewWeights;
use crate::requests::large_requests::LargeRequestLimits;
use crate::requests::left_out::UnknownFields;
use crate::state::auxiliary_rules::AuxiliaryRule;
use crate::state::deadlines::SamplingLimits;

/// Limits and choices of the proxy.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Greatest request body, in bytes.
    pub body_limit: usize,
    /// Seed of calls whose rollout brings none of its own.
    pub seed: u64,
    /// Whether a call that names its rollout, by path or header, is answered with token ids and logprobs even if it did not
    /// request them, so that a tracer in the agent records them.
    pub token_ids_on_attributed_path: bool,
    /// Temperature of the gateway's calls in mode `train`, whatever the agent requests.
    pub train_temperature: f32,
    /// The same in mode `val`.
    pub val_temperature: f32,
    /// How turns that were sampled appear in later prompts of their conversation.
    pub continuation: ContinuationPolicy,
    /// Bytes that conversations of running attempts may take in memory, about. Those that do not fit are read from the
    /// store again.
    pub conversation_memory_bytes: usize,
    /// For how long after its latest call a session is continued by a call that names no rollout, and whose messages go on
    /// from an answer of it. Zero: every such call is a session of its own.
    pub conversation_gap: Duration,
    /// Which calls are recognised as made beside the task, and are not trained.
    pub auxiliary_rules: Vec<AuxiliaryRule>,
    /// What the calls of an attempt may take together. Sessions, which begin with a call of their own, have no budget.
    pub budget: Budget,
    /// How long a model's host may take.
    pub sampling_limits: SamplingLimits,
    /// How long a stream is silent before it sends a keep-alive.
    pub keep_alive: Duration,
    /// How requests of more than 64 KiB are worked at.
    pub large_requests: LargeRequestLimits,
    /// Bytes that the schemas may have that an answer is to keep to.
    pub schema_bytes: usize,
    /// What is done with fields of requests that are not known.
    pub unknown_fields: UnknownFields,
    /// What becomes of a model's calls where its newest weights could not be loaded.
    pub without_new_weights: WithoutNewWeights,
}

impl ProxyOptions {
    /// Defaults of a rollout that sets nothing itself.
    pub(crate) fn rollout_defaults(&self) -> RolloutDefaults {
        RolloutDefaults { budget: self.budget, seed: self.seed }
    }
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            body_limit: 32 * 1024 * 1024,
            seed: 0,
            token_ids_on_attributed_path: true,
            train_temperature: 1.0,
            val_temperature: 1.0,
            continuation: ContinuationPolicy::default(),
            conversation_memory_bytes: 256 * 1024 * 1024,
            conversation_gap: Duration::from_secs(3600),
            auxiliary_rules: AuxiliaryRule::built_in(),
            budget: Budget::default(),
            sampling_limits: SamplingLimits::default(),
            keep_alive: Duration::from_secs(10),
            large_requests: LargeRequestLimits::default(),
            schema_bytes: 256 * 1024,
            unknown_fields: UnknownFields::default(),
            without_new_weights: WithoutNewWeights::default(),
        }
    }
}
