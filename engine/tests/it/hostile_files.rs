//! Model directories from strangers: whatever their files claim, there is a model or a refusal that names the file, and
//! no memory is taken for what is not there.

use std::fs::File;
use std::path::{Path, PathBuf};

use fulgurite_engine::{ElementType, Engine, EngineOptions, convert_gguf, copy_adapter, inspect_model, merge_adapter};
use serde_json::{Value, json};
use tempfile::TempDir;

fn vector(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
}

/// Copies of a model and of an adapter over it.
fn copies() -> (TempDir, PathBuf, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let (model, adapter) = (home.path().join("model"), home.path().join("adapter"));
    for (from, to, files) in [
        ("llama", &model, ["config.json", "model.safetensors"]),
        ("llama-lora", &adapter, ["adapter_config.json", "adapter_model.safetensors"]),
    ] {
        std::fs::create_dir(to).unwrap();
        for file in files {
            std::fs::copy(vector(from).join(file), to.join(file)).unwrap();
        }
    }
    (home, model, adapter)
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    /// A few bytes changed, or the end cut off, or eight bytes that claim much.
    fn mutate(&mut self, bytes: &mut Vec<u8>, header: usize) {
        let header = header.min(bytes.len());
        match self.below(4) {
            0 => bytes.truncate(self.below(bytes.len())),
            1 => {
                let at = self.below(header.saturating_sub(8).max(1));
                let claims = [u64::MAX, 1 << 60, 1 << 31, 0][self.below(4)].to_le_bytes();
                bytes[at..at + 8].copy_from_slice(&claims);
            }
            _ => (0..=self.below(4)).for_each(|_| bytes[self.below(header)] = self.below(256) as u8),
        }
    }
}

#[test]
fn changed_bytes_of_any_file_make_a_model_or_a_refusal() {
    let (home, model, adapter) = copies();
    let mut numbers = Numbers(7);
    let files = [
        model.join("config.json"),
        model.join("model.safetensors"),
        adapter.join("adapter_config.json"),
        adapter.join("adapter_model.safetensors"),
    ];
    let mut refused = 0;
    for round in 0..400 {
        let file = &files[round % files.len()];
        let whole = std::fs::read(file).unwrap();
        let mut bytes = whole.clone();
        numbers.mutate(&mut bytes, 2500);
        std::fs::write(file, &bytes).unwrap();
        let target = home.path().join("target");
        let looked = inspect_model(&model).map(drop);
        if let Err(error) = looked.and_then(|()| merge_adapter(&model, &adapter, &target, ElementType::F32)) {
            let error = error.to_string();
            assert!(error.contains(home.path().to_str().unwrap()), "names no file: {error}");
            refused += 1;
        }
        let _ = std::fs::remove_dir_all(&target);
        std::fs::write(file, whole).unwrap();
    }
    assert!(refused > 200, "{refused}");
    merge_adapter(&model, &adapter, &home.path().join("target"), ElementType::F32).unwrap();
}

#[test]
fn changed_bytes_of_a_gguf_file_make_a_model_or_a_refusal() {
    let home = tempfile::tempdir().unwrap();
    let (file, target) = (home.path().join("model.gguf"), home.path().join("target"));
    let whole = std::fs::read(vector("gguf/llama.gguf")).unwrap();
    let mut numbers = Numbers(11);
    for _ in 0..300 {
        let mut bytes = whole.clone();
        numbers.mutate(&mut bytes, 6000);
        std::fs::write(&file, &bytes).unwrap();
        let looked = inspect_model(&file).map(drop);
        if let Err(error) = looked.and_then(|()| convert_gguf(&file, &target, None, &|_, _| ())) {
            assert!(error.to_string().contains("model.gguf") || !fulgurite_engine::is_gguf(&file), "{error}");
        }
        let _ = std::fs::remove_dir_all(&target);
    }
}

#[test]
fn a_configuration_that_claims_what_no_model_has_is_refused_by_name() {
    let (_home, model, _) = copies();
    let path = model.join("config.json");
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let options = || EngineOptions { threads: 1, ..EngineOptions::default() };
    for (key, value) in [
        ("num_hidden_layers", json!(1_000_000_000)),
        ("num_hidden_layers", json!(0)),
        ("num_hidden_layers", json!(-2)),
        ("num_hidden_layers", json!(u64::MAX)),
        ("num_hidden_layers", json!(2.5)),
        ("num_hidden_layers", json!("2")),
        ("num_attention_heads", json!(0)),
        ("num_attention_heads", json!(1 << 19)),
        ("num_key_value_heads", json!(0)),
        ("head_dim", json!(1_u64 << 62)),
        ("vocab_size", json!(0)),
        ("vocab_size", json!(1_u64 << 60)),
        ("hidden_size", json!(1_u64 << 60)),
        ("intermediate_size", json!(1_u64 << 60)),
        ("max_position_embeddings", json!(1_000_000_000_000_u64)),
        ("max_position_embeddings", json!(null)),
        ("rms_norm_eps", json!(1e300)),
        ("rms_norm_eps", json!(-1.0)),
        ("rms_norm_eps", json!("small")),
    ] {
        let mut config = whole.clone();
        config[key] = value.clone();
        std::fs::write(&path, config.to_string()).unwrap();
        for error in [inspect_model(&model).unwrap_err(), Engine::open(&model, options()).unwrap_err()] {
            let error = error.to_string();
            assert!(error.contains("config.json") && error.contains(key), "{key} {value}: {error}");
        }
    }
}

#[test]
fn a_sparse_file_of_gigabytes_is_refused_before_it_is_read() {
    let (home, model, adapter) = copies();
    for file in [
        model.join("config.json"),
        model.join("model.safetensors"),
        adapter.join("adapter_config.json"),
        adapter.join("adapter_model.safetensors"),
    ] {
        let whole = std::fs::read(&file).unwrap();
        File::options().write(true).open(&file).unwrap().set_len(3 << 30).unwrap();
        let error = merge_adapter(&model, &adapter, &home.path().join("target"), ElementType::F32).unwrap_err();
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        if file.starts_with(&adapter) {
            let copied = copy_adapter(&adapter, &model, &home.path().join("target")).unwrap_err();
            assert!(copied.to_string().contains(file.to_str().unwrap()), "{copied}");
        }
        std::fs::write(&file, whole).unwrap();
    }
    std::fs::remove_file(model.join("config.json")).unwrap();
    std::fs::create_dir(model.join("config.json")).unwrap();
    let error = inspect_model(&model).unwrap_err().to_string();
    assert!(error.ends_with("config.json: cannot read: it is no regular file"), "{error}");
}
