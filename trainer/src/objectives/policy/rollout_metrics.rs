//! What a batch of rollouts looked like.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_adapters::{Trajectory, TrajectoryGroup, Transition};
use fulgurite_types::{Chunk, EpisodeStop};

use crate::rollouts::is_constant;

/// Total reward from which a group in which everybody earned the same counts as good.
const GOOD_REWARD: f64 = 0.5;

/// Metrics over all groups as `env/all/...` and, once a tag selects some of the groups but not all, over the groups of
/// each tag as `env/<tag>/...`. The names are tinker-cookbook's:
///
/// - `total_episodes`, `total_turns`, `total_ac_tokens` (sampled), `total_ob_tokens` (whole prompts: history counts in
///   every turn that repeats it);
/// - `ac_tokens_per_turn`, `ob_tokens_per_turn`, `turns_per_episode`;
/// - `reward/total`: the mean over episodes;
/// - `by_group/frac_mixed`, `by_group/frac_all_good`, `by_group/frac_all_bad`: the share of groups whose rewards
///   differ, are all the same and at least 0.5, are all the same and lower;
/// - `stop/<reason>`: the share of episodes that ended for it, for every reason there is. This is the trajectory's own
///   reason; a metric of a transition that begins with `stop/` does not count;
/// - every other metric of a transition or trajectory: the mean over those that have it.
///
/// A mean over nothing is left out.
pub fn rollout_metrics(groups: &[TrajectoryGroup]) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    let tags: BTreeSet<&str> = groups.iter().flat_map(|group| &group.tags).map(String::as_str).collect();
    let selections: Vec<(&str, Vec<&TrajectoryGroup>)> = tags
        .into_iter()
        .map(|tag| (tag, groups.iter().filter(|group| group.tags.iter().any(|other| other == tag)).collect()))
        .collect();
    if selections.iter().any(|(_, selection)| selection.len() < groups.len()) {
        for (tag, selection) in &selections {
            describe(tag, selection, &mut metrics);
        }
    }
    describe("all", &groups.iter().collect::<Vec<_>>(), &mut metrics);
    metrics
}

fn describe(tag: &str, groups: &[&TrajectoryGroup], metrics: &mut BTreeMap<String, f64>) {
    let episodes: Vec<&Trajectory> = groups.iter().flat_map(|group| &group.trajectories).collect();
    let turns: Vec<&Transition> = episodes.iter().flat_map(|episode| &episode.transitions).collect();
    let sampled = turns.iter().map(|turn| turn.action.tokens.len()).sum::<usize>() as f64;
    let observed = turns.iter().flat_map(|turn| &turn.observation).map(Chunk::positions).sum::<usize>() as f64;
    let (episode_count, turn_count) = (episodes.len() as f64, turns.len() as f64);

    let mut add = |name: &str, value: f64| {
        metrics.insert(format!("env/{tag}/{name}"), value);
    };
    for (name, value) in means_of_named_metrics(&episodes, &turns) {
        add(name, value);
    }
    add("total_episodes", episode_count);
    add("total_turns", turn_count);
    add("total_ac_tokens", sampled);
    add("total_ob_tokens", observed);
    if !turns.is_empty() {
        add("ac_tokens_per_turn", sampled / turn_count);
        add("ob_tokens_per_turn", observed / turn_count);
    }
    if !episodes.is_empty() {
        let rewards: f64 = episodes.iter().map(|episode| episode.total_reward()).sum();
        add("turns_per_episode", turn_count / episode_count);
        add("reward/total", rewards / episode_count);
        for &reason in EpisodeStop::ALL {
            let stopped = episodes.iter().filter(|episode| episode.stop_reason == reason).count();
            add(&format!("stop/{}", reason.as_str()), stopped as f64 / episode_count);
        }
    }
    if !groups.is_empty() {
        for (name, value) in group_outcomes(groups) {
            add(name, value);
        }
    }
}

fn means_of_named_metrics<'a>(episodes: &[&'a Trajectory], turns: &[&'a Transition]) -> BTreeMap<&'a str, f64> {
    let of_turns = turns.iter().flat_map(|turn| &turn.metrics).filter(|(name, _)| !name.starts_with("stop/"));
    let of_episodes = episodes.iter().flat_map(|episode| &episode.metrics);
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (name, value) in of_turns.chain(of_episodes) {
        let (sum, count) = sums.entry(name).or_default();
        *sum += value;
        *count += 1.0;
    }
    sums.into_iter().map(|(name, (sum, count))| (name, sum / count)).collect()
}

fn group_outcomes(groups: &[&TrajectoryGroup]) -> [(&'static str, f64); 3] {
    let (mut mixed, mut all_good, mut all_bad) = (0.0, 0.0, 0.0);
    for group in groups {
        let rewards = group.total_rewards();
        match rewards.first() {
            _ if !is_constant(&rewards) => mixed += 1.0,
            Some(reward) if *reward >= GOOD_REWARD => all_good += 1.0,
            _ => all_bad += 1.0,
        }
    }
    let count = groups.len() as f64;
    [
        ("by_group/frac_mixed", mixed / count),
        ("by_group/frac_all_good", all_good / count),
        ("by_group/frac_all_bad", all_bad / count),
    ]
}

#[cfg(test)]
mod tests {
    use fulgurite_adapters::Action;
    use serde_json::Value;

    use super::*;

    fn metrics_of(value: &Value) -> BTreeMap<String, f64> {
        value.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.as_f64().unwrap())).collect()
    }

    fn tokens(value: &Value) -> Vec<u32> {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn turn(value: &Value) -> Transition {
        Transition {
            observation: vec![Chunk::Tokens(tokens(&value["ob"]))],
            action: Action {
                tokens: tokens(&value["ac"]),
                logprobs: serde_json::from_value(value["logprobs"].clone()).unwrap(),
            },
            reward: value["reward"].as_f64().unwrap(),
            episode_done: value["episode_done"].as_bool().unwrap(),
            masked: false,
            metrics: metrics_of(&value["metrics"]),
            stop_reason: None,
        }
    }

    fn group(value: &Value, tags: &Value) -> TrajectoryGroup {
        let of_episode = |index: usize, turns: &Value| Trajectory {
            transitions: turns.as_array().unwrap().iter().map(turn).collect(),
            final_reward: value["final_rewards"][index].as_f64().unwrap(),
            stop_reason: serde_json::from_value(value["stop_reasons"][index].clone()).unwrap(),
            metrics: metrics_of(&value["metrics"][index]),
        };
        let trajectories = value["trajectories"].as_array().unwrap();
        TrajectoryGroup {
            trajectories: trajectories.iter().enumerate().map(|(index, turns)| of_episode(index, turns)).collect(),
            tags: serde_json::from_value(tags.clone()).unwrap(),
        }
    }

    fn batch() -> (Vec<TrajectoryGroup>, BTreeMap<String, f64>) {
        let file = crate::objectives::policy::vectors::vectors("rl_batch_2x3.json");
        let groups = file["groups"].as_array().unwrap();
        let groups =
            groups.iter().zip(file["tags"].as_array().unwrap()).map(|(value, tags)| group(value, tags)).collect();
        (groups, metrics_of(&file["trajectory_metrics"]))
    }

    /// Groups of one-turn episodes with these rewards.
    fn rewarded(groups: &[&[f64]], tags: &[&str]) -> Vec<TrajectoryGroup> {
        let episode = |reward: &f64| Trajectory { final_reward: *reward, ..Trajectory::default() };
        groups
            .iter()
            .map(|rewards| TrajectoryGroup {
                trajectories: rewards.iter().map(episode).collect(),
                tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            })
            .collect()
    }

    #[test]
    fn the_cookbooks_batch() {
        let (groups, theirs) = batch();
        let ours = rollout_metrics(&groups);
        let comparable = |metrics: &BTreeMap<String, f64>| -> BTreeMap<String, f64> {
            metrics
                .iter()
                .filter(|(name, _)| !name.contains("/stop/"))
                .map(|(name, value)| (name.clone(), *value))
                .collect()
        };
        assert_eq!(comparable(&ours), comparable(&theirs));
    }

    #[test]
    fn stops_are_shares_of_all_episodes() {
        let (groups, theirs) = batch();
        let ours = rollout_metrics(&groups);
        // Theirs averages over the transitions that have the key, which is always 1.
        assert_eq!(theirs["env/all/stop/max_tokens"], 1.0);
        assert_eq!(ours["env/all/stop/max_tokens"], 1.0 / 6.0);
        assert_eq!(ours["env/all/stop/max_turns"], 1.0 / 6.0);
        assert_eq!(ours["env/all/stop/completed"], 4.0 / 6.0);
        assert_eq!(ours["env/b/stop/max_tokens"], 1.0 / 3.0);
        assert_eq!(ours["env/a/stop/max_tokens"], 0.0);
        for tag in ["a", "b", "all_math", "all"] {
            let prefix = format!("env/{tag}/stop/");
            let shares: f64 = ours.iter().filter(|(name, _)| name.starts_with(&prefix)).map(|(_, share)| share).sum();
            assert!((shares - 1.0).abs() < 1e-12, "{tag}: {shares}");
        }
    }

    #[test]
    fn groups_are_mixed_good_or_bad() {
        let metrics = rollout_metrics(&rewarded(&[&[0.0, 1.0], &[0.5, 0.5], &[0.25, 0.25], &[1.0]], &[]));
        assert_eq!(metrics["env/all/by_group/frac_mixed"], 0.25);
        assert_eq!(metrics["env/all/by_group/frac_all_good"], 0.5);
        assert_eq!(metrics["env/all/by_group/frac_all_bad"], 0.25);
    }

    #[test]
    fn a_tag_that_selects_everything_says_nothing_of_its_own() {
        let metrics = rollout_metrics(&rewarded(&[&[0.0], &[1.0]], &["math"]));
        assert!(metrics.keys().all(|name| name.starts_with("env/all/")), "{metrics:?}");
    }

    #[test]
    fn nothing_has_totals_but_no_means() {
        let metrics = rollout_metrics(&[]);
        let expected = ["total_ac_tokens", "total_episodes", "total_ob_tokens", "total_turns"];
        assert_eq!(metrics, expected.map(|name| (format!("env/all/{name}"), 0.0)).into());
    }
}
