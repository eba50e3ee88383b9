//! `fulgurite model`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::path::Path;

use common::{fulgurite, run};
use serde_json::Value;

fn vector(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("engine/tests/vectors").join(name).display().to_string()
}

#[test]
fn a_model_is_told_with_what_it_takes() {
    let output = fulgurite(["model", "inspect", "--json", &vector("llama-3.1")]).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["architecture"], "LlamaForCausalLM");
    assert_eq!(told["element_types"]["F32"], told["parameters"]);
    let memory = |what: &str| told["memory"][what].as_u64().unwrap();
    assert_eq!(memory("sampling"), memory("weights") + memory("prefix_cache"));
    // Of a model this small an adapter is the larger part.
    assert!(memory("lora_training") > memory("training") && memory("training") > memory("sampling"));
    let output = fulgurite(["model", "inspect", &vector("qwen2-yarn")]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let beginning: Vec<&str> = text.lines().take(7).collect();
    insta::assert_snapshot!(beginning.join("\n"), @r"
    architecture     Qwen2ForCausalLM
    parameters       4752
    layers           2 of width 16
    vocabulary       48
    head             tied to the embedding
    context          64 tokens
    elements         F32 (4752)
    ");
}

#[test]
fn a_model_that_cannot_be_run_is_refused_by_the_field_at_fault() {
    let directory = tempfile::tempdir().unwrap();
    let config = std::fs::read_to_string(Path::new(&vector("llama")).join("config.json")).unwrap();
    std::fs::write(directory.path().join("config.json"), config.replace("LlamaForCausalLM", "MambaForCausalLM"))
        .unwrap();
    let failure = run(["model", "inspect", &directory.path().display().to_string()]).failure(directory.path());
    insta::assert_snapshot!(failure, @r#"
    error: [directory] cannot be run here
      caused by: [directory]/config.json: this engine runs Qwen3ForCausalLM, Qwen2ForCausalLM and LlamaForCausalLM; architectures is ["MambaForCausalLM"]
    "#);
}

#[test]
fn a_model_is_converted_and_its_directory_is_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("bf16").display().to_string();
    let arguments = ["model", "convert", &vector("llama"), &target, "--dtype", "bf16"];
    assert!(fulgurite(arguments).status().unwrap().success());
    let output = fulgurite(["model", "inspect", "--json", &target]).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["element_types"]["BF16"], told["parameters"]);
    let failure = run(arguments).failure(directory.path());
    assert!(failure.contains("cannot be converted") && failure.contains("exists"), "{failure}");
    let merged = directory.path().join("merged").display().to_string();
    let failure = run(["model", "merge", &target, "/nowhere", &merged]).failure(directory.path());
    assert!(failure.contains("/nowhere cannot be merged into") && failure.contains("adapter_config.json"), "{failure}");
}
