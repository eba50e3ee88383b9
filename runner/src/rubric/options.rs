//! What attempts are judged by, and by whom.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Criteria of a rubric, at most: each is a model call for each attempt.
const CRITERIA: usize = 64;

/// The component that holds what the grader gave, of a reward that is shared.
pub(super) const GRADED: &str = "graded";
/// The component that holds what the rubric gave, of a reward that is shared.
pub(super) const JUDGED: &str = "judged";
/// The component that says on what share of the criteria two judges agree.
pub(super) const JUDGES_AGREE: &str = "judges_agree";
/// Components beside the criteria.
const RESERVED: [&str; 3] = [GRADED, JUDGED, JUDGES_AGREE];

/// `[runner.rubric]`: an attempt earns the share of criteria that a judge says it meets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RubricOptions {
    /// The model that judges: one of `[[models]]`, which is not the one that is trained.
    pub judge: String,
    /// What is asked, one model call each.
    pub criteria: Vec<Criterion>,
    /// Model calls of judges that a run makes at most; attempts that would need more fail.
    #[serde(default)]
    pub max_calls: Option<u64>,
    /// What the judges of a run may cost at most, in the currency of `prices`; attempts that would cost more fail.
    #[serde(default)]
    pub max_cost: Option<f64>,
    /// What the judge's tokens cost.
    #[serde(default)]
    pub prices: Option<JudgePrices>,
    /// Tokens of a judgement at most.
    #[serde(default = "max_tokens")]
    pub max_tokens: u64,
    /// Beside `grade`, `harbor_tests` or `reward_file`: the rubric's part of the reward, above 0 and below 1.
    #[serde(default)]
    pub share: Option<f64>,
    /// Another judge, who is asked the same, to see how far two agree; it earns nobody anything.
    #[serde(default)]
    pub second: Option<SecondJudge>,
    /// Answers that people have judged.
    #[serde(default)]
    pub labelled: Option<LabelledAnswers>,
}

/// `prices` of a judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgePrices {
    /// A million tokens of prompts.
    pub prefilled: f64,
    /// A million sampled tokens.
    pub sampled: f64,
}

/// `[runner.rubric.second]`: a judge beside the one that rewards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondJudge {
    /// One of `[[models]]`, neither the one that is trained nor the first judge.
    pub judge: String,
    /// The share of questions that it is asked too, which the questions themselves decide.
    #[serde(default = "all")]
    pub share: f64,
    /// What its tokens cost.
    #[serde(default)]
    pub prices: Option<JudgePrices>,
}

/// `[runner.rubric.labelled]`: what people said of answers, to hold the judges against before a run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledAnswers {
    /// JSON lines: `{"task": ..., "answer": "...", "changes": ..., "met": {"CRITERION": true}}`, of which `changes` may be left out.
    pub file: PathBuf,
    /// The share of labels that the first judge must agree with; below it, nothing is run.
    #[serde(default)]
    pub at_least: Option<f64>,
}

/// `[[runner.rubric.criteria]]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Names the reward's component, 1 if the criterion is met and 0 if not.
    pub name: String,
    /// What must be so: "The answer names the invoice's total".
    pub text: String,
    /// What it counts for beside the others.
    #[serde(default = "weight")]
    pub weight: f64,
}

fn max_tokens() -> u64 {
    256
}

fn weight() -> f64 {
    1.0
}

fn all() -> f64 {
    1.0
}

/// What is wrong with a rubric.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RubricError {
    /// It asks nothing, or too much.
    #[error("[runner.rubric] criteria: there are {number}, and must be 1 to {CRITERIA}")]
    Number {
        /// How many there are.
        number: usize,
    },
    /// A criterion's name or text is empty.
    #[error("[runner.rubric] criteria: the {place}. needs a name and a text")]
    Empty {
        /// Which, from 1 on.
        place: usize,
    },
    /// Two criteria have one name.
    #[error("[runner.rubric] criteria: {name:?} is the name of two")]
    Twice {
        /// The name.
        name: String,
    },
    /// A criterion has the name of a number that a rubric adds.
    #[error("[runner.rubric] criteria: {name:?} is the name of a component that the rubric adds itself")]
    Reserved {
        /// The name.
        name: String,
    },
    /// A weight is not a positive number.
    #[error("[runner.rubric] criteria: the weight of {name:?} must be a number above 0")]
    Weight {
        /// The criterion's name.
        name: String,
    },
    /// A key is out of its range.
    #[error("[runner.rubric] {key} must be {range}")]
    Range {
        /// The key.
        key: &'static str,
        /// What it may be.
        range: &'static str,
    },
    /// What a judge costs cannot be known.
    #[error(
        "[runner.rubric] max_cost needs the `prices` of {judge:?}: {{ prefilled = ..., sampled = ... }}, a million tokens each"
    )]
    NoPrices {
        /// The judge.
        judge: String,
    },
    /// One judge cannot disagree with itself.
    #[error("[runner.rubric.second] judge = {judge:?}: that is the first judge")]
    SameJudge {
        /// The judge.
        judge: String,
    },
}

impl RubricOptions {
    /// The judges, the one that rewards first.
    pub fn judges(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let second = self.second.as_ref().map(|second| ("[runner.rubric.second] judge", second.judge.as_str()));
        [("[runner.rubric] judge", self.judge.as_str())].into_iter().chain(second)
    }

    /// The judges whose calls are limited, so that nobody else may make any.
    pub fn limited_judges(&self) -> impl Iterator<Item = &str> {
        let is_limited = self.max_calls.is_some() || self.max_cost.is_some();
        self.judges().filter(move |_| is_limited).map(|(_, name)| name)
    }

    /// What the tokens of a judge cost, if that is known.
    pub(super) fn prices_of(&self, judge: &str) -> Option<JudgePrices> {
        match &self.second {
            Some(second) if second.judge == judge => second.prices,
            _ => self.prices,
        }
    }

    /// # Errors
    /// If it asks nothing, or not clearly.
    pub fn check(&self) -> Result<(), RubricError> {
        let number = self.criteria.len();
        if number == 0 || number > CRITERIA {
            return Err(RubricError::Number { number });
        }
        let mut names = BTreeSet::new();
        for (place, Criterion { name, text, weight }) in self.criteria.iter().enumerate() {
            if name.trim().is_empty() || text.trim().is_empty() {
                return Err(RubricError::Empty { place: place + 1 });
            }
            if RESERVED.contains(&name.as_str()) {
                return Err(RubricError::Reserved { name: name.clone() });
            }
            if !names.insert(name) {
                return Err(RubricError::Twice { name: name.clone() });
            }
            if !(weight.is_finite() && *weight > 0.0) {
                return Err(RubricError::Weight { name: name.clone() });
            }
        }
        self.check_judges()
    }

    fn check_judges(&self) -> Result<(), RubricError> {
        let within = |key, range, is_within: bool| match is_within {
            true => Ok(()),
            false => Err(RubricError::Range { key, range }),
        };
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        within("share", "above 0 and below 1", self.share.is_none_or(|share| is_share(share) && share < 1.0))?;
        within("max_cost", "a number above 0", self.max_cost.is_none_or(|cost| cost.is_finite() && cost > 0.0))?;
        let prices = self.prices.iter().chain(self.second.iter().filter_map(|second| second.prices.as_ref()));
        let is_price = |price: f64| price.is_finite() && price >= 0.0;
        for JudgePrices { prefilled, sampled } in prices {
            within("prices", "numbers from 0 on", is_price(*prefilled) && is_price(*sampled))?;
        }
        if let Some(second) = &self.second {
            within("second.share", "above 0 and at most 1", is_share(second.share))?;
            if second.judge == self.judge {
                return Err(RubricError::SameJudge { judge: self.judge.clone() });
            }
        }
        let at_least = self.labelled.as_ref().and_then(|labelled| labelled.at_least);
        within("labelled.at_least", "above 0 and at most 1", at_least.is_none_or(is_share))?;
        match self.judges().find(|(_, judge)| self.max_cost.is_some() && self.prices_of(judge).is_none()) {
            Some((_, judge)) => Err(RubricError::NoPrices { judge: judge.to_owned() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_rubric_that_asks_unclearly_is_refused() {
        let check = |criteria: Value| {
            let options: RubricOptions = serde_json::from_value(json!({ "judge": "j", "criteria": criteria })).unwrap();
            options.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(json!([{ "name": "a", "text": "x" }, { "name": "b", "text": "y", "weight": 0.5 }])), Ok(()));
        assert!(check(json!([])).unwrap_err().contains("there are 0, and must be 1 to 64"));
        assert!(check(json!([{ "name": "a", "text": " " }])).unwrap_err().contains("the 1. needs a name and a text"));
        let twice = json!([{ "name": "a", "text": "x" }, { "name": "a", "text": "y" }]);
        assert!(check(twice).unwrap_err().contains("\"a\" is the name of two"));
        assert!(check(json!([{ "name": "a", "text": "x", "weight": 0 }])).unwrap_err().contains("above 0"));
    }

    #[test]
    fn limits_that_cannot_be_kept_are_refused() {
        let check = |more: Value| {
            let mut options = json!({ "judge": "j", "criteria": [{ "name": "a", "text": "x" }] });
            options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let options: RubricOptions = serde_json::from_value(options).unwrap();
            options.check().map_err(|error| error.to_string())
        };
        let prices = json!({ "prefilled": 1.0, "sampled": 2.0 });
        assert_eq!(check(json!({ "max_cost": 1.0, "prices": prices })), Ok(()));
        assert!(check(json!({ "max_cost": 1.0 })).unwrap_err().contains("needs the `prices` of \"j\""));
        let second = json!({ "max_cost": 1.0, "prices": prices, "second": { "judge": "k" } });
        assert!(check(second).unwrap_err().contains("needs the `prices` of \"k\""));
        assert!(check(json!({ "second": { "judge": "j" } })).unwrap_err().contains("that is the first judge"));
        assert!(check(json!({ "share": 1.0 })).unwrap_err().contains("share must be above 0 and below 1"));
        assert!(check(json!({ "max_cost": 0.0, "prices": prices })).unwrap_err().contains("max_cost must be"));
        let cheap = json!({ "prefilled": -1.0, "sampled": 0.0 });
        assert!(check(json!({ "prices": cheap })).unwrap_err().contains("prices must be numbers from 0 on"));
        let labelled = json!({ "file": "l.jsonl", "at_least": 2.0 });
        assert!(check(json!({ "labelled": labelled })).unwrap_err().contains("labelled.at_least must be"));
    }
}
