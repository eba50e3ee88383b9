//! The lines that a runner and a warm agent write to each other: one JSON object each.

use crate::reward::{NoReward, Reward};
use fulgurite_client::{Assignment, Server};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The longest task that is written to a warm agent, in bytes.
pub(super) const LONGEST_TASK: usize = 16 << 20;

/// The longest line that is read from one.
pub(super) const LONGEST_LINE: usize = 4 << 20;

/// How much of an answer that cannot be read is searched for whose it is.
const SEARCHED: usize = 1 << 10;

/// The longest reason that an agent can give for an attempt's failure.
const LONGEST_REASON: usize = 2 << 10;

/// A line of the agent's output.
#[derive(Debug, PartialEq)]
pub(super) enum AgentLine {
    /// A JSON object with a `rollout_id`.
    Answer(AddressedAnswer),
    /// It begins as an answer does, and is none for the reason that is given.
    Unreadable {
        /// Where the id of the rollout may be found.
        beginning: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else.
    Log,
}

/// An answer, and whose it says it is.
#[derive(Debug, PartialEq)]
pub(super) struct AddressedAnswer {
    /// The rollout.
    pub rollout_id: String,
    /// The attempt, if it is named as well.
    pub attempt_id: Option<String>,
    /// What is said of it.
    pub answer: Answer,
}

/// What an agent says at the end of an attempt.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// It is done.
    Done {
        /// The reward, unless there is none or another must be found.
        reward: Result<Reward, NoReward>,
        /// What the grader is given.
        output: Option<String>,
    },
    /// It could not be done.
    Failed(String),
}

impl Answer {
    /// Of an agent that has posted its reward.
    pub(crate) fn posted() -> Self {
        read_answer(Map::new())
    }
}

/// The line by which an attempt is given to the agent.
///
/// # Errors
///
/// Fails if it is longer than a warm agent is given.
pub(crate) fn task_line(server: &Server, assignment: &Assignment, timeout: Duration) -> Result<Vec<u8>, String> {
    let url = |segments: &[&str]| server.attempt_url(assignment, segments).to_string();
    let mut line = json!({
        "rollout_id": assignment.rollout_id,
        "attempt_id": assignment.attempt_id,
        "task": assignment.task,
        "base_url": url(&["v1"]),
        "anthropic_base_url": url(&[]),
        "api_key": assignment.agent_key(),
        "reward_url": url(&["reward"]),
        "timeout_seconds": timeout.as_secs_f64(),
    })
    .to_string();
    if line.len() > LONGEST_TASK {
        return Err(format!("is not given the task: it has {} bytes, and {LONGEST_TASK} are the most", line.len()));
    }
    line.push('\n');
    Ok(line.into_bytes())
}

/// The line that asks the agent to stop working at an attempt.
pub(super) fn cancel_line(rollout_id: &str, attempt_id: &str) -> Vec<u8> {
    format!("{}\n", json!({ "cancel": rollout_id, "attempt_id": attempt_id })).into_bytes()
}

/// Reads a line of at most [`LONGEST_LINE`] bytes.
pub(super) fn read_line(line: &[u8]) -> AgentLine {
    match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) => read_fields(fields),
        Ok(_) => AgentLine::Log,
        Err(error) => read_beginning(line, &format!("is not JSON: {error}")),
    }
}

/// What can be said of a line that is too long to be read, of which this is the beginning.
pub(super) fn read_beginning(line: &[u8], reason: &str) -> AgentLine {
    let beginning = String::from_utf8_lossy(&line[..line.len().min(SEARCHED)]).into_owned();
    if !beginning.trim_start().starts_with('{') || !beginning.contains("rollout_id") {
        return AgentLine::Log;
    }
    AgentLine::Unreadable { beginning, reason: reason.to_owned() }
}

fn read_fields(mut fields: Map<String, Value>) -> AgentLine {
    let Some(Value::String(rollout_id)) = fields.shift_remove("rollout_id") else { return AgentLine::Log };
    let attempt_id = fields.shift_remove("attempt_id").and_then(|id| id.as_str().map(str::to_owned));
    AgentLine::Answer(AddressedAnswer { rollout_id, attempt_id, answer: read_answer(fields) })
}

/// What an answer's fields say, but for whose it is.
pub(crate) fn read_answer(mut fields: Map<String, Value>) -> Answer {
    if let Some(error) = fields.shift_remove("error").filter(|error| !error.is_null()) {
        return Answer::Failed(plain(error).chars().take(LONGEST_REASON).collect());
    }
    let output = fields.shift_remove("output").filter(|output| !output.is_null()).map(plain);
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    let described = match (&output, names.as_slice()) {
        (Some(_), []) => "it holds an output alone".to_owned(),
        (None, []) => "it holds neither `reward` nor `output`".to_owned(),
        (_, names) => format!("it holds {}", names.join(", ").chars().take(200).collect::<String>()),
    };
    Answer::Done { reward: Reward::of_fields(fields).ok_or(NoReward::NotInAnswer(described)), output }
}

/// A text as it is, anything else as JSON.
fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::to_value;

    fn answer(line: &str) -> AddressedAnswer {
        match read_line(line.as_bytes()) {
            AgentLine::Answer(answer) => answer,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn an_answer_holds_a_reward_an_output_or_an_error() {
        let rewarded = answer(r#"{"rollout_id": "a", "attempt_id": "b", "reward": 0.5, "exact": 1, "note": "x"}"#);
        assert_eq!((rewarded.rollout_id.as_str(), rewarded.attempt_id.as_deref()), ("a", Some("b")));
        let Answer::Done { reward: Ok(reward), output: None } = rewarded.answer else { panic!("no reward") };
        assert_eq!(to_value(reward).unwrap(), json!({"value": 0.5, "name": "primary", "components": {"exact": 1}}));
        let Answer::Done { reward: Err(_), output } = answer(r#"{"rollout_id": "a", "output": [1]}"#).answer else {
            panic!("a reward")
        };
        assert_eq!(output.as_deref(), Some("[1]"));
        let failed = answer(r#"{"rollout_id": "a", "error": "no luck", "reward": 1}"#).answer;
        assert_eq!(failed, Answer::Failed("no luck".to_owned()));
    }

    #[test]
    fn what_is_wrong_with_an_answers_reward_is_told() {
        for (line, message) in [
            (r#"{"rollout_id": "a", "result": 1}"#, "it holds result"),
            (r#"{"rollout_id": "a", "reward": "1"}"#, "it holds reward"),
            (r#"{"rollout_id": "a"}"#, "it holds neither `reward` nor `output`"),
        ] {
            let Answer::Done { reward: Err(none), .. } = answer(line).answer else { panic!("{line}") };
            assert!(none.to_string().contains(message), "{none}");
        }
    }

    #[test]
    fn other_lines_are_log_and_broken_answers_are_told_apart() {
        for line in ["", "hello", "17", r#"["rollout_id"]"#, r#"{"level": "info"}"#, r#"{"rollout_id": 3}"#, "{oh"] {
            assert_eq!(read_line(line.as_bytes()), AgentLine::Log, "{line}");
        }
        for line in [r#"{"rollout_id": "a", "reward": NaN}"#, "{'rollout_id': 'a', 'reward': 1}"] {
            assert!(matches!(read_line(line.as_bytes()), AgentLine::Unreadable { .. }), "{line}");
        }
    }
}
