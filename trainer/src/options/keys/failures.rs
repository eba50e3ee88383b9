use serde::{Deserialize, Serialize};

/// What becomes of rollouts that failed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FailureOptions {
    /// How often, at most, a rollout is run again that a model host, the grader or the runner failed: the policy cannot
    /// bring that about.
    pub reruns: u32,
    /// The share of a group, rounded up, that must be left of it after that; of fewer, nothing is learnt.
    pub least_members: f64,
    /// What a rollout earns that its agent failed: it crashed, took too long or left no reward. Without it, such a rollout
    /// teaches nothing; with it, a policy that makes its agent crash unlearns that.
    pub agent_reward: Option<f64>,
}

impl Default for FailureOptions {
    fn default() -> Self {
        Self { reruns: 2, least_members: 0.75, agent_reward: None }
    }
}
