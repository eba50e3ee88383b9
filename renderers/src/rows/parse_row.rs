//! Sampled tokens as a line of JSON, and the message that they are as another.

use fulgurite_types::Message;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::RowError;
use crate::parsing::parse_as_cookbook;
use crate::renderer::Renderer;

/// How tokens are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsing {
    /// As the renderer reads them.
    Own,
    /// As tinker-cookbook reads them, faults included.
    CookbookExact,
}

/// What a model sampled.
#[derive(Debug, Deserialize)]
struct ParseRow {
    tokens: Vec<u32>,
    /// What it was sampled after; what its end opened is open.
    #[serde(default)]
    prompt: Option<Vec<u32>>,
    /// The request's tools.
    #[serde(default)]
    tools: Option<Vec<Value>>,
}

/// The message in one row of tokens.
///
/// # Errors
/// If the line holds no tokens, or some that cannot be read.
pub fn parse_row(renderer: &dyn Renderer, parsing: Parsing, line: &[u8]) -> Result<Value, RowError> {
    let row: ParseRow = serde_json::from_slice(line).map_err(RowError::NotTokens)?;
    if parsing == Parsing::CookbookExact {
        let parsed = parse_as_cookbook(renderer.name(), renderer.tokenizer(), &row.tokens)?;
        return Ok(json!({"message": parsed.message, "termination": parsed.termination}));
    }
    let prompt = match row.prompt {
        Some(prompt) => prompt,
        None => renderer.render_prompt(&[Message::text("user", "")], &[])?.tokens,
    };
    let parsed = renderer.parse(&prompt, &row.tokens, &row.tools.unwrap_or_default());
    Ok(json!({"message": parsed.message(), "termination": parsed.termination}))
}
