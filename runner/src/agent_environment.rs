//! What an agent and its grader find in their environment, beside what the runner itself was started with.

use crate::server::{Assignment, Server};

/// The variables of the runner's environment that agents must not see: they open more than an attempt's own door.
pub const KEPT_BACK: [&str; 2] = ["FULGURITE_ADMIN_KEY", "FULGURITE_STORE"];

/// The variables that point every OpenAI and Anthropic client at the attempt, and say what the task is.
pub fn variables(server: &Server, assignment: &Assignment) -> [(&'static str, String); 8] {
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
