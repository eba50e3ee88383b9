use fulgurite_types::WeightsVersion;
use serde::Deserialize;

use crate::AnswerFault;

/// A server's name for its weights as a version: a number, or `v` and a number. Of any other name, such as the
/// `default` of a server that nobody told, the version is not known.
pub(crate) fn weights_version(label: &str) -> Option<WeightsVersion> {
    let digits = label.strip_prefix('v').unwrap_or(label);
    // `parse` would take a sign.
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten().map(WeightsVersion)
}

/// The label of the model that a server was started with, once it was put back. It is no version.
pub(crate) const BASE: &str = "base";
/// The label of a model that is being replaced. It is no version.
pub(crate) const BEING_REPLACED: &str = "being-replaced";

/// Which whole model a server has, by its label.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WholeModel {
    /// The one that it was started with.
    AsStarted,
    /// Another one, most likely. One that was started under a label that is a version cannot be told from it.
    Replaced { label: String },
}

impl WholeModel {
    /// A server without a label cannot have been given another model.
    pub(crate) fn of_label(label: Option<&str>) -> Self {
        match label {
            Some(label) if label == BEING_REPLACED || weights_version(label).is_some() => {
                Self::Replaced { label: label.to_owned() }
            }
            _ => Self::AsStarted,
        }
    }
}

/// Tokens `start` to `end` (exclusive) of an answer, and the weights that sampled them.
#[derive(Clone, Debug, Deserialize)]
pub struct WeightsSpan {
    version: String,
    start: usize,
    end: usize,
}

/// The version behind each of an answer's tokens.
pub(crate) fn versions_of_tokens(
    spans: &[WeightsSpan],
    tokens: usize,
) -> Result<Vec<Option<WeightsVersion>>, AnswerFault> {
    let mut versions = Vec::with_capacity(tokens);
    for span in spans {
        if span.start != versions.len() || span.end < span.start || span.end > tokens {
            return Err(AnswerFault::WeightsVersions { tokens });
        }
        versions.resize(span.end, weights_version(&span.version));
    }
    if versions.len() != tokens {
        return Err(AnswerFault::WeightsVersions { tokens });
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(version: &str, start: usize, end: usize) -> WeightsSpan {
        WeightsSpan { version: version.into(), start, end }
    }

    #[test]
    fn a_version_is_a_number_and_never_guessed() {
        assert_eq!(weights_version("7"), Some(WeightsVersion(7)));
        assert_eq!(weights_version("v12"), Some(WeightsVersion(12)));
        for other in ["", "v", "default", "+7", "-1", "7a", "v 7", "vv7", "99999999999999999999"] {
            assert_eq!(weights_version(other), None, "{other}");
        }
    }

    #[test]
    fn a_model_is_the_one_that_was_started_unless_its_label_is_of_another() {
        for label in [None, Some("default"), Some(BASE), Some("qwen")] {
            assert_eq!(WholeModel::of_label(label), WholeModel::AsStarted, "{label:?}");
        }
        for label in ["v7", "7", BEING_REPLACED] {
            assert_eq!(WholeModel::of_label(Some(label)), WholeModel::Replaced { label: label.to_owned() });
        }
    }

    #[test]
    fn spans_give_each_token_its_own_version_or_none_at_all() {
        let versions = versions_of_tokens(&[span("v7", 0, 2), span("default", 2, 3), span("8", 3, 4)], 4).unwrap();
        assert_eq!(versions.iter().map(|v| v.map(|v| v.0)).collect::<Vec<_>>(), [Some(7), Some(7), None, Some(8)]);
        for spans in [
            vec![],
            vec![span("7", 0, 3)],
            vec![span("7", 0, 5)],
            vec![span("7", 1, 4)],
            vec![span("7", 0, 2), span("8", 3, 4)],
            vec![span("7", 0, 3), span("8", 2, 4)],
            vec![span("7", 0, 4), span("8", 4, 3)],
        ] {
            let fault = versions_of_tokens(&spans, 4);
            assert_eq!(fault, Err(AnswerFault::WeightsVersions { tokens: 4 }), "{spans:?}");
        }
    }
}
