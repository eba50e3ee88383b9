use std::time::Duration;

use super::load::Timing;
use super::traffic::Traffic;

/// When calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At the rate that was asked for, whether or not earlier ones have been answered.
    Rate,
    /// As soon as one of those under way has been answered.
    AtOnce,
}

/// One round of calls of one kind, made one way.
#[derive(Clone, Debug)]
pub struct Round {
    /// The kind.
    pub traffic: Traffic,
    /// The pace.
    pub pace: Pace,
    /// Which of the rounds.
    pub number: usize,
    /// To which of the targets.
    pub target: usize,
    /// How many.
    pub calls: usize,
    /// Processor time that the target's process took for them.
    pub cpu_seconds: f64,
    /// How long they took together.
    pub elapsed_seconds: f64,
    /// Median of the times to the first token, in milliseconds.
    pub first: f64,
    /// Median of the times to the last byte.
    pub p50: f64,
    /// The time to the last byte that one call of a hundred exceeded.
    pub p99: f64,
}

impl Round {
    /// Sums a round up.
    pub fn new(kind: (Traffic, Pace), number: usize, target: usize, seconds: Seconds, timings: &[Timing]) -> Self {
        let firsts = sorted(timings.iter().map(|timing| timing.first));
        let wholes = sorted(timings.iter().map(|timing| timing.whole));
        let calls = timings.len();
        let (first, p50, p99) = (quantile(&firsts, 0.5), quantile(&wholes, 0.5), quantile(&wholes, 0.99));
        let ((traffic, pace), Seconds { cpu, elapsed }) = (kind, seconds);
        Self { traffic, pace, number, target, calls, cpu_seconds: cpu, elapsed_seconds: elapsed, first, p50, p99 }
    }
}

/// What a round took.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    /// Of processors, by the target's process.
    pub cpu: f64,
    /// From its first call to its last answer.
    pub elapsed: f64,
}

/// All rounds of one kind of calls, made one way.
#[derive(Clone, Debug)]
pub struct TrafficRow {
    /// The kind.
    pub traffic: Traffic,
    /// The pace.
    pub pace: Pace,
    /// To which of the targets.
    pub target: usize,
    /// How many calls.
    pub calls: usize,
    /// Processor milliseconds for a call.
    pub cpu: f64,
    /// Calls that were answered in a second.
    pub rate: f64,
    /// Medians over the rounds.
    pub first: f64,
    /// The same.
    pub p50: f64,
    /// The same.
    pub p99: f64,
    /// Medians over the rounds of how much more it was than straight to the host in the same round.
    pub added_first: f64,
    /// The same.
    pub added_p99: f64,
}

impl TrafficRow {
    /// Sums rounds up, of which those to target 0 are what the others are compared with.
    pub fn of(rounds: &[Round], (traffic, pace): (Traffic, Pace), target: usize) -> Self {
        let of = |target| {
            rounds.iter().filter(move |round| (round.traffic, round.pace, round.target) == (traffic, pace, target))
        };
        let over = |figure: fn(&Round) -> f64| median(of(target).map(figure).collect());
        let added = |figure: fn(&Round) -> f64| {
            let direct = |round: &Round| of(0).find(|direct| direct.number == round.number).map_or(0.0, figure);
            median(of(target).map(|round| figure(round) - direct(round)).collect())
        };
        let calls: usize = of(target).map(|round| round.calls).sum();
        let cpu_seconds: f64 = of(target).map(|round| round.cpu_seconds).sum();
        let elapsed_seconds: f64 = of(target).map(|round| round.elapsed_seconds).sum();
        Self {
            traffic,
            pace,
            target,
            calls,
            cpu: 1000.0 * cpu_seconds / calls as f64,
            rate: calls as f64 / elapsed_seconds,
            first: over(|round| round.first),
            p50: over(|round| round.p50),
            p99: over(|round| round.p99),
            added_first: added(|round| round.first),
            added_p99: added(|round| round.p99),
        }
    }
}

/// In milliseconds, the least first.
pub fn sorted(durations: impl Iterator<Item = Duration>) -> Vec<f64> {
    let mut milliseconds: Vec<f64> = durations.map(|duration| 1000.0 * duration.as_secs_f64()).collect();
    milliseconds.sort_by(f64::total_cmp);
    milliseconds
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// The value that this share of sorted values does not exceed.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (share * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: usize, target: usize, milliseconds: impl Iterator<Item = u64>) -> Round {
        let timing = |whole| Timing { first: Duration::from_millis(1), whole: Duration::from_millis(whole) };
        let timings: Vec<Timing> = milliseconds.map(timing).collect();
        let seconds = Seconds { cpu: 0.05 * target as f64, elapsed: 0.25 };
        Round::new((Traffic::Whole, Pace::Rate), number, target, seconds, &timings)
    }

    #[test]
    fn what_a_proxy_adds_is_the_median_of_what_it_added_in_each_round() {
        let rounds = [
            round(0, 0, 0..100),
            round(0, 1, 3..103),
            // A moment in which the machine was busy with something else, whoever was asked.
            round(1, 0, 500..600),
            round(1, 1, 504..604),
            round(2, 0, 0..100),
            round(2, 1, 900..1000),
        ];
        let row = TrafficRow::of(&rounds, (Traffic::Whole, Pace::Rate), 1);
        assert_eq!((row.calls, row.added_p99, row.added_first), (300, 4.0, 0.0));
        assert_eq!((row.p50, row.p99), (554.0, 602.0));
        assert!((row.cpu - 0.5).abs() < 1e-9 && (row.rate - 400.0).abs() < 1e-9, "{row:?}");
        assert_eq!(TrafficRow::of(&rounds, (Traffic::Whole, Pace::AtOnce), 1).calls, 0);
    }
}
