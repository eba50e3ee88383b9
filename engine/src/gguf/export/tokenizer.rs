//! The tokenizer of a model directory in GGUF's words.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::checkpoints::tensor_files::{CONFIG, GENERATION_CONFIG};
use crate::error::EngineError;
use crate::gguf::metadata::{Metadata, MetadataValue};
use crate::gguf::tokenizer::{CONTROL, PreTokenizer, USER_DEFINED, key};
use crate::small_files::{LONGEST_CONFIG, LONGEST_TOKENIZER, read_small_file};

const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TEMPLATE_FILE: &str = "chat_template.jinja";
/// What a token of the vocabulary is, and what one is that only fills a row of the embedding.
const NORMAL: i64 = 1;
const UNUSED: i64 = 5;

/// What the file says of tokens and the chat template. `rows` of the embedding each have a token.
pub(super) fn metadata(directory: &Path, rows: usize) -> Result<Metadata, EngineError> {
    let path = directory.join(TOKENIZER);
    let tokenizer = json_file(&path)?.ok_or_else(|| malformed(&path, "it is missing: GGUF holds the tokenizer too"))?;
    let config = json_file(&directory.join(TOKENIZER_CONFIG))?.unwrap_or_default();
    let exported = Exported { directory, path, tokenizer, config };
    let tokens = exported.tokens(rows)?;
    let mut metadata = Metadata::default();
    metadata.put(key("model"), MetadataValue::Text("gpt2".to_owned()));
    metadata.put(key("pre"), MetadataValue::Text(exported.pre_tokenizer()?.name().to_owned()));
    metadata.put(key("merges"), MetadataValue::Texts(exported.merges()?));
    for (name, id) in exported.parts(&tokens)? {
        metadata.put(key(&format!("{name}_token_id")), MetadataValue::Integer(id));
    }
    for (end, name) in [(End::First, "add_bos_token"), (End::Last, "add_eos_token")] {
        metadata.put(key(name), MetadataValue::Bool(exported.adds(end, name)?));
    }
    let (texts, kinds) = tokens.into_iter().map(|token| (token.text, token.kind)).unzip();
    metadata.put(key("tokens"), MetadataValue::Texts(texts));
    metadata.put(key("token_type"), MetadataValue::Integers(kinds));
    if let Some(template) = exported.template()? {
        metadata.put("tokenizer.chat_template", MetadataValue::Text(template));
    }
    Ok(metadata)
}

/// Which end of a text.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

struct Token {
    text: String,
    kind: i64,
}

struct Exported<'a> {
    directory: &'a Path,
    /// Of `tokenizer.json`.
    path: PathBuf,
    tokenizer: Value,
    config: Value,
}

impl Exported<'_> {
    fn refuse(&self, message: impl Into<String>) -> EngineError {
        malformed(&self.path, message)
    }

    /// A token for each row, in order; rows without one get a name that stands in no text.
    fn tokens(&self, rows: usize) -> Result<Vec<Token>, EngineError> {
        let model = &self.tokenizer["model"];
        let kind = model["type"].as_str().unwrap_or("unknown");
        let Some(vocabulary) = model["vocab"].as_object().filter(|_| kind == "BPE") else {
            return Err(self.refuse(format!("its model is {kind}; only byte-level BPE is written as GGUF")));
        };
        self.refuse_rules_of_added_tokens()?;
        let mut tokens: Vec<Option<Token>> = (0..rows).map(|_| None).collect();
        let added = self.tokenizer["added_tokens"].as_array().into_iter().flatten().map(|token| {
            let kind = if token["special"] == json!(true) { CONTROL } else { USER_DEFINED };
            (token["content"].as_str().unwrap_or_default(), &token["id"], kind)
        });
        let normal = vocabulary.iter().map(|(text, id)| (text.as_str(), id, NORMAL));
        for (text, id, kind) in normal.chain(added) {
            let place = id.as_u64().and_then(|id| tokens.get_mut(usize::try_from(id).ok()?));
            let Some(place) = place else {
                return Err(self.refuse(format!("the token {text:?} is {id}, and the embedding has {rows} rows")));
            };
            *place = Some(Token { text: text.to_owned(), kind });
        }
        let fill = |(id, token): (usize, Option<Token>)| {
            token.unwrap_or_else(|| Token { text: format!("[PAD{id}]"), kind: UNUSED })
        };
        Ok(tokens.into_iter().enumerate().map(fill).collect())
    }

    /// GGUF says of an added token that it is one. What more decides where it stands in a text would be lost.
    fn refuse_rules_of_added_tokens(&self) -> Result<(), EngineError> {
        for token in self.tokenizer["added_tokens"].as_array().into_iter().flatten() {
            if let Some(rule) = ["lstrip", "rstrip", "single_word"].into_iter().find(|rule| token[rule] == json!(true))
            {
                return Err(self.refuse(format!(
                    "its added token {} has {rule}, for which GGUF has no word: llama.cpp would cut texts otherwise. If \
                     none needs it, set it to false there",
                    token["content"]
                )));
            }
        }
        Ok(())
    }

    /// How text is cut into words, by the name that llama.cpp has for it.
    fn pre_tokenizer(&self) -> Result<PreTokenizer, EngineError> {
        let normalizer = &self.tokenizer["normalizer"];
        // Composed form is left out by llama.cpp, and by its own converter.
        if !normalizer.is_null() && normalizer["type"] != json!("NFC") {
            let kind = normalizer["type"].as_str().unwrap_or("unknown");
            return Err(self.refuse(format!("its normalizer is {kind}, for which GGUF has no word")));
        }
        let own = steps(&self.tokenizer["pre_tokenizer"]);
        PreTokenizer::ALL.into_iter().find(|known| steps(&known.steps()) == own).ok_or_else(|| {
            let known = PreTokenizer::ALL.map(PreTokenizer::name).join(", ");
            self.refuse(format!("it cuts text into words in a way for which GGUF has no name here; known are {known}"))
        })
    }

    /// Pairs of tokens, in older files with a space between them and in newer ones as lists.
    fn merges(&self) -> Result<Vec<String>, EngineError> {
        let pair = |merge: &Value| match merge {
            Value::String(merge) => Some(merge.clone()),
            Value::Array(pair) => match [pair.first()?.as_str()?, pair.get(1)?.as_str()?] {
                [left, right] if !left.contains(' ') && !right.contains(' ') => Some(format!("{left} {right}")),
                _ => None,
            },
            _ => None,
        };
        let merges = self.tokenizer["model"]["merges"].as_array().into_iter().flatten();
        merges
            .map(|merge| pair(merge).ok_or_else(|| self.refuse(format!("{merge} is no merge of two tokens"))))
            .collect()
    }

    /// Tokens with a part to play. All at which answers end are told of, in the order of what they end.
    fn parts(&self, tokens: &[Token]) -> Result<Vec<(&'static str, i64)>, EngineError> {
        let mut parts = Vec::new();
        for (part, name) in [("bos", "bos_token"), ("padding", "pad_token"), ("unknown", "unk_token")] {
            parts.extend(self.named(name, tokens)?.map(|id| (part, id)));
        }
        let generation = json_file(&self.directory.join(GENERATION_CONFIG))?.unwrap_or_default();
        let model = json_file(&self.directory.join(CONFIG))?.unwrap_or_default();
        let mut ends: Vec<i64> = self.named("eos_token", tokens)?.into_iter().collect();
        let stated =
            [&generation, &model].map(|file| ids(&file["eos_token_id"])).into_iter().find(|ids| !ids.is_empty());
        for id in stated.unwrap_or_default() {
            if !ends.contains(&id) && usize::try_from(id).is_ok_and(|id| id < tokens.len()) {
                ends.push(id);
            }
        }
        if ends.is_empty() {
            let message = "it names no eos_token, and llama.cpp would end answers at a token of its own choice";
            return Err(malformed(&self.directory.join(TOKENIZER_CONFIG), message));
        }
        parts.extend(["eos", "eot", "eom"].into_iter().zip(ends));
        Ok(parts)
    }

    /// The token that the tokenizer's configuration names.
    fn named(&self, name: &str, tokens: &[Token]) -> Result<Option<i64>, EngineError> {
        let value = &self.config[name];
        let Some(text) = value.as_str().or_else(|| value["content"].as_str()) else { return Ok(None) };
        match tokens.iter().position(|token| token.text == text) {
            Some(id) => Ok(Some(id as i64)),
            None => {
                let message = format!("{name} is {text:?}, which is no token");
                Err(malformed(&self.directory.join(TOKENIZER_CONFIG), message))
            }
        }
    }

    /// Whether a token is put before, or behind, a text that is encoded whole: as the tokenizer's configuration says, and
    /// where it says nothing, as the tokenizer does.
    fn adds(&self, end: End, name: &str) -> Result<bool, EngineError> {
        match &self.config[name] {
            Value::Null => {}
            Value::Bool(adds) => return Ok(*adds),
            other => {
                let message = format!("{name} is {other}, neither true nor false");
                return Err(malformed(&self.directory.join(TOKENIZER_CONFIG), message));
            }
        }
        let post = &self.tokenizer["post_processor"];
        let several = post["processors"].as_array().map_or(std::slice::from_ref(post), Vec::as_slice);
        let templates = several.iter().filter(|it| it["type"] == "TemplateProcessing");
        let mut pieces = templates.filter_map(|it| it["single"].as_array()).filter_map(|pieces| match end {
            End::First => pieces.first(),
            End::Last => pieces.last(),
        });
        Ok(pieces.any(|piece| piece["SpecialToken"].is_object()))
    }

    /// Where two files have one, the file of its own counts, as for transformers.
    fn template(&self) -> Result<Option<String>, EngineError> {
        let path = self.directory.join(TEMPLATE_FILE);
        if path.exists() {
            return read_small_file(&path, LONGEST_CONFIG).map(Some);
        }
        Ok(match &self.config["chat_template"] {
            Value::String(template) => Some(template.clone()),
            Value::Array(named) => {
                let default = named.iter().find(|template| template["name"] == "default");
                default.and_then(|template| Some(template["template"].as_str()?.to_owned()))
            }
            _ => None,
        })
    }
}

/// What of a pre-tokenizer decides which words there are.
fn steps(pre_tokenizer: &Value) -> Vec<Value> {
    if let Some(several) = pre_tokenizer["pretokenizers"].as_array() {
        return several.iter().flat_map(steps).collect();
    }
    let mut step = pre_tokenizer.clone();
    // Of places in the text alone.
    step.as_object_mut().map(|step| step.remove("trim_offsets"));
    vec![step]
}

fn ids(value: &Value) -> Vec<i64> {
    match value {
        Value::Array(ids) => ids.iter().filter_map(Value::as_i64).collect(),
        id => id.as_i64().into_iter().collect(),
    }
}

fn json_file(path: &Path) -> Result<Option<Value>, EngineError> {
    match read_small_file(path, LONGEST_TOKENIZER) {
        Ok(text) => {
            let read = serde_json::from_str(&text);
            read.map(Some).map_err(|error| malformed(path, format!("not JSON: {error}")))
        }
        Err(EngineError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn malformed(path: &Path, message: impl Into<String>) -> EngineError {
    EngineError::Malformed { path: path.to_path_buf(), message: message.into() }
}
