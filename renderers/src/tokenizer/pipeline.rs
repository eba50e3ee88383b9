//! The steps of Hugging Face's pre-tokenizers, with a bound on what a model's own patterns may cost. The library runs a
//! pattern for as long as it takes, and passes over the rest of a text in silence where the pattern gives up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fancy_regex::{Regex, RegexBuilder};
use serde_json::Value;
use tokenizers::pattern::{Invert, Pattern};
use tokenizers::{Offsets, PreTokenizedString, PreTokenizer, PreTokenizerWrapper, SplitDelimiterBehavior};

/// How often a pattern may go back while it looks for one match.
const STEPS_BACK: usize = 10_000_000;
/// How long a pattern may look for matches in a text, and so much longer for each [`BYTES`] of it. Patterns in use take
/// milliseconds.
const TIME: Duration = Duration::from_secs(1);
const BYTES: usize = 64 << 10;

/// How a text is cut before the vocabulary is applied.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// Where a pattern of the model's own says.
    Split { pattern: Regex, behavior: SplitDelimiterBehavior, invert: bool },
    /// As the library does it.
    Library(Box<PreTokenizerWrapper>),
}

impl Pipeline {
    /// Of the `pre_tokenizer` of a `tokenizer.json`.
    pub(crate) fn of(pre_tokenizer: &Value) -> Result<Self, String> {
        let mut steps = Vec::new();
        collect(pre_tokenizer, &mut steps)?;
        Ok(Self { steps })
    }

    /// Whether a pattern of the model's own is among its steps.
    pub(crate) fn has_patterns(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Split { .. }))
    }

    /// Cuts what is not a token yet.
    pub(crate) fn cut(&self, text: &mut PreTokenizedString, bytes: usize) -> tokenizers::Result<()> {
        let until = Instant::now() + TIME + TIME * u32::try_from(bytes / BYTES).unwrap_or(u32::MAX / 2);
        for step in &self.steps {
            match step {
                Step::Library(step) => step.pre_tokenize(text)?,
                Step::Split { pattern, behavior, invert } => {
                    let bounded = Bounded { pattern, until };
                    text.split(|_, part| match invert {
                        true => part.split(Invert(bounded), *behavior),
                        false => part.split(bounded, *behavior),
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn collect(step: &Value, steps: &mut Vec<Step>) -> Result<(), String> {
    if step.is_null() {
        return Ok(());
    }
    if let Some(several) = step["pretokenizers"].as_array() {
        return several.iter().try_for_each(|step| collect(step, steps));
    }
    let read = |error: serde_json::Error| format!("its pre_tokenizer cannot be read: {error}");
    let pattern = step["pattern"]["Regex"].as_str().filter(|_| step["type"] == "Split");
    steps.push(match pattern {
        Some(pattern) => {
            let built = RegexBuilder::new(pattern).backtrack_limit(STEPS_BACK).build();
            let pattern = built.map_err(|error| format!("the pattern {pattern:?} cannot be read: {error}"))?;
            let behavior = serde_json::from_value(step["behavior"].clone()).map_err(read)?;
            Step::Split { pattern, behavior, invert: step["invert"] == true }
        }
        None => Step::Library(Box::new(serde_json::from_value(step.clone()).map_err(read)?)),
    });
    Ok(())
}

/// A pattern that looks no longer than until a moment.
#[derive(Clone, Copy)]
struct Bounded<'p> {
    pattern: &'p Regex,
    until: Instant,
}

impl Pattern for Bounded<'_> {
    fn find_matches(&self, inside: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let mut parts = Vec::new();
        let mut done = 0;
        for found in self.pattern.find_iter(inside) {
            let found =
                found.map_err(|error| format!("the model's pattern that cuts text into words fails: {error}"))?;
            if Instant::now() > self.until {
                return Err("the model's pattern that cuts text into words takes too long for this text".into());
            }
            if done != found.start() {
                parts.push(((done, found.start()), false));
            }
            parts.push(((found.start(), found.end()), true));
            done = found.end();
        }
        if done != inside.len() {
            parts.push(((done, inside.len()), false));
        }
        Ok(parts)
    }
}

/// What a step of the library gives. Its panic, which a model's files can bring about, is an error.
pub(crate) fn guarded<T>(run: impl FnOnce() -> tokenizers::Result<T>) -> tokenizers::Result<T> {
    // What it has half done is dropped with it.
    let panicked = |_| Err("the model's tokenizer files make the tokenizer library panic".into());
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked)
}

/// What is wrong with a normalizer's steps, if anything is: a pattern that may go back and forth for ever, or a table
/// that claims to be longer than it is.
pub(crate) fn normalizer_fault(normalizer: &Value) -> Option<String> {
    if let Some(several) = normalizer["normalizers"].as_array() {
        return several.iter().find_map(normalizer_fault);
    }
    if let Some(pattern) = normalizer["pattern"]["Regex"].as_str()
        && let Err(error) = regex::Regex::new(pattern)
    {
        return Some(format!("its normalizer has a pattern that is not run in bounded time: {error}"));
    }
    let table = normalizer["precompiled_charsmap"].as_str()?;
    let length = claimed_length(table)?;
    let held = table.len() / 4 * 3;
    (length > held).then(|| format!("its normalizer's table claims {length} bytes, and has {held}"))
}

/// The number that the first four bytes of a text in base64 are.
fn claimed_length(base64: &str) -> Option<usize> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |letter: &u8| DIGITS.iter().position(|digit| digit == letter);
    let digits = base64.as_bytes().get(..6)?.iter().map(digit).collect::<Option<Vec<usize>>>()?;
    let bits = digits.iter().fold(0, |bits, digit| bits << 6 | digit);
    // Of 36 bits, the first 32 are the bytes, the lowest first.
    Some(u32::try_from(bits >> 4).ok()?.swap_bytes() as usize)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn split(pattern: &str) -> Value {
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
    }

    fn words(pre_tokenizer: &Value, text: &str) -> tokenizers::Result<Vec<String>> {
        let mut cut = PreTokenizedString::from(text);
        Pipeline::of(pre_tokenizer).unwrap().cut(&mut cut, text.len())?;
        let splits = cut.get_splits(tokenizers::OffsetReferential::Normalized, tokenizers::OffsetType::Byte);
        Ok(splits.into_iter().map(|(word, ..)| word.to_owned()).collect())
    }

    #[test]
    fn words_are_those_of_the_library() {
        let byte_level =
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
        let inverted = json!({"type": "Split", "pattern": {"Regex": r"\w+"}, "behavior": "Removed", "invert": true});
        let literal =
            json!({"type": "Split", "pattern": {"String": "."}, "behavior": "MergedWithPrevious", "invert": false});
        let several = |steps: Vec<Value>| json!({"type": "Sequence", "pretokenizers": steps});
        for pre_tokenizer in [
            split(r"\s+(?!\S)|\S+|\s"),
            split(r"x*"),
            inverted.clone(),
            several(vec![split(r"\p{N}{1,3}(?=\D)|\D"), several(vec![literal, byte_level])]),
            several(vec![inverted, json!({"type": "Whitespace"})]),
            Value::Null,
        ] {
            for text in ["", "a.b 12345 xx  é\n\n ", "   "] {
                let mut expected = PreTokenizedString::from(text);
                if !pre_tokenizer.is_null() {
                    let library: PreTokenizerWrapper = serde_json::from_value(pre_tokenizer.clone()).unwrap();
                    library.pre_tokenize(&mut expected).unwrap();
                }
                let (normalized, byte) = (tokenizers::OffsetReferential::Normalized, tokenizers::OffsetType::Byte);
                let expected: Vec<String> =
                    expected.get_splits(normalized, byte).into_iter().map(|(word, ..)| word.to_owned()).collect();
                assert_eq!(words(&pre_tokenizer, text).unwrap(), expected, "{text:?} by {pre_tokenizer}");
            }
        }
    }

    #[test]
    fn a_pattern_that_goes_back_for_ever_is_an_error_and_not_a_part_of_the_text() {
        let error = words(&split(r"((a|aa)+)\1\1c"), &"a".repeat(100)).unwrap_err().to_string();
        assert!(error.contains("the model's pattern"), "{error}");
    }

    #[test]
    fn a_normalizer_that_is_not_bounded_is_refused() {
        let replace = |pattern: &str| json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": ""});
        assert_eq!(normalizer_fault(&replace("(a+)+$")), None);
        assert_eq!(normalizer_fault(&Value::Null), None);
        let several = json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, replace(r"(a+)+\1$")]});
        assert!(normalizer_fault(&several).unwrap().contains("bounded time"));
        let table = |text: &str| normalizer_fault(&json!({"type": "Precompiled", "precompiled_charsmap": text}));
        assert_eq!(table("BAAAAAAAAAA="), None);
        assert_eq!(table("/////wAA").unwrap(), "its normalizer's table claims 4294967295 bytes, and has 6");
    }
}
