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

/// How OpenAI spells a token that is no text of its own, such as a part of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartSpelling {
    /// `\xf0\x9f`, as in chats.
    Chat,
    /// `bytes:\xf0\x9f`, as in completions.
    Completion,
}

/// A token's text, or its bytes spelled out.
pub(crate) fn token_text(id: u32, tokenizer: &Tokenizer, spelling: PartSpelling) -> Cow<'_, str> {
    let bytes = tokenizer.id_to_bytes(id).unwrap_or_default();
    match (std::str::from_utf8(bytes), spelling) {
        (Ok(text), _) => Cow::Borrowed(text),
        (Err(_), PartSpelling::Chat) => spelled_out("", bytes).into(),
        (Err(_), PartSpelling::Completion) => spelled_out("bytes:", bytes).into(),
    }
}

fn spelled_out(prefix: &str, bytes: &[u8]) -> String {
    bytes.iter().fold(prefix.to_owned(), |text, byte| text + &format!("\\x{byte:02x}"))
}

/// How many characters of an answer's text its tokens have completed.
#[derive(Debug, Default)]
pub(crate) struct TextOffset {
    characters: usize,
    /// The beginning of a character.
    incomplete: Vec<u8>,
}

impl TextOffset {
    /// Where the next token begins: one that goes on with a character, where that does.
    pub(crate) fn characters(&self) -> usize {
        self.characters
    }

    /// Takes a token's bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.incomplete.extend_from_slice(bytes);
        let mut chunks = self.incomplete.utf8_chunks().peekable();
        let mut left = Vec::new();
        while let Some(chunk) = chunks.next() {
            self.characters += chunk.valid().chars().count();
            let is_incomplete = std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
            match (chunks.peek(), chunk.invalid()) {
                (None, incomplete) if is_incomplete => left = incomplete.to_vec(),
                (_, []) => {}
                // What is no text reads as a replacement character.
                _ => self.characters += 1,
            }
        }
        self.incomplete = left;
    }
}

/// An entry of `logprobs.content` for each token.
pub(crate) fn entries<'t>(
    tokens: impl IntoIterator<Item = &'t SampledToken>,
    tokenizer: &'t Tokenizer,
) -> Vec<TokenLogprobs<'t>> {
    let entry = |id: u32, logprob: f32| TokenLogprob {
        token: token_text(id, tokenizer, PartSpelling::Chat),
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
    fn parts_of_a_character_begin_where_it_does_and_are_spelled_as_bytes() {
        let mut offset = TextOffset::default();
        let begins =
            [&b"a"[..], &[0xf0, 0x9f], &[0x98], &[0x80], b"b", &[0xff], "\u{e4}\u{e4}".as_bytes(), &[0xe2], b"c"].map(
                |bytes| {
                    let at = offset.characters();
                    offset.take(bytes);
                    at
                },
            );
        assert_eq!(begins, [0, 1, 1, 1, 2, 3, 4, 6, 6]);
        assert_eq!(offset.characters(), 8);
        assert_eq!(spelled_out("bytes:", &[0xf0, 0x9f]), "bytes:\\xf0\\x9f");
    }

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
