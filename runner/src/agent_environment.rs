//! What an agent and its grader find in their environment, beside what the runner itself was started with.

use fulgurite_client::{Assignment, Server};
use serde_json::Value;

/// Variables of a program's environment: a value, or the name's removal.
pub(crate) type Variables = Vec<(String, Option<String>)>;

/// The variables of the runner's environment that agents must not see: they open more than an attempt's own endpoint.
pub(crate) const KEPT_BACK: [&str; 3] = ["FULGURITE_ADMIN_KEY", "FULGURITE_STORE", "FULGURITE_WORKER_KEY"];

/// The variables that belong to one attempt: a warm agent, which has many, finds none of them, lest it take another's endpoint
/// for its own.
const OF_AN_ATTEMPT: [&str; 10] = [
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "GEMINI_API_KEY",
    "FULGURITE_ROLLOUT_ID",
    "FULGURITE_ATTEMPT_ID",
    "FULGURITE_TASK",
    "FULGURITE_REWARD_URL",
];

/// Takes all of those away.
pub(crate) fn without_an_attempts() -> Variables {
    KEPT_BACK.iter().chain(&OF_AN_ATTEMPT).map(|name| ((*name).to_owned(), None)).collect()
}

/// What an attempt's programs find while it runs. `inside` is the origin that the server has for them, if it is another than
/// for this process.
pub(crate) fn of_attempt(server: &Server, assignment: &Assignment, inside: Option<&str>) -> Variables {
    let own = variables(server, assignment, inside).map(|(name, value)| (name.to_owned(), Some(value)));
    KEPT_BACK.map(|name| (name.to_owned(), None)).into_iter().chain(own).collect()
}

/// What they find when it may be over, and no server can be reached: its ids and its task.
pub(crate) fn of_past_attempt(rollout_id: &str, attempt_id: &str, task: &Value) -> Variables {
    let own = [
        ("FULGURITE_ROLLOUT_ID", rollout_id.to_owned()),
        ("FULGURITE_ATTEMPT_ID", attempt_id.to_owned()),
        ("FULGURITE_TASK", task.to_string()),
    ];
    without_an_attempts().into_iter().chain(own.map(|(name, value)| (name.to_owned(), Some(value)))).collect()
}

/// The variables that point every client of OpenAI, Anthropic and Google at the attempt, and say what the task is.
fn variables(server: &Server, assignment: &Assignment, inside: Option<&str>) -> [(&'static str, String); 10] {
    let url = |segments: &[&str]| {
        let url = server.attempt_url(assignment, segments);
        match inside {
            Some(origin) => format!("{origin}{}", url.path()),
            None => url.to_string(),
        }
    };
    [
        // OpenAI's clients append `/chat/completions` to their base URL, Anthropic's append `/v1/messages`, and Google's
        // `/v1beta/models`.
        ("OPENAI_BASE_URL", url(&["v1"])),
        ("OPENAI_API_KEY", assignment.agent_key()),
        ("ANTHROPIC_BASE_URL", url(&[])),
        ("ANTHROPIC_API_KEY", assignment.agent_key()),
        ("GOOGLE_GEMINI_BASE_URL", url(&[])),
        ("GEMINI_API_KEY", assignment.agent_key()),
        ("FULGURITE_ROLLOUT_ID", assignment.rollout_id.clone()),
        ("FULGURITE_ATTEMPT_ID", assignment.attempt_id.clone()),
        ("FULGURITE_TASK", assignment.task.to_string()),
        ("FULGURITE_REWARD_URL", url(&["reward"])),
    ]
}
