use anyhow::{Context, Result};
use fulgurite_renderers::{Renderer, parse_as_cookbook};
use fulgurite_types::Message;
use serde::Deserialize;
use serde_json::{Value, json};

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
pub fn parse(renderer: &dyn Renderer, cookbook_exact: bool, line: &[u8]) -> Result<Value> {
    let row: ParseRow = serde_json::from_slice(line).context("not a row to parse")?;
    if cookbook_exact {
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
