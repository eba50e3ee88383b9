//! A GGUF file's metadata as the `config.json` of a model directory.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::header::{GgufFile, malformed};
use super::metadata::Metadata;
use crate::error::EngineError;
use crate::model::architecture::Architecture;
use crate::model::config::{GREATEST_COUNT, GREATEST_WIDTH, ModelConfig};

pub(super) const EMBEDDING: &str = "token_embd.weight";
pub(super) const HEAD: &str = "output.weight";
/// By what Llama 3.1 and its successors divide the angles of rotary embedding, pair by pair.
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";

const KEY_HEADS: &str = "attention.head_count_kv";

/// How Llama 3.1 stretches its context, but for the factor, which later models of the family have greater.
const LLAMA_3: [(&str, f64); 3] =
    [("low_freq_factor", 1.0), ("high_freq_factor", 4.0), ("original_max_position_embeddings", 8192.0)];

/// What the file says of the model.
pub(super) fn model_config(file: &GgufFile) -> Result<ModelConfig, EngineError> {
    let path = &file.path;
    let name = file.metadata.needed(path, "general.architecture", file.metadata.text("general.architecture"))?;
    let architecture = Architecture::ALL.into_iter().find(|it| it.model_type() == name).ok_or_else(|| {
        EngineError::Unsupported { path: path.clone(), field: "general.architecture", value: name.to_owned() }
    })?;
    let facts = Facts { file, metadata: &file.metadata, path, architecture };
    let text = Value::Object(facts.fields()?).to_string();
    ModelConfig::parse(&text, path)
}

struct Facts<'a> {
    file: &'a GgufFile,
    metadata: &'a Metadata,
    path: &'a Path,
    architecture: Architecture,
}

impl Facts<'_> {
    fn fields(&self) -> Result<Map<String, Value>, EngineError> {
        self.refuse_what_is_not_run()?;
        let (hidden, heads) = (self.bounded("embedding_length", GREATEST_WIDTH)?, self.count("attention.head_count")?);
        let head = self.head(hidden / heads.max(1))?;
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("architectures", json!([self.architecture.name()]));
        put("model_type", json!(self.architecture.model_type()));
        put("vocab_size", json!(self.vocabulary()?));
        put("hidden_size", json!(hidden));
        put("intermediate_size", json!(self.bounded("feed_forward_length", GREATEST_WIDTH)?));
        put("num_hidden_layers", json!(self.layers()?));
        put("num_attention_heads", json!(heads));
        put(
            "num_key_value_heads",
            json!(if self.known_count(KEY_HEADS).is_some() { self.count(KEY_HEADS)? } else { heads }),
        );
        put("head_dim", json!(head));
        put("max_position_embeddings", json!(self.count("context_length")?));
        let epsilon = self.key("attention.layer_norm_rms_epsilon");
        put("rms_norm_eps", json!(self.metadata.needed(self.path, &epsilon, self.metadata.number(&epsilon))?));
        let theta = self.metadata.number(&self.key("rope.freq_base")).unwrap_or(10_000.0);
        put("rope_theta", json!(theta));
        if let Some(scaling) = self.rope_scaling(head, theta)? {
            put("rope_scaling", scaling);
        }
        let has_head = self.file.tensors.iter().any(|tensor| tensor.name == HEAD);
        put("tie_word_embeddings", json!(!has_head));
        for kind in ["bos", "eos"] {
            if let Some(id) = self.metadata.count(&format!("tokenizer.ggml.{kind}_token_id")) {
                put(&format!("{kind}_token_id"), json!(id));
            }
        }
        Ok(fields)
    }

    /// Of the file's own architecture.
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture.model_type())
    }

    fn known_count(&self, name: &str) -> Option<usize> {
        self.metadata.count(&self.key(name))
    }

    fn count(&self, name: &str) -> Result<usize, EngineError> {
        self.bounded(name, GREATEST_COUNT)
    }

    fn bounded(&self, name: &str, greatest: usize) -> Result<usize, EngineError> {
        let key = self.key(name);
        let count = self.metadata.needed(self.path, &key, self.known_count(name))?;
        match count <= greatest {
            true => Ok(count),
            false => Err(malformed(self.path, format!("{key} is {count}, which no model has"))),
        }
    }

    /// No more than the file can have tensors for.
    fn layers(&self) -> Result<usize, EngineError> {
        let (layers, tensors) = (self.count("block_count")?, self.file.tensors.len());
        match layers <= tensors {
            true => Ok(layers),
            false => Err(malformed(self.path, format!("it claims {layers} layers and has {tensors} tensors"))),
        }
    }

    fn refuse_what_is_not_run(&self) -> Result<(), EngineError> {
        for name in ["expert_count", "attention.sliding_window"] {
            if let Some(count) = self.known_count(name).filter(|count| *count > 0) {
                let key = self.key(name);
                return Err(malformed(self.path, format!("{key} is {count}; such models are not run here")));
            }
        }
        Ok(())
    }

    /// The width of a head, which keys, values and rotary embedding must agree on.
    fn head(&self, usual: usize) -> Result<usize, EngineError> {
        let names = ["attention.key_length", "attention.value_length", "rope.dimension_count"];
        let stated: Vec<_> = names.iter().filter_map(|name| Some((*name, self.known_count(name)?))).collect();
        let head = stated.first().map_or(usual, |(_, width)| *width);
        let widest = head.checked_mul(self.count("attention.head_count")?).filter(|width| *width <= GREATEST_WIDTH);
        if widest.is_none() {
            return Err(malformed(self.path, format!("heads {head} wide are more than any model has")));
        }
        match stated.iter().find(|(_, width)| *width != head) {
            None => Ok(head),
            Some((name, width)) => {
                let key = self.key(name);
                Err(malformed(self.path, format!("{key} is {width}, but heads are {head} wide")))
            }
        }
    }

    /// Rows of the embedding: the list of tokens may be shorter.
    fn vocabulary(&self) -> Result<usize, EngineError> {
        let embedding = self.file.tensors.iter().find(|tensor| tensor.name == EMBEDDING);
        let rows = embedding.and_then(|tensor| tensor.shape.first().copied());
        rows.ok_or_else(|| EngineError::Tensor {
            path: self.path.to_path_buf(),
            name: EMBEDDING.to_owned(),
            message: "it is missing".into(),
        })
    }

    fn rope_scaling(&self, head: usize, theta: f64) -> Result<Option<Value>, EngineError> {
        let number = |name: &str| self.metadata.number(&self.key(&format!("rope.scaling.{name}")));
        let kind_key = self.key("rope.scaling.type");
        let factor = number("factor");
        let original = || self.count("rope.scaling.original_context_length");
        match self.metadata.text(&kind_key) {
            None | Some("none") => self.llama_3_scaling(head, theta),
            Some("linear") => Ok(Some(json!({"rope_type": "linear", "factor": factor.unwrap_or(1.0)}))),
            Some("yarn") => {
                let mut scaling = json!({"rope_type": "yarn", "factor": factor.unwrap_or(1.0),
                                         "original_max_position_embeddings": original()?});
                for (name, ours) in [("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")] {
                    if let Some(value) = number(name) {
                        scaling[ours] = json!(value);
                    }
                }
                Ok(Some(scaling))
            }
            Some(other) => Err(malformed(self.path, format!("{kind_key} is {other}, which is not run here"))),
        }
    }

    /// Llama 3.1's scaling, of which the file has the factors and not the rule: the rule is found, and held against them.
    fn llama_3_scaling(&self, head: usize, theta: f64) -> Result<Option<Value>, EngineError> {
        let Some(tensor) = self.file.tensors.iter().find(|tensor| tensor.name == ROPE_FACTORS) else { return Ok(None) };
        let refuse = |message: &str| EngineError::Tensor {
            path: self.path.to_path_buf(),
            name: ROPE_FACTORS.to_owned(),
            message: message.into(),
        };
        if tensor.shape != [head / 2] {
            return Err(refuse("it must have a factor for each pair of a head"));
        }
        let mut factors = vec![0.0; head / 2];
        self.file.read_rows(tensor, 0, &mut factors).map_err(EngineError::io("read", self.path))?;
        let mut scaling = json!({"rope_type": "llama3", "factor": factors.iter().copied().fold(1.0, f32::max)});
        for (name, value) in LLAMA_3 {
            scaling[name] = json!(value);
        }
        let rule: crate::RopeScaling =
            serde_json::from_value(scaling.clone()).map_err(|error| refuse(&error.to_string()))?;
        let (plain, _) = crate::RopeScaling::Default.frequencies(head, theta);
        let (scaled, _) = rule.frequencies(head, theta);
        let agrees = |((plain, scaled), factor): ((&f32, &f32), &f32)| {
            let expected = plain / scaled;
            (expected - factor).abs() <= 1e-3 * expected
        };
        match plain.iter().zip(&scaled).zip(&factors).all(agrees) {
            true => Ok(Some(scaling)),
            false => Err(refuse("its factors are not those of Llama 3.1's rule, and no other is run here")),
        }
    }
}
