//! Tokens with their logprobs, as OpenAI's chat writes them.

use std::borrow::Cow;

use fulgurite_backends::SampledToken;
use fulgurite_renderers::Tokenizer;
use serde::Serialize;

use crate::dialects::json_text::{ObjectText, write_array};

/// An entry of `logprobs.content`.
#[derive(Debug, Serialize)]
pub(crate) struct TokenLogprobs<'t> {
    #[serde(flatten)]
    token: TokenLogprob<'t>,
    top_logprobs: Vec<TokenLogprob<'t>>,
}

impl TokenLogprobs<'_> {
    /// Writes what serialising gives, for replies that have one for each token.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut entry = ObjectText::new(out);
        self.token.add_to(&mut entry);
        write_array(entry.named("top_logprobs"), &self.top_logprobs, |token, out| {
            let mut alternative = ObjectText::new(out);
            token.add_to(&mut alternative);
            alternative.end();
        });
        entry.end();
    }
}

impl TokenLogprob<'_> {
    fn add_to(&self, object: &mut ObjectText<'_>) {
        object.field("token", &*self.token);
        object.field("bytes", self.bytes);
        object.field("logprob", &self.logprob);
    }
}

#[derive(Debug, Serialize)]
struct TokenLogprob<'t> {
    token: Cow<'t, str>,
    bytes: &'t [u8],
    logprob: f64,
}

/// A token's text; bytes that are no text of their own become replacement characters.
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

#[cfg(test)]
mod tests {
    use fulgurite_renderers::{train_byte_level_tokenizer, write_tokenizer_directory};

    use super::*;

    #[test]
    fn what_is_written_is_what_serialising_gives() {
        let directory = tempfile::tempdir().unwrap();
        let trained = train_byte_level_tokenizer(["a \"quote\" \\ and \u{1f600}"; 3], 300, &[]).unwrap();
        write_tokenizer_directory(directory.path(), &trained).unwrap();
        let tokenizer = Tokenizer::open(directory.path()).unwrap();
        let token = |id: u32| SampledToken {
            id,
            logprob: -0.1 * id as f32,
            weights_version: None,
            top_logprobs: (0..id % 3).map(|rank| (id + rank, -f32::from(rank as u8))).collect(),
        };
        // Ids of whole texts, of bytes that are no text alone, and of nothing.
        let tokens: Vec<SampledToken> = (0..310).map(token).collect();
        for entry in entries(&tokens, &tokenizer) {
            let mut written = Vec::new();
            entry.write(&mut written);
            assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&entry).unwrap());
        }
    }
}
