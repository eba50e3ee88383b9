use fulgurite_types::{Defect, Generation, StopReason, UntrainedCause};

/// Why this generation must not be trained at temperature 1, whatever its rollout earned; `None` if it may. The first
/// cause that applies, in the order of [`UntrainedCause`]'s declaration.
pub fn exclusion(generation: &Generation) -> Option<UntrainedCause> {
    exclusion_at(generation, 1.0)
}

/// As [`exclusion`], at the temperature at which it was sampled.
pub fn exclusion_at_own_temperature(generation: &Generation) -> Option<UntrainedCause> {
    exclusion_at(generation, generation.sampling.parameters().map_or(1.0, |sampling| sampling.temperature))
}

/// As [`exclusion`], of a run that samples and trains at this temperature.
pub fn exclusion_at(generation: &Generation, temperature: f32) -> Option<UntrainedCause> {
    if generation.defect == Some(Defect::Upstream) {
        Some(UntrainedCause::Upstream)
    } else if generation.client_disconnected {
        Some(UntrainedCause::ClientDisconnected)
    } else if generation.stop_reason == StopReason::Error {
        Some(UntrainedCause::BrokenOff)
    } else if generation.sampled_tokens.is_empty() {
        Some(UntrainedCause::NoSampledTokens)
    } else if generation.prompt_tokens.is_empty() {
        Some(UntrainedCause::EmptyPrompt)
    } else if !has_exact_logprobs(generation) {
        Some(UntrainedCause::NoLogprobs)
    } else if matches!(generation.defect, Some(Defect::Auxiliary(_))) {
        Some(UntrainedCause::Auxiliary)
    } else if generation.defect.is_some() {
        Some(UntrainedCause::Defective)
    } else if generation.weights_versions.is_empty() {
        Some(UntrainedCause::UnknownWeights)
    } else if !is_unmodified(generation, temperature) {
        Some(UntrainedCause::ModifiedDistribution)
    } else {
        None
    }
}

fn has_exact_logprobs(generation: &Generation) -> bool {
    generation.logprobs.as_ref().is_some_and(|logprobs| {
        logprobs.len() == generation.sampled_tokens.len() && logprobs.iter().all(|logprob| logprob.is_finite())
    })
}

/// Parameters that cannot be read are not known to leave the distribution alone.
fn is_unmodified(generation: &Generation, temperature: f32) -> bool {
    generation.sampling.parameters().is_some_and(|sampling| sampling.is_unmodified_at(temperature))
}

#[cfg(test)]
mod tests {
    use fulgurite_types::RecordedSampling;
    use serde_json::json;

    use super::*;
    use crate::recorded::generation;

    fn cause(change: impl FnOnce(&mut Generation)) -> Option<&'static str> {
        let mut generation = generation("a", &[1, 2], &[3, 4]);
        change(&mut generation);
        exclusion(&generation).map(UntrainedCause::as_str)
    }

    #[test]
    fn an_exact_record_is_trained() {
        assert_eq!(cause(|_| ()), None);
    }

    #[test]
    fn every_cause_has_its_name() {
        assert_eq!(cause(|g| g.defect = Some("upstream".into())), Some("upstream"));
        assert_eq!(cause(|g| g.client_disconnected = true), Some("client_gone"));
        assert_eq!(cause(|g| g.stop_reason = "error".into()), Some("broken_off"));
        assert_eq!(cause(|g| g.sampled_tokens.clear()), Some("no_sampled_tokens"));
        assert_eq!(cause(|g| g.prompt_tokens.clear()), Some("empty_prompt"));
        assert_eq!(cause(|g| g.defect = Some("anything".into())), Some("defective"));
        assert_eq!(cause(|g| g.defect = Some("auxiliary:opencode_title".into())), Some("auxiliary"));
        assert_eq!(cause(|g| g.defect = Some("auxiliary".into())), Some("auxiliary"));
        assert_eq!(cause(|g| g.weights_versions.clear()), Some("unknown_weights"));
    }

    #[test]
    fn a_call_that_was_passed_on_is_counted_as_that_whatever_else_is_missing() {
        let passed_on = |g: &mut Generation| {
            g.defect = Some("upstream".into());
            g.client_disconnected = true;
            g.sampled_tokens.clear();
        };
        assert_eq!(cause(passed_on), Some("upstream"));
    }

    #[test]
    fn logprobs_must_be_there_fit_and_be_finite() {
        for logprobs in [None, Some(vec![]), Some(vec![-0.5]), Some(vec![-0.5; 3]), Some(vec![-0.5, f32::NAN])] {
            assert_eq!(cause(|g| g.logprobs = logprobs), Some("no_logprobs"));
        }
    }

    #[test]
    fn what_the_store_would_not_keep_is_counted_as_missing_logprobs() {
        let non_finite = |g: &mut Generation| {
            g.logprobs = None;
            g.defect = Some("non_finite_logprobs".into());
        };
        assert_eq!(cause(non_finite), Some("no_logprobs"));
    }

    #[test]
    fn a_run_trains_what_was_sampled_at_its_own_temperature() {
        let at = |temperature: f64, top_p: f64| {
            let mut generation = generation("a", &[1, 2], &[3, 4]);
            let sampling = json!({ "temperature": temperature, "top_p": top_p, "top_k": null });
            generation.sampling = RecordedSampling(sampling);
            generation
        };
        let modified = Some(UntrainedCause::ModifiedDistribution);
        assert_eq!(exclusion_at(&at(0.7, 1.0), 0.7), None);
        assert_eq!(exclusion_at_own_temperature(&at(0.7, 1.0)), None);
        assert_eq!(exclusion_at(&at(1.0, 1.0), 0.7), modified);
        assert_eq!(exclusion_at(&at(0.7, 0.9), 0.7), modified);
        assert_eq!(exclusion_at_own_temperature(&at(0.0, 1.0)), modified);
    }

    #[test]
    fn only_the_models_own_distribution_is_trained() {
        for sampling in [
            json!({"temperature": 0.7, "top_p": 1.0, "top_k": null}),
            json!({"temperature": 0.0, "top_p": 1.0, "top_k": null}),
            json!({"temperature": 1.0, "top_p": 0.9, "top_k": null}),
            json!({"temperature": 1.0, "top_p": 1.0, "top_k": 40}),
            json!({"temperature": 1.0, "top_p": 1.0, "top_k": null, "presence_penalty": 0.5}),
            json!({"temperature": 1.0, "top_p": 1.0, "top_k": null, "constraint": {"json_schema": {}}}),
            json!({}),
            json!(null),
        ] {
            assert_eq!(
                cause(|g| g.sampling = RecordedSampling(sampling.clone())),
                Some("modified_distribution"),
                "{sampling}"
            );
        }
    }
}
