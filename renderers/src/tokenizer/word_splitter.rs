//! Text to the words that a byte-level vocabulary is applied to, one at a time. What a pre-tokeniser of Hugging Face's
//! does by backtracking, with a record of where each character came from, is done here in one pass, for the patterns
//! that most models have.

use regex::Regex;
use serde_json::{Value, json};

use crate::RenderError;
use crate::tokenizer::tokenizer_errors::tokenizer_error;

/// The pattern of Qwen's tokenizers, in which every digit is a word.
const SINGLE_DIGITS: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The pattern of Llama 3's and of many others', in which up to three digits are one (OpenAI's cl100k).
const GROUPED_DIGITS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Cuts text into words exactly as one of the known pre-tokenisers.
#[derive(Debug)]
pub(crate) struct WordSplitter {
    pattern: Pattern,
    /// Whether every digit is cut out before the pattern is looked for.
    cuts_digits: bool,
    letter: Regex,
    number: Regex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// GPT-2's: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
    Gpt2,
    /// [`SINGLE_DIGITS`] or [`GROUPED_DIGITS`], by how many digits a word may have.
    Cl100k { digits: usize },
}

/// The classes of characters that the patterns distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    /// `\r` and `\n`.
    Newline,
    /// Other white space.
    Space,
    Other,
}

impl WordSplitter {
    /// The splitter that does what a tokenizer's `pre_tokenizer` does; `None` where that is not known.
    pub(crate) fn of(pre_tokenizer: &Value) -> Result<Option<Self>, RenderError> {
        let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let byte_level = |value: &Value, uses_regex: bool| {
            value["type"] == "ByteLevel" && value["add_prefix_space"] == false && value["use_regex"] == uses_regex
        };
        let (pattern, cuts_digits) = match pre_tokenizer["pretokenizers"].as_array().map(Vec::as_slice) {
            None if byte_level(pre_tokenizer, true) => (Pattern::Gpt2, false),
            Some([digits, last]) if *digits == json!({"type": "Digits", "individual_digits": true}) => {
                match byte_level(last, true) {
                    true => (Pattern::Gpt2, true),
                    false => return Ok(None),
                }
            }
            Some([first, last]) if byte_level(last, false) && *first == split(SINGLE_DIGITS) => {
                (Pattern::Cl100k { digits: 1 }, false)
            }
            Some([first, last]) if byte_level(last, false) && *first == split(GROUPED_DIGITS) => {
                (Pattern::Cl100k { digits: 3 }, false)
            }
            _ => return Ok(None),
        };
        let class = |name: &str| Regex::new(&format!(r"\A\p{{{name}}}")).map_err(|error| tokenizer_error(&error));
        Ok(Some(Self { pattern, cuts_digits, letter: class("L")?, number: class("N")? }))
    }

    /// The words of a text, which are the text when they stand one after another.
    pub(crate) fn words<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut rest = text;
        // Bytes of `rest` that the pattern sees.
        let mut seen = 0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            if seen == 0 {
                seen = self.seen(rest);
            }
            let (word, behind) = rest.split_at(self.word(&rest[..seen]));
            (rest, seen) = (behind, seen - word.len());
            Some(word)
        })
    }

    /// How far the pattern sees: to the next digit where digits are cut out, and over a digit that is the first.
    fn seen(&self, text: &str) -> usize {
        let digit = self.cuts_digits.then(|| text.find(char::is_numeric)).flatten();
        match digit {
            None => text.len(),
            Some(0) => text.chars().next().map_or(0, char::len_utf8),
            Some(at) => at,
        }
    }

    /// The length of the first word of a text that is not empty.
    fn word(&self, text: &str) -> usize {
        if let Some(length) = self.contraction(text) {
            return length;
        }
        let (class, length) = self.first(text);
        let behind = &text[length..];
        let next = (!behind.is_empty()).then(|| self.first(behind).0);
        let run = |class: Class| length + self.run(behind, class, usize::MAX);
        match (self.pattern, class) {
            (_, Class::Letter) => run(Class::Letter),
            (Pattern::Gpt2, Class::Number | Class::Other) => run(class),
            (Pattern::Gpt2, _) => match next {
                Some(next @ (Class::Letter | Class::Number | Class::Other)) if text.starts_with(' ') => run(next),
                _ => self.white_space(text),
            },
            (Pattern::Cl100k { digits }, Class::Number) => length + self.run(behind, Class::Number, digits - 1),
            (_, Class::Space | Class::Other) if next == Some(Class::Letter) => run(Class::Letter),
            (_, Class::Other) => self.with_newlines(text, run(Class::Other)),
            (_, _) if next == Some(Class::Other) && text.starts_with(' ') => {
                self.with_newlines(text, run(Class::Other))
            }
            (_, _) => self.white_space(text),
        }
    }

    /// How many bytes at the beginning of a text are of a class, and of no more characters than `most`.
    fn run(&self, text: &str, class: Class, most: usize) -> usize {
        let (mut length, mut count) = (0, 0);
        while count < most && length < text.len() {
            let (found, bytes) = self.first(&text[length..]);
            if found != class {
                break;
            }
            (length, count) = (length + bytes, count + 1);
        }
        length
    }

    /// A word with the newlines behind it.
    fn with_newlines(&self, text: &str, length: usize) -> usize {
        length + self.run(&text[length..], Class::Newline, usize::MAX)
    }

    /// White space: up to its last newline where newlines matter and it has one; else all but its last character, which
    /// belongs to what follows, if anything does.
    fn white_space(&self, text: &str) -> usize {
        let end = text.find(|character: char| !character.is_whitespace()).unwrap_or(text.len());
        let space = &text[..end];
        let newline = (self.pattern != Pattern::Gpt2).then(|| space.rfind(['\r', '\n'])).flatten();
        let before_last = space.char_indices().next_back().map_or(0, |(at, _)| at);
        match newline {
            Some(at) => at + 1,
            None if end < text.len() && before_last > 0 => before_last,
            None => end,
        }
    }

    /// An English ending at the beginning of a text.
    fn contraction(&self, text: &str) -> Option<usize> {
        let behind = text.strip_prefix('\'')?;
        let folded = |character: char| match self.pattern {
            Pattern::Gpt2 => character,
            // The only other letter that is one of these where case does not matter.
            Pattern::Cl100k { .. } if character == 'ſ' => 's',
            Pattern::Cl100k { .. } => character.to_ascii_lowercase(),
        };
        let mut characters = behind.chars();
        let first = characters.next()?;
        let second = characters.next().map(folded);
        match (folded(first), second) {
            ('s' | 't' | 'm' | 'd', _) => Some(1 + first.len_utf8()),
            ('r' | 'v', Some('e')) | ('l', Some('l')) => Some(3),
            _ => None,
        }
    }

    /// The class of a text's first character and its length.
    fn first(&self, text: &str) -> (Class, usize) {
        let Some(character) = text.chars().next() else { return (Class::Other, 0) };
        let class = match character {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Number,
            '\r' | '\n' => Class::Newline,
            _ if character.is_whitespace() => Class::Space,
            '\0'..='\x7f' => Class::Other,
            _ if self.letter.is_match(text) => Class::Letter,
            _ if self.number.is_match(text) => Class::Number,
            _ => Class::Other,
        };
        (class, character.len_utf8())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper};

    use super::*;

    fn known() -> Vec<Value> {
        let byte_level = |uses_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": uses_regex});
        let sequence = |first: Value, last: Value| json!({"type": "Sequence", "pretokenizers": [first, last]});
        let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        vec![
            byte_level(true),
            sequence(json!({"type": "Digits", "individual_digits": true}), byte_level(true)),
            sequence(split(SINGLE_DIGITS), byte_level(false)),
            sequence(split(GROUPED_DIGITS), byte_level(false)),
        ]
    }

    /// The words as Hugging Face's pre-tokeniser cuts them.
    fn expected<'t>(pre_tokenizer: &Value, text: &'t str) -> Vec<&'t str> {
        let pre_tokenizer: PreTokenizerWrapper = serde_json::from_value(pre_tokenizer.clone()).unwrap();
        let mut pretokenized = PreTokenizedString::from(text);
        pre_tokenizer.pre_tokenize(&mut pretokenized).unwrap();
        let splits = pretokenized.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits.into_iter().map(|(_, (start, end), _)| &text[start..end]).collect()
    }

    fn check(text: &str) {
        for pre_tokenizer in known() {
            let splitter = WordSplitter::of(&pre_tokenizer).unwrap().unwrap();
            let words: Vec<&str> = splitter.words(text).collect();
            assert_eq!(words, expected(&pre_tokenizer, text), "{text:?} by {pre_tokenizer}");
        }
    }

    #[test]
    fn words_are_those_of_hugging_face() {
        for text in [
            "",
            " ",
            "I'll say it's 'Re'VE we'D don'ſ 'l 'lé",
            "  two   spaces\n\n \t lines \r\n\r\n end  ",
            "f(x) = {\"a\": [1, 22, 333, 4444]}\n\n\t}\n",
            "naïve 你好 🙂\u{200d}🙂 १२३ ½ Ⅷ \u{a0}x\u{3000}y\u{2028} e\u{301} ß",
            "\u{85}a \u{85}\u{85}b",
        ] {
            check(text);
        }
    }

    #[test]
    fn a_pre_tokeniser_that_is_not_known_is_left_to_the_library() {
        let mut unknown = vec![Value::Null, json!({"type": "Metaspace"})];
        for mut known in known() {
            let changed = match known["pretokenizers"].as_array_mut() {
                Some(parts) => &mut parts[1],
                None => &mut known,
            };
            changed["add_prefix_space"] = json!(true);
            unknown.push(known);
        }
        for pre_tokenizer in unknown {
            assert!(WordSplitter::of(&pre_tokenizer).unwrap().is_none(), "{pre_tokenizer}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn words_of_any_text_are_those_of_hugging_face(
            parts in proptest::collection::vec(
                prop_oneof![
                    "[a-zA-Z]{1,3}", "[0-9]{1,5}", "[ \t\r\n\u{b}\u{c}]{1,4}", "'[a-zA-Zſ]{0,3}", "[!-/:-@]{1,3}",
                    "[\u{80}-\u{24ff}]{1,3}", "[\\p{L}\\p{N}\\p{M}\\p{Z}]{1,2}", "\\PC", "[\\x00-\\x7f\u{80}-\u{10ffff}]",
                ],
                0..12,
            ),
        ) {
            check(&parts.concat());
        }
    }
}
