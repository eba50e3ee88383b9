//! When checkpoints are made and which are kept: decided by numbers alone, whatever clock they come from.

use crate::options::CommonOptions;

/// When checkpoints are made beside the one after the last update, and which are kept once a newer one is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpointing {
    pub(crate) triggers: CheckpointTriggers,
    pub(crate) kept: KeptCheckpoints,
}

impl Checkpointing {
    /// As the options say.
    pub(crate) fn of(options: &CommonOptions) -> Self {
        Self {
            triggers: CheckpointTriggers {
                updates: options.checkpoint_every,
                tokens: options.checkpoint_every_tokens,
                seconds: options.checkpoint_every_seconds,
            },
            kept: KeptCheckpoints { newest: options.keep_checkpoints, seconds: options.keep_checkpoints_seconds },
        }
    }
}

/// When a checkpoint is made: as soon as one of these is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CheckpointTriggers {
    /// Updates: at each multiple of this.
    pub(crate) updates: Option<u64>,
    /// Sampled tokens since the last checkpoint.
    pub(crate) tokens: Option<u64>,
    /// Seconds since the last checkpoint.
    pub(crate) seconds: Option<f64>,
}

/// What has gone by since the last checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SinceCheckpoint {
    /// Tokens that were sampled for the steps that are recorded since.
    pub(crate) tokens: u64,
    pub(crate) seconds: f64,
}

impl CheckpointTriggers {
    /// Whether there is a checkpoint to make after `step` updates.
    pub(crate) fn are_met(&self, step: u64, since: SinceCheckpoint) -> bool {
        self.updates.is_some_and(|every| step.is_multiple_of(every))
            || self.tokens.is_some_and(|every| since.tokens >= every)
            || self.seconds.is_some_and(|every| since.seconds >= every)
    }
}

/// Which checkpoints are kept: the newest ones, the young ones, and the best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeptCheckpoints {
    /// As many of the newest.
    pub(crate) newest: usize,
    /// Those that are younger than so many seconds.
    pub(crate) seconds: Option<f64>,
}

/// A checkpoint that is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KnownCheckpoint {
    /// Seconds since it was recorded.
    pub(crate) age: f64,
    /// The held-out score of its weights, more being better.
    pub(crate) score: Option<f64>,
    /// Whether its files are there.
    pub(crate) is_there: bool,
}

impl KeptCheckpoints {
    /// The places of those that are removed, of checkpoints in the order in which they were made.
    pub(crate) fn removed(&self, checkpoints: &[KnownCheckpoint]) -> Vec<usize> {
        let best = best(checkpoints);
        let old = checkpoints.len().saturating_sub(self.newest);
        let is_kept = |place: usize, checkpoint: &KnownCheckpoint| {
            Some(place) == best || self.seconds.is_some_and(|seconds| checkpoint.age < seconds)
        };
        let old = checkpoints[..old].iter().enumerate();
        old.filter(|(place, checkpoint)| !is_kept(*place, checkpoint)).map(|(place, _)| place).collect()
    }
}

/// The one with the best score of those that are there; of equal ones the first.
fn best(checkpoints: &[KnownCheckpoint]) -> Option<usize> {
    let scored = checkpoints.iter().enumerate().filter(|(_, checkpoint)| checkpoint.is_there);
    let scored = scored.filter_map(|(place, checkpoint)| Some((place, checkpoint.score?)));
    scored.max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0))).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_made_by_whatever_is_reached_first() {
        let met = |triggers: CheckpointTriggers, step, tokens, seconds| {
            triggers.are_met(step, SinceCheckpoint { tokens, seconds })
        };
        let all = CheckpointTriggers { updates: Some(10), tokens: Some(1000), seconds: Some(60.0) };
        assert!(!met(all, 9, 999, 59.9));
        assert!(met(all, 20, 0, 0.0) && met(all, 9, 1000, 0.0) && met(all, 9, 0, 60.0));
        let tokens = CheckpointTriggers { tokens: Some(5), ..CheckpointTriggers::default() };
        assert!(!met(tokens, 10, 4, 1e9) && met(tokens, 11, 5, 0.0));
        assert!(!met(CheckpointTriggers::default(), 10, u64::MAX, f64::MAX), "only the last is made then");
    }

    fn known(age: f64, score: Option<f64>) -> KnownCheckpoint {
        KnownCheckpoint { age, score, is_there: true }
    }

    #[test]
    fn the_newest_the_young_and_the_best_are_kept() {
        let all = [
            known(50.0, Some(0.5)),
            known(40.0, Some(0.9)),
            known(30.0, Some(0.9)),
            known(20.0, None),
            known(10.0, None),
        ];
        let removed = |newest, seconds| KeptCheckpoints { newest, seconds }.removed(&all);
        assert_eq!(removed(2, None), [0, 2], "of two that are best the first");
        assert_eq!(removed(2, Some(35.0)), [0]);
        assert_eq!(removed(1, Some(30.0)), [0, 2], "as old as that is not younger");
        assert_eq!(removed(9, None), [0; 0]);
        let unscored = all.map(|checkpoint| KnownCheckpoint { score: None, ..checkpoint });
        assert_eq!(KeptCheckpoints { newest: 2, seconds: None }.removed(&unscored), [0, 1, 2]);
        let mut deleted = all;
        deleted[1].is_there = false;
        assert_eq!(
            KeptCheckpoints { newest: 2, seconds: None }.removed(&deleted),
            [0, 1],
            "what is gone is not the best"
        );
    }
}
