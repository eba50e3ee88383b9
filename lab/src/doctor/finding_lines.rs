//! Findings in lines, for people.

use super::findings::{Answer, Finding, Severity};
use crate::visible::cut;

impl Severity {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// What there is to say where nothing was found.
pub fn nothing_found(run_id: &str) -> String {
    format!("run {run_id}: nothing is amiss by what is recorded")
}

/// A finding, what shows it, and what to do. `word` says how bad it is.
pub fn finding_lines(finding: &Finding, word: &str) -> Vec<String> {
    let Finding { name, evidence, what_to_do, answers, .. } = finding;
    let mut lines = vec![format!("{word} {name}: {evidence}")];
    for Answer { task, answer, reward, .. } in answers {
        let plain = |text: &str| -> String { text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect() };
        lines.push(format!("    {reward:+.3}  {} -> {}", cut(&plain(&task.to_string())), cut(&plain(answer))));
    }
    lines.push(format!("    {what_to_do}"));
    lines
}
