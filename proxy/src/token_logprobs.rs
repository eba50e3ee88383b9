//! Tokens with their logprobs, as OpenAI's chat writes them.

use std::borrow::Cow;

use fulgurite_backends::SampledToken;
use fulgurite_renderers::Tokenizer;
use serde::Serialize;

/// An entry of `logprobs.content`.
#[derive(Debug, Serialize)]
pub(crate) struct TokenLogprobs<'t> {
    #[serde(flatten)]
    token: TokenLogprob<'t>,
    top_logprobs: Vec<TokenLogprob<'t>>,
}

#[derive(Debug, Serialize)]
struct TokenLogprob<'t> {
    token: Cow<'t, str>,
    bytes: &'t [u8],
    logprob: f64,
}

/// A token's text; what is no text of its own stands there as replacement characters.
pub(crate) fn token_text(id: u32, tokenizer: &Tokenizer) -> Cow<'_, str> {
    String::from_utf8_lossy(tokenizer.id_to_bytes(id).unwrap_or_default())
}

/// An entry of `logprobs.content` for each token.
pub(crate) fn entries<'t>(
    tokens: impl IntoIterator<Item = &'t SampledToken>,
    tokenizer: &'t Tokenizer,
) -> Vec<TokenLogprobs<'t>> {
    let entry = |id: u32, logprob: f32| TokenLogprob {
        token: token_text(id, tokenizer),
        bytes: tokenizer.id_to_bytes(id).unwrap_or_default(),
        logprob: f64::from(logprob),
    };
    let with_alternatives = |token: &SampledToken| TokenLogprobs {
        token: entry(token.id, token.logprob),
        top_logprobs: token.top_logprobs.iter().map(|(id, logprob)| entry(*id, *logprob)).collect(),
    };
    tokens.into_iter().map(with_alternatives).collect()
}
