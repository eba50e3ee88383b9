use anyhow::{Context, Result};
use fulgurite_renderers::Renderer;
use serde::Deserialize;
use serde_json::{Value, json};

/// What a model sampled.
#[derive(Debug, Deserialize)]
struct ParseRow {
    tokens: Vec<u32>,
}

/// The message in one row of tokens.
pub fn parse(renderer: &dyn Renderer, cookbook_exact: bool, line: &[u8]) -> Result<Value> {
    let ParseRow { tokens } = serde_json::from_slice(line).context("not a row to parse")?;
    let parsed = renderer.parse(&tokens);
    let _ = cookbook_exact;
    Ok(json!({"message": parsed.message}))
}
