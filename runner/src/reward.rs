//! The reward that a program prints: its last line that is not blank, a JSON object such as `{"reward": 1, "exact": 0}`.

use fulgurite_types::shortened;
use serde::Serialize;
use serde_json::{Map, Number, Value};

/// A reward on its way to the server, as the body of the request that posts it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reward {
    /// What the rollout earned.
    pub value: Number,
    name: &'static str,
    /// The other numbers beside it.
    pub components: Map<String, Value>,
}

impl Reward {
    /// What a whole rollout earned.
    pub(crate) fn new(value: Number, components: Map<String, Value>) -> Self {
        Self { value, name: "primary", components }
    }

    /// The reward of an object whose `reward` is a number, with its other numbers for components.
    pub(crate) fn of_fields(mut fields: Map<String, Value>) -> Option<Self> {
        let Some(Value::Number(value)) = fields.shift_remove("reward") else { return None };
        fields.retain(|_, field| field.is_number());
        Some(Self::new(value, fields))
    }
}

/// Why a program's last line is no reward.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum NoReward {
    /// Nothing was printed, or only blank lines.
    #[error("it printed nothing")]
    Silence,
    /// The last line is something else, which is what a chatty program's last line mostly is.
    #[error("its last line is not a JSON object with a number `reward`: {0}")]
    NotAReward(String),
    /// The file that is to hold it does not.
    #[error("in {path} of its world: {why}")]
    NotInFile {
        /// `reward_file`.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A warm agent's answer has none.
    #[error("its answer has no number `reward`: {0}")]
    NotInAnswer(String),
}

impl NoReward {
    /// What gives the reward instead, for an agent.
    pub(crate) fn help_for_agent(&self) -> String {
        match self {
            Self::Silence | Self::NotAReward(_) => {
                format!("print {EXAMPLE} as the last line, post to FULGURITE_REWARD_URL, or set [runner] grade")
            }
            Self::NotInFile { path, .. } => {
                format!("write a number or {EXAMPLE} to {path} of the world, or set [runner] grade")
            }
            Self::NotInAnswer(_) => {
                format!("answer {EXAMPLE} with the task's rollout_id, post to its reward_url, or set [runner] grade")
            }
        }
    }

    /// The same, for a grader.
    pub(crate) fn help_for_grader(&self) -> String {
        match self {
            Self::NotInFile { path, .. } => format!("a grader writes a number or {EXAMPLE} to {path} of the world"),
            Self::Silence | Self::NotAReward(_) | Self::NotInAnswer(_) => {
                format!("a grader prints {EXAMPLE} as its last line, and everything else to standard error")
            }
        }
    }
}

/// A reward as it is printed.
const EXAMPLE: &str = r#"{"reward": 1.0}"#;

/// The reward on the last line of `output` that is not blank. Every other field of the object that holds a number is one of
/// the reward's components; fields that hold anything else are passed over.
pub(crate) fn on_last_line(output: &[u8]) -> Result<Reward, NoReward> {
    let output = String::from_utf8_lossy(output);
    let line = output.lines().map(str::trim).rfind(|line| !line.is_empty()).ok_or(NoReward::Silence)?;
    // JSON has no NaN and no infinity, and a number too large for a double is refused here as well.
    let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return Err(not_a_reward(line)) };
    Reward::of_fields(fields).ok_or_else(|| not_a_reward(line))
}

/// Quotes as much of the line as a person needs to recognise it.
fn not_a_reward(line: &str) -> NoReward {
    const QUOTED: usize = 200;
    NoReward::NotAReward(shortened(line, QUOTED, "..."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, to_value};

    #[test]
    fn reads_the_value_and_the_components() {
        let reward =
            on_last_line(b"thinking\n {\"exact\": 1.0, \"reward\": -0.5, \"note\": \"ok\", \"hits\": 2}\n \n\n")
                .unwrap();
        let expected = json!({"value": -0.5, "name": "primary", "components": {"exact": 1.0, "hits": 2}});
        assert_eq!(to_value(reward).unwrap(), expected);
    }

    #[test]
    fn refuses_every_other_last_line() {
        let wrong = [
            "1.0",
            "[1]",
            "{}",
            r#"{"reward": "1"}"#,
            r#"{"reward": null}"#,
            r#"{"reward": NaN}"#,
            r#"{"reward": 1e999}"#,
        ];
        for line in wrong {
            assert_eq!(on_last_line(line.as_bytes()), Err(NoReward::NotAReward(line.to_owned())));
        }
        let buried = b"{\"reward\": 1}\nbye";
        assert_eq!(on_last_line(buried), Err(NoReward::NotAReward("bye".to_owned())));
        assert_eq!(on_last_line(b" \n\n"), Err(NoReward::Silence));
    }

    #[test]
    fn a_long_line_is_quoted_in_part() {
        let Err(NoReward::NotAReward(quoted)) = on_last_line("ü".repeat(5_000).as_bytes()) else {
            panic!("no reward")
        };
        assert_eq!(quoted, "ü".repeat(200) + "...");
    }
}
