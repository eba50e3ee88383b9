//! What every call is: its model, its tokens, whose it is.

/// What the host calls its model.
pub const MODEL: &str = "bench";
/// Tokens of an answer, its end included.
pub const SAMPLED_TOKENS: usize = 50;
/// Tokens of a prompt, of a conversation its first.
pub const PROMPT_TOKENS: usize = 200;

/// An attempt at a rollout, under way.
#[derive(Debug)]
pub struct Attempt {
    pub rollout_id: String,
    pub attempt_id: String,
    /// What stands before the routes of its calls.
    pub path: String,
}
