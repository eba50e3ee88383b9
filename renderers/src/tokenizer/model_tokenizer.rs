use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokenizers::normalizer::Range;
use tokenizers::{Model, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, Token};

use crate::RenderError;
use crate::small_files::{LONGEST_TOKENIZER, read_small_file};
use crate::tokenizer::control_finder::ControlFinder;
use crate::tokenizer::encoded_texts::EncodedTexts;
use crate::tokenizer::fingerprint::hex_sha256;
use crate::tokenizer::piece::Piece;
use crate::tokenizer::pipeline::{Pipeline, guarded, normalizer_fault};
use crate::tokenizer::token_bytes::{TokenBytes, byte_level_characters};
use crate::tokenizer::tokenizer_config::TokenizerConfig;
use crate::tokenizer::tokenizer_errors::{file_error, tokenizer_error};
use crate::tokenizer::word_splitter::WordSplitter;
use crate::tokenizer::word_tokens::WordTokens;

/// Bytes that texts which were encoded lately may take, together with their tokens: hundreds of long system prompts.
const ENCODED_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that words may take with their tokens: some fifty thousand.
const WORD_BYTES: usize = 4 * 1024 * 1024;

/// Many times what any model has.
const GREATEST_VOCABULARY: u32 = 1 << 22;

/// Whether the tokens stand around a prompt that its tokenizer puts around texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpecialTokens {
    /// They do.
    #[default]
    Add,
    /// They do not.
    LeaveOut,
}

impl From<Option<bool>> for SpecialTokens {
    /// As `add_special_tokens` says, which is true where it is not given.
    fn from(add_special_tokens: Option<bool>) -> Self {
        if add_special_tokens == Some(false) { Self::LeaveOut } else { Self::Add }
    }
}

/// A model's tokenizer, read from the `tokenizer.json` of a Hugging Face model directory and the files beside it.
pub struct Tokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
    bytes: TokenBytes,
    control_texts: HashSet<String>,
    /// Where control tokens can be found without the library.
    control_finder: Option<ControlFinder>,
    fingerprint: String,
    config: TokenizerConfig,
    eos_ids: Vec<u32>,
    /// Texts that follow something else, and texts that come first.
    encoded: [EncodedTexts; 2],
    /// Where words can be cut by hand.
    words: Option<Words>,
    /// How text is cut where they cannot.
    pipeline: Pipeline,
}

/// What takes the place of Hugging Face's pipeline where it is known what that does.
struct Words {
    splitter: WordSplitter,
    tokens: WordTokens,
    /// How the vocabulary spells each byte.
    characters: [char; 256],
}

impl Words {
    /// Of a tokenizer whose texts are cut by a known pattern after no more than NFC.
    fn of(tokenizer: &tokenizers::Tokenizer) -> Result<Option<Self>, RenderError> {
        let value = |part: serde_json::Result<Value>| part.map_err(|error| tokenizer_error(&error));
        let normalizer = value(serde_json::to_value(tokenizer.get_normalizer()))?;
        if !normalizer.is_null() && normalizer != json!({ "type": "NFC" }) {
            return Ok(None);
        }
        let splitter = WordSplitter::of(&value(serde_json::to_value(tokenizer.get_pre_tokenizer()))?)?;
        let (tokens, characters) = (WordTokens::new(WORD_BYTES), byte_level_characters());
        Ok(splitter.map(|splitter| Self { splitter, tokens, characters }))
    }

    fn spelled(&self, word: &str) -> String {
        word.bytes().map(|byte| self.characters[usize::from(byte)]).collect()
    }
}

impl Tokenizer {
    /// Reads `tokenizer.json` (required), `tokenizer_config.json`, `chat_template.jinja` and
    /// `generation_config.json` of a model directory.
    pub fn open(model_dir: &Path) -> Result<Self, RenderError> {
        Self::open_file(&model_dir.join("tokenizer.json"))
    }

    /// Reads a `tokenizer.json`, whatever its name, and the files beside it that [`open`](Self::open) reads.
    pub fn open_file(path: &Path) -> Result<Self, RenderError> {
        let json = read_small_file(path, LONGEST_TOKENIZER).map_err(|error| file_error(path, &error))?;
        let fields = serde_json::from_slice::<Value>(&json).map_err(|error| file_error(path, &error))?;
        if let Some(fault) = normalizer_fault(&fields["normalizer"]).or_else(|| id_fault(&fields)) {
            return Err(file_error(path, &fault));
        }
        let pipeline = Pipeline::of(&fields["pre_tokenizer"]).map_err(|error| file_error(path, &error))?;
        drop(fields);
        let read = || tokenizers::Tokenizer::from_bytes(&json);
        let mut inner = guarded(read).map_err(|error| file_error(path, &error))?;
        // Training files may leave these set; a prompt is never cut or filled up silently.
        inner.with_truncation(None).map_err(|error| file_error(path, &error))?.with_padding(None);
        let model_dir = path.parent().unwrap_or(Path::new(""));
        let config = TokenizerConfig::read(model_dir)?;
        let eos_ids = eos_ids(&inner, &config);
        let words = Words::of(&inner)?;
        Ok(Self {
            path: model_dir.to_owned(),
            bytes: TokenBytes::new(&inner, path)?,
            control_texts: control_texts(&inner),
            control_finder: ControlFinder::of(&inner),
            fingerprint: hex_sha256(&[&json]),
            inner,
            config,
            eos_ids,
            encoded: [EncodedTexts::new(ENCODED_BYTES), EncodedTexts::new(ENCODED_BYTES)],
            words,
            pipeline,
        })
    }

    /// Encodes text that someone wrote: whatever it spells, no control token comes out, neither a special token nor
    /// any other token of the added vocabulary (`<think>`, `<tool_call>`). Nothing is put before or after it.
    pub fn encode_ordinary(&self, text: &str) -> Result<Vec<u32>, RenderError> {
        self.encode_pieces(&[Piece::Text(text.to_owned())])
    }

    /// Encodes text as Hugging Face's tokenizers do with `add_special_tokens=False`: text that spells a control token
    /// becomes that token. Only for text that the format itself wrote.
    pub fn encode_with_specials(&self, text: &str) -> Result<Vec<u32>, RenderError> {
        self.encode_prompt(text, SpecialTokens::LeaveOut)
    }

    /// Encodes a whole prompt that was given as text, as completions of vLLM do: text that spells a control token becomes
    /// that token, and the tokens stand around it that the tokenizer puts there, such as the one that begins a text.
    pub fn encode_prompt(&self, text: &str, special_tokens: SpecialTokens) -> Result<Vec<u32>, RenderError> {
        let adds = special_tokens == SpecialTokens::Add;
        let encode = || match self.pipeline.has_patterns() {
            true => self.encode_prompt_by_pipeline(text, adds),
            false => Ok(self.inner.encode_fast(text, adds)?.get_ids().to_vec()),
        };
        guarded(encode).map_err(|error| tokenizer_error(&error))
    }

    /// What the library does, but that the model's own patterns are bounded.
    fn encode_prompt_by_pipeline(&self, text: &str, adds: bool) -> tokenizers::Result<Vec<u32>> {
        let mut cut = self.inner.get_added_vocabulary().extract_and_normalize(self.inner.get_normalizer(), text);
        self.pipeline.cut(&mut cut, text.len())?;
        cut.tokenize(|text| self.inner.get_model().tokenize(text.get()))?;
        let encoding = cut.into_encoding(None, 0, OffsetType::None)?;
        Ok(self.inner.post_process(encoding, None, adds)?.get_ids().to_vec())
    }

    /// Encodes pieces; what [`encode_ordinary`](Self::encode_ordinary) promises holds for each piece of text.
    pub(crate) fn encode_pieces(&self, pieces: &[Piece]) -> Result<Vec<u32>, RenderError> {
        let mut tokens = Vec::new();
        let mut is_first = true;
        for piece in pieces {
            let is_empty = match piece {
                Piece::Control(id) => self.bytes.get(*id).unwrap_or_default().is_empty(),
                Piece::Text(text) => text.is_empty(),
            };
            if is_empty {
                continue;
            }
            match piece {
                Piece::Control(id) => tokens.push(*id),
                Piece::Text(text) => tokens.extend_from_slice(&self.encode_text(text, is_first)?),
            }
            is_first = false;
        }
        Ok(tokens)
    }

    /// Encodes a piece of text. Some pre-tokenisers treat the first of a sequence in a way of its own.
    fn encode_text(&self, text: &str, is_first: bool) -> Result<Arc<[u32]>, RenderError> {
        let encoded = &self.encoded[usize::from(is_first)];
        let encode = || match &self.words {
            Some(words) => self.encode_words(words, text),
            None => self.encode_by_pipeline(text, is_first),
        };
        encoded.tokens(text, || guarded(encode).map_err(|error| tokenizer_error(&error)))
    }

    /// What [`encode_by_pipeline`](Self::encode_by_pipeline) gives, word by word.
    fn encode_words(&self, words: &Words, text: &str) -> tokenizers::Result<Vec<u32>> {
        let mut normalized = None;
        // NFC leaves ASCII as it is.
        if let Some(normalizer) = self.inner.get_normalizer()
            && !text.is_ascii()
        {
            normalizer.normalize(normalized.insert(NormalizedString::from(text)))?;
        }
        let text = normalized.as_ref().map_or(text, NormalizedString::get);
        words.tokens.encode(words.splitter.words(text), |word| {
            let tokens = self.tokenize_without_control(&words.spelled(word))?;
            Ok(tokens.into_iter().map(|token| token.id).collect())
        })
    }

    /// Hugging Face's pipeline (split, normalise, pre-tokenise, tokenise) with the search for added tokens left out.
    fn encode_by_pipeline(&self, text: &str, is_first: bool) -> tokenizers::Result<Vec<u32>> {
        // What stands before a piece only shows that it is not the first.
        let before = if is_first { "" } else { "\n" };
        let mut pretokenized = PreTokenizedString::from(format!("{before}{text}"));
        pretokenized.split(|_, sequence| {
            let part = |range: std::ops::Range<usize>, tokens| {
                let part = sequence.slice(Range::Normalized(range)).ok_or("a piece splits a character")?;
                Ok::<(NormalizedString, Option<Vec<Token>>), tokenizers::Error>((part, tokens))
            };
            let known = (!is_first).then(|| part(0..before.len(), Some(vec![Token::new(0, String::new(), (0, 1))])));
            known.into_iter().chain([part(before.len()..sequence.len(), None)]).collect::<tokenizers::Result<Vec<_>>>()
        })?;
        if let Some(normalizer) = self.inner.get_normalizer() {
            pretokenized.normalize(|text| normalizer.normalize(text))?;
        }
        self.pipeline.cut(&mut pretokenized, text.len())?;
        pretokenized.tokenize(|text| self.tokenize_without_control(text.get()))?;
        let encoding = pretokenized.into_encoding(None, 0, OffsetType::None)?;
        Ok(encoding.get_ids()[before.len()..].to_vec())
    }

    /// Some vocabularies hold the control tokens too, and some models look a whole word up before they merge. Where a
    /// control token comes out of text in this way, its text is encoded again in two halves.
    fn tokenize_without_control(&self, text: &str) -> tokenizers::Result<Vec<Token>> {
        let tokens = self.inner.get_model().tokenize(text)?;
        let is_control = |token: &Token| {
            text.get(token.offsets.0..token.offsets.1)
                .is_some_and(|covered| covered == token.value && self.control_texts.contains(covered))
        };
        if !tokens.iter().any(is_control) {
            return Ok(tokens);
        }
        let mut out = Vec::with_capacity(tokens.len());
        for token in tokens {
            let middle = token.value.char_indices().nth(token.value.chars().count() / 2).map_or(0, |(at, _)| at);
            if is_control(&token) && middle > 0 {
                let (left, right) = token.value.split_at(middle);
                out.extend(self.tokenize_without_control(left)?);
                out.extend(self.tokenize_without_control(right)?);
            } else {
                out.push(token);
            }
        }
        Ok(out)
    }

    /// Cuts text into control tokens and the text between them, exactly where Hugging Face's tokenizers would.
    pub(crate) fn split_control(&self, text: &str) -> Vec<Piece> {
        match &self.control_finder {
            Some(finder) => finder.split(text),
            None => self.split_control_by_library(text),
        }
    }

    fn split_control_by_library(&self, text: &str) -> Vec<Piece> {
        let extract = || Ok(self.inner.get_added_vocabulary().extract_and_normalize(self.inner.get_normalizer(), text));
        // What cannot be normalised cannot be encoded either, which is the error then.
        let Ok(split) = guarded(extract) else { return vec![Piece::Text(text.to_owned())] };
        split
            .get_splits(OffsetReferential::Original, OffsetType::Byte)
            .into_iter()
            .flat_map(|(_, (start, end), tokens)| match tokens {
                Some(tokens) => tokens.iter().map(|token| Piece::Control(token.id)).collect(),
                None => vec![Piece::Text(text[start..end].to_owned())],
            })
            .collect()
    }

    /// [`split_control`](Self::split_control) with the control tokens that the tokenizer calls special left as text.
    pub(crate) fn split_control_but_special(&self, text: &str) -> Vec<Piece> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        let as_text = |piece| match piece {
            Piece::Control(id) => match added.get(&id) {
                Some(token) if token.special => Piece::Text(token.content.clone()),
                _ => Piece::Control(id),
            },
            text => text,
        };
        self.split_control(text).into_iter().map(as_text).collect()
    }

    /// Texts of the control tokens: those of the added vocabulary that are more than white space, each with whether
    /// the tokenizer calls it special.
    pub(crate) fn control_tokens(&self) -> impl Iterator<Item = (&str, bool)> {
        self.inner
            .get_added_vocabulary()
            .get_added_tokens_decoder()
            .values()
            .filter(|token| is_control_text(&token.content))
            .map(|token| (token.content.as_str(), token.special))
    }

    /// The text of some tokens, control tokens included: their bytes one after another, read as UTF-8. Bytes that are
    /// no UTF-8 and ids outside the vocabulary read as U+FFFD.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| self.bytes_or_replacement(*token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes that a token stands for, which may be part of a character. `None` for an id outside the vocabulary.
    pub fn id_to_bytes(&self, token: u32) -> Option<&[u8]> {
        self.bytes.get(token)
    }

    /// Bytes of the longest token, at least 1.
    pub fn longest_token_bytes(&self) -> usize {
        self.bytes.longest().max(1)
    }

    /// A token's bytes; those of U+FFFD for an id outside the vocabulary, such as a row that pads the model's matrix.
    pub(crate) fn bytes_or_replacement(&self, token: u32) -> &[u8] {
        self.bytes.get(token).unwrap_or("\u{fffd}".as_bytes())
    }

    /// The id of a token by its text as the vocabulary spells it, control tokens included.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Hex sha256 of `tokenizer.json`.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Every id is below this.
    pub fn vocabulary_size(&self) -> usize {
        self.bytes.len()
    }

    /// Tokens that end generation: those of `generation_config.json`, then the `eos_token` of `tokenizer_config.json`.
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos_ids
    }

    /// Whether a token is a control token: one of the added vocabulary that is more than white space.
    pub fn is_control(&self, token: u32) -> bool {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        added.get(&token).is_some_and(|token| is_control_text(&token.content))
    }

    /// How many control tokens stand in some tokens as spelled text, and not as the tokens that they are.
    pub fn spelled_control_tokens(&self, tokens: &[u32]) -> usize {
        let pieces = self.split_control(&self.decode(tokens));
        let seen = pieces.iter().filter(|piece| matches!(piece, Piece::Control(_))).count();
        seen.saturating_sub(tokens.iter().filter(|token| self.is_control(**token)).count())
    }

    /// The id of the `eos_token` of `tokenizer_config.json`.
    pub(crate) fn eos_token(&self) -> Option<u32> {
        self.token_to_id(self.config.special_tokens.get("eos_token")?.as_str()?)
    }

    /// Where the tokenizer was read from.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The `bos_token` of `tokenizer_config.json`; where there is no such file, the token that the tokenizer itself
    /// puts before every text.
    pub(crate) fn bos_token(&self) -> Option<String> {
        if !self.config.special_tokens.is_empty() {
            return self.config.special_tokens.get("bos_token")?.as_str().map(str::to_owned);
        }
        let of_nothing = guarded(|| self.inner.encode_fast("", true)).ok()?;
        self.inner.id_to_token(*of_nothing.get_ids().first()?)
    }

    /// What the files beside `tokenizer.json` say.
    pub(crate) fn config(&self) -> &TokenizerConfig {
        &self.config
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Tokenizer")
            .field("fingerprint", &self.fingerprint)
            .field("vocabulary_size", &self.vocabulary_size())
            .field("eos_ids", &self.eos_ids)
            .finish_non_exhaustive()
    }
}

/// Runs of white space in an added vocabulary are ordinary text that the vocabulary shortens.
fn is_control_text(text: &str) -> bool {
    !text.trim().is_empty()
}

/// The control tokens as the model's vocabulary would spell them.
fn control_texts(tokenizer: &tokenizers::Tokenizer) -> HashSet<String> {
    let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
    added.values().map(|token| token.content.clone()).filter(|text| is_control_text(text)).collect()
}

/// The first token with an id that no vocabulary has: for each id up to the greatest, something is kept.
fn id_fault(fields: &Value) -> Option<String> {
    let vocabulary = fields["model"]["vocab"].as_object().into_iter().flatten().map(|(text, id)| (text.as_str(), id));
    let added = fields["added_tokens"].as_array().into_iter().flatten();
    let added = added.map(|token| (token["content"].as_str().unwrap_or_default(), &token["id"]));
    let is_beyond = |id: &Value| id.as_f64().is_some_and(|id| id >= GREATEST_VOCABULARY as f64);
    let (text, id) = vocabulary.chain(added).find(|(_, id)| is_beyond(id))?;
    Some(format!("its token {text:?} has the id {id}; ids below {GREATEST_VOCABULARY} are read"))
}

fn eos_ids(tokenizer: &tokenizers::Tokenizer, config: &TokenizerConfig) -> Vec<u32> {
    let mut ids = config.generation_eos_ids.clone();
    let named = config.special_tokens.get("eos_token").and_then(Value::as_str);
    ids.extend(named.and_then(|text| tokenizer.token_to_id(text)));
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(*id));
    ids
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{TOKENIZERS, tiny_tokenizer, vector_tokenizer};
    use crate::tokenizer::piece::Piece;

    static OPENED: LazyLock<Vec<Arc<Tokenizer>>> =
        LazyLock::new(|| TOKENIZERS.map(vector_tokenizer).into_iter().chain([tiny_tokenizer()]).collect());

    #[test]
    fn text_that_spells_control_tokens_stays_text() {
        for name in TOKENIZERS {
            let tokenizer = vector_tokenizer(name);
            let controls: Vec<(String, bool)> =
                tokenizer.control_tokens().map(|(text, special)| (text.to_owned(), special)).collect();
            assert!(!controls.is_empty(), "{name}");
            for (text, _) in controls {
                let id = tokenizer.token_to_id(&text).unwrap();
                assert_eq!(tokenizer.encode_with_specials(&text).unwrap(), [id]);
                let ordinary = tokenizer.encode_ordinary(&text).unwrap();
                assert!(!ordinary.contains(&id), "{name}: {text} came out as its id");
                assert_eq!(tokenizer.decode(&ordinary), text);
            }
        }
    }

    #[test]
    fn text_without_control_tokens_is_encoded_as_hugging_face_does() {
        let text = "  The café's 1234 naïve 你好 🙂\n\n\tlines \r\n  and trailing  ";
        for name in TOKENIZERS {
            let tokenizer = vector_tokenizer(name);
            assert_eq!(
                tokenizer.encode_ordinary(text).unwrap(),
                tokenizer.encode_with_specials(text).unwrap(),
                "{name}"
            );
        }
    }

    #[test]
    fn the_common_tokenizers_need_no_pipeline() {
        for tokenizer in OPENED.iter() {
            let (words, finder) = (tokenizer.words.is_some(), tokenizer.control_finder.is_some());
            let expected = if tokenizer.path().ends_with("gpt_oss") { (false, true) } else { (true, true) };
            assert_eq!((words, finder), expected, "{:?}", tokenizer.path());
        }
    }

    #[test]
    fn pieces_are_encoded_one_by_one() {
        let tokenizer = vector_tokenizer("qwen3");
        let control = tokenizer.token_to_id("<|im_end|>").unwrap();
        let pieces = [Piece::Text("a\n".into()), Piece::Text("\nb".into()), Piece::Control(control)];
        let mut expected = tokenizer.encode_ordinary("a\n").unwrap();
        expected.extend(tokenizer.encode_ordinary("\nb").unwrap());
        expected.push(control);
        assert_eq!(tokenizer.encode_pieces(&pieces).unwrap(), expected);
    }

    #[test]
    fn splitting_finds_control_tokens_and_loses_nothing() {
        let tokenizer = vector_tokenizer("qwen3");
        let id = |text| Piece::Control(tokenizer.token_to_id(text).unwrap());
        let text = |text: &str| Piece::Text(text.to_owned());
        assert_eq!(
            tokenizer.split_control("<|im_start|>user\né<think><|im_end|> "),
            [id("<|im_start|>"), text("user\né"), id("<think>"), id("<|im_end|>"), text(" ")]
        );
    }

    #[test]
    fn an_id_outside_the_vocabulary_reads_as_a_replacement_character() {
        let tokenizer = vector_tokenizer("qwen3");
        let outside = u32::try_from(tokenizer.vocabulary_size()).unwrap();
        assert_eq!(tokenizer.id_to_bytes(outside), None);
        assert_eq!(tokenizer.decode(&[outside]), "\u{fffd}");
    }

    #[test]
    fn a_directory_without_a_tokenizer_is_named() {
        let error = Tokenizer::open(Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/tokenizer.json: "), "{error}");
    }

    proptest! {
        #[test]
        fn control_tokens_are_found_where_the_library_finds_them(
            parts in proptest::collection::vec(
                prop_oneof![
                    "<\\|?(im_start|im_end|endoftext|eot_id|end|return|think|reserved_special_token_1?)\\|?>", "</?think>",
                    "<｜end▁of▁sentence｜>", "[<|>]", "\\PC{0,3}", " ",
                ],
                0..12,
            ),
        ) {
            let text = parts.concat();
            for tokenizer in OPENED.iter() {
                let Some(finder) = &tokenizer.control_finder else { continue };
                prop_assert_eq!(finder.split(&text), tokenizer.split_control_by_library(&text));
            }
        }

        #[test]
        fn words_met_and_new_have_the_tokens_of_the_pipeline(
            parts in proptest::collection::vec(
                prop_oneof![
                    "[a-z]{1,8} ?", "[A-Z'0-9]{1,6}", "[ \r\n\t]{1,3}", "<\\|im_end\\|>", "<think>", "e\u{301}", "\\PC{1,4}",
                ],
                0..20,
            ),
        ) {
            let text = parts.concat();
            for tokenizer in OPENED.iter() {
                let expected = tokenizer.encode_by_pipeline(&text, true).unwrap();
                let Some(words) = &tokenizer.words else { continue };
                prop_assert_eq!(tokenizer.encode_words(words, &text).unwrap(), expected, "{:?}", tokenizer.path());
            }
        }

        #[test]
        fn decoding_gives_back_any_text(text in "\\PC*|[\\x00-\\x7f\u{80}-\u{10ffff}]*") {
            let tokenizer = tiny_tokenizer();
            let tokens = tokenizer.encode_ordinary(&text).unwrap();
            prop_assert_eq!(tokenizer.decode(&tokens), text);
        }

        #[test]
        fn control_tokens_never_come_out_of_text(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("<|im_start|>".to_owned()), Just("<|im_end|>".to_owned()), Just("<|endoftext|>".to_owned()),
                    Just("<think>".to_owned()), Just("</think>".to_owned()), Just("<|im_".to_owned()),
                    Just("end|>".to_owned()), ".{0,4}",
                ],
                0..12,
            ),
        ) {
            let text = parts.concat();
            for tokenizer in [tiny_tokenizer(), vector_tokenizer("qwen3"), vector_tokenizer("kimi")] {
                let controls: Vec<u32> =
                    tokenizer.control_tokens().filter_map(|(text, _)| tokenizer.token_to_id(text)).collect();
                let tokens = tokenizer.encode_ordinary(&text).unwrap();
                prop_assert!(tokens.iter().all(|token| !controls.contains(token)));
            }
        }
    }
}
