use crate::Trajectory;

/// Takes a positive total reward away from an episode that a budget cut off, so that running into a limit never pays.
///
/// The total becomes `min(total, 0)` by way of the final reward; the trajectory's metric `zero_reward_on_limit` is 1
/// where that changed something. Which stops count: [`EpisodeStop::is_limit`](crate::EpisodeStop::is_limit).
pub fn zero_reward_on_limit(trajectory: &mut Trajectory) {
    if trajectory.stop_reason.is_limit() && trajectory.total_reward() > 0.0 {
        trajectory.final_reward = -trajectory.turn_reward();
        trajectory.metrics.insert("zero_reward_on_limit".into(), 1.0);
    }
}
