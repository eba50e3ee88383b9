use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::RenderError;
use crate::tokenizer::tokenizer_errors::file_error;

/// The bytes of every token, one after another.
pub(crate) struct TokenBytes {
    bytes: Vec<u8>,
    /// Where the bytes of a token end; they begin where those of the token before end.
    ends: Vec<usize>,
    /// Whether the id has a token; vocabularies may have holes.
    known: Vec<bool>,
}

/// How a vocabulary spells bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// Each byte is one printable character (GPT-2's table).
    ByteLevel,
    /// Characters, with `▁` for a space and `<0xE4>` for a byte that is no character of its own.
    SentencePiece,
}

impl TokenBytes {
    /// Reads the bytes of a tokenizer's whole vocabulary; `path` is its file, for errors.
    pub(crate) fn new(tokenizer: &tokenizers::Tokenizer, path: &Path) -> Result<Self, RenderError> {
        let decoder = serde_json::to_value(tokenizer.get_decoder()).map_err(|error| file_error(path, &error))?;
        let spelling = spelling(&decoder).ok_or_else(|| {
            file_error(path, &format!("no way is known to read the bytes of tokens with the decoder {decoder}"))
        })?;
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let alphabet = byte_level_alphabet();
        let size = tokenizer.get_vocab(true).values().max().map_or(0, |id| id + 1);
        let mut this = Self { bytes: Vec::new(), ends: Vec::new(), known: Vec::new() };
        for id in 0..size {
            let token = tokenizer.id_to_token(id);
            match &token {
                None => {}
                Some(text) if added.contains_key(&id) => this.bytes.extend_from_slice(text.as_bytes()),
                Some(text) => match spelling {
                    Spelling::ByteLevel => push_byte_level(&mut this.bytes, text, &alphabet),
                    Spelling::SentencePiece => push_sentence_piece(&mut this.bytes, text),
                },
            }
            this.ends.push(this.bytes.len());
            this.known.push(token.is_some());
        }
        Ok(this)
    }

    /// Bytes of the longest token.
    pub(crate) fn longest(&self) -> usize {
        let starts = std::iter::once(&0).chain(&self.ends);
        self.ends.iter().zip(starts).map(|(end, start)| end - start).max().unwrap_or_default()
    }

    /// The bytes of a token; `None` where the id has none.
    pub(crate) fn get(&self, id: u32) -> Option<&[u8]> {
        let index = usize::try_from(id).ok()?;
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        (*self.known.get(index)?).then(|| &self.bytes[start..self.ends[index]])
    }

    /// One more than the greatest id.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Tells the spelling by the decoder that undoes it.
fn spelling(decoder: &Value) -> Option<Spelling> {
    match decoder.get("type")?.as_str()? {
        "ByteLevel" => Some(Spelling::ByteLevel),
        "ByteFallback" | "Metaspace" => Some(Spelling::SentencePiece),
        "Sequence" => decoder.get("decoders")?.as_array()?.iter().find_map(spelling),
        _ => None,
    }
}

/// GPT-2's table from character to byte: printable Latin-1 characters stand for themselves, the other bytes, in
/// order, for the characters from U+0100.
fn byte_level_alphabet() -> HashMap<char, u8> {
    let stands_for_itself = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let others = (0..=u8::MAX).filter(|byte| !stands_for_itself(*byte));
    let themselves = (0..=u8::MAX).filter(|byte| stands_for_itself(*byte)).map(|byte| (char::from(byte), byte));
    ('\u{100}'..).zip(others).chain(themselves).collect()
}

/// [`byte_level_alphabet`] from byte to character.
pub(crate) fn byte_level_characters() -> [char; 256] {
    let mut characters = ['\0'; 256];
    for (character, byte) in byte_level_alphabet() {
        characters[usize::from(byte)] = character;
    }
    characters
}

/// A token with a character outside the table is its own text, as it is for the decoder.
fn push_byte_level(bytes: &mut Vec<u8>, token: &str, alphabet: &HashMap<char, u8>) {
    match token.chars().map(|character| alphabet.get(&character).copied()).collect::<Option<Vec<u8>>>() {
        Some(spelled) => bytes.extend(spelled),
        None => bytes.extend_from_slice(token.as_bytes()),
    }
}

fn push_sentence_piece(bytes: &mut Vec<u8>, token: &str) {
    let byte = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')).filter(|hex| hex.len() == 2);
    match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) => bytes.push(byte),
        None => bytes.extend_from_slice(token.replace('▁', " ").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::vector_tokenizer;

    #[test]
    fn the_alphabet_has_every_byte_once() {
        let alphabet = byte_level_alphabet();
        let mut bytes: Vec<u8> = alphabet.values().copied().collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=u8::MAX).collect::<Vec<u8>>());
        assert_eq!((alphabet[&'Ġ'], alphabet[&'Ċ'], alphabet[&'Ń']), (b' ', b'\n', 0xad));
    }

    #[test]
    fn a_character_cut_in_two_keeps_its_bytes() {
        let tokenizer = vector_tokenizer("qwen3");
        let tokens = tokenizer.encode_ordinary("你").unwrap();
        let bytes: Vec<&[u8]> = tokens.iter().map(|token| tokenizer.id_to_bytes(*token).unwrap()).collect();
        assert_eq!(bytes, [&[0xe4][..], &[0xbd], &[0xa0]]);
    }

    #[test]
    fn sentence_pieces_are_spaces_and_bytes() {
        let mut bytes = Vec::new();
        for token in ["▁the", "<0xE4>", "<0x0A>", "<0xZZ>"] {
            push_sentence_piece(&mut bytes, token);
        }
        assert_eq!(bytes, b" the\xe4\n<0xZZ>");
    }

    #[test]
    fn a_decoder_tells_the_spelling() {
        assert_eq!(spelling(&json!({"type": "ByteLevel", "add_prefix_space": true})), Some(Spelling::ByteLevel));
        let sequence = json!({"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}]});
        assert_eq!(spelling(&sequence), Some(Spelling::SentencePiece));
        assert_eq!(spelling(&json!({"type": "WordPiece"})), None);
        assert_eq!(spelling(&Value::Null), None);
    }
}
