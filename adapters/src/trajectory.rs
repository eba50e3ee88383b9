use std::collections::BTreeMap;

use fulgurite_types::{Chunk, StopReason};
use serde::{Deserialize, Serialize};

/// What the policy did in one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The sampled tokens.
    pub tokens: Vec<u32>,
    /// The sampler's logprob of each of them.
    pub logprobs: Vec<f32>,
}

/// One turn: what the policy saw, what it sampled, what that earned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// The whole prompt of the turn, history included.
    pub observation: Vec<Chunk>,
    /// What was sampled after it.
    pub action: Action,
    /// The reward of this turn alone.
    pub reward: f64,
    /// Whether nothing follows.
    pub episode_done: bool,
    /// Whether the sampled tokens stay in the context of later turns but are not trained.
    pub masked: bool,
    /// Numbers worth averaging, by name.
    pub metrics: BTreeMap<String, f64>,
    /// Why sampling ended, in the sampler's word; `None` if nothing was sampled.
    pub stop_reason: Option<StopReason>,
}

/// Why an episode ended; the names are tinker-cookbook's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpisodeStop {
    /// The agent was done.
    #[default]
    Completed,
    /// A tool ended the episode.
    ToolStopped,
    /// No more turns were allowed.
    MaxTurns,
    /// The answer of one turn was cut off.
    MaxTokens,
    /// The episode had sampled all the tokens that it may.
    MaxSampledTokens,
    /// No more tool calls were allowed.
    MaxToolCalls,
    /// The next prompt did not fit the context.
    ContextOverflow,
    /// An answer could not be parsed.
    ParseError,
    /// The rollout ran out of time.
    RolloutTimeout,
}

impl EpisodeStop {
    /// Every reason, in the order of declaration.
    pub const ALL: [Self; 9] = [
        Self::Completed,
        Self::ToolStopped,
        Self::MaxTurns,
        Self::MaxTokens,
        Self::MaxSampledTokens,
        Self::MaxToolCalls,
        Self::ContextOverflow,
        Self::ParseError,
        Self::RolloutTimeout,
    ];

    /// The name in metrics and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::ToolStopped => "tool_stopped",
            Self::MaxTurns => "max_turns",
            Self::MaxTokens => "max_tokens",
            Self::MaxSampledTokens => "max_sampled_tokens",
            Self::MaxToolCalls => "max_tool_calls",
            Self::ContextOverflow => "context_overflow",
            Self::ParseError => "parse_error",
            Self::RolloutTimeout => "rollout_timeout",
        }
    }

    /// Whether a budget of the episode ran out. A context that overflows and an answer that cannot be parsed are no
    /// budgets: the environment scores them itself.
    pub fn is_limit(self) -> bool {
        match self {
            Self::MaxTurns | Self::MaxTokens | Self::MaxSampledTokens | Self::MaxToolCalls | Self::RolloutTimeout => {
                true
            }
            Self::Completed | Self::ToolStopped | Self::ContextOverflow | Self::ParseError => false,
        }
    }
}

/// One rollout: its turns and what it earned. However many datums it becomes, it is one entry of its group's baseline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The turns; each one's observation is its whole prompt.
    pub transitions: Vec<Transition>,
    /// The reward of the rollout as a whole, on top of those of its turns.
    pub final_reward: f64,
    /// Why the episode ended.
    pub stop_reason: EpisodeStop,
    /// Numbers about the rollout as a whole, by name.
    pub metrics: BTreeMap<String, f64>,
}

impl Trajectory {
    /// The sum of the turns' rewards.
    pub fn turn_reward(&self) -> f64 {
        self.transitions.iter().map(|transition| transition.reward).sum()
    }

    /// The turns' rewards and the final one.
    pub fn total_reward(&self) -> f64 {
        self.turn_reward() + self.final_reward
    }
}

/// The rollouts of one task that share a baseline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryGroup {
    /// The rollouts.
    pub trajectories: Vec<Trajectory>,
    /// What the group's metrics are reported under, beside `all`.
    pub tags: Vec<String>,
}

impl TrajectoryGroup {
    /// The total reward of each trajectory.
    pub fn total_rewards(&self) -> Vec<f64> {
        self.trajectories.iter().map(Trajectory::total_reward).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_reasons_are_written_as_they_are_named() {
        for reason in EpisodeStop::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }

    #[test]
    fn a_group_has_one_total_per_rollout_however_many_turns_it_took() {
        let turn = |reward| Transition {
            observation: vec![Chunk::Tokens(vec![1])],
            action: Action::default(),
            reward,
            episode_done: false,
            masked: false,
            metrics: BTreeMap::new(),
            stop_reason: None,
        };
        let trajectory = |rewards: &[f64], final_reward| Trajectory {
            transitions: rewards.iter().copied().map(turn).collect(),
            final_reward,
            ..Trajectory::default()
        };
        let group = TrajectoryGroup {
            trajectories: vec![trajectory(&[0.5, 0.25], 1.0), trajectory(&[], -1.0)],
            tags: Vec::new(),
        };
        assert_eq!(group.total_rewards(), [1.75, -1.0]);
    }
}
