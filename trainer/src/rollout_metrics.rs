//! What a batch of rollouts looked like.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_adapters::{EpisodeStop, Trajectory, TrajectoryGroup, Transition};
use fulgurite_backends::Chunk;

use crate::advantages::is_constant;

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
        for reason in EpisodeStop::ALL {
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
