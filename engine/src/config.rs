use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::EngineError;

const ARCHITECTURE: &str = "Qwen3ForCausalLM";
const MODEL_TYPE: &str = "qwen3";

/// The dimensions of a Qwen3 decoder, under the names of Hugging Face's `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Token ids are below this.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Decoder layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; divides the query heads.
    pub num_key_value_heads: usize,
    /// Width of a head; even, because rotary embedding turns pairs.
    #[serde(default = "default_head_dim")]
    pub head_dim: usize,
    /// Tokens that prompt and answer may have together.
    pub max_position_embeddings: usize,
    /// Added to the mean square in every norm.
    pub rms_norm_eps: f32,
    /// Base of the rotary embedding's wavelengths.
    pub rope_theta: f64,
    /// Whether the output head is the embedding.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    /// Every other field of the file, kept as it was.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What Hugging Face assumes where the field is absent.
fn default_head_dim() -> usize {
    128
}

impl ModelConfig {
    /// Trainable numbers in the model; a tied head counts once.
    pub fn parameter_count(&self) -> usize {
        let hidden = self.hidden_size;
        let attention = hidden * (2 * self.query_width() + 2 * self.key_width()) + 2 * self.head_dim;
        let feed_forward = 3 * hidden * self.intermediate_size;
        let embeddings = self.vocab_size * hidden * if self.tie_word_embeddings { 1 } else { 2 };
        embeddings + self.num_hidden_layers * (attention + feed_forward + 2 * hidden) + hidden
    }

    /// Reads `config.json`, refusing by name whatever this engine would compute wrongly.
    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        let text = std::fs::read_to_string(path).map_err(EngineError::io("read", path))?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, EngineError> {
        let malformed = |error: serde_json::Error| EngineError::Malformed {
            path: path.to_path_buf(),
            message: format!("not a model configuration: {error}"),
        };
        let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(malformed)?;
        refuse_unsupported(&fields, path)?;
        if let Some(theta) = fields.get("rope_parameters").and_then(|rope| rope.get("rope_theta")).cloned() {
            fields.entry("rope_theta").or_insert(theta);
        }
        if fields.get("head_dim").is_some_and(Value::is_null) {
            fields.remove("head_dim");
        }
        // What `to_json` writes anew is not carried along.
        for name in ["architectures", "model_type", "rope_parameters", "dtype", "torch_dtype"] {
            fields.remove(name);
        }
        let config: ModelConfig = serde_json::from_value(Value::Object(fields)).map_err(malformed)?;
        config.check()?;
        Ok(config)
    }

    /// The text of `config.json`.
    pub(crate) fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut fields = Map::new();
        fields.insert("architectures".into(), json!([ARCHITECTURE]));
        fields.insert("model_type".into(), json!(MODEL_TYPE));
        if let Value::Object(own) = serde_json::to_value(self)? {
            fields.extend(own);
        }
        // Newer readers look for theta here, older ones at the top level.
        fields.insert("rope_parameters".into(), json!({"rope_theta": self.rope_theta, "rope_type": "default"}));
        fields.insert("dtype".into(), json!("float32"));
        serde_json::to_string_pretty(&Value::Object(fields))
    }

    /// Refuses dimensions that do not fit together.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let dimensions = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        let refuse = |message: String| Err(EngineError::Dimensions { message });
        if let Some((name, _)) = dimensions.iter().find(|(_, value)| *value == 0) {
            return refuse(format!("{name} is 0"));
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            return refuse(format!(
                "num_attention_heads {} is not a multiple of num_key_value_heads {}",
                self.num_attention_heads, self.num_key_value_heads
            ));
        }
        if !self.head_dim.is_multiple_of(2) {
            return refuse(format!("head_dim {} is odd", self.head_dim));
        }
        if !(self.rms_norm_eps > 0.0 && self.rope_theta > 0.0) {
            return refuse(format!(
                "rms_norm_eps {} and rope_theta {} must be positive",
                self.rms_norm_eps, self.rope_theta
            ));
        }
        Ok(())
    }

    /// The configuration without the fields that say nothing of the weights.
    pub(crate) fn to_shape(&self) -> Self {
        Self { other: Map::new(), ..self.clone() }
    }

    pub(crate) fn query_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    pub(crate) fn key_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
}

fn refuse_unsupported(fields: &Map<String, Value>, path: &Path) -> Result<(), EngineError> {
    let absent = Value::Null;
    let refuse = |field: &'static str, allowed: &[Value]| {
        let value = fields.get(field).unwrap_or(&absent);
        if allowed.contains(value) {
            return Ok(());
        }
        Err(EngineError::Unsupported { path: path.to_path_buf(), field, value: value.to_string() })
    };
    refuse("architectures", &[json!([ARCHITECTURE])])?;
    refuse("model_type", &[json!(MODEL_TYPE)])?;
    refuse("hidden_act", &[Value::Null, json!("silu")])?;
    refuse("attention_bias", &[Value::Null, json!(false)])?;
    refuse("use_sliding_window", &[Value::Null, json!(false)])?;
    refuse("rope_scaling", &[Value::Null])?;
    refuse("quantization_config", &[Value::Null])?;
    let full = |kind: &Value| kind == "full_attention";
    if let Some(Value::Array(kinds)) = fields.get("layer_types")
        && let Some(kind) = kinds.iter().find(|kind| !full(kind))
    {
        let (path, value) = (path.to_path_buf(), kind.to_string());
        return Err(EngineError::Unsupported { path, field: "layer_types", value });
    }
    let kind = fields.get("rope_parameters").and_then(|rope| rope.get("rope_type"));
    if kind.is_some_and(|kind| kind != "default") {
        let value = kind.map(Value::to_string).unwrap_or_default();
        return Err(EngineError::Unsupported { path: path.to_path_buf(), field: "rope_parameters.rope_type", value });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::tiny_config;

    #[test]
    fn theta_is_found_in_either_place() {
        let old = tiny_config().to_json().unwrap().replace("rope_parameters", "unknown_field");
        let new = tiny_config().to_json().unwrap().replacen("\"rope_theta\"", "\"elsewhere\"", 1);
        assert_eq!(ModelConfig::parse(&old, Path::new("config.json")).unwrap().rope_theta, 10_000.0);
        assert_eq!(ModelConfig::parse(&new, Path::new("config.json")).unwrap().rope_theta, 10_000.0);
    }

    #[test]
    fn unknown_fields_survive_a_round_trip() {
        let mut config = tiny_config();
        config.other.insert("eos_token_id".into(), json!([1, 2]));
        let again = ModelConfig::parse(&config.to_json().unwrap(), Path::new("config.json")).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn another_architecture_is_refused_by_name() {
        let text = tiny_config().to_json().unwrap().replace(ARCHITECTURE, "LlamaForCausalLM");
        let error = ModelConfig::parse(&text, Path::new("config.json")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "config.json: this engine runs Qwen3ForCausalLM only; architectures is [\"LlamaForCausalLM\"]"
        );
        let mut config = tiny_config();
        config.other.insert("rope_scaling".into(), json!({"rope_type": "yarn"}));
        let error = ModelConfig::parse(&config.to_json().unwrap(), Path::new("config.json")).unwrap_err();
        assert!(matches!(error, EngineError::Unsupported { field: "rope_scaling", .. }), "{error}");
        let mut config = tiny_config();
        config.other.insert("layer_types".into(), json!(["full_attention", "sliding_attention"]));
        let error = ModelConfig::parse(&config.to_json().unwrap(), Path::new("config.json")).unwrap_err();
        assert!(matches!(error, EngineError::Unsupported { field: "layer_types", .. }), "{error}");
    }

    #[test]
    fn heads_that_do_not_divide_are_refused() {
        let config = ModelConfig { num_key_value_heads: 3, ..tiny_config() };
        assert!(matches!(config.check(), Err(EngineError::Dimensions { .. })));
    }
}
