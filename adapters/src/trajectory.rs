use std::collections::BTreeMap;

use fulgurite_types::{Chunk, EpisodeStop, StopReason};
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
