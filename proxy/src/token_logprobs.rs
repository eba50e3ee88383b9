//! Tokens with their logprobs, as OpenAI's chat writes them.

use fulgurite_backends::SampledToken;
use fulgurite_renderers::Tokenizer;
use serde_json::{Value, json};

/// A token's text; what is no text of its own stands there as replacement characters.
pub(crate) fn token_text(id: u32, tokenizer: &Tokenizer) -> String {
    String::from_utf8_lossy(tokenizer.id_to_bytes(id).unwrap_or_default()).into_owned()
}

/// An entry of `logprobs.content` for each token.
pub(crate) fn entries(tokens: &[SampledToken], tokenizer: &Tokenizer) -> Vec<Value> {
    tokens.iter().map(|token| entry_with_alternatives(token, tokenizer)).collect()
}

fn entry_with_alternatives(token: &SampledToken, tokenizer: &Tokenizer) -> Value {
    let mut value = entry(token.id, token.logprob, tokenizer);
    let alternatives = token.top_logprobs.iter().map(|(id, logprob)| entry(*id, *logprob, tokenizer));
    value["top_logprobs"] = alternatives.collect();
    value
}

fn entry(id: u32, logprob: f32, tokenizer: &Tokenizer) -> Value {
    let bytes = tokenizer.id_to_bytes(id).unwrap_or_default();
    json!({ "token": token_text(id, tokenizer), "bytes": bytes, "logprob": logprob })
}
