//! Rollouts that have ended, as a step learns from them.

use std::collections::HashSet;

use fulgurite_types::{
    Attempt, EpisodeStop, Generation, RecordedReward, Reward, Rollout, RolloutMode, RolloutStatus, UntrainedCause,
    Verdict,
};
use serde_json::Value;

use super::failure_cause::FailureCause;
use crate::weights::VersionDistances;

/// What rollouts are run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To learn from.
    Train,
    /// To measure progress.
    HeldOut,
    /// To score the end.
    Final,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Phase::Train => "train",
            Phase::HeldOut => "held_out",
            Phase::Final => "final",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Phase::Train, Phase::HeldOut, Phase::Final].into_iter().find(|phase| phase.as_str() == name)
    }

    pub(crate) fn mode(self) -> RolloutMode {
        match self {
            Phase::Train => RolloutMode::Train,
            Phase::HeldOut => RolloutMode::Val,
            Phase::Final => RolloutMode::Test,
        }
    }
}

/// What has to have sampled a generation that is trained.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    /// Fingerprint of the tokenizer.
    pub(crate) tokenizer: String,
    /// What agents call it.
    pub(crate) model: String,
    /// At which it samples and is trained.
    pub(crate) temperature: f32,
    /// How far the weights of a version are from those that are trained.
    pub(crate) distances: VersionDistances,
    /// Updates that the weights which sampled may be away from them.
    pub(crate) max_staleness: u64,
}

impl Policy {
    /// Why what weights of a version sampled is not trained; `None` if it may be. A version that the run cannot name is of
    /// another run, or of files that the run did not start from.
    pub(crate) fn fault_of(&self, version: u64) -> Option<UntrainedCause> {
        match self.distances.of_version(version) {
            None => Some(UntrainedCause::UnknownWeights),
            Some(distance) => (distance > self.max_staleness).then_some(UntrainedCause::StaleWeights),
        }
    }
}

/// A rollout that has ended, with all that was recorded of it.
pub(crate) struct Member {
    pub(crate) rollout: Rollout,
    /// In order; the last one counts.
    pub(crate) attempts: Vec<Attempt>,
    /// Of the last attempt, if the rollout is over and succeeded, or is a session; in the order in which they were given.
    pub(crate) rewards: Vec<RecordedReward>,
    /// What was earned in all: the reward of the whole, and those of single calls; 0 at most for a rollout whose limit
    /// takes its reward away.
    pub(crate) total_reward: f64,
    /// Why its last attempt ended, as far as its calls tell.
    pub(crate) stop: EpisodeStop,
    /// Of all attempts.
    pub(crate) generations: Vec<Generation>,
    /// Whether each of them is trained, in the same order.
    pub(crate) verdicts: Vec<Verdict>,
    /// Why nothing may be learnt from what it was rewarded with; it counts as failed then.
    pub(crate) refused: Option<UntrainedCause>,
    /// Who failed it.
    pub(crate) failure: Option<FailureCause>,
    /// Whether its reward is what the run gives those that their agent failed.
    pub(crate) is_penalized: bool,
}

/// Whether a rollout is a client's session: it has no end of its own, and its reward says that it may be judged.
pub(crate) fn is_session(rollout: &Rollout) -> bool {
    rollout.noted("kind").and_then(Value::as_str) == Some("session")
}

impl Member {
    /// A rollout in JSON of which nothing else is known yet.
    #[cfg(test)]
    pub(crate) fn of_rollout(rollout: Value) -> Self {
        Self {
            rollout: serde_json::from_value(rollout).unwrap(),
            attempts: Vec::new(),
            rewards: Vec::new(),
            total_reward: 0.0,
            stop: EpisodeStop::Completed,
            generations: Vec::new(),
            verdicts: Vec::new(),
            refused: None,
            failure: None,
            is_penalized: false,
        }
    }

    /// Its generations, each with whether it is trained.
    pub(crate) fn judged(&self) -> impl Iterator<Item = (&Generation, Verdict)> {
        self.generations.iter().zip(self.verdicts.iter().copied())
    }

    /// Those that are trained.
    pub(crate) fn trained(&self) -> impl Iterator<Item = &Generation> {
        self.judged().filter(|(_, verdict)| verdict.is_trained()).map(|(generation, _)| generation)
    }

    /// What would have been trained is not.
    pub(crate) fn do_not_train(&mut self, cause: UntrainedCause) {
        for verdict in self.verdicts.iter_mut().filter(|verdict| verdict.is_trained()) {
            *verdict = Verdict::Untrained(cause);
        }
    }

    /// Trains nothing of what another run has trained.
    pub(crate) fn pass_over_trained(&mut self, trained_before: &HashSet<String>) -> LeftToTrain {
        let mut left = LeftToTrain::Something;
        let cause = Verdict::Untrained(UntrainedCause::TrainedBefore);
        for (generation, verdict) in self.generations.iter().zip(&mut self.verdicts) {
            if verdict.is_trained() && trained_before.contains(&generation.generation_id) {
                (*verdict, left) = (cause, LeftToTrain::Nothing);
            }
        }
        if self.trained().next().is_some() { LeftToTrain::Something } else { left }
    }

    pub(crate) fn succeeded(&self) -> bool {
        let is_over = self.rollout.status == RolloutStatus::Succeeded || is_session(&self.rollout) || self.is_penalized;
        is_over && !self.rewards.is_empty() && self.refused.is_none()
    }

    /// The reward of the rollout as a whole: the one given last, as for Agent-lightning's readers.
    pub(crate) fn reward(&self) -> Option<&Reward> {
        let whole = self.rewards.iter().rev().find(|reward| reward.generation_id.is_none());
        whole.map(|recorded| &recorded.reward)
    }

    pub(crate) fn is_latest(&self, attempt_id: &str) -> bool {
        self.attempts.last().is_some_and(|attempt| attempt.attempt_id == attempt_id)
    }
}

/// What is left to learn from a rollout of which other runs may have trained something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftToTrain {
    /// What it would have been without them, or a part of it.
    Something,
    /// Others have trained all that would have been trained.
    Nothing,
}
