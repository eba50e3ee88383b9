//! A GGUF file's tokenizer as the `tokenizer.json` and `tokenizer_config.json` of a model directory.

use serde_json::{Map, Value, json};

use super::header::{GgufFile, malformed};
use crate::error::EngineError;

/// Files of a model directory, by name.
pub(super) type TokenizerFiles = Vec<(&'static str, Value)>;

/// How text is cut into words before tokens are made of them, by the names that llama.cpp has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreTokenizer {
    /// GPT-2's words, digits one by one.
    Smollm,
    /// GPT-4's words, digits one by one.
    Qwen2,
    /// GPT-4's words, digits by up to three.
    LlamaBpe,
    /// GPT-2's words.
    Gpt2,
    /// llama.cpp's default: punctuation apart, and digits by up to three.
    Default,
}

/// GPT-2's words, of which the byte-level step of tokenizers has a pattern of its own.
const GPT_2_WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const QWEN_2_WORDS: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA_3_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl PreTokenizer {
    pub(super) const ALL: [Self; 5] = [Self::Smollm, Self::Qwen2, Self::LlamaBpe, Self::Gpt2, Self::Default];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Smollm => "smollm",
            Self::Qwen2 => "qwen2",
            Self::LlamaBpe => "llama-bpe",
            Self::Gpt2 => "gpt-2",
            Self::Default => "default",
        }
    }

    /// The steps in the words of `tokenizer.json`.
    pub(super) fn steps(self) -> Value {
        let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let steps = match self {
            Self::Smollm => vec![json!({"type": "Digits", "individual_digits": true}), byte_level(true)],
            Self::Gpt2 => vec![byte_level(true)],
            Self::Qwen2 => vec![split(QWEN_2_WORDS), byte_level(false)],
            Self::LlamaBpe => vec![split(LLAMA_3_WORDS), byte_level(false)],
            Self::Default => {
                let patterns = [r"[\p{P}\$\+<=>\^~\|]+", GPT_2_WORDS, r"\p{N}+", "[0-9][0-9][0-9]"];
                patterns.into_iter().map(split).chain([byte_level(false)]).collect()
            }
        };
        json!({"type": "Sequence", "pretokenizers": steps})
    }

    /// Qwen's own tokenizers put text into composed form first, which llama.cpp leaves out.
    fn normalizer(self) -> Value {
        if self == Self::Qwen2 { json!({"type": "NFC"}) } else { Value::Null }
    }
}

fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

/// What a token is, by `tokenizer.ggml.token_type`.
pub(super) const CONTROL: i64 = 3;
pub(super) const USER_DEFINED: i64 = 4;

/// What a model directory needs beside weights and configuration to read and write text.
pub(super) fn tokenizer_files(file: &GgufFile, vocabulary: usize) -> Result<TokenizerFiles, EngineError> {
    let facts = Facts { file, tokens: &[], vocabulary };
    let tokens = facts.needed("tokens", file.metadata.texts(&key("tokens")))?;
    let facts = Facts { tokens, ..facts };
    let mut files = vec![("tokenizer.json", facts.tokenizer()?), ("tokenizer_config.json", facts.tokenizer_config()?)];
    if let Some(config) = facts.generation_config()? {
        files.push(("generation_config.json", config));
    }
    Ok(files)
}

pub(super) fn key(name: &str) -> String {
    format!("tokenizer.ggml.{name}")
}

/// How text is cut into words, as the file names it.
pub(super) fn pre_tokenizer_name(file: &GgufFile) -> &str {
    file.metadata.text(&key("pre")).unwrap_or(PreTokenizer::Default.name())
}

struct Facts<'a> {
    file: &'a GgufFile,
    tokens: &'a [String],
    /// Rows of the embedding.
    vocabulary: usize,
}

impl<'a> Facts<'a> {
    fn needed<T>(&self, name: &str, found: Option<T>) -> Result<T, EngineError> {
        self.file.metadata.needed(&self.file.path, &key(name), found)
    }

    fn refuse(&self, message: String) -> EngineError {
        malformed(&self.file.path, message)
    }

    fn tokenizer(&self) -> Result<Value, EngineError> {
        let metadata = &self.file.metadata;
        let model = self.needed("model", metadata.text(&key("model")))?;
        if model != "gpt2" {
            return Err(self.refuse(format!(
                "{} is {model}; only gpt2, byte-level BPE, is read. The model directory in Hugging Face's format has its \
                 tokenizer in a form that is",
                key("model")
            )));
        }
        let pre = self.pre_tokenizer()?;
        if self.tokens.len() > self.vocabulary {
            let (tokens, rows) = (self.tokens.len(), self.vocabulary);
            return Err(self.refuse(format!("it names {tokens} tokens, and its embedding has {rows} rows")));
        }
        let mut ids = Map::new();
        for (id, token) in self.tokens.iter().enumerate() {
            if ids.insert(token.clone(), json!(id)).is_some() {
                return Err(self.refuse(format!("the token {token:?} is there twice")));
            }
        }
        Ok(json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": self.added_tokens()?,
            "normalizer": pre.normalizer(),
            "pre_tokenizer": pre.steps(),
            "post_processor": self.ends(pre)?,
            "decoder": byte_level(true),
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "ignore_merges": pre == PreTokenizer::LlamaBpe, "vocab": ids, "merges": self.merges()?,
            },
        }))
    }

    fn pre_tokenizer(&self) -> Result<PreTokenizer, EngineError> {
        let name = pre_tokenizer_name(self.file);
        PreTokenizer::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
            let known = PreTokenizer::ALL.map(PreTokenizer::name).join(", ");
            self.refuse(format!("{} is {name}; known are {known}", key("pre")))
        })
    }

    fn added_tokens(&self) -> Result<Vec<Value>, EngineError> {
        let kinds = self.needed("token_type", self.file.metadata.integers(&key("token_type")))?;
        if kinds.len() != self.tokens.len() {
            return Err(self.refuse(format!("{} has another length than the tokens", key("token_type"))));
        }
        let added = self.tokens.iter().zip(kinds).enumerate();
        Ok(added
            .filter(|(_, (_, kind))| [CONTROL, USER_DEFINED].contains(kind))
            .map(|(id, (token, kind))| {
                json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                       "normalized": false, "special": *kind == CONTROL})
            })
            .collect())
    }

    fn merges(&self) -> Result<Vec<Value>, EngineError> {
        let merges = self.needed("merges", self.file.metadata.texts(&key("merges")))?;
        let pair = |merge: &String| match merge.split_once(' ') {
            Some((left, right)) if !left.is_empty() && !right.is_empty() && !right.contains(' ') => {
                Ok(json!([left, right]))
            }
            _ => Err(self.refuse(format!("the merge {merge:?} is not of two tokens"))),
        };
        merges.iter().map(pair).collect()
    }

    /// What is put before a text that is encoded whole, and behind it, where the model wants that.
    fn ends(&self, pre: PreTokenizer) -> Result<Value, EngineError> {
        let wanted = |name: &str, usual: bool| self.file.metadata.bool(&key(name)).unwrap_or(usual);
        let first = self.special("bos")?.filter(|_| wanted("add_bos_token", pre == PreTokenizer::LlamaBpe));
        let last = self.special("eos")?.filter(|_| wanted("add_eos_token", false));
        if first.is_none() && last.is_none() {
            return Ok(Value::Null);
        }
        let token = |end: &Option<(usize, &str)>, kind: usize| {
            end.map(|(_, token)| json!({"SpecialToken": {"id": token, "type_id": kind}}))
        };
        let text = |name: &str, kind: usize| Some(json!({"Sequence": {"id": name, "type_id": kind}}));
        let list = |parts: Vec<Option<Value>>| parts.into_iter().flatten().collect::<Vec<Value>>();
        let single = list(vec![token(&first, 0), text("A", 0), token(&last, 0)]);
        let pair = list(vec![token(&first, 0), text("A", 0), token(&last, 0), text("B", 1), token(&last, 1)]);
        let special: Map<String, Value> = [first, last]
            .into_iter()
            .flatten()
            .map(|(id, token)| (token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]})))
            .collect();
        Ok(json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}))
    }

    /// The token that has a part to play, with its id.
    fn special(&self, part: &str) -> Result<Option<(usize, &'a str)>, EngineError> {
        let key = key(&format!("{part}_token_id"));
        let Some(id) = self.file.metadata.count(&key) else { return Ok(None) };
        match self.tokens.get(id) {
            Some(token) => Ok(Some((id, token))),
            None => Err(self.refuse(format!("{key} is {id}, and there are {} tokens", self.tokens.len()))),
        }
    }

    fn tokenizer_config(&self) -> Result<Value, EngineError> {
        let mut config = Map::from_iter([("tokenizer_class".to_owned(), json!("PreTrainedTokenizerFast"))]);
        for (part, name) in
            [("bos", "bos_token"), ("eos", "eos_token"), ("padding", "pad_token"), ("unknown", "unk_token")]
        {
            if let Some((_, token)) = self.special(part)? {
                config.insert(name.to_owned(), json!(token));
            }
        }
        if let Some(template) = self.file.metadata.text("tokenizer.chat_template") {
            config.insert("chat_template".to_owned(), json!(template));
        }
        config.insert("clean_up_tokenization_spaces".to_owned(), json!(false));
        Ok(Value::Object(config))
    }

    /// Where answers end: at the end of text, and at the end of a turn where that is another token.
    fn generation_config(&self) -> Result<Option<Value>, EngineError> {
        let mut ends = Vec::new();
        for part in ["eos", "eot", "eom"] {
            ends.extend(self.special(part)?.map(|(id, _)| id).filter(|id| !ends.contains(id)));
        }
        if ends.is_empty() {
            return Ok(None);
        }
        let mut config = Map::from_iter([("eos_token_id".to_owned(), json!(ends))]);
        for (part, name) in [("bos", "bos_token_id"), ("padding", "pad_token_id")] {
            if let Some((id, _)) = self.special(part)? {
                config.insert(name.to_owned(), json!(id));
            }
        }
        Ok(Some(Value::Object(config)))
    }
}
