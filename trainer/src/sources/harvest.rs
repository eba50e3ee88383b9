//! Harvesting: training on rewarded rollouts of agents that live a life of their own.
//!
//! There is no queue: the store's rewards, in the order in which they were given, are the order of training, and a place
//! among them is part of the checkpoint. A rollout is taken once it is rewarded as a whole: at its end, or, a session, which
//! has none, at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_backends::BackendError;
use fulgurite_types::{Rewarded, RewardedAttempts, Rollout, RolloutMode, RolloutRecord};
use serde_json::Value;
use tokio::time::sleep;

use super::harvest_state::HarvestState;
use super::source::{DataPosition, Source};
use crate::options::{HarvestOptions, RewardRules};
use crate::rollouts::{
    Collected, LeftToTrain, Member, PassedOver, Phase, Policy, StaleRollouts, is_session, member_of,
};
use crate::weights::RunWeights;
use crate::{Record, Reporter, TrainError, TrainEvent};

/// How often the store is looked at while there is too little.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Rewarded rollouts, read on from where the position stands; waits until there are enough of them to train on.
pub(crate) struct HarvestedRollouts {
    pub(crate) record: Arc<dyn Record>,
    pub(crate) options: HarvestOptions,
    /// What has to have sampled what is trained; how old that may be is for the options to say.
    pub(crate) policy: Policy,
    /// The weights that the run can name.
    pub(crate) weights: RunWeights,
    /// Whether the model is a server's, behind which others may put weights.
    pub(crate) is_served_elsewhere: bool,
    pub(crate) reward_rules: RewardRules,
    pub(crate) run_id: String,
}

#[async_trait]
impl Source<Collected> for HarvestedRollouts {
    async fn next(
        &mut self,
        step: u64,
        position: &mut DataPosition,
        reporter: &mut dyn Reporter,
    ) -> Result<Collected, TrainError> {
        let state = &mut position.harvest;
        let max_staleness = self.options.max_staleness;
        let mut harvest = Harvest {
            record: self.record.as_ref(),
            run_id: &self.run_id,
            wanted: self.options.rollouts_per_step,
            policy: Policy { distances: self.weights.distances(), max_staleness, ..self.policy.clone() },
            reward_rules: self.reward_rules,
            again: self.options.again,
            members: Vec::new(),
            passed_over: PassedOver::default(),
            ripe: 0,
            untrainable: 0,
            stale: StaleRollouts::default(),
        };
        let mut reported = harvest.stale;
        loop {
            harvest.take_ended(state).await?;
            harvest.read_on(state).await?;
            if harvest.stale != reported {
                reported = harvest.stale;
                reporter.report(TrainEvent::StaleHarvest { step, stale: reported, max_staleness });
            }
            let (done, total) = (harvest.ripe, harvest.wanted);
            reporter.report(TrainEvent::Rollouts { phase: "harvest", step, done, total });
            if harvest.ripe >= harvest.wanted {
                let Harvest { members, passed_over, .. } = harvest;
                return Ok(Collected { passed_over, ..Collected::of(Phase::Train, by_task(members)) });
            }
            if self.is_served_elsewhere {
                harvest.require_own_weights().await?;
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}

/// What has been gathered for a step.
struct Harvest<'r> {
    record: &'r dyn Record,
    run_id: &'r str,
    wanted: usize,
    policy: Policy,
    reward_rules: RewardRules,
    /// Whether what other runs have trained is trained again.
    again: bool,
    members: Vec<Member>,
    passed_over: PassedOver,
    /// Members that have something to train.
    ripe: usize,
    /// Members that succeeded and have nothing to train.
    untrainable: usize,
    /// Members that lost calls because of the weights that sampled them.
    stale: StaleRollouts,
}

impl Harvest<'_> {
    /// Ends a run that waits for nothing: others' weights are behind its model, and it could learn from no answer of theirs.
    async fn require_own_weights(&self) -> Result<(), TrainError> {
        let Some(published) = self.record.publication(&self.policy.model).await? else { return Ok(()) };
        let version = published.weights.version;
        if self.policy.distances.of_version(version).is_some() {
            return Ok(());
        }
        let message = format!("the model has version {version}, which is not the run's");
        Err(BackendError::Superseded { message }.into())
    }

    /// Takes those that were rewarded before they ended, and have ended since.
    async fn take_ended(&mut self, state: &mut HarvestState) -> Result<(), TrainError> {
        if state.running.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = state.running.iter().map(|rewarded| rewarded.rollout_id.clone()).collect();
        let ended = self.record.wait_for_rollouts(&ids, Duration::ZERO).await?;
        let mut ended: HashSet<String> = ended.into_iter().map(|rollout| rollout.rollout_id).collect();
        // No more are read than may be taken: what was recorded of one may be much.
        while self.ripe < self.wanted && !ended.is_empty() {
            let mut room = self.wanted - self.ripe;
            let next: Vec<Rewarded> = state
                .running
                .extract_if(.., |rewarded| {
                    let is_next = room > 0 && ended.remove(&rewarded.rollout_id);
                    room -= usize::from(is_next);
                    is_next
                })
                .collect();
            self.take_all(next, state).await?;
        }
        Ok(())
    }

    /// Reads rewards that were given since.
    async fn read_on(&mut self, state: &mut HarvestState) -> Result<(), TrainError> {
        while self.ripe < self.wanted {
            let limit = (self.wanted - self.ripe) as u64;
            let RewardedAttempts { items, next_after } = self.record.rewarded_attempts(state.cursor, limit).await?;
            let was_last = items.is_empty();
            self.take_all(items, state).await?;
            state.cursor = next_after;
            if was_last {
                break;
            }
        }
        Ok(())
    }

    /// Takes those that have ended, and notes those that run. What was deleted since is neither.
    async fn take_all(&mut self, items: Vec<Rewarded>, state: &mut HarvestState) -> Result<(), TrainError> {
        let ids: Vec<String> = items.iter().map(|rewarded| rewarded.rollout_id.clone()).collect();
        let mut ended = Vec::with_capacity(ids.len());
        for (rewarded, recorded) in items.into_iter().zip(self.record.rollout_records(&ids).await?) {
            match recorded {
                None => {}
                Some(recorded) if recorded.rollout.status.is_finished() || is_session(&recorded.rollout) => {
                    ended.push((recorded, rewarded));
                }
                Some(_) => state.running.push(rewarded),
            }
        }
        let trained_before = self.trained_before(&ended).await?;
        ended.into_iter().try_for_each(|(recorded, rewarded)| self.take(recorded, &rewarded, &trained_before))
    }

    /// The generations of some rollouts that another run has trained, by one question.
    async fn trained_before(&self, ended: &[(RolloutRecord, Rewarded)]) -> Result<HashSet<String>, TrainError> {
        let generations = ended.iter().flat_map(|(recorded, _)| &recorded.generations);
        let ids: Vec<String> = generations.map(|generation| generation.generation_id.clone()).collect();
        if self.again || ids.is_empty() {
            return Ok(HashSet::new());
        }
        Ok(self.record.trained_elsewhere(self.run_id, &ids).await?.into_iter().collect())
    }

    /// Takes a rollout, unless another attempt than the rewarded one counts.
    fn take(
        &mut self,
        recorded: RolloutRecord,
        rewarded: &Rewarded,
        trained_before: &HashSet<String>,
    ) -> Result<(), TrainError> {
        let mut member = member_of(recorded, self.reward_rules, Phase::Train, &self.policy)?;
        if !member.is_latest(&rewarded.attempt_id) || !is_of(&member.rollout, self.run_id) {
            return Ok(());
        }
        if member.pass_over_trained(trained_before) == LeftToTrain::Nothing {
            self.passed_over.add_trained(&member);
            return Ok(());
        }
        self.keep(member);
        Ok(())
    }

    /// Keeps a rollout for the step. Of those that succeeded with nothing to train it keeps as many as a step is made of, and
    /// counts the others: a store may hold any number that a new run cannot learn from. Failures and refused rewards are each
    /// reported.
    fn keep(&mut self, member: Member) {
        self.stale.add(&member, &self.policy.distances);
        if member.trained().next().is_some() {
            self.ripe += 1;
        } else if member.succeeded() {
            if self.untrainable == self.wanted {
                return self.passed_over.add_untrainable(&member, &self.policy.distances);
            }
            self.untrainable += 1;
        }
        self.members.push(member);
    }
}

/// Whether a rollout may be harvested: it was made to be learnt from, and not by another run.
fn is_of(rollout: &Rollout, run_id: &str) -> bool {
    let of = rollout.noted("run_id").and_then(Value::as_str);
    let is_ours = of.is_none_or(|of| of == run_id);
    is_ours && !matches!(rollout.mode, Some(RolloutMode::Val | RolloutMode::Test))
}

/// Those that were given the same task together, in the order of their first. Sessions have a task each, which nobody knows.
fn by_task(members: Vec<Member>) -> Vec<Vec<Member>> {
    let mut groups: Vec<Vec<Member>> = Vec::new();
    let mut group_of: HashMap<String, usize> = HashMap::new();
    for member in members {
        if member.rollout.input.is_null() || is_session(&member.rollout) {
            groups.push(vec![member]);
            continue;
        }
        let group = *group_of.entry(member.rollout.input.to_string()).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push(member),
            None => groups.push(vec![member]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use fulgurite_store::{Store, StoreOptions};
    use fulgurite_types::{RecordedReward, Reward, UntrainedCause, Verdict};
    use serde_json::json;

    use super::*;
    use crate::weights::VersionDistances;

    fn member(id: &str, input: Value, metadata: Value, mode: Option<&str>) -> Member {
        let rollout = json!({
            "rollout_id": id, "input": input, "start_time": 0.0, "end_time": 1.0, "mode": mode,
            "resources_id": null, "status": "succeeded", "config": {}, "metadata": metadata,
        });
        Member::of_rollout(rollout)
    }

    #[test]
    fn a_task_is_a_group_and_a_session_is_alone() {
        let session = json!({ "kind": "session" });
        let members = vec![
            member("a", json!({ "q": 1 }), json!({}), None),
            member("b", json!(null), session.clone(), None),
            member("c", json!({ "q": 2 }), json!({}), None),
            member("d", json!({ "q": 1 }), json!({}), None),
            member("e", json!(null), session, None),
        ];
        let groups: Vec<Vec<String>> = by_task(members)
            .into_iter()
            .map(|group| group.into_iter().map(|member| member.rollout.rollout_id).collect())
            .collect();
        assert_eq!(groups, [vec!["a", "d"], vec!["b"], vec!["c"], vec!["e"]]);
    }

    #[tokio::test]
    async fn a_store_of_old_rewards_is_counted_and_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("t.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let (model, tokenizer) = ("m".to_owned(), "t".to_owned());
        let policy =
            Policy { tokenizer, model, temperature: 1.0, distances: VersionDistances::of([(1, 0)]), max_staleness: 4 };
        let mut harvest = Harvest {
            record: &store,
            run_id: "run",
            wanted: 2,
            policy,
            reward_rules: RewardRules::default(),
            again: false,
            members: Vec::new(),
            passed_over: PassedOver::default(),
            ripe: 0,
            untrainable: 0,
            stale: StaleRollouts::default(),
        };
        let of_weights = |number: usize, version: u64, verdict: Verdict| {
            let generation = json!({
                "generation_id": format!("g{number}"), "rollout_id": "r", "attempt_id": "a", "span_id": "s", "trace_id": "t",
                "name": "n", "sequence_id": 1, "parent_id": null, "branch_reason": null, "start_time": 0.0, "end_time": 1.0,
                "model": "m", "prompt_tokens": [1], "sampled_tokens": [2], "logprobs": [-0.5], "stop_reason": "stop",
                "weights_versions": [{ "version": version, "first_token": 0 }],
                "sampling": { "temperature": 1.0, "top_p": 1.0, "top_k": null }, "seed": 1, "renderer": "chatml",
                "tokenizer": "t", "request_digest": "", "client_gone": false, "defect": null,
            });
            let mut member = member("r", json!(null), json!({ "kind": "session" }), None);
            (member.generations, member.verdicts) = (vec![serde_json::from_value(generation).unwrap()], vec![verdict]);
            member.rewards = vec![RecordedReward {
                attempt_id: "a".into(),
                span_id: "s".into(),
                sequence_id: 2,
                time: None,
                generation_id: None,
                reward: Reward::new(1.0),
                giver: None,
            }];
            member
        };
        for number in 0..10 {
            harvest.keep(of_weights(number, 9, Verdict::Untrained(UntrainedCause::UnknownWeights)));
        }
        harvest.keep(of_weights(10, 1, Verdict::Trained));
        assert_eq!((harvest.members.len(), harvest.ripe, harvest.stale.foreign), (3, 1, 10));
        // Each reward that is refused is reported.
        for number in 11..14 {
            let mut member = of_weights(number, 1, Verdict::Untrained(UntrainedCause::RewardTooLarge));
            member.refused = Some(UntrainedCause::RewardTooLarge);
            harvest.keep(member);
        }
        assert_eq!(harvest.members.len(), 6);
        let Harvest { members, passed_over, .. } = harvest;
        assert_eq!((passed_over.stale.foreign, passed_over.trained_before), (8, 0));
        let collected = Collected { passed_over, ..Collected::of(Phase::Train, by_task(members)) };
        let uses: HashSet<String> = collected.uses().into_iter().map(|it| it.generation_id).collect();
        assert_eq!(uses.len(), 14, "what became of every token is told");
    }

    #[test]
    fn evaluations_and_rollouts_of_other_runs_are_left_alone() {
        let of = |metadata: Value, mode| is_of(&member("r", json!(1), metadata, mode).rollout, "run");
        assert!(of(json!({}), None) && of(json!({ "run_id": "run" }), Some("train")));
        assert!(!of(json!({ "run_id": "other" }), None));
        assert!(!of(json!({}), Some("val")) && !of(json!({}), Some("test")));
    }
}
