//! What the numbers of checkpoints must be.

use super::harvest::PublishRule;
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
    let max_kl = options.publish_max_kl;
    if !(max_kl.is_finite() && max_kl > 0.0) {
        return refuse("[trainer] publish_max_kl", max_kl, "must be a number of nats above 0");
    }
    let message = match (options.publish_if, options.publish_rule(), &options.harvest) {
        (_, PublishRule::NotWorse, Some(harvest)) if harvest.validation.is_some() => {
            let (every, most) = (options.evaluation.every, harvest.max_staleness);
            if every <= most.saturating_add(1) {
                return Ok(());
            }
            let message = "must not be above harvest.max_staleness + 1 with publish_if = \"not_worse\": weights are put behind \
                           the model once they are scored, and what older ones sample is not learnt from";
            return refuse("[trainer] evaluation.every", every, message);
        }
        (_, PublishRule::NotWorse, Some(_)) => {
            "compares what is held out, and nothing is: name conversations by harvest = { validation = \"FILE\" }"
        }
        (_, PublishRule::WithinBounds | PublishRule::Always, Some(_)) | (None, _, None) => return Ok(()),
        (Some(_), _, None) => {
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
    use crate::options::HarvestOptions;

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
        let bounded = |publish_max_kl| {
            let harvest = Some(HarvestOptions::default());
            check_publishing(&TrainerOptions { publish_max_kl, harvest, ..TrainerOptions::default() })
        };
        bounded(0.1).unwrap();
        let refused = bounded(f64::NAN).unwrap_err().to_string();
        assert_eq!(refused, "[trainer] publish_max_kl is NaN, but must be a number of nats above 0");
    }

    #[test]
    fn a_harvest_has_a_gate_unless_it_is_told_to_have_none() {
        let rule =
            |publish_if, harvest| TrainerOptions { publish_if, harvest, ..TrainerOptions::default() }.publish_rule();
        let validation = Some(PathBuf::from("held-out.jsonl"));
        let validated = Some(HarvestOptions { validation, ..HarvestOptions::default() });
        assert_eq!(rule(None, validated.clone()), PublishRule::NotWorse);
        assert_eq!(rule(None, Some(HarvestOptions::default())), PublishRule::WithinBounds);
        assert_eq!(rule(Some(PublishRule::Always), validated), PublishRule::Always);
        assert_eq!(rule(None, None), PublishRule::Always);
    }
}
