//! Rewarded rollouts that are lost to a run because of the weights that sampled them.

use fulgurite_types::{UntrainedCause, Verdict};

use super::member::Member;
use crate::weights::VersionDistances;

/// How many rollouts lost calls as `stale_weights` or `unknown_weights`, and how far away these weights were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaleRollouts {
    /// Those sampled by weights that are too many updates behind.
    pub outdated: usize,
    /// The most updates that any of these is behind: a `max_staleness` of as many takes them all.
    pub behind: u64,
    /// Those sampled by weights that the run has not made.
    pub foreign: usize,
}

impl StaleRollouts {
    /// Adds a rollout that was judged where the weights of versions are so far away.
    pub(crate) fn add(&mut self, member: &Member, distances: &VersionDistances) {
        let lost = [UntrainedCause::StaleWeights, UntrainedCause::UnknownWeights].map(Verdict::Untrained);
        let calls = member.judged().filter(|(_, verdict)| lost.contains(verdict));
        let versions = calls.flat_map(|(generation, _)| &generation.weights_versions);
        let behind: Vec<Option<u64>> = versions.map(|weights| distances.of_version(weights.version)).collect();
        if behind.contains(&None) {
            self.foreign += 1;
        } else if let Some(most) = behind.into_iter().flatten().max() {
            self.outdated += 1;
            self.behind = self.behind.max(most);
        }
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            outdated: self.outdated + other.outdated,
            behind: self.behind.max(other.behind),
            foreign: self.foreign + other.foreign,
        }
    }

    /// Those of a step's rollouts.
    pub(crate) fn among<'m>(members: impl Iterator<Item = &'m Member>, distances: &VersionDistances) -> Self {
        let mut stale = Self::default();
        members.for_each(|member| stale.add(member, distances));
        stale
    }

    /// The metrics of a step, of which there are none where nothing is stale.
    pub(crate) fn metrics(self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { outdated, behind, foreign } = self;
        [("harvest/outdated", outdated as u64), ("harvest/outdated_by", behind), ("harvest/foreign", foreign as u64)]
            .into_iter()
            .filter(|(_, value)| *value > 0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(versions: &[u64], cause: Option<UntrainedCause>) -> Member {
        let versions: Vec<_> = versions.iter().map(|version| json!({ "version": version, "first_token": 0 })).collect();
        let generation = json!({
            "generation_id": "g", "rollout_id": "r", "attempt_id": "a", "span_id": "s", "trace_id": "t", "name": "n",
            "sequence_id": 1, "parent_id": null, "branch_reason": null, "start_time": 0.0, "end_time": 1.0,
            "model": "m", "prompt_tokens": [1], "sampled_tokens": [2], "logprobs": [-0.5], "stop_reason": "stop",
            "weights_versions": versions, "sampling": { "temperature": 1.0, "top_p": 1.0, "top_k": null }, "seed": 1,
            "renderer": "chatml", "tokenizer": "t", "request_digest": "", "client_gone": false, "defect": null,
        });
        let rollout = json!({
            "rollout_id": "r", "input": null, "start_time": 0.0, "end_time": null, "mode": "train",
            "resources_id": null, "status": "succeeded", "config": {}, "metadata": null,
        });
        Member {
            generations: vec![serde_json::from_value(generation).unwrap()],
            verdicts: vec![Verdict::of(cause)],
            ..Member::of_rollout(rollout)
        }
    }

    #[test]
    fn rollouts_of_older_weights_and_of_other_runs_are_told_apart() {
        let stale = Some(UntrainedCause::StaleWeights);
        let members = [
            member(&[1, 3], stale),
            member(&[4], stale),
            member(&[9], Some(UntrainedCause::UnknownWeights)),
            // Nobody can say of which run they are.
            member(&[], Some(UntrainedCause::UnknownWeights)),
            member(&[0], Some(UntrainedCause::OtherModel)),
            member(&[7], None),
        ];
        let found = StaleRollouts::among(members.iter(), &VersionDistances::of([(1, 6), (3, 4), (4, 3), (7, 0)]));
        assert_eq!(found, StaleRollouts { outdated: 2, behind: 6, foreign: 1 });
        let metrics: Vec<_> = found.metrics().collect();
        assert_eq!(metrics, [("harvest/outdated", 2), ("harvest/outdated_by", 6), ("harvest/foreign", 1)]);
        assert_eq!(StaleRollouts::default().metrics().count(), 0);
    }
}
