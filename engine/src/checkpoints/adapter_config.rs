//! `adapter_config.json` as PEFT writes it. A key either changes nothing, or is one that is read here, or is refused by
//! its name: an adapter is used as it was trained, or not at all.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;
use serde_json::{Map, Value};

use crate::adapters::adapter::Strength;
use crate::adapters::lora::LoraScaling;
use crate::error::EngineError;
use crate::small_files::{LONGEST_CONFIG, read_small_file};

pub(crate) const ADAPTER_CONFIG: &str = "adapter_config.json";

/// Above the rank of any adapter; also, no more than a matrix has rows or columns is of use.
const GREATEST_RANK: u64 = 1 << 16;

/// Keys that change nothing of what a trained adapter adds: where it comes from, and how it was initialised and trained.
/// Methods that change the base's own weights are told by `init_lora_weights`.
const WITHOUT_EFFECT: [&str; 13] = [
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "inference_mode",
    "loftq_config",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
];
/// Keys with a meaning here.
const READ: [&str; 8] = [
    "exclude_modules",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "peft_type",
    "r",
    "target_modules",
    "use_rslora",
];

/// Initialisations after which the base has the weights that it came with.
const PLAIN_BEGINNINGS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// What is added to a model, and where.
#[derive(Debug)]
pub(crate) struct AdapterConfig {
    pub(crate) rank: usize,
    pub(crate) strength: Strength,
    targets: Modules,
    excluded: Modules,
    /// The layers that are adapted, where not all are.
    layers: Option<BTreeSet<u64>>,
}

/// Modules of a model, as PEFT's configuration names them.
#[derive(Debug)]
enum Modules {
    /// The key has no value.
    Unstated,
    /// Every linear layer but the head.
    AllLinear,
    /// Each by its name, or by the end of it.
    Named(Vec<String>),
    /// Those with names that match as a whole.
    Matching(Regex),
}

impl Modules {
    fn contains(&self, module: &str) -> bool {
        match self {
            Self::Unstated => false,
            Self::AllLinear => module != HEAD && module != EMBEDDING,
            Self::Named(names) => names.iter().any(|name| is_named(module, name)),
            Self::Matching(pattern) => pattern.is_match(module),
        }
    }
}

const HEAD: &str = "lm_head";
const EMBEDDING: &str = "model.embed_tokens";
/// What Tinker calls the head.
const TINKERS_HEAD: &str = "unembed_tokens";

fn is_named(module: &str, name: &str) -> bool {
    let ends = |module: &str| module.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    ends(module) || module == HEAD && name == TINKERS_HEAD
}

impl AdapterConfig {
    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        Self::parse(&read_small_file(path, LONGEST_CONFIG)?)
            .map_err(|message| EngineError::Malformed { path: path.to_path_buf(), message })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let fields: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("not the configuration of an adapter: {error}"))?;
        let field = |name: &str| fields.get(name).unwrap_or(&Value::Null);
        if field("peft_type") != "LORA" {
            return Err(format!("peft_type is {}, and only \"LORA\" is read", field("peft_type")));
        }
        let rank =
            field("r").as_f64().filter(|rank| rank.fract() == 0.0 && (1.0..=GREATEST_RANK as f64).contains(rank));
        let rank = rank.ok_or_else(|| format!("r is {}, not a rank from 1 to {GREATEST_RANK}", field("r")))?;
        let alpha = field("lora_alpha").as_f64().filter(|alpha| *alpha != 0.0);
        let alpha = alpha.ok_or_else(|| format!("lora_alpha is {}, not a number other than 0", field("lora_alpha")))?;
        let scaling = match field("use_rslora") {
            Value::Null | Value::Bool(false) => LoraScaling::Standard,
            Value::Bool(true) => LoraScaling::RankStabilized,
            other => return Err(format!("use_rslora is {other}, neither true nor false")),
        };
        if let Some((name, value)) = fields.iter().find(|(name, value)| has_effect(name, value)) {
            return Err(format!(
                "{name} is {value}, with which the adapter computes something that is not computed here; PEFT runs it, and \
                 merges most kinds into a model that can be used (`merge_and_unload`)"
            ));
        }
        let targets = modules("target_modules", field("target_modules"))?;
        let excluded = modules("exclude_modules", field("exclude_modules"))?;
        let layers = layers(field("layers_to_transform"))?;
        if layers.is_some() {
            if matches!(targets, Modules::AllLinear | Modules::Matching(_)) {
                return Err("layers_to_transform goes with a list of target_modules alone".to_owned());
            }
            let is_usual = |pattern: &Value| pattern.as_str().is_some_and(|pattern| ["", "layers"].contains(&pattern));
            let pattern = field("layers_pattern");
            let list = pattern.as_array().map(Vec::as_slice);
            if !(pattern.is_null() || list.unwrap_or(std::slice::from_ref(pattern)).iter().all(is_usual)) {
                return Err(format!("layers_pattern is {pattern}; the layers are called \"layers\" here"));
            }
        }
        if targets.contains(EMBEDDING) && !excluded.contains(EMBEDDING) {
            return Err(
                "target_modules has embed_tokens, and an adapter of the embedding is not computed here".to_owned()
            );
        }
        let strength = Strength { alpha, scaling };
        Ok(Self { rank: rank as usize, strength, targets, excluded, layers })
    }

    /// What the product of the matrices is multiplied with: `lora_alpha / r`, or `lora_alpha / √r` with `use_rslora`.
    pub(crate) fn scale(&self) -> f64 {
        self.strength.scaling.factor(self.strength.alpha, self.rank)
    }

    /// Whether a module, by its name in the model, is adapted; `None` where the configuration names none.
    pub(crate) fn adapts(&self, module: &str) -> Option<bool> {
        let is_target = match &self.targets {
            Modules::Unstated => return None,
            targets => targets.contains(module),
        };
        let is_of_layer = self.layers.as_ref().is_none_or(|layers| {
            let layer = module.strip_prefix("model.layers.").and_then(|rest| rest.split('.').next());
            layer.and_then(|layer| layer.parse().ok()).is_some_and(|layer: u64| layers.contains(&layer))
        });
        Some(is_target && is_of_layer && !self.excluded.contains(module))
    }
}

/// Whether a key changes what is computed, or what it changes is not known.
fn has_effect(name: &str, value: &Value) -> bool {
    // What PEFT writes where a method is not used, of methods that are to come as well.
    let is_unused = match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    match name {
        _ if is_unused || WITHOUT_EFFECT.contains(&name) || READ.contains(&name) => false,
        "bias" => value != "none",
        "task_type" => value != "CAUSAL_LM",
        "init_lora_weights" => {
            *value != Value::Bool(true) && !value.as_str().is_some_and(|method| PLAIN_BEGINNINGS.contains(&method))
        }
        _ => true,
    }
}

fn modules(key: &str, value: &Value) -> Result<Modules, String> {
    let wrong = || format!("{key} is {value}, neither names of modules nor a pattern of them");
    Ok(match value {
        Value::Null => Modules::Unstated,
        // PEFT takes the word for targets alone.
        Value::String(word) if word.eq_ignore_ascii_case("all-linear") && key == "target_modules" => Modules::AllLinear,
        Value::String(pattern) => {
            let whole = Regex::new(&format!(r"\A(?:{pattern})\z"));
            Modules::Matching(whole.map_err(|error| format!("{key} is a pattern that cannot be read: {error}"))?)
        }
        Value::Array(list) if list.is_empty() => Modules::Unstated,
        Value::Array(list) => {
            let names = list.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong));
            Modules::Named(names.collect::<Result<_, _>>()?)
        }
        _ => return Err(wrong()),
    })
}

fn layers(value: &Value) -> Result<Option<BTreeSet<u64>>, String> {
    let wrong = || format!("layers_to_transform is {value}, neither a layer nor a list of layers");
    match value {
        Value::Null => Ok(None),
        Value::Array(list) if list.is_empty() => Ok(None),
        Value::Array(list) => {
            list.iter().map(|layer| layer.as_u64().ok_or_else(wrong)).collect::<Result<_, _>>().map(Some)
        }
        layer => Ok(Some([layer.as_u64().ok_or_else(wrong)?].into())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(change: Value) -> Result<AdapterConfig, String> {
        let mut config = json!({ "peft_type": "LORA", "r": 2, "lora_alpha": 6, "target_modules": ["q_proj"] });
        for (key, value) in change.as_object().unwrap() {
            config[key] = value.clone();
        }
        AdapterConfig::parse(&config.to_string())
    }

    #[test]
    fn a_key_that_changes_what_is_computed_is_refused_by_name() {
        for (key, value) in [
            ("alora_invocation_tokens", json!([1, 2])),
            ("layer_replication", json!([[0, 1], [0, 2]])),
            ("target_parameters", json!(["mlp.experts.gate_up_proj"])),
            ("trainable_token_indices", json!([5])),
            ("modules_to_save", json!(["lm_head"])),
            ("rank_pattern", json!({"q_proj": 4})),
            ("alpha_pattern", json!({"q_proj": 4})),
            ("use_dora", json!(true)),
            ("use_qalora", json!(true)),
            ("use_bdlora", json!({"nblocks": 2})),
            ("lora_bias", json!(true)),
            ("bias", json!("all")),
            ("fan_in_fan_out", json!(true)),
            ("ensure_weight_tying", json!(true)),
            ("megatron_config", json!({"tensor_model_parallel_size": 2})),
            ("arrow_config", json!({"top_k": 2})),
            ("kasa_config", json!({"beta": 0.1})),
            ("monteclora_config", json!({"samples": 2})),
            ("velora_config", json!({"num_groups": 64})),
            ("init_lora_weights", json!("pissa")),
            ("init_lora_weights", json!("pissa_niter_4")),
            ("init_lora_weights", json!("olora")),
            ("init_lora_weights", json!("corda")),
            ("init_lora_weights", json!("loftq")),
            ("init_lora_weights", json!("lora_ga")),
            ("init_lora_weights", json!("mica")),
            ("task_type", json!("SEQ_CLS")),
            ("a_method_to_come", json!(0)),
        ] {
            let error = parsed(json!({ key: value })).unwrap_err();
            assert!(error.starts_with(&format!("{key} is {value}")), "{error}");
        }
    }

    #[test]
    fn a_key_that_changes_nothing_is_passed_over() {
        for change in [
            json!({"lora_dropout": 0.5, "peft_version": "9", "revision": "main", "inference_mode": false}),
            json!({"init_lora_weights": "eva", "eva_config": {"rho": 2.0}, "task_type": "CAUSAL_LM", "bias": "none"}),
            json!({"init_lora_weights": true, "loftq_config": {"loftq_bits": 4}, "qalora_group_size": 16}),
            json!({"auto_mapping": {"unsloth_fixed": true}, "rank_pattern": {}, "a_method_to_come": null}),
        ] {
            parsed(change).unwrap();
        }
    }

    #[test]
    fn numbers_that_make_no_adapter_are_refused() {
        for (key, value) in [
            ("r", json!(0)),
            ("r", json!(-1)),
            ("r", json!(2.5)),
            ("r", json!(1e18)),
            ("r", json!("2")),
            ("r", Value::Null),
            ("lora_alpha", json!(0)),
            ("lora_alpha", Value::Null),
            ("use_rslora", json!("yes")),
            ("peft_type", json!("IA3")),
            ("target_modules", json!([1])),
            ("target_modules", json!("(")),
            ("layers_to_transform", json!([-1])),
        ] {
            let error = parsed(json!({ key: value })).unwrap_err();
            assert!(error.starts_with(&format!("{key} is")), "{error}");
        }
    }

    #[test]
    fn modules_are_those_that_peft_would_adapt() {
        const QUERY: &str = "model.layers.1.self_attn.q_proj";
        let adapted = |change: Value| {
            let config = parsed(change).unwrap();
            ["model.layers.0.self_attn.q_proj", QUERY, "model.layers.11.mlp.up_proj", HEAD]
                .map(|module| config.adapts(module))
        };
        let yes = |chosen: [bool; 4]| chosen.map(Some);
        assert_eq!(adapted(json!({})), yes([true, true, false, false]));
        assert_eq!(adapted(json!({"target_modules": "all-linear"})), yes([true, true, true, false]));
        assert_eq!(adapted(json!({"target_modules": [QUERY, "lm_head"]})), yes([false, true, false, true]));
        assert_eq!(adapted(json!({"target_modules": ["unembed_tokens"]})), yes([false, false, false, true]));
        assert_eq!(adapted(json!({"target_modules": ["proj"]})), yes([false; 4]));
        let pattern = r".*\.layers\.\d\..*(q_proj|up_proj)";
        assert_eq!(adapted(json!({"target_modules": pattern})), yes([true, true, false, false]));
        assert_eq!(adapted(json!({"layers_to_transform": 1})), yes([false, true, false, false]));
        let some = json!({"target_modules": ["q_proj", "up_proj", "lm_head"], "layers_to_transform": [0, 11]});
        assert_eq!(adapted(some), yes([true, false, true, false]));
        let but = json!({"target_modules": ["q_proj", "lm_head"], "exclude_modules": ["layers.0.self_attn.q_proj"]});
        assert_eq!(adapted(but), yes([false, true, false, true]));
        assert_eq!(adapted(json!({"target_modules": null})), [None; 4]);
        assert!(parsed(json!({"target_modules": ["embed_tokens"]})).unwrap_err().contains("embed_tokens"));
        assert!(parsed(json!({"target_modules": ".*q_proj", "layers_to_transform": 1})).is_err());
        assert!(
            parsed(json!({"layers_to_transform": 1, "layers_pattern": "h"})).unwrap_err().contains("layers_pattern")
        );
    }
}
