use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::EngineError;
use crate::model::architecture::Architecture;
use crate::model::element_type::ElementType;
use crate::model::model_head::ModelHead;
use crate::model::rope_scaling::{RopeScaling, UNSUPPORTED_KEYS};
use crate::small_files::{LONGEST_CONFIG, read_small_file};

/// Above what any model has of tokens and positions.
pub(crate) const GREATEST_COUNT: usize = 1 << 26;
/// Above the widest layer of any model.
pub(crate) const GREATEST_WIDTH: usize = 1 << 20;
/// Above the deepest model.
const GREATEST_LAYERS: usize = 1 << 12;

/// The kind and the dimensions of a decoder, under the names of Hugging Face's `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Which kind of decoder.
    #[serde(skip)]
    pub architecture: Architecture,
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
    pub head_dim: usize,
    /// Tokens that prompt and answer may have together.
    pub max_position_embeddings: usize,
    /// Added to the mean square in every norm.
    pub rms_norm_eps: f32,
    /// Base of the rotary embedding's wavelengths.
    pub rope_theta: f64,
    /// How that was stretched.
    #[serde(skip)]
    pub rope_scaling: RopeScaling,
    /// Whether the output head is the embedding.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    /// What is computed from the last layer's output.
    #[serde(skip)]
    pub head: ModelHead,
    /// Every other field of the file, kept as it was.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ModelConfig {
    /// Trainable numbers in the model; a tied head counts once.
    pub fn parameter_count(&self) -> usize {
        let hidden = self.hidden_size;
        let head_norms = if self.architecture.has_head_norms() { 2 * self.head_dim } else { 0 };
        let biases = if self.architecture.has_biases() { self.query_width() + 2 * self.key_width() } else { 0 };
        let attention = hidden * (2 * self.query_width() + 2 * self.key_width()) + head_norms + biases;
        let feed_forward = 3 * hidden * self.intermediate_size;
        let embeddings = self.vocab_size * hidden * if self.has_matrix_head() { 2 } else { 1 };
        let score = if self.head == ModelHead::Score { hidden } else { 0 };
        embeddings + score + self.num_hidden_layers * (attention + feed_forward + 2 * hidden) + hidden
    }

    /// Whether the next token is predicted by a matrix that is not the embedding.
    pub(crate) fn has_matrix_head(&self) -> bool {
        !self.tie_word_embeddings && self.head == ModelHead::NextToken
    }

    /// Reads `config.json`, refusing by name whatever this engine would compute wrongly.
    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        Self::parse(&read_small_file(path, LONGEST_CONFIG)?, path)
    }

    /// Reads the text of a `config.json`; `path` is what refusals name.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, EngineError> {
        let malformed = |error: serde_json::Error| EngineError::Malformed {
            path: path.to_path_buf(),
            message: format!("not a model configuration: {error}"),
        };
        let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(malformed)?;
        let (architecture, head) = architecture(&fields, path)?;
        refuse_unsupported(&fields, path)?;
        let rope_scaling = rope_scaling(&fields, path)?;
        if let Some(theta) = fields.get("rope_parameters").and_then(|rope| rope.get("rope_theta")).cloned() {
            fields.entry("rope_theta").or_insert(theta);
        }
        if fields.get("head_dim").is_none_or(Value::is_null) {
            let number = |name: &str| fields.get(name).and_then(Value::as_u64).unwrap_or(0) as usize;
            let head = architecture.default_head(number("hidden_size"), number("num_attention_heads"));
            fields.insert("head_dim".into(), json!(head));
        }
        if fields.get("num_key_value_heads").is_none_or(Value::is_null)
            && let Some(heads) = fields.get("num_attention_heads").cloned()
        {
            fields.insert("num_key_value_heads".into(), heads);
        }
        // What `to_json` writes anew is not carried along.
        for name in ["architectures", "model_type", "rope_parameters", "rope_scaling", "dtype", "torch_dtype"] {
            fields.remove(name);
        }
        if let Some(fault) = number_fault(&fields) {
            return Err(EngineError::Malformed { path: path.to_path_buf(), message: fault });
        }
        let config: ModelConfig = serde_json::from_value(Value::Object(fields)).map_err(malformed)?;
        let config = Self { architecture, rope_scaling, head, ..config };
        config.check().map_err(|error| match error {
            EngineError::Dimensions { message } => EngineError::Malformed { path: path.to_path_buf(), message },
            other => other,
        })?;
        Ok(config)
    }

    /// The text of `config.json` beside weights of this element type.
    pub(crate) fn to_json_of(&self, elements: ElementType) -> Result<String, serde_json::Error> {
        let mut fields = Map::new();
        let name = match self.head {
            ModelHead::NextToken => self.architecture.name(),
            ModelHead::Score => self.architecture.score_name(),
        };
        fields.insert("architectures".into(), json!([name]));
        fields.insert("model_type".into(), json!(self.architecture.model_type()));
        if let Value::Object(own) = serde_json::to_value(self)? {
            fields.extend(own);
        }
        if self.head == ModelHead::Score {
            // As transformers writes `num_labels = 1`.
            fields.insert("id2label".into(), json!({ "0": "LABEL_0" }));
            fields.insert("label2id".into(), json!({ "LABEL_0": 0 }));
        }
        // Newer readers look for theta here, older ones at the top level.
        let mut rope = serde_json::to_value(&self.rope_scaling)?;
        if let (RopeScaling::Linear { .. } | RopeScaling::Llama3 { .. } | RopeScaling::Yarn { .. }, old) =
            (&self.rope_scaling, rope.clone())
        {
            fields.insert("rope_scaling".into(), old);
        }
        rope["rope_theta"] = json!(self.rope_theta);
        fields.insert("rope_parameters".into(), rope);
        // Older readers look for the second.
        for name in ["dtype", "torch_dtype"] {
            fields.insert(name.into(), json!(elements.name()));
        }
        serde_json::to_string_pretty(&Value::Object(fields))
    }

    #[cfg(test)]
    pub(crate) fn to_json(&self) -> Result<String, serde_json::Error> {
        self.to_json_of(ElementType::F32)
    }

    /// Refuses dimensions that do not fit together, and those that no model has, so that sums of them are numbers and
    /// nothing is made for each of a billion layers.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let dimensions = [
            ("vocab_size", self.vocab_size, GREATEST_COUNT),
            ("hidden_size", self.hidden_size, GREATEST_WIDTH),
            ("intermediate_size", self.intermediate_size, GREATEST_WIDTH),
            ("num_hidden_layers", self.num_hidden_layers, GREATEST_LAYERS),
            ("num_attention_heads", self.num_attention_heads, GREATEST_WIDTH),
            ("num_key_value_heads", self.num_key_value_heads, GREATEST_WIDTH),
            ("head_dim", self.head_dim, GREATEST_WIDTH),
            ("max_position_embeddings", self.max_position_embeddings, GREATEST_COUNT),
        ];
        let refuse = |message: String| Err(EngineError::Dimensions { message });
        if let Some((name, ..)) = dimensions.iter().find(|(_, value, _)| *value == 0) {
            return refuse(format!("{name} is 0"));
        }
        if let Some((name, value, greatest)) = dimensions.iter().find(|(_, value, greatest)| value > greatest) {
            return refuse(format!("{name} is {value}, and at most {greatest} is run"));
        }
        if self.query_width() > GREATEST_WIDTH {
            let (heads, width) = (self.num_attention_heads, self.head_dim);
            return refuse(format!("num_attention_heads {heads} of head_dim {width} are wider than {GREATEST_WIDTH}"));
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
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        if !(is_positive(self.rms_norm_eps.into()) && is_positive(self.rope_theta)) {
            return refuse(format!(
                "rms_norm_eps {} and rope_theta {} must be positive numbers",
                self.rms_norm_eps, self.rope_theta
            ));
        }
        if let Some(fault) = self.rope_scaling.fault() {
            return refuse(fault);
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

/// Which of the numbers is missing or none, by its name.
fn number_fault(fields: &Map<String, Value>) -> Option<String> {
    const COUNTS: [&str; 8] = [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "max_position_embeddings",
    ];
    let counts = COUNTS.map(|name| (name, fields.get(name), "a whole number from 1 on"));
    let numbers = ["rms_norm_eps", "rope_theta"].map(|name| (name, fields.get(name), "a positive number"));
    let is_wrong = |value: &Value, expected: &str| match expected.starts_with("a whole") {
        true => value.as_u64().is_none(),
        false => value.as_f64().is_none(),
    };
    counts.into_iter().chain(numbers).find_map(|(name, value, expected)| match value {
        None => Some(format!("{name} is missing; it is {expected}")),
        Some(value) if is_wrong(value, expected) => Some(format!("{name} is {value}, not {expected}")),
        Some(_) => None,
    })
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
    refuse("hidden_act", &[Value::Null, json!("silu")])?;
    refuse("attention_bias", &[Value::Null, json!(false)])?;
    refuse("use_sliding_window", &[Value::Null, json!(false)])?;
    refuse("mlp_bias", &[Value::Null, json!(false)])?;
    refuse("quantization_config", &[Value::Null])?;
    let full = |kind: &Value| kind == "full_attention";
    if let Some(Value::Array(kinds)) = fields.get("layer_types")
        && let Some(kind) = kinds.iter().find(|kind| !full(kind))
    {
        let (path, value) = (path.to_path_buf(), kind.to_string());
        return Err(EngineError::Unsupported { path, field: "layer_types", value });
    }
    Ok(())
}

fn architecture(fields: &Map<String, Value>, path: &Path) -> Result<(Architecture, ModelHead), EngineError> {
    let stated = |field: &str| fields.get(field).unwrap_or(&Value::Null);
    let kinds = Architecture::ALL
        .into_iter()
        .flat_map(|it| [(it, it.name(), ModelHead::NextToken), (it, it.score_name(), ModelHead::Score)]);
    let unsupported = |field: &'static str| EngineError::Unsupported {
        path: path.to_path_buf(),
        field,
        value: stated(field).to_string(),
    };
    let is_named = |(_, name, _): &(Architecture, &str, ModelHead)| *stated("architectures") == json!([name]);
    let (architecture, _, head) = { kinds }.find(is_named).ok_or_else(|| unsupported("architectures"))?;
    if *stated("model_type") != json!(architecture.model_type()) {
        return Err(unsupported("model_type"));
    }
    // Two labels, which go without saying, are classes.
    let has_one_label =
        stated("id2label").as_object().is_some_and(|labels| labels.len() == 1) || *stated("num_labels") == json!(1);
    match head == ModelHead::Score && !has_one_label {
        true => Err(unsupported("id2label")),
        false => Ok((architecture, head)),
    }
}

/// Newer files have it in `rope_parameters`, older ones in `rope_scaling`, with `type` for `rope_type` in the oldest.
fn rope_scaling(fields: &Map<String, Value>, path: &Path) -> Result<RopeScaling, EngineError> {
    let found = [("rope_parameters", fields.get("rope_parameters")), ("rope_scaling", fields.get("rope_scaling"))];
    let Some((field, Value::Object(found))) = found
        .into_iter()
        .find_map(|(field, value)| value.filter(|value| value.is_object()).map(|value| (field, value)))
    else {
        return Ok(RopeScaling::Default);
    };
    let unsupported = || EngineError::Unsupported { path: path.to_path_buf(), field, value: json!(found).to_string() };
    let mut found = found.clone();
    if let Some(kind) = found.remove("type") {
        found.entry("rope_type").or_insert(kind);
    }
    found.entry("rope_type").or_insert(json!("default"));
    if UNSUPPORTED_KEYS.iter().any(|key| found.get(*key).is_some_and(|value| !value.is_null() && *value != json!(1.0)))
    {
        return Err(unsupported());
    }
    found.retain(|_, value| !value.is_null());
    let refused = unsupported();
    serde_json::from_value(Value::Object(found)).map_err(|_| refused)
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
        let text = tiny_config().to_json().unwrap().replace("Qwen3ForCausalLM", "MixtralForCausalLM");
        let error = ModelConfig::parse(&text, Path::new("config.json")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "config.json: this engine runs Qwen3ForCausalLM, Qwen2ForCausalLM and LlamaForCausalLM; architectures is \
             [\"MixtralForCausalLM\"]"
        );
        for rope in [json!({"rope_type": "dynamic", "factor": 2.0}), json!({"type": "yarn", "factor": 4.0})] {
            let text = tiny_config().to_json().unwrap().replace("\"rope_parameters\"", "\"unread\"");
            let mut fields: Map<String, Value> = serde_json::from_str(&text).unwrap();
            fields.insert("rope_scaling".into(), rope);
            let text = serde_json::to_string(&fields).unwrap();
            let error = ModelConfig::parse(&text, Path::new("config.json")).unwrap_err();
            assert!(matches!(error, EngineError::Unsupported { field: "rope_scaling", .. }), "{error}");
        }
        let mut config = tiny_config();
        config.other.insert("layer_types".into(), json!(["full_attention", "sliding_attention"]));
        let error = ModelConfig::parse(&config.to_json().unwrap(), Path::new("config.json")).unwrap_err();
        assert!(matches!(error, EngineError::Unsupported { field: "layer_types", .. }), "{error}");
    }

    #[test]
    fn every_kind_and_scaling_survives_a_round_trip() {
        let original_max_position_embeddings = 32.0;
        let llama = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings,
        };
        let yarn = RopeScaling::Yarn {
            factor: 4.0,
            original_max_position_embeddings,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: None,
            truncate: true,
        };
        for architecture in Architecture::ALL {
            for rope_scaling in [RopeScaling::Default, RopeScaling::Linear { factor: 2.0 }, llama.clone(), yarn.clone()]
            {
                let config = ModelConfig { architecture, rope_scaling, ..tiny_config() };
                let text = config.to_json().unwrap();
                assert_eq!(ModelConfig::parse(&text, Path::new("config.json")).unwrap(), config);
                let old = text.replace("rope_parameters", "unknown_field").replace("\"rope_type\"", "\"type\"");
                let read = ModelConfig::parse(&old, Path::new("config.json")).unwrap();
                assert_eq!(read.rope_scaling, config.rope_scaling);
            }
        }
    }

    #[test]
    fn a_score_head_has_one_label() {
        for architecture in Architecture::ALL {
            let config = ModelConfig { architecture, head: ModelHead::Score, ..tiny_config() };
            let text = config.to_json().unwrap();
            let read = ModelConfig::parse(&text, Path::new("config.json")).unwrap();
            assert_eq!((read.architecture, read.head), (architecture, ModelHead::Score));
            let classes = text.replace("\"0\": \"LABEL_0\"", "\"0\": \"no\", \"1\": \"yes\"");
            let error = ModelConfig::parse(&classes, Path::new("config.json")).unwrap_err();
            assert!(matches!(error, EngineError::Unsupported { field: "id2label", .. }), "{error}");
        }
    }

    #[test]
    fn heads_that_do_not_divide_are_refused() {
        let config = ModelConfig { num_key_value_heads: 3, ..tiny_config() };
        assert!(matches!(config.check(), Err(EngineError::Dimensions { .. })));
    }
}
