//! How fast a run makes updates, and how long it may still take.

use std::collections::VecDeque;

/// Updates whose mean is the pace.
const RECENT: usize = 8;

/// How fast a run makes updates.
#[derive(Debug)]
pub(super) struct Pace {
    made: u64,
    max_steps: u64,
    /// Seconds of the latest updates.
    recent: VecDeque<f64>,
    /// Updates after which the time left is said next.
    next_word: u64,
}

impl Pace {
    /// Of a run that has made `made` updates and may make `max_steps`.
    pub(super) fn new(made: u64, max_steps: u64) -> Self {
        // The first update may have an evaluation in it that others have not.
        Self { made, max_steps, recent: VecDeque::new(), next_word: made + 2 }
    }

    /// Counts an update that took so many seconds. Gives a line about the time left after the second update of this process
    /// and after each further tenth of the run.
    pub(super) fn after_update(&mut self, seconds: f64) -> Option<String> {
        self.made += 1;
        self.recent.push_back(seconds);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let left = self.max_steps.saturating_sub(self.made);
        if self.made < self.next_word || left == 0 {
            return None;
        }
        self.next_word = self.made + (self.max_steps / 10).max(1);
        let mean = self.recent.iter().sum::<f64>() / self.recent.len() as f64;
        let (left, made, most) = (duration(mean * left as f64), self.made, self.max_steps);
        Some(format!("      {made} of at most {most} updates, {} each: done in {left} at the latest", duration(mean)))
    }
}

/// Seconds as people say them.
fn duration(seconds: f64) -> String {
    let whole = seconds.round().clamp(0.0, 1e12) as u64;
    match whole {
        0..10 => format!("{seconds:.1} s"),
        10..120 => format!("{whole} s"),
        120..7200 => format!("{} min", (whole + 30) / 60),
        _ => format!("{} h {} min", (whole + 30) / 3600, (whole + 30) % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_said_after_two_updates_and_then_at_each_tenth() {
        let mut pace = Pace::new(0, 30);
        let remaining: Vec<(u64, String)> =
            (1..=30).filter_map(|update| Some((update, pace.after_update(2.0)?.trim().to_owned()))).collect();
        assert_eq!(remaining[0], (2, "2 of at most 30 updates, 2.0 s each: done in 56 s at the latest".to_owned()));
        let updates: Vec<u64> = remaining.iter().map(|(update, _)| *update).collect();
        assert_eq!(updates, [2, 5, 8, 11, 14, 17, 20, 23, 26, 29]);
    }

    #[test]
    fn a_run_that_goes_on_counts_from_where_it_was() {
        let mut pace = Pace::new(50, 100);
        assert_eq!(pace.after_update(60.0), None);
        let remaining = pace.after_update(60.0).unwrap();
        assert_eq!(remaining.trim(), "52 of at most 100 updates, 60 s each: done in 48 min at the latest");
    }

    #[test]
    fn the_pace_is_that_of_the_latest_updates_and_nothing_is_said_at_the_end() {
        let mut pace = Pace::new(0, 10);
        (0..8).for_each(|_| drop(pace.after_update(1000.0)));
        (0..1).for_each(|_| drop(pace.after_update(10.0)));
        assert_eq!(pace.after_update(1.0), None);
        assert_eq!(duration(8000.0), "2 h 13 min");
    }
}
