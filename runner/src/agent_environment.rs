//! What an agent and its grader find in their environment, beside what the runner itself was started with.

use std::ffi::OsString;

use fulgurite_client::{Assignment, Server};

/// The variables of the runner's environment that agents must not see: they open more than an attempt's own door.
pub(crate) const KEPT_BACK: [&str; 2] = ["FULGURITE_ADMIN_KEY", "FULGURITE_STORE"];

/// The variables that belong to one attempt: a warm agent, which has many, finds none of them, lest it take another's door
/// for its own.
const OF_AN_ATTEMPT: [&str; 8] = [
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "FULGURITE_ROLLOUT_ID",
    "FULGURITE_ATTEMPT_ID",
    "FULGURITE_TASK",
    "FULGURITE_REWARD_URL",
];

/// Takes all of those away.
pub(crate) fn without_an_attempts() -> impl Iterator<Item = (OsString, Option<OsString>)> {
    KEPT_BACK.iter().chain(&OF_AN_ATTEMPT).map(|name| (name.into(), None))
}

/// The variables that point every OpenAI and Anthropic client at the attempt, and say what the task is.
pub(crate) fn variables(server: &Server, assignment: &Assignment) -> [(&'static str, String); 8] {
    let url = |segments: &[&str]| server.attempt_url(assignment, segments).to_string();
    [
        // OpenAI's clients append `/chat/completions` to their base URL, Anthropic's append `/v1/messages`.
        ("OPENAI_BASE_URL", url(&["v1"])),
        ("OPENAI_API_KEY", assignment.agent_key()),
        ("ANTHROPIC_BASE_URL", url(&[])),
        ("ANTHROPIC_API_KEY", assignment.agent_key()),
        ("FULGURITE_ROLLOUT_ID", assignment.rollout_id.clone()),
        ("FULGURITE_ATTEMPT_ID", assignment.attempt_id.clone()),
        ("FULGURITE_TASK", assignment.task.to_string()),
        ("FULGURITE_REWARD_URL", url(&["reward"])),
    ]
}
