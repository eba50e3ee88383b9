//! What every objective has: the course of a run, and its checkpoints.

use fulgurite_backends::AdamParameters;

use crate::TrainError;
use crate::archive::check_url;
use crate::options::flat::part::part;
use crate::options::keys::evaluation::{FinalWeights, SPIKE_WINDOW, STOP_AFTER_SPIKES};
use crate::options::keys::refusal::{decay, least, norm, positive, refuse, share, wrong};
use crate::options::keys::schedule::{LearningRateSchedule, UpdateCount};

part! {
    /// Keys of `[trainer]` that every objective has: how a run learns, and when it is saved.
    CommonOptions has {
        learning_rate: f64,
        learning_rate_schedule: LearningRateSchedule,
        learning_rate_floor: f64,
        learning_rate_decay: UpdateCount,
        warmup: UpdateCount,
        beta1: f64,
        beta2: f64,
        epsilon: f64,
        weight_decay: f64,
        gradient_clip_norm: f64,
        max_steps: Option<u64>,
        checkpoint_every: Option<u64>,
        checkpoint_every_tokens: Option<u64>,
        checkpoint_every_seconds: Option<f64>,
        keep_checkpoints: usize,
        keep_checkpoints_seconds: Option<f64>,
        checkpoint_url: Option<String>,
        final_weights: FinalWeights,
        spike_factor: Option<f64>,
        spike_window: usize,
        stop_after_spikes: u64,
    } in stop {
        patience: Option<u64>,
        least_improvement: f64,
    }
}

/// Defaults in which objectives differ.
pub(crate) struct Usual {
    pub(crate) learning_rate: f64,
    pub(crate) learning_rate_schedule: LearningRateSchedule,
    /// Updates at most; without it all that the epochs have.
    pub(crate) max_steps: Option<u64>,
    /// Updates between checkpoints, where nothing else says when one is made.
    pub(crate) checkpoint_every: u64,
    /// Updates between scores of what is held out.
    pub(crate) evaluation_every: u64,
}

impl CommonOptions {
    /// Puts an objective's defaults in the place of those of keys that are not written.
    pub(crate) fn set_defaults(&mut self, usual: &Usual, is_written: impl Fn(&str) -> bool) {
        if !is_written("checkpoint_every") {
            let otherwise = self.checkpoint_every_tokens.is_some() || self.checkpoint_every_seconds.is_some();
            self.checkpoint_every = (!otherwise).then_some(usual.checkpoint_every);
        }
        if !is_written("learning_rate") {
            self.learning_rate = usual.learning_rate;
        }
        if !is_written("learning_rate_schedule") {
            self.learning_rate_schedule = usual.learning_rate_schedule;
        }
        self.max_steps = self.max_steps.or(usual.max_steps);
    }

    /// Its step size is the greatest of the schedule.
    pub(crate) fn optimizer(&self) -> AdamParameters {
        AdamParameters {
            learning_rate: self.learning_rate,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
            gradient_clip_norm: self.gradient_clip_norm,
        }
    }

    pub(crate) fn check(&self) -> Result<(), TrainError> {
        positive("[trainer] learning_rate", self.learning_rate)?;
        share("[trainer] beta1", self.beta1)?;
        share("[trainer] beta2", self.beta2)?;
        positive("[trainer] epsilon", self.epsilon)?;
        decay("[trainer] weight_decay", self.weight_decay)?;
        norm("[trainer] gradient_clip_norm", self.gradient_clip_norm)?;
        self.learning_rate_schedule.check(self.learning_rate_floor, self.learning_rate_decay)?;
        self.check_stop()?;
        self.check_checkpoints()
    }

    /// Whether a held-out score decides when it ends, or with which weights.
    pub fn needs_scores(&self) -> Option<&'static str> {
        if self.patience.is_some() {
            return Some("stop.patience");
        }
        (self.final_weights == FinalWeights::Best).then_some("final_weights")
    }

    fn check_stop(&self) -> Result<(), TrainError> {
        least("[trainer] stop.patience", self.patience.unwrap_or(1), 1, "1 ends it at the first that is no better")?;
        if !(self.least_improvement.is_finite() && self.least_improvement >= 0.0) {
            let message = "must be a finite number of at least 0";
            return refuse("[trainer] stop.least_improvement", self.least_improvement, message);
        }
        if self.least_improvement > 0.0 && self.patience.is_none() {
            return wrong("[trainer] stop.least_improvement", "is of stop.patience: set that, or leave it out");
        }
        if let Some(factor) = self.spike_factor.filter(|factor| !(factor.is_finite() && *factor > 1.0)) {
            return refuse("[trainer] spike_factor", factor, "must be a finite number above 1, such as 10.0");
        }
        let of_spikes = [
            ("spike_window", self.spike_window == SPIKE_WINDOW),
            ("stop_after_spikes", self.stop_after_spikes == STOP_AFTER_SPIKES),
        ];
        if let Some((key, _)) = of_spikes.iter().find(|(_, is_usual)| self.spike_factor.is_none() && !is_usual) {
            return wrong(&format!("[trainer] {key}"), "is of spike_factor: set that, or leave it out");
        }
        least("[trainer] spike_window", self.spike_window as u64, 1, "a median is of something")
    }

    fn check_checkpoints(&self) -> Result<(), TrainError> {
        for (key, count, why) in [
            ("checkpoint_every", self.checkpoint_every, "1 is after each update"),
            ("checkpoint_every_tokens", self.checkpoint_every_tokens, "1 is after each update that samples"),
            ("keep_checkpoints", Some(self.keep_checkpoints as u64), "a run goes on from the last"),
        ] {
            least(&format!("[trainer] {key}"), count.unwrap_or(1), 1, why)?;
        }
        for (key, seconds) in [
            ("checkpoint_every_seconds", self.checkpoint_every_seconds),
            ("keep_checkpoints_seconds", self.keep_checkpoints_seconds),
        ] {
            if let Some(seconds) = seconds.filter(|seconds| !(seconds.is_finite() && *seconds > 0.0)) {
                return refuse(&format!("[trainer] {key}"), seconds, "must be a number of seconds above 0");
            }
        }
        if let Some(url) = &self.checkpoint_url {
            check_url(url)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::flat::part::OptionsPart;
    use crate::options::flat::table::TrainerTable;

    #[test]
    fn what_no_checkpoint_can_be_made_by_is_refused() {
        let plain = || CommonOptions::take(&TrainerTable::default());
        let refused = |options: CommonOptions| options.check().unwrap_err().to_string();
        assert_eq!(
            refused(CommonOptions { checkpoint_every_tokens: Some(0), ..plain() }),
            "[trainer] checkpoint_every_tokens is 0, but must be at least 1: 1 is after each update that samples"
        );
        assert_eq!(
            refused(CommonOptions { checkpoint_every_seconds: Some(0.0), ..plain() }),
            "[trainer] checkpoint_every_seconds is 0, but must be a number of seconds above 0"
        );
        assert!(refused(CommonOptions { keep_checkpoints_seconds: Some(f64::NAN), ..plain() }).contains("is NaN"));
        assert!(refused(CommonOptions { keep_checkpoints: 0, ..plain() }).contains("a run goes on from the last"));
        CommonOptions { checkpoint_every: None, ..plain() }.check().unwrap();
    }

    #[test]
    fn a_step_size_is_a_finite_number_above_0() {
        for learning_rate in [f64::NAN, f64::INFINITY, -1e-4] {
            let options = CommonOptions { learning_rate, ..CommonOptions::take(&TrainerTable::default()) };
            assert!(options.check().is_err());
        }
    }
}
