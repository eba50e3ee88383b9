use serde::{Deserialize, Serialize};

use super::member::Member;

/// How many rollouts of a group were scored, and how many of those solved the task; `[solved, scored]` in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[usize; 2]", into = "[usize; 2]")]
pub(crate) struct Tries {
    pub(crate) solved: usize,
    pub(crate) scored: usize,
}

impl From<[usize; 2]> for Tries {
    fn from([solved, scored]: [usize; 2]) -> Self {
        Self { solved, scored }
    }
}

impl From<Tries> for [usize; 2] {
    fn from(tries: Tries) -> Self {
        [tries.solved, tries.scored]
    }
}

/// The tries of a group. A rollout that earned at least `solved_at` has solved the task; one that failed has no score.
pub(crate) fn tries(group: &[Member], solved_at: f64) -> Tries {
    let scored = || group.iter().filter(|member| member.succeeded());
    Tries { solved: scored().filter(|member| member.total_reward >= solved_at).count(), scored: scored().count() }
}
