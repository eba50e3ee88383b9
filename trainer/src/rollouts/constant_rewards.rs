//! Whether rewards differ, without which a group teaches nothing.

use super::group_tries::{Tries, tries};
use super::member::Member;

/// Whether every rollout earned exactly the same (compared in 64 bits), so that the group teaches nothing.
pub fn is_constant(total_rewards: &[f64]) -> bool {
    total_rewards.windows(2).all(|pair| pair[0] == pair[1])
}

/// The share of those that succeeded which earned at least `solved_at`; `None` if none did.
pub(crate) fn solve_rate(group: &[Member], solved_at: f64) -> Option<f64> {
    let Tries { solved, scored } = tries(group, solved_at);
    (scored > 0).then(|| solved as f64 / scored as f64)
}

/// Whether not all that succeeded earned the same.
pub(crate) fn can_teach(group: &[Member]) -> bool {
    let rewards: Vec<f64> =
        group.iter().filter(|member| member.succeeded()).map(|member| member.total_reward).collect();
    !is_constant(&rewards)
}
