//! Which arms of a sweep are hopeless: successive halving.

use std::path::Path;

use serde_json::{Map, Value};

use super::plan::SweepPlan;
use super::scores;

/// The shares of all updates after which the worse half stops, each as a divisor.
const RUNGS: [u64; 2] = [4, 2];

/// Updates after which arms are compared; fewer than there are shares if there are too few updates.
pub fn rungs(max_steps: u64) -> Vec<u64> {
    let mut rungs: Vec<u64> = RUNGS.iter().map(|divisor| max_steps.div_ceil(*divisor)).collect();
    rungs.retain(|rung| (1..max_steps).contains(rung));
    rungs.dedup();
    rungs
}

/// Of arms that are still run, those that stop after `rung` updates: the worse half. They are compared by the mean over
/// their seeds of the held-out score, or where a run has none after an update yet, of the training reward; all by the same.
/// Of equal ones the later stops.
pub fn hopeless(plan: &SweepPlan, directory: &Path, arms: &[usize], rung: u64) -> Vec<usize> {
    let steps: Vec<Vec<Vec<Map<String, Value>>>> = arms
        .iter()
        .map(|arm| {
            let runs = plan.runs().into_iter().filter(|run| run.arm == *arm);
            runs.map(|run| scores::steps(&directory.join(run.name))).collect()
        })
        .collect();
    let held_out = mean_merits(&steps, |steps| scores::held_out(steps, rung));
    let merits = held_out.or_else(|| mean_merits(&steps, |steps| scores::training(steps, rung))).unwrap_or_default();
    worse_half(arms, &merits)
}

/// The mean merit of each arm, if each of its runs has a score.
fn mean_merits(
    arms: &[Vec<Vec<Map<String, Value>>>],
    score: impl Fn(&[Map<String, Value>]) -> Option<scores::Score>,
) -> Option<Vec<f64>> {
    let of_arm = |runs: &Vec<Vec<Map<String, Value>>>| {
        let merits = runs.iter().map(|steps| Some(score(steps)?.merit())).collect::<Option<Vec<f64>>>()?;
        Some(merits.iter().sum::<f64>() / merits.len().max(1) as f64)
    };
    arms.iter().map(of_arm).collect()
}

fn worse_half(arms: &[usize], merits: &[f64]) -> Vec<usize> {
    let mut order: Vec<(usize, f64)> = arms.iter().copied().zip(merits.iter().copied()).collect();
    order.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    order.split_off(order.len().div_ceil(2)).into_iter().map(|(arm, _)| arm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_half_stops_at_each_rung() {
        assert_eq!(rungs(100), [25, 50]);
        assert_eq!(rungs(3), [1, 2]);
        assert_eq!(rungs(2), [1]);
        assert_eq!(rungs(1), Vec::<u64>::new());
        assert_eq!(worse_half(&[0, 2, 3, 5], &[0.5, -1.0, 0.75, 0.6]), [0, 2]);
        assert_eq!(worse_half(&[4, 7, 9], &[1.0, 1.0, 1.0]), [9], "of equal ones the later");
        assert_eq!(worse_half(&[4], &[f64::NEG_INFINITY]), Vec::<usize>::new(), "the last one is never stopped");
        assert_eq!(worse_half(&[4, 5], &[]), Vec::<usize>::new(), "nothing is stopped of which nothing is known");
    }
}
