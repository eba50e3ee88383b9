//! What attempts are judged by, and by whom.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Criteria of a rubric, at most: each is a model call for each attempt.
const CRITERIA: usize = 64;

/// `[runner.rubric]`: an attempt earns the share of criteria that a judge says it meets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RubricOptions {
    /// The model that judges: one of `[[models]]`, which is not the one that is trained.
    pub judge: String,
    /// What is asked, one model call each.
    pub criteria: Vec<Criterion>,
    /// Model calls of the judge that a runner makes at most; attempts that would need more fail.
    #[serde(default)]
    pub max_calls: Option<u64>,
    /// Tokens of a judgement at most.
    #[serde(default = "max_tokens")]
    pub max_tokens: u64,
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
    /// A weight is not a positive number.
    #[error("[runner.rubric] criteria: the weight of {name:?} must be a number above 0")]
    Weight {
        /// The criterion's name.
        name: String,
    },
}

impl RubricOptions {
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
            if !names.insert(name) {
                return Err(RubricError::Twice { name: name.clone() });
            }
            if !(weight.is_finite() && *weight > 0.0) {
                return Err(RubricError::Weight { name: name.clone() });
            }
        }
        Ok(())
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
}
