use crate::text::words::text_in_json;

/// Why a generation must not be trained, as whoever recorded it knew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The call was passed on to an upstream: whose weights and which tokens they were is not known here.
    Upstream,
    /// A logprob was not finite; none of them is kept.
    NonFiniteLogprobs,
    /// A harness made the call beside the task, such as for a title.
    Auxiliary(AuxiliaryMark),
    /// A word of whoever made the record that was imported.
    Other(String),
}

/// The mark of a call beside the task: `auxiliary`, or `auxiliary:RULE` where a rule recognised it, or `auxiliary:grader`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuxiliaryMark(String);

const AUXILIARY: &str = "auxiliary";

impl Defect {
    /// A call that its own client says is beside the task.
    pub fn auxiliary_by_client() -> Self {
        Self::Auxiliary(AuxiliaryMark(AUXILIARY.to_owned()))
    }

    /// A call that the attempt's grader made, to judge it.
    pub fn auxiliary_by_grader() -> Self {
        Self::auxiliary_by_rule("grader")
    }

    /// A call that the rule of this name recognised.
    pub fn auxiliary_by_rule(rule: &str) -> Self {
        Self::Auxiliary(AuxiliaryMark(format!("{AUXILIARY}:{rule}")))
    }

    /// The word, in JSON and in SQL.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Upstream => "upstream",
            Self::NonFiniteLogprobs => "non_finite_logprobs",
            Self::Auxiliary(AuxiliaryMark(word)) | Self::Other(word) => word,
        }
    }
}

impl From<String> for Defect {
    fn from(word: String) -> Self {
        if let Some(known) = [Self::Upstream, Self::NonFiniteLogprobs].into_iter().find(|known| known.as_str() == word)
        {
            return known;
        }
        match word.split(':').next() {
            Some(AUXILIARY) => Self::Auxiliary(AuxiliaryMark(word)),
            _ => Self::Other(word),
        }
    }
}

text_in_json!(Defect);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let rule = Defect::auxiliary_by_rule("opencode_title");
        for (defect, word) in [
            (Defect::Upstream, "upstream"),
            (Defect::NonFiniteLogprobs, "non_finite_logprobs"),
            (Defect::auxiliary_by_client(), "auxiliary"),
            (Defect::auxiliary_by_grader(), "auxiliary:grader"),
            (rule, "auxiliary:opencode_title"),
            (Defect::Other("auxiliaries".to_owned()), "auxiliaries"),
        ] {
            assert_eq!(serde_json::to_value(&defect).unwrap(), word);
            assert_eq!(serde_json::from_value::<Defect>(word.into()).unwrap(), defect);
        }
    }
}
