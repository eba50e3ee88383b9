use std::sync::Arc;

use crate::Tokenizer;

/// Turns tokens into text as they come. A character is given out once it is whole, and never in parts; bytes that can
/// no longer become one are given out as U+FFFD at once.
///
/// All deltas one after another, with that of [`finish`](Self::finish), are [`Tokenizer::decode`] of all tokens.
/// A call looks at its own token and at no more than three bytes before it.
#[derive(Clone, Debug)]
pub struct StreamDecoder {
    tokenizer: Arc<Tokenizer>,
    /// The beginning of a character whose end is yet to come.
    pending: Vec<u8>,
}

impl StreamDecoder {
    /// A decoder at the beginning of a text.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self { tokenizer, pending: Vec::new() }
    }

    /// Takes the next token and gives the text that is now certain, which may be empty.
    pub fn feed(&mut self, token: u32) -> String {
        let mut text = String::new();
        self.feed_into(token, &mut text);
        text
    }

    /// Takes the next token and adds the text that is now certain to `text`.
    pub(crate) fn feed_into(&mut self, token: u32, text: &mut String) {
        let bytes = self.tokenizer.bytes_or_replacement(token);
        // Most tokens are whole characters.
        if self.pending.is_empty()
            && let Ok(whole) = std::str::from_utf8(bytes)
        {
            text.push_str(whole);
            return;
        }
        self.pending.extend_from_slice(bytes);
        let complete = self.pending.len() - incomplete_tail(&self.pending);
        text.push_str(&String::from_utf8_lossy(&self.pending[..complete]));
        self.pending.drain(..complete);
    }

    /// Gives what was held back, as U+FFFD since it is no whole character, and is at the beginning of a text again.
    pub fn finish(&mut self) -> String {
        let mut text = String::new();
        self.finish_into(&mut text);
        text
    }

    /// Adds what was held back to `text`, as [`StreamDecoder::finish`] gives it.
    pub(crate) fn finish_into(&mut self, text: &mut String) {
        text.push_str(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
    }
}

/// How many bytes at the end begin a character that the next byte may continue.
fn incomplete_tail(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    let start = bytes.len() - longest;
    let lead = bytes[start..].iter().rposition(|byte| !(0x80..0xc0).contains(byte));
    let Some(lead) = lead else { return 0 };
    let tail = &bytes[start + lead..];
    match std::str::from_utf8(tail) {
        // Without an error length the bytes are a proper beginning, and only the end is missing.
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => tail.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{tiny_tokenizer, vector_tokenizer};

    /// The token of each byte.
    fn byte_tokens(tokenizer: &Tokenizer, bytes: &[u8]) -> Vec<u32> {
        let ids = 0..u32::try_from(tokenizer.vocabulary_size()).unwrap();
        let table: std::collections::HashMap<u8, u32> = ids
            .filter_map(|id| tokenizer.id_to_bytes(id).filter(|bytes| bytes.len() == 1).map(|bytes| (bytes[0], id)))
            .collect();
        bytes.iter().map(|byte| table[byte]).collect()
    }

    fn deltas(bytes: &[u8]) -> Vec<String> {
        let tokenizer = vector_tokenizer("qwen3");
        let mut decoder = StreamDecoder::new(tokenizer.clone());
        let mut deltas: Vec<String> =
            byte_tokens(&tokenizer, bytes).into_iter().map(|token| decoder.feed(token)).collect();
        deltas.push(decoder.finish());
        deltas
    }

    #[test]
    fn a_character_comes_whole() {
        assert_eq!(deltas("é🙂a".as_bytes()), ["", "é", "", "", "", "🙂", "a", ""]);
    }

    #[test]
    fn a_replacement_character_that_was_meant_does_not_stall() {
        assert_eq!(deltas("\u{fffd}a".as_bytes()), ["", "", "\u{fffd}", "a", ""]);
    }

    #[test]
    fn a_byte_is_replaced_as_soon_as_it_is_known_to_be_wrong() {
        assert_eq!(deltas(b"\xffa"), ["\u{fffd}", "a", ""]);
        assert_eq!(deltas(b"\xe4\xbda"), ["", "", "\u{fffd}a", ""]);
        // A surrogate cannot come of these bytes, so that both are wrong at the second.
        assert_eq!(deltas(b"\xed\xa0"), ["", "\u{fffd}\u{fffd}", ""]);
        assert_eq!(deltas(b"\xf0\x9f\x99"), ["", "", "", "\u{fffd}"]);
    }

    fn stream(tokenizer: &Arc<Tokenizer>, tokens: &[u32]) -> String {
        let mut decoder = StreamDecoder::new(tokenizer.clone());
        let mut text: String = tokens.iter().map(|token| decoder.feed(*token)).collect();
        text.push_str(&decoder.finish());
        text
    }

    proptest! {
        #[test]
        fn deltas_add_up_to_the_whole(tokens in proptest::collection::vec(0u32..330, 0..60)) {
            let tokenizer = tiny_tokenizer();
            prop_assert_eq!(stream(&tokenizer, &tokens), tokenizer.decode(&tokens));
        }

        #[test]
        fn deltas_of_raw_bytes_add_up_to_the_whole(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x80u8..0xc0, 0xe0u8..=0xff], 0..40),
        ) {
            let tokenizer = tiny_tokenizer();
            let tokens = byte_tokens(&tokenizer, &bytes);
            prop_assert_eq!(stream(&tokenizer, &tokens), String::from_utf8_lossy(&bytes));
        }
    }
}
