//! How many steps a run makes, and how large they are.

use crate::options::{CommonOptions, LearningRateSchedule};

/// How the step size goes on after the warm-up, in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    schedule: LearningRateSchedule,
    /// The share of the step size that it falls to.
    floor: f64,
    /// Steps at the end over which [`LearningRateSchedule::Wsd`] falls.
    decay: u64,
}

impl Shape {
    /// It stays.
    pub(crate) const CONSTANT: Self = Self { schedule: LearningRateSchedule::Constant, floor: 0.0, decay: 0 };

    /// The share of the step size after `done` of `all` steps, which follow a warm-up of so many. The formulas are those of
    /// transformers' `get_*_schedule`.
    fn share(self, done: u64, all: u64, warmup: u64) -> f64 {
        let progress = done as f64 / all.max(1) as f64;
        let share = match self.schedule {
            LearningRateSchedule::Constant => 1.0,
            LearningRateSchedule::Linear => 1.0 - progress,
            LearningRateSchedule::Cosine => half_cosine(progress),
            LearningRateSchedule::Wsd => {
                let decay = self.decay.min(all);
                half_cosine(done.saturating_sub(all - decay) as f64 / decay.max(1) as f64)
            }
            LearningRateSchedule::InverseSqrt => {
                let timescale = if warmup > 0 { warmup } else { TIMESCALE } as f64;
                1.0 / ((done as f64 + timescale) / timescale).sqrt()
            }
        };
        share * (1.0 - self.floor) + self.floor
    }
}

/// Steps by which [`LearningRateSchedule::InverseSqrt`] counts where there is no warm-up; transformers' default.
const TIMESCALE: u64 = 10_000;

/// From 1 to 0.
fn half_cosine(progress: f64) -> f64 {
    0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
}

/// The steps of a run, and the step size over time as a share of its greatest value: up, along its schedule, down.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    shape: Shape,
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
    pub(crate) fn new(shape: Shape, warmup: u64, cooldown: u64, max_steps: u64) -> Self {
        Self { shape, warmup, cooldown, max_steps, end: max_steps }
    }

    /// As the options say, of so many steps at most.
    pub(crate) fn of(options: &CommonOptions, max_steps: u64) -> Self {
        let shape = Shape {
            schedule: options.learning_rate_schedule,
            floor: options.learning_rate_floor,
            decay: options.learning_rate_decay.of(max_steps),
        };
        Self::new(shape, options.warmup.of(max_steps), 0, max_steps)
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
        let (done, all) = (step.saturating_sub(self.warmup), self.max_steps.saturating_sub(self.warmup));
        let along = self.shape.share(done, all, self.warmup);
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

    fn shape(schedule: LearningRateSchedule) -> Shape {
        Shape { schedule, ..Shape::CONSTANT }
    }

    #[test]
    fn the_step_size_goes_up_stays_and_goes_down() {
        let schedule = Schedule::new(Shape::CONSTANT, 2, 3, 8);
        assert_eq!(shares(&schedule, 0), [0.5, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]);
        let mut early = schedule;
        early.end_early(3);
        assert_eq!(early.share(3), 0.75);
        early.end_early(4);
        assert_eq!(shares(&early, 4), [0.5, 0.25], "the second call does not begin it anew");
    }

    #[test]
    fn the_cookbooks_schedules() {
        let of = |schedule| shares(&Schedule::new(shape(schedule), 0, 0, 4), 0);
        assert_eq!(of(LearningRateSchedule::Constant), [1.0; 4]);
        assert_eq!(of(LearningRateSchedule::Linear), [1.0, 0.75, 0.5, 0.25]);
        let cosine = of(LearningRateSchedule::Cosine);
        assert_eq!((cosine[0], cosine[2]), (1.0, 0.5 * (1.0 + (std::f64::consts::FRAC_PI_2).cos())));
        let expected = 0.5 * (1.0 + (std::f64::consts::FRAC_PI_4).cos());
        assert!((cosine[1] - expected).abs() < 1e-15, "{cosine:?}");
    }

    #[test]
    fn a_schedule_begins_after_the_warm_up() {
        assert_eq!(
            shares(&Schedule::new(shape(LearningRateSchedule::Linear), 2, 0, 6), 0),
            [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
        );
        let longer_than_the_run = Schedule::new(shape(LearningRateSchedule::Cosine), 8, 0, 2);
        assert_eq!(shares(&longer_than_the_run, 0), [0.125, 0.25]);
    }

    /// transformers 5.24.0, 3 steps of warm-up of 12: the shares from the first step after it on.
    /// `get_linear_schedule_with_warmup`, `get_polynomial_decay_schedule_with_warmup` (power 1, `lr_end` 0.1),
    /// `get_cosine_schedule_with_warmup`, `get_cosine_with_min_lr_schedule_with_warmup` (`min_lr_rate` 0.1),
    /// `get_wsd_schedule` (4 steps of decay), the same with `min_lr_ratio` 0.1, and `get_inverse_sqrt_schedule`.
    #[test]
    fn schedules_agree_with_those_of_transformers() {
        use LearningRateSchedule::{Constant, Cosine, InverseSqrt, Linear, Wsd};
        let golden: [(LearningRateSchedule, f64, [f64; 9]); 8] = [
            (Constant, 0.0, [1.0; 9]),
            (
                Linear,
                0.0,
                [
                    1.0,
                    0.8888888888888888,
                    0.7777777777777778,
                    0.6666666666666666,
                    0.5555555555555556,
                    0.4444444444444444,
                    0.3333333333333333,
                    0.2222222222222222,
                    0.1111111111111111,
                ],
            ),
            (Linear, 0.1, [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]),
            (
                Cosine,
                0.0,
                [
                    1.0,
                    0.9698463103929542,
                    0.883022221559489,
                    0.75,
                    0.5868240888334653,
                    0.41317591116653485,
                    0.25,
                    0.11697777844051105,
                    0.03015368960704584,
                ],
            ),
            (
                Cosine,
                0.1,
                [
                    1.0,
                    0.9728616793536587,
                    0.8947199994035401,
                    0.775,
                    0.6281416799501187,
                    0.4718583200498814,
                    0.325,
                    0.20528000059645996,
                    0.12713832064634126,
                ],
            ),
            (Wsd, 0.0, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.8535533905932737, 0.5, 0.14644660940672627]),
            (Wsd, 0.1, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.8681980515339464, 0.55, 0.23180194846605365]),
            (
                InverseSqrt,
                0.0,
                [
                    1.0,
                    0.8660254037844387,
                    0.7745966692414834,
                    0.7071067811865475,
                    0.6546536707079771,
                    0.6123724356957945,
                    0.5773502691896258,
                    0.5477225575051661,
                    0.5222329678670935,
                ],
            ),
        ];
        for (schedule, floor, expected) in golden {
            let shares = shares(&Schedule::new(Shape { schedule, floor, decay: 4 }, 3, 0, 12), 0);
            // In the warm-up transformers is a step behind: its first step has the size 0, and moves nothing.
            assert_eq!(shares[..3], [1.0 / 3.0, 2.0 / 3.0, 1.0]);
            let close = |(is, expected): (&f64, &f64)| (is - expected).abs() < 1e-14;
            assert!(shares[3..].iter().zip(&expected).all(close), "{schedule:?} {floor}: {shares:?}");
        }
        let without_warmup = shares(&Schedule::new(shape(InverseSqrt), 0, 0, 3), 0);
        assert_eq!(without_warmup, [1.0, 0.9999500037496877, 0.9999000149975006]);
    }

    #[test]
    fn shares_of_a_run_are_of_its_updates() {
        let table = serde_json::json!({
            "learning_rate_schedule": "wsd", "learning_rate_decay": 0.25, "warmup": 0.2, "learning_rate_floor": 0.5,
        });
        let options = serde_json::from_value::<crate::TrainerOptions>(table).unwrap().common;
        let schedule = Schedule::of(&options, 8);
        assert_eq!(shares(&schedule, 0), [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75]);
        let all_decay = Schedule::new(Shape { decay: 99, ..shape(LearningRateSchedule::Wsd) }, 0, 0, 2);
        assert_eq!(shares(&all_decay, 0), [1.0, half_cosine(0.5)]);
    }

    #[test]
    fn without_a_cool_down_a_run_that_stops_is_over() {
        let mut schedule = Schedule::new(Shape::CONSTANT, 0, 0, 8);
        assert!(!schedule.is_over(5) && schedule.is_over(8));
        schedule.end_early(5);
        assert!(schedule.is_over(5));
    }
}
