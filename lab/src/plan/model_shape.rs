//! The dimensions of a dense decoder, from its `config.json`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_engine::{Architecture, LoraModule, ModelConfig, RopeScaling, read_model_config};
use serde::Serialize;
use serde_json::Value;

/// Which linear layers add a bias to their product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Biases {
    /// None.
    None,
    /// Those of queries, keys and values, as in Qwen2.
    QueriesKeysValues,
    /// All four of attention, as `attention_bias` says.
    Attention,
}

/// The dimensions of a decoder with gated feed-forward layers and norms without biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModelShape {
    /// Token ids.
    pub vocabulary: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of the feed-forward layers.
    pub intermediate: u64,
    /// Decoder layers.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Heads of keys and values.
    pub key_value_heads: u64,
    /// Width of a head.
    pub head_size: u64,
    /// Tokens of prompt and answer together.
    pub context: u64,
    /// Whether the head is the embedding.
    pub is_tied: bool,
    /// Which layers have biases.
    pub biases: Biases,
    /// Whether queries and keys are normalised, as in Qwen3.
    pub has_head_norms: bool,
}

impl ModelShape {
    /// Reads a `config.json`, or that of a model's directory.
    ///
    /// # Errors
    /// If there is none, or if it is not of a dense decoder. The message says what to do.
    pub fn read(path: &Path) -> Result<Self> {
        let file = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
        let text = read_model_config(&file)?;
        let fields: Value = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        Self::of(&fields).with_context(|| file.display().to_string())
    }

    /// The shape that the fields of a `config.json` have.
    ///
    /// # Errors
    /// If a number is missing, or if it is not a dense decoder; the message names the field.
    pub fn of(fields: &Value) -> Result<Self> {
        // Models that also read images keep their decoder's fields here.
        let fields = fields.get("text_config").unwrap_or(fields);
        for name in ["num_experts", "num_local_experts", "n_routed_experts", "kv_lora_rank", "layer_types"] {
            let is_plain = match fields.get(name) {
                None | Some(Value::Null) => true,
                Some(Value::Array(kinds)) => kinds.iter().all(|kind| kind == "full_attention"),
                Some(_) => false,
            };
            if !is_plain {
                bail!("it has {name}: only dense decoders with full attention can be planned for");
            }
        }
        let number = |name: &str| match fields.get(name).and_then(Value::as_u64) {
            Some(number) if (1..1 << 32).contains(&number) => Ok(number),
            _ => bail!("{name} is missing, or no whole number above 0"),
        };
        let or = |name: &str, usual: u64| match fields.get(name) {
            None | Some(Value::Null) => Ok(usual),
            Some(_) => number(name),
        };
        let is = |name: &str| fields.get(name).and_then(Value::as_bool).unwrap_or(false);
        let kind = fields.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let (hidden, heads) = (number("hidden_size")?, number("num_attention_heads")?);
        Ok(Self {
            vocabulary: number("vocab_size")?,
            hidden,
            intermediate: number("intermediate_size")?,
            layers: number("num_hidden_layers")?,
            heads,
            key_value_heads: or("num_key_value_heads", heads)?,
            head_size: or("head_dim", if kind == "qwen3" { 128 } else { hidden / heads })?,
            context: or("max_position_embeddings", 32_768)?,
            is_tied: is("tie_word_embeddings"),
            biases: match kind {
                "qwen2" => Biases::QueriesKeysValues,
                _ if is("attention_bias") => Biases::Attention,
                _ => Biases::None,
            },
            has_head_norms: kind == "qwen3",
        })
    }

    /// The shape of a model that the embedded engine knows.
    pub fn of_engine(config: &ModelConfig) -> Self {
        Self {
            vocabulary: config.vocab_size as u64,
            hidden: config.hidden_size as u64,
            intermediate: config.intermediate_size as u64,
            layers: config.num_hidden_layers as u64,
            heads: config.num_attention_heads as u64,
            key_value_heads: config.num_key_value_heads as u64,
            head_size: config.head_dim as u64,
            context: config.max_position_embeddings as u64,
            is_tied: config.tie_word_embeddings,
            biases: match config.architecture {
                Architecture::Qwen2 => Biases::QueriesKeysValues,
                Architecture::Qwen3 | Architecture::Llama => Biases::None,
            },
            has_head_norms: config.architecture == Architecture::Qwen3,
        }
    }

    /// The same for the embedded engine, whose memory is computed by it.
    pub fn engine_config(&self) -> ModelConfig {
        let architecture = match self.biases {
            _ if self.has_head_norms => Architecture::Qwen3,
            Biases::None => Architecture::Llama,
            Biases::QueriesKeysValues | Biases::Attention => Architecture::Qwen2,
        };
        ModelConfig {
            architecture,
            vocab_size: self.vocabulary as usize,
            hidden_size: self.hidden as usize,
            intermediate_size: self.intermediate as usize,
            num_hidden_layers: self.layers as usize,
            num_attention_heads: self.heads as usize,
            num_key_value_heads: self.key_value_heads as usize,
            head_dim: self.head_size as usize,
            max_position_embeddings: self.context as usize,
            rms_norm_eps: 1e-6,
            rope_theta: 1e6,
            rope_scaling: RopeScaling::default(),
            tie_word_embeddings: self.is_tied,
            head: Default::default(),
            other: serde_json::Map::new(),
        }
    }

    /// Width of all queries of a token.
    pub fn query_width(&self) -> u64 {
        self.heads * self.head_size
    }

    /// Width of all keys of a token, and of its values.
    pub fn key_width(&self) -> u64 {
        self.key_value_heads * self.head_size
    }

    /// Numbers of all weights; a tied head counts once.
    pub fn parameters(&self) -> u64 {
        let (query, key) = (self.query_width(), self.key_width());
        let biases = match self.biases {
            Biases::None => 0,
            Biases::QueriesKeysValues => query + 2 * key,
            Biases::Attention => query + 2 * key + self.hidden,
        };
        let head_norms = if self.has_head_norms { 2 * self.head_size } else { 0 };
        let embeddings = self.vocabulary * self.hidden * if self.is_tied { 1 } else { 2 };
        embeddings + self.layer_numbers() + self.layers * (biases + head_norms + 2 * self.hidden) + self.hidden
    }

    /// Numbers of the matrices of all layers.
    pub fn layer_numbers(&self) -> u64 {
        let matrices: u64 = LAYER_MODULES.iter().map(|module| self.inputs(*module) * self.outputs(*module)).sum();
        self.layers * matrices
    }

    /// Numbers that a token is multiplied with: all matrices and the head, without the embedding, which is looked up.
    pub fn multiplied(&self) -> u64 {
        self.parameters() - if self.is_tied { 0 } else { self.vocabulary * self.hidden }
    }

    /// Width of what a matrix reads.
    pub fn inputs(&self, module: LoraModule) -> u64 {
        match module {
            LoraModule::Query | LoraModule::Key | LoraModule::Value | LoraModule::Gate | LoraModule::Up => self.hidden,
            LoraModule::Output => self.query_width(),
            LoraModule::Down => self.intermediate,
            LoraModule::Head => self.hidden,
        }
    }

    /// Width of what a matrix gives.
    pub fn outputs(&self, module: LoraModule) -> u64 {
        match module {
            LoraModule::Query => self.query_width(),
            LoraModule::Key | LoraModule::Value => self.key_width(),
            LoraModule::Output | LoraModule::Down => self.hidden,
            LoraModule::Gate | LoraModule::Up => self.intermediate,
            LoraModule::Head => self.vocabulary,
        }
    }
}

/// The matrices of a layer.
pub const LAYER_MODULES: [LoraModule; 7] = [
    LoraModule::Query,
    LoraModule::Key,
    LoraModule::Value,
    LoraModule::Output,
    LoraModule::Gate,
    LoraModule::Up,
    LoraModule::Down,
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shape_is_read_with_the_defaults_of_its_kind() {
        let mut fields = json!({
            "model_type": "llama", "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "max_position_embeddings": 131_072, "tie_word_embeddings": false
        });
        let llama = ModelShape::of(&fields).unwrap();
        assert_eq!((llama.head_size, llama.has_head_norms, llama.biases), (128, false, Biases::None));
        // As its card has it: 8.03 billion.
        assert_eq!(llama.parameters(), 8_030_261_248);
        assert_eq!(llama.multiplied(), 8_030_261_248 - 128_256 * 4096);
        assert_eq!(ModelShape::of(&json!({ "text_config": fields })).unwrap(), llama);
        let engine = llama.engine_config();
        assert_eq!(ModelShape::of_engine(&engine), llama);
        assert_eq!(engine.parameter_count() as u64, llama.parameters());
        fields["num_local_experts"] = json!(8);
        let error = ModelShape::of(&fields).unwrap_err().to_string();
        assert!(error.starts_with("it has num_local_experts"), "{error}");
        let error = ModelShape::of(&json!({ "hidden_size": 1, "num_attention_heads": 0 })).unwrap_err().to_string();
        assert!(error.starts_with("num_attention_heads is missing"), "{error}");
    }
}
