//! Whether rewards differ, without which a group teaches nothing.

use super::group_tries::{Tries, tries};
use super::member::Member;
use crate::options::CountedRollouts;

/// Whether every rollout earned exactly the same (compared in 64 bits), so that the group teaches nothing.
pub fn is_constant(total_rewards: &[f64]) -> bool {
    total_rewards.windows(2).all(|pair| pair[0] == pair[1])
}

/// The share of those that succeeded which earned at least `solved_at`; `None` if none did.
pub(crate) fn solve_rate(group: &[Member], solved_at: f64) -> Option<f64> {
    let Tries { solved, scored } = tries(group, solved_at);
    (scored > 0).then(|| solved as f64 / scored as f64)
}

/// Whether not all earned the same of those that count. One that failed earns 0, where it counts.
pub(crate) fn can_teach(group: &[Member], counted: CountedRollouts) -> bool {
    let reward = |member: &Member| match (member.succeeded(), counted) {
        (true, CountedRollouts::Trained) => member.trained().next().map(|_| member.total_reward),
        (true, CountedRollouts::Rewarded | CountedRollouts::All) => Some(member.total_reward),
        (false, CountedRollouts::All) => Some(0.0),
        (false, CountedRollouts::Trained | CountedRollouts::Rewarded) => None,
    };
    !is_constant(&group.iter().filter_map(reward).collect::<Vec<_>>())
}
