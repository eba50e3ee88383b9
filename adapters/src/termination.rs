use crate::Trajectory;

/// Takes a positive total reward away from an episode that a budget cut off, so that running into a limit never pays.
///
/// The total becomes `min(total, 0)` by way of the final reward; the trajectory's metric `zero_reward_on_limit` is 1
/// where that changed something. Which stops count: [`EpisodeStop::is_limit`](fulgurite_types::EpisodeStop::is_limit).
pub fn zero_reward_on_limit(trajectory: &mut Trajectory) {
    if trajectory.stop_reason.is_limit() && trajectory.total_reward() > 0.0 {
        trajectory.final_reward = -trajectory.turn_reward();
        trajectory.metrics.insert("zero_reward_on_limit".into(), 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{list, number, vectors};
    use crate::{Action, Transition};

    fn turn(reward: f64) -> Transition {
        Transition {
            observation: Vec::new(),
            action: Action::default(),
            reward,
            episode_done: false,
            masked: false,
            metrics: Default::default(),
            stop_reason: None,
        }
    }

    #[test]
    fn the_cookbooks_cases() {
        let file = vectors("rl_edge_cases.json");
        let cases = list(&file["zero_reward_on_limit"]);
        assert_eq!(cases.len(), 3);
        for case in cases {
            let mut trajectory = Trajectory {
                transitions: list(&case["step_rewards"]).iter().map(|reward| turn(number(reward))).collect(),
                final_reward: number(&case["final_in"]),
                stop_reason: serde_json::from_value(case["stop_reason"].clone()).unwrap(),
                metrics: Default::default(),
            };
            zero_reward_on_limit(&mut trajectory);
            assert_eq!(trajectory.final_reward, number(&case["final_out"]), "{case}");
            assert_eq!(trajectory.total_reward(), number(&case["total"]), "{case}");
            assert_eq!(serde_json::to_value(&trajectory.metrics).unwrap(), case["metrics"], "{case}");
        }
    }

    #[test]
    fn a_punishment_stands() {
        let before = Trajectory {
            transitions: vec![turn(0.5)],
            final_reward: -1.0,
            stop_reason: fulgurite_types::EpisodeStop::MaxTokens,
            metrics: Default::default(),
        };
        let mut after = before.clone();
        zero_reward_on_limit(&mut after);
        assert_eq!(after, before);
    }
}
