use std::collections::BTreeSet;
use std::path::Path;

use crate::adapters::lora::LoraScaling;
use crate::checkpoints::adapter_config::{ADAPTER_CONFIG, AdapterConfig};
use crate::checkpoints::adapter_files::{ADAPTER_WEIGHTS, matrix_of};
use crate::checkpoints::new_directory::NewDirectory;
use crate::checkpoints::tensor_files::TensorFile;
use crate::checkpoints::verification::verified;
use crate::error::EngineError;
use crate::small_files::{LONGEST_CONFIG, read_small_file};

/// What PEFT calls weights that it has pickled.
const PICKLED_WEIGHTS: &str = "adapter_model.bin";

/// What an adapter's own files say of it, whatever model it is over.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterFacts {
    /// `r`.
    pub rank: usize,
    /// `lora_alpha`.
    pub alpha: f64,
    /// Whether `use_rslora` is set.
    pub scaling: LoraScaling,
    /// The last parts of its modules' names.
    pub modules: BTreeSet<String>,
    /// The layers that it is of.
    pub layers: BTreeSet<usize>,
}

/// Looks at an adapter in PEFT's form.
///
/// # Errors
/// Names the file that is missing or damaged, or the key that is not computed here.
pub fn inspect_adapter(directory: &Path) -> Result<AdapterFacts, EngineError> {
    refuse_pickle(directory)?;
    let config = AdapterConfig::read(&directory.join(ADAPTER_CONFIG))?;
    let names = TensorFile::open(&directory.join(ADAPTER_WEIGHTS))?.names();
    let modules = || names.iter().filter_map(|name| Some(matrix_of(name)?.0));
    let layer = |module: &str| module.split_once(".layers.")?.1.split('.').next()?.parse().ok();
    let last = |module: &str| module.rsplit('.').next().unwrap_or(module).to_owned();
    Ok(AdapterFacts {
        rank: config.rank,
        alpha: config.strength.alpha,
        scaling: config.strength.scaling,
        modules: modules().map(last).collect(),
        layers: modules().filter_map(layer).collect(),
    })
}

/// Copies an adapter as it is into a directory that must not exist yet, with the digests of its files.
///
/// # Errors
/// If it is damaged, or cannot be read or written.
pub fn keep_adapter(adapter: &Path, target: &Path) -> Result<(), EngineError> {
    let (config, weights) = (adapter.join(ADAPTER_CONFIG), adapter.join(ADAPTER_WEIGHTS));
    let (text, bytes) = verified(adapter, || {
        let text = read_small_file(&config, LONGEST_CONFIG)?;
        Ok((text, std::fs::read(&weights).map_err(EngineError::io("read", &weights))?))
    })?;
    let mut new = NewDirectory::begin(target)?;
    new.write(ADAPTER_CONFIG, text.as_bytes())?;
    new.write(ADAPTER_WEIGHTS, &bytes)?;
    new.complete()
}

fn refuse_pickle(directory: &Path) -> Result<(), EngineError> {
    let path = directory.join(PICKLED_WEIGHTS);
    if !path.exists() || directory.join(ADAPTER_WEIGHTS).exists() {
        return Ok(());
    }
    let message =
        format!("a pickle is not read: save the adapter with PEFT's safe_serialization, as {ADAPTER_WEIGHTS}");
    Err(EngineError::Malformed { path, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::lora::LoraOptions;
    use crate::checkpoints::adapter_files::tests::{adapter, write};
    use crate::model::lora_module::LoraModule;

    #[test]
    fn an_adapter_says_what_it_is() {
        let home = tempfile::tempdir().unwrap();
        let options = LoraOptions {
            alpha: 7.0,
            scaling: LoraScaling::RankStabilized,
            modules: LoraModule::ATTENTION.into(),
            layers: Some([1].into()),
            ..LoraOptions::new(3, 1)
        };
        let (directory, kept) = (home.path().join("adapter"), home.path().join("kept"));
        write(&directory, "base", &adapter(&options));
        let facts = inspect_adapter(&directory).unwrap();
        assert_eq!((facts.rank, facts.alpha, facts.scaling), (3, 7.0, LoraScaling::RankStabilized));
        assert_eq!(facts.modules, ["k_proj", "o_proj", "q_proj", "v_proj"].map(str::to_owned).into());
        assert_eq!(facts.layers, [1].into());
        keep_adapter(&directory, &kept).unwrap();
        for file in [ADAPTER_CONFIG, ADAPTER_WEIGHTS, "fulgurite.sha256"] {
            assert_eq!(std::fs::read(directory.join(file)).unwrap(), std::fs::read(kept.join(file)).unwrap(), "{file}");
        }
        std::fs::write(directory.join(ADAPTER_WEIGHTS), "other").unwrap();
        let error = keep_adapter(&directory, &home.path().join("again")).unwrap_err();
        assert!(matches!(error, EngineError::Damaged(_)), "{error}");
        std::fs::rename(directory.join(ADAPTER_WEIGHTS), directory.join(PICKLED_WEIGHTS)).unwrap();
        let error = inspect_adapter(&directory).unwrap_err().to_string();
        assert!(error.contains("safe_serialization"), "{error}");
    }

    #[test]
    fn what_is_more_than_lora_is_refused_with_a_way_on() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("adapter");
        write(&directory, "base", &adapter(&LoraOptions::new(2, 1)));
        let config = std::fs::read_to_string(directory.join(ADAPTER_CONFIG)).unwrap();
        for (plain, special) in [
            ("\"use_dora\": false", "\"use_dora\": true"),
            ("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]"),
        ] {
            assert!(config.contains(plain), "{config}");
            std::fs::write(directory.join(ADAPTER_CONFIG), config.replace(plain, special)).unwrap();
            let error = inspect_adapter(&directory).unwrap_err().to_string();
            let key = special.split('"').nth(1).unwrap();
            assert!(error.contains(&format!("{key} is")) && error.contains("merge_and_unload"), "{error}");
        }
    }
}
