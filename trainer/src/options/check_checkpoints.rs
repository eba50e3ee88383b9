//! What the numbers of checkpoints must be.

use super::refusal::{least, refuse};
use super::trainer::TrainerOptions;
use crate::TrainError;
use crate::archive::check_url;

/// Looks at when checkpoints are made, and which are kept.
pub(super) fn check_checkpoints(options: &TrainerOptions) -> Result<(), TrainError> {
    for (key, count, why) in [
        ("checkpoint_every", options.checkpoint_every, "1 is after each update"),
        ("checkpoint_every_tokens", options.checkpoint_every_tokens, "1 is after each update that samples"),
        ("keep_checkpoints", Some(options.keep_checkpoints as u64), "a run goes on from the last"),
    ] {
        least(&format!("[trainer] {key}"), count.unwrap_or(1), 1, why)?;
    }
    for (key, seconds) in [
        ("checkpoint_every_seconds", options.checkpoint_every_seconds),
        ("keep_checkpoints_seconds", options.keep_checkpoints_seconds),
    ] {
        if let Some(seconds) = seconds.filter(|seconds| !(seconds.is_finite() && *seconds > 0.0)) {
            return refuse(&format!("[trainer] {key}"), seconds, "must be a number of seconds above 0");
        }
    }
    if let Some(url) = &options.checkpoint_url {
        check_url(url)?;
    }
    Ok(())
}

/// Looks at which weights are put behind the model.
pub(super) fn check_publishing(options: &TrainerOptions) -> Result<(), TrainError> {
    let message = match (options.publish_if, &options.harvest) {
        (None, _) => return Ok(()),
        (Some(_), Some(harvest)) if harvest.validation.is_some() => {
            let (every, most) = (options.evaluation.every, harvest.max_staleness);
            if every <= most.saturating_add(1) {
                return Ok(());
            }
            let message = "must not be above harvest.max_staleness + 1 with publish_if: weights are put behind the model \
                           once they are scored, and what older ones sample is not learnt from";
            return refuse("[trainer] evaluation.every", every, message);
        }
        (Some(_), Some(_)) => {
            "compares what is held out, and nothing is: name conversations by harvest = { validation = \"FILE\" }"
        }
        (Some(_), None) => {
            "is of a harvest, whose agents are others': a run's own rollouts are sampled from its newest weights, so leave \
             it out"
        }
    };
    Err(TrainError::Option { key: "[trainer] publish_if".to_owned(), message: message.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::publishing::PublishRule;
    use crate::sources::HarvestOptions;

    #[test]
    fn what_no_checkpoint_can_be_made_by_is_refused() {
        let refused = |options: TrainerOptions| check_checkpoints(&options).unwrap_err().to_string();
        let plain = TrainerOptions::default;
        assert_eq!(
            refused(TrainerOptions { checkpoint_every_tokens: Some(0), ..plain() }),
            "[trainer] checkpoint_every_tokens is 0, but must be at least 1: 1 is after each update that samples"
        );
        assert_eq!(
            refused(TrainerOptions { checkpoint_every_seconds: Some(0.0), ..plain() }),
            "[trainer] checkpoint_every_seconds is 0, but must be a number of seconds above 0"
        );
        assert!(refused(TrainerOptions { keep_checkpoints_seconds: Some(f64::NAN), ..plain() }).contains("is NaN"));
        assert!(refused(TrainerOptions { keep_checkpoints: 0, ..plain() }).contains("a run goes on from the last"));
        check_checkpoints(&TrainerOptions { checkpoint_every: None, ..plain() }).unwrap();
    }

    #[test]
    fn weights_are_judged_only_by_what_is_held_out() {
        let publish_if = Some(PublishRule::NotWorse);
        let with = |harvest| check_publishing(&TrainerOptions { publish_if, harvest, ..TrainerOptions::default() });
        let validation = Some(PathBuf::from("held-out.jsonl"));
        with(Some(HarvestOptions { validation, ..HarvestOptions::default() })).unwrap();
        let refused = with(Some(HarvestOptions::default())).unwrap_err().to_string();
        assert!(refused.contains("nothing is: name conversations by harvest = { validation"), "{refused}");
        assert!(with(None).unwrap_err().to_string().starts_with("[trainer] publish_if is of a harvest"));
    }
}
