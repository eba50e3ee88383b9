//! What the scores of tasks come to, and how two evaluations of the same tasks differ.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bootstrap::{Interval, bootstrap_interval};
use super::pass_at_k::pass_at_k;
use super::task_scores::{TaskScore, mean};

/// A mean over tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// How sure it is; unknown of fewer than two tasks.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Tasks that it is over.
    pub tasks: usize,
}

impl Estimate {
    fn of(values: &[f64]) -> Option<Self> {
        let value = mean(values.iter().copied())?;
        Some(Self { value, interval: bootstrap_interval(values), tasks: values.len() })
    }
}

/// What a set of tasks scored. Every mean is over tasks, each of which is a mean over its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreSummary {
    /// Tasks.
    pub tasks: usize,
    /// Rollouts that succeeded.
    pub rollouts: usize,
    /// Rollouts that failed, and so are in no mean.
    pub failed: usize,
    /// Mean reward; `None` if nothing succeeded.
    pub reward: Option<Estimate>,
    /// The chance that one of so many samples passes; of tasks with fewer samples, nothing is known for more.
    pub pass: BTreeMap<usize, Estimate>,
    /// Means of the reward's named components, over the tasks that report them.
    pub components: BTreeMap<String, Estimate>,
}

impl ScoreSummary {
    /// Sums up tasks that were sampled `samples` times each. A sample passes that earned `pass_reward`.
    pub fn of<'s>(scores: impl IntoIterator<Item = &'s TaskScore>, samples: usize, pass_reward: f64) -> Self {
        let scores: Vec<&TaskScore> = scores.into_iter().collect();
        let rewards: Vec<f64> = scores.iter().filter_map(|score| score.reward()).collect();
        let pass = |k: &usize| {
            let values: Vec<f64> = scores.iter().filter_map(|score| task_pass(score, *k, pass_reward)).collect();
            Some((*k, Estimate::of(&values)?))
        };
        let mut components: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for score in &scores {
            for (name, value) in task_components(score) {
                components.entry(name).or_default().push(value);
            }
        }
        Self {
            tasks: scores.len(),
            rollouts: scores.iter().map(|score| score.samples.len()).sum(),
            failed: scores.iter().map(|score| score.failed.values().sum::<usize>()).sum(),
            reward: Estimate::of(&rewards),
            pass: sample_counts(samples).iter().filter_map(pass).collect(),
            components: components
                .into_iter()
                .filter_map(|(name, values)| Some((name.to_owned(), Estimate::of(&values)?)))
                .collect(),
        }
    }

    /// The same, tag by tag.
    pub fn by_tag(scores: &[TaskScore], samples: usize, pass_reward: f64) -> BTreeMap<String, Self> {
        let mut tags: BTreeMap<&str, Vec<&TaskScore>> = BTreeMap::new();
        for score in scores {
            for tag in &score.tags {
                tags.entry(tag).or_default().push(score);
            }
        }
        let summary = |(tag, scores): (&str, Vec<&TaskScore>)| (tag.to_owned(), Self::of(scores, samples, pass_reward));
        tags.into_iter().map(summary).collect()
    }
}

/// 1, 2, 4 and so on, and `samples` itself.
fn sample_counts(samples: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = std::iter::successors(Some(1), |k| Some(k * 2)).take_while(|k| *k < samples).collect();
    counts.push(samples.max(1));
    counts
}

fn task_pass(score: &TaskScore, k: usize, pass_reward: f64) -> Option<f64> {
    pass_at_k(score.samples.len(), score.passed(pass_reward), k)
}

/// A task's mean of each component.
fn task_components(score: &TaskScore) -> BTreeMap<&str, f64> {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, value) in score.samples.iter().flat_map(|sample| &sample.components) {
        values.entry(name).or_default().push(*value);
    }
    values.into_iter().filter_map(|(name, values)| Some((name, mean(values.into_iter())?))).collect()
}

/// How a number differs between two evaluations of the same tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The mean here.
    pub here: f64,
    /// The mean there.
    pub there: f64,
    /// The mean of what each task has more here than there, and how sure it is.
    pub difference: Estimate,
}

impl Difference {
    fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let differences: Vec<f64> = pairs.iter().map(|(here, there)| here - there).collect();
        Some(Self {
            here: mean(pairs.iter().map(|pair| pair.0))?,
            there: mean(pairs.iter().map(|pair| pair.1))?,
            difference: Estimate::of(&differences)?,
        })
    }

    /// Whether the interval leaves out 0, so that chance does not explain the difference.
    pub fn is_clear(&self) -> bool {
        self.difference.interval.is_some_and(|interval| interval.low > 0.0 || interval.high < 0.0)
    }
}

/// Two evaluations of the same tasks, task by task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreComparison {
    /// Tasks that both have scored.
    pub common_tasks: usize,
    /// Tasks that only one of the two has.
    pub other_tasks: usize,
    /// Mean reward.
    pub reward: Difference,
    /// The chance that one sample passes.
    pub pass_1: Difference,
    /// Means of the components that both report.
    pub components: BTreeMap<String, Difference>,
}

impl ScoreComparison {
    /// Compares by the tasks that both have; `None` if there is none. A task that stands several times in a set is paired
    /// in the order in which it stands.
    pub fn of(here: &[TaskScore], there: &[TaskScore], pass_reward: f64) -> Option<Self> {
        let mut known: BTreeMap<String, Vec<&TaskScore>> = BTreeMap::new();
        for score in there.iter().rev() {
            known.entry(score.task.to_string()).or_default().push(score);
        }
        let mut pairs = Vec::new();
        for score in here {
            if let Some(other) = known.get_mut(&score.task.to_string()).and_then(Vec::pop) {
                pairs.push((score, other));
            }
        }
        let paired = |value: &dyn Fn(&TaskScore) -> Option<f64>| -> Vec<(f64, f64)> {
            pairs.iter().filter_map(|(here, there)| Some((value(here)?, value(there)?))).collect()
        };
        let names: Vec<String> = here.iter().flat_map(task_components).map(|(name, _)| name.to_owned()).collect();
        let component = |name: String| {
            let pairs = paired(&|score| task_components(score).get(name.as_str()).copied());
            Some((name, Difference::of(&pairs)?))
        };
        Some(Self {
            common_tasks: pairs.len(),
            other_tasks: here.len() + there.len() - 2 * pairs.len(),
            reward: Difference::of(&paired(&TaskScore::reward))?,
            pass_1: Difference::of(&paired(&|score| task_pass(score, 1, pass_reward)))?,
            components: names.into_iter().filter_map(component).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::task_scores::SampleScore;
    use super::*;

    fn score(task: Value, rewards: &[f64]) -> TaskScore {
        let sample = |reward: &f64| SampleScore {
            rollout_id: "r".to_owned(),
            reward: *reward,
            components: BTreeMap::from([("exact".to_owned(), reward / 2.0)]),
        };
        let tags = super::super::task_scores::tags(&task);
        TaskScore {
            task,
            tags,
            samples: rewards.iter().map(sample).collect(),
            failed: BTreeMap::new(),
            failure_examples: BTreeMap::new(),
        }
    }

    #[test]
    fn every_task_counts_once_however_many_samples_it_has() {
        let mut scores = vec![
            score(json!({ "n": 1, "tag": "odd" }), &[1.0, 0.0]),
            score(json!({ "n": 2 }), &[1.0]),
            score(json!({ "n": 3, "tag": "odd" }), &[]),
        ];
        scores[1].failed.insert("it crashed".to_owned(), 1);
        scores[2].failed.insert("it crashed".to_owned(), 2);
        let summary = ScoreSummary::of(&scores, 2, 1.0);
        assert_eq!((summary.tasks, summary.rollouts, summary.failed), (3, 3, 3));
        assert_eq!(summary.reward.unwrap().value, 0.75);
        assert_eq!(summary.components["exact"].value, 0.375);
        assert_eq!((summary.pass[&1].value, summary.pass[&1].tasks), (0.75, 2));
        assert_eq!((summary.pass[&2].value, summary.pass[&2].tasks), (1.0, 1), "one sample does not tell of two");
        let tags = ScoreSummary::by_tag(&scores, 2, 1.0);
        assert_eq!(tags.keys().collect::<Vec<_>>(), ["odd"]);
        assert_eq!((tags["odd"].tasks, tags["odd"].reward.unwrap().value), (2, 0.5));
        assert_eq!(ScoreSummary::of(&scores[2..], 2, 1.0).reward, None, "no zero for what failed");
    }

    #[test]
    fn passes_are_told_for_powers_of_two_and_all_samples() {
        assert_eq!(sample_counts(1), [1]);
        assert_eq!(sample_counts(4), [1, 2, 4]);
        assert_eq!(sample_counts(6), [1, 2, 4, 6]);
    }

    #[test]
    fn evaluations_are_paired_by_task() {
        // Here is better at every task by 0.5: the paired interval has no width, though the tasks differ widely.
        let there: Vec<TaskScore> = (0..8).map(|n| score(json!(n), &[f64::from(n)])).collect();
        let mut here: Vec<TaskScore> = (0..8).rev().map(|n| score(json!(n), &[f64::from(n) + 0.5])).collect();
        here.push(score(json!("only here"), &[100.0]));
        let compared = ScoreComparison::of(&here, &there, 1.0).unwrap();
        assert_eq!((compared.common_tasks, compared.other_tasks), (8, 1));
        assert_eq!((compared.reward.here, compared.reward.there), (4.0, 3.5));
        assert_eq!(compared.reward.difference.interval, Some(Interval { low: 0.5, high: 0.5 }));
        assert!(compared.reward.is_clear() && !compared.pass_1.is_clear());
        assert_eq!(compared.components["exact"].difference.value, 0.25);
        assert_eq!(ScoreComparison::of(&here[8..], &there, 1.0), None);
    }
}
