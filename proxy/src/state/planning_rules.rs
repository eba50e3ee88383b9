use std::time::Duration;

use fulgurite_renderers::ContinuationPolicy;

use crate::state::auxiliary_rules::AuxiliaryRules;

/// What is decided of all requests alike.
pub(crate) struct PlanningRules {
    /// How turns that were sampled appear in later prompts of their conversation.
    pub(crate) continuation: ContinuationPolicy,
    /// Bytes that the schemas may have that an answer is to keep to.
    pub(crate) schema_bytes: usize,
    /// How long a host may take from each token to the next.
    pub(crate) silence: Duration,
    /// Seed of calls whose rollout brings none of its own.
    pub(crate) seed: u64,
    /// Which calls are made beside the task.
    pub(crate) auxiliary: AuxiliaryRules,
}
