//! What a published rule says of `[trainer] learning_rate`, for `config show`.

use std::fmt::Write;
use std::path::Path;

use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::model_roles;
use fulgurite_hub::known_model_directory;
use serde_json::Value;

use crate::records::run_files::model_path;

/// The step size of all weights at [`REFERENCE_WIDTH`].
const BASE: f64 = 5e-5;
/// How much greater the step size of an adapter is.
const ADAPTER: f64 = 10.0;
/// The width of the residual stream at which the rule says [`BASE`] whatever the family.
const REFERENCE_WIDTH: f64 = 2000.0;
/// Width of the smallest model that the cookbook names: below, the rule is an extrapolation.
const LEAST_WIDTH: u64 = 2048;
/// The families that the rule was fitted on, by what begins their `model_type`, each with its exponent.
const FAMILIES: [(&str, f64); 2] = [("llama", 0.781), ("qwen", 0.0775)];

/// What tinker-cookbook's rule would say, in words that follow the value in force; nothing where the model's directory is
/// not here, or is of another family. The rule is that of `get_lr` in tinker-cookbook's `hyperparam_utils.py` and of Tinker's
/// documentation: `5e-5 * (2000 / hidden_size)^p`, ten times that for LoRA; `p` is 0.781 for Llama and 0.0775 for Qwen.
/// Later versions of the cookbook have a table of models in its place, of 1e-4 to 1e-3 for LoRA.
pub fn learning_rate_rule(loaded: &LoadedConfig) -> Option<String> {
    let models = model_roles::trainable_models(&loaded.config).ok()?;
    let [model] = models.as_slice() else { return None };
    let path = model_path(loaded, model);
    let (family, width) = family_and_width(&known_model_directory(&path)?)?;
    // A service trains adapters, whatever is said here.
    let is_adapter = model.trains_adapter() || model.backend.name() == "tinker";
    rule_words(&family, width, is_adapter)
}

fn family_and_width(directory: &Path) -> Option<(String, u64)> {
    let config: Value = serde_json::from_str(&std::fs::read_to_string(directory.join("config.json")).ok()?).ok()?;
    Some((config["model_type"].as_str()?.to_owned(), config["hidden_size"].as_u64().filter(|width| *width > 0)?))
}

fn rule_words(family: &str, width: u64, is_adapter: bool) -> Option<String> {
    let (_, exponent) = FAMILIES.iter().find(|(name, _)| family.starts_with(name))?;
    let all_weights = BASE * (REFERENCE_WIDTH / width as f64).powf(*exponent);
    let factor = if is_adapter { ADAPTER } else { 1.0 };
    let mut words =
        format!("tinker-cookbook's rule would say {:.1e}: 5e-5 * (2000 / {width})^{exponent}", factor * all_weights);
    // Text takes whatever is written to it.
    let _ = match is_adapter {
        true => write!(words, ", ten times that for LoRA"),
        false => write!(words, "; {:.1e} for LoRA, ten times that", ADAPTER * all_weights),
    };
    if width < LEAST_WIDTH {
        let _ = write!(words, "; an extrapolation, as the models that it is for are at least {LEAST_WIDTH} wide");
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_goes_by_family_and_width() {
        insta::assert_snapshot!(rule_words("llama", 4096, true).unwrap(), @"tinker-cookbook's rule would say 2.9e-4: 5e-5 * (2000 / 4096)^0.781, ten times that for LoRA");
        insta::assert_snapshot!(rule_words("qwen3", 2560, false).unwrap(), @"tinker-cookbook's rule would say 4.9e-5: 5e-5 * (2000 / 2560)^0.0775; 4.9e-4 for LoRA, ten times that");
        insta::assert_snapshot!(rule_words("qwen2", 64, true).unwrap(), @"tinker-cookbook's rule would say 6.5e-4: 5e-5 * (2000 / 64)^0.0775, ten times that for LoRA; an extrapolation, as the models that it is for are at least 2048 wide");
        assert!(rule_words("gpt_oss", 2880, true).is_none());
    }
}
