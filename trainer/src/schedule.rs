//! How many steps a run makes, and how large they are.

use crate::options::LearningRateSchedule;

impl LearningRateSchedule {
    /// The share of the step size after `done` of `all` steps.
    fn share(self, done: u64, all: u64) -> f64 {
        let progress = done as f64 / all.max(1) as f64;
        match self {
            Self::Constant => 1.0,
            Self::Linear => 1.0 - progress,
            Self::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        }
    }
}

/// The steps of a run, and the step size over time as a share of its greatest value: up, along its schedule, down.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    shape: LearningRateSchedule,
    /// Steps over which it grows from 0.
    warmup: u64,
    /// Last steps, over which it falls to 0.
    cooldown: u64,
    /// Steps at most.
    max_steps: u64,
    /// Steps in all; less than at most once the stop rule is met.
    end: u64,
}

impl Schedule {
    pub(crate) fn new(shape: LearningRateSchedule, warmup: u64, cooldown: u64, max_steps: u64) -> Self {
        Self { shape, warmup, cooldown, max_steps, end: max_steps }
    }

    pub(crate) fn max_steps(&self) -> u64 {
        self.max_steps
    }

    /// Whether a run that stops goes on for a while.
    pub(crate) fn cools_down(&self) -> bool {
        self.cooldown > 0
    }

    /// Ends the run after the cool-down, which begins after `step` updates unless it has begun already.
    pub(crate) fn end_early(&mut self, step: u64) {
        self.end = self.end.min(step + self.cooldown);
    }

    /// Whether the run is over after `step` updates.
    pub(crate) fn is_over(&self, step: u64) -> bool {
        step >= self.end
    }

    /// The share of the step size for the update that follows `step` others.
    pub(crate) fn share(&self, step: u64) -> f64 {
        let up = (step + 1) as f64 / self.warmup.max(1) as f64;
        let down = self.end.saturating_sub(step) as f64 / (self.cooldown + 1) as f64;
        let along = self.shape.share(step.saturating_sub(self.warmup), self.max_steps.saturating_sub(self.warmup));
        up.min(down).min(1.0) * along
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares from `step` on.
    fn shares(schedule: &Schedule, step: u64) -> Vec<f64> {
        (step..).take_while(|step| !schedule.is_over(*step)).map(|step| schedule.share(step)).collect()
    }

    #[test]
    fn the_step_size_goes_up_stays_and_goes_down() {
        let schedule = Schedule::new(LearningRateSchedule::Constant, 2, 3, 8);
        assert_eq!(shares(&schedule, 0), [0.5, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]);
        let mut early = schedule;
        early.end_early(3);
        assert_eq!(early.share(3), 0.75);
        early.end_early(4);
        assert_eq!(shares(&early, 4), [0.5, 0.25], "the second call does not begin it anew");
    }

    #[test]
    fn the_cookbooks_schedules() {
        let of = |shape| shares(&Schedule::new(shape, 0, 0, 4), 0);
        assert_eq!(of(LearningRateSchedule::Constant), [1.0; 4]);
        assert_eq!(of(LearningRateSchedule::Linear), [1.0, 0.75, 0.5, 0.25]);
        let cosine = of(LearningRateSchedule::Cosine);
        assert_eq!((cosine[0], cosine[2]), (1.0, 0.5 * (1.0 + (std::f64::consts::FRAC_PI_2).cos())));
        let expected = 0.5 * (1.0 + (std::f64::consts::FRAC_PI_4).cos());
        assert!((cosine[1] - expected).abs() < 1e-15, "{cosine:?}");
    }

    #[test]
    fn a_schedule_begins_after_the_warm_up() {
        assert_eq!(shares(&Schedule::new(LearningRateSchedule::Linear, 2, 0, 6), 0), [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]);
        let longer_than_the_run = Schedule::new(LearningRateSchedule::Cosine, 8, 0, 2);
        assert_eq!(shares(&longer_than_the_run, 0), [0.125, 0.25]);
    }

    #[test]
    fn without_a_cool_down_a_run_that_stops_is_over() {
        let mut schedule = Schedule::new(LearningRateSchedule::Constant, 0, 0, 8);
        assert!(!schedule.is_over(5) && schedule.is_over(8));
        schedule.end_early(5);
        assert!(schedule.is_over(5));
    }
}
