//! A documented stand-in for the loss `stable_reinforce`, whose objective is not public.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::wire::protobuf::{ProvenanceSpan, SpanOrigin};

/// The name of the loss.
pub(crate) const STABLE_REINFORCE: &str = "stable_reinforce";

/// Its coefficient, which no stand-in has.
const KL_COEFFICIENT: &str = "kl_coeff";

/// What stands in for `stable_reinforce`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StableReinforce {
    /// CISPO with its usual bounds: the ratio is clipped from above, which keeps stale samples from weighing too much.
    #[default]
    Cispo,
    /// The ratio as it is.
    ImportanceSampling,
    /// Nothing: the loss is refused.
    Refuse,
}

impl StableReinforce {
    /// The loss that is computed.
    pub(crate) fn loss(self) -> Result<&'static str, String> {
        match self {
            Self::Cispo => Ok("cispo"),
            Self::ImportanceSampling => Ok("importance_sampling"),
            Self::Refuse => {
                Err("the objective of stable_reinforce is not public, and tinker_server.stable_reinforce = \
                                 \"refuse\": use importance_sampling, ppo or cispo"
                    .to_owned())
            }
        }
    }

    /// What a pass tells beside its loss, so that no curve is taken for one of the loss that was asked for.
    pub(crate) fn metric(self) -> Option<(String, f64)> {
        let loss = self.loss().ok()?;
        Some((format!("stable_reinforce_is_{loss}:mean"), 1.0))
    }
}

/// Where a run of a datum's targets is from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TargetSpan {
    pub(crate) sequence_id: String,
    length: usize,
    is_sampled: bool,
}

impl TargetSpan {
    /// Reads the spans of a datum's targets.
    pub(crate) fn read(spans: &[ProvenanceSpan]) -> Result<Vec<Self>, String> {
        let read = |span: &ProvenanceSpan| {
            let (sequence, is_sampled) = match &span.span {
                Some(SpanOrigin::PromptTokens(sequence)) => (sequence, false),
                Some(SpanOrigin::SampledTokens(sequence)) => (sequence, true),
                None => return Err("a provenance span is of an unknown kind".to_owned()),
            };
            let length = usize::try_from(sequence.length)
                .map_err(|_| format!("a provenance span has {} tokens", sequence.length))?;
            Ok(Self { sequence_id: sequence.sequence_id.clone(), length, is_sampled })
        };
        spans.iter().map(read).collect()
    }
}

/// The numbers of the loss that stands in.
pub(crate) fn configuration_of_stand_in(given: &BTreeMap<String, f64>) -> Result<BTreeMap<String, f64>, String> {
    match given.iter().find(|(name, value)| name.as_str() != KL_COEFFICIENT || **value != 0.0) {
        Some((name, value)) => Err(format!(
            "loss_fn_config.{name} is {value}, but what stands in for stable_reinforce has no such number; leave it out"
        )),
        None => Ok(BTreeMap::new()),
    }
}

/// Checks what the loss documents of a datum: its targets say which sequences of the session they are from, and no token has
/// an advantage that was not sampled.
pub(crate) fn check_provenance(spans: &[TargetSpan], session_id: &str, advantages: &[f32]) -> Result<(), String> {
    if spans.is_empty() {
        return Err(
            "stable_reinforce needs the datum's provenance: sample with record_stability_info, and make datums by \
                    Datum.with_provenance"
                .to_owned(),
        );
    }
    let own = format!("{session_id}:sample:");
    if let Some(foreign) = spans.iter().find(|span| !span.sequence_id.starts_with(&own)) {
        return Err(format!("the sequence `{}` was not sampled in this session", foreign.sequence_id));
    }
    // Not longer than the datum, whatever lengths a client gives.
    let is_sampled = spans.iter().flat_map(|span| std::iter::repeat_n(span.is_sampled, span.length));
    let is_sampled = is_sampled.chain(std::iter::repeat(false));
    match advantages.iter().zip(is_sampled).position(|(advantage, is_sampled)| *advantage != 0.0 && !is_sampled) {
        Some(place) => Err(format!("position {place} has an advantage, but its target was not sampled")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::protobuf::SequenceSpan;

    fn span(id: &str, length: i64, is_sampled: bool) -> ProvenanceSpan {
        let sequence = SequenceSpan { sequence_id: id.to_owned(), offset: 0, length };
        let origin = if is_sampled { SpanOrigin::SampledTokens } else { SpanOrigin::PromptTokens };
        ProvenanceSpan { span: Some(origin(sequence)) }
    }

    #[test]
    fn targets_are_from_sequences_of_the_session_and_only_sampled_ones_have_advantages() {
        let id = "s:sample:0/3/0";
        let spans = TargetSpan::read(&[span(id, 2, false), span(id, 2, true)]).unwrap();
        assert_eq!(check_provenance(&spans, "s", &[0.0, 0.0, 1.0, -1.0]), Ok(()));
        for (spans, session, advantages, word) in [
            (vec![], "s", vec![1.0], "needs the datum's provenance"),
            (spans.clone(), "t", vec![0.0; 4], "not sampled in this session"),
            (spans.clone(), "s", vec![0.0, 1.0, 1.0, 1.0], "position 1"),
            (spans, "s", vec![0.0, 0.0, 1.0, 1.0, 1.0], "position 4"),
        ] {
            let error = check_provenance(&spans, session, &advantages).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert!(TargetSpan::read(&[span(id, -1, true)]).is_err());
    }

    #[test]
    fn the_stand_in_has_no_numbers_of_its_own() {
        let given = |name: &str, value: f64| BTreeMap::from([(name.to_owned(), value)]);
        assert_eq!(configuration_of_stand_in(&given("kl_coeff", 0.0)), Ok(BTreeMap::new()));
        assert!(configuration_of_stand_in(&given("kl_coeff", 0.1)).unwrap_err().contains("kl_coeff is 0.1"));
        assert!(StableReinforce::Refuse.loss().unwrap_err().contains("not public"));
        assert_eq!(StableReinforce::Cispo.metric().unwrap().0, "stable_reinforce_is_cispo:mean");
    }
}
