//! Why rollouts failed, for people.

//! Why rollouts failed, told once for a whole step.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

use super::member::Member;

/// Lines of an agent's standard error that are shown.
const TAIL_LINES: usize = 12;
/// Characters of it.
const TAIL_CHARACTERS: usize = 1500;

/// Rollouts of a step that failed, and the cause that most of them have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Rollouts that failed.
    pub failed: usize,
    /// Rollouts of the step.
    pub rollouts: usize,
    /// The commonest reason.
    pub reason: String,
    /// Rollouts that failed for it.
    pub count: usize,
    /// The last lines that one of their agents wrote to its standard error, if it wrote any.
    pub stderr_tail: Option<String>,
}

impl Failures {
    /// What failed among the rollouts of a step, if anything did.
    pub(crate) fn of(members: &[&Member]) -> Option<Self> {
        let failed: Vec<(String, Option<&str>)> = members
            .iter()
            .filter(|member| member.failure.is_some() || !member.succeeded())
            .map(|member| why(member))
            .collect();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (reason, _) in &failed {
            *counts.entry(reason).or_default() += 1;
        }
        // Ties go to the reason that sorts first, so that the message does not change from run to run.
        let (reason, count) = counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0)))?;
        let tail = failed.iter().find_map(|(other, tail)| tail.filter(|_| other == reason)).map(last_lines);
        Some(Self {
            failed: failed.len(),
            rollouts: members.len(),
            reason: reason.to_owned(),
            count,
            stderr_tail: tail,
        })
    }

    /// Whether at least half of the rollouts failed.
    pub fn are_most(&self) -> bool {
        self.failed * 2 >= self.rollouts
    }
}

/// The reason, how often, and what an agent said.
impl fmt::Display for Failures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} of the {} that failed)", self.reason, self.count, self.failed)?;
        match &self.stderr_tail {
            Some(tail) => {
                write!(formatter, "; the agent's standard error ended with\n    {}", tail.replace('\n', "\n    "))
            }
            None => Ok(()),
        }
    }
}

impl Member {
    /// Why it failed, in words.
    pub(crate) fn failure_reason(&self) -> String {
        why(self).0
    }
}

/// Why a rollout failed, as its last attempt tells it, and what its agent wrote.
fn why(member: &Member) -> (String, Option<&str>) {
    if let Some(cause) = member.refused {
        return (format!("its reward was refused: {}", cause.as_str()), None);
    }
    let Some(attempt) = member.attempts.last() else { return ("no attempt was made".to_owned(), None) };
    let text = |key: &str| attempt.metadata.as_ref().and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
    let reason = match text("reason") {
        Some(reason) => reason.to_owned(),
        None if member.rewards.is_empty() && attempt.status.as_str() == "succeeded" => {
            "the attempt succeeded, but nobody gave a reward".to_owned()
        }
        None => format!("the attempt ended as {}", attempt.status.as_str()),
    };
    (reason, text("stderr_tail").map(str::trim).filter(|tail| !tail.is_empty()))
}

/// The end of what an agent wrote, without what would move a terminal's cursor.
fn last_lines(text: &str) -> String {
    let plain: String = text.chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control()).collect();
    let lines: Vec<&str> = plain.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    let characters = tail.chars().count();
    tail.chars().skip(characters.saturating_sub(TAIL_CHARACTERS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_the_last_lines_and_no_control_characters() {
        let text: String = (0..30).map(|n| format!("\u{1b}[31mline {n}\u{7}\r\n")).collect();
        let tail = last_lines(&text);
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.starts_with("[31mline 18\n") && tail.ends_with("[31mline 29"), "{tail}");
        assert_eq!(last_lines(&"x".repeat(5000)).len(), TAIL_CHARACTERS);
    }
}
