//! `fulgurite model export` of what runs have trained.

use std::path::Path;

use crate::common::project::{Project, SMALL, UNEVEN, saved};
use crate::common::{Ran, Server, fulgurite, model_flag, run, tiny_model};
use serde_json::{Value, json};

/// A run of three updates, every checkpoint kept.
fn trained(rank: usize) -> (Project, Value) {
    let trainer = SMALL.replace("max_steps = 5", "max_steps = 3\nkeep_checkpoints = 9");
    let project = Project::new(UNEVEN, &trainer);
    if rank > 0 {
        project.train_adapters(rank);
    }
    let summary = project.train("run", &[]).pop().unwrap();
    (project, summary)
}

fn export(project: &Project, arguments: &[&str]) -> Ran {
    let mut command = fulgurite(["model", "export"]);
    command.current_dir(project.directory.path()).env("XDG_CACHE_HOME", project.path("cache"));
    command.args(arguments).output().unwrap().into()
}

/// What is made, by the name that is printed.
fn exported(project: &Project, arguments: &[&str]) -> String {
    let ran = export(project, arguments);
    // Of a model that is written as it was trained, what could be smaller is said.
    assert!(ran.stderr.is_empty() || ran.stderr.starts_with("the numbers are float32"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    ran.stdout.trim_end().to_owned()
}

/// The model's words for a question, with their logprobs.
fn answer(home: &Path, model: &Path) -> Value {
    let cache = home.join("cache");
    let environment = [("XDG_CACHE_HOME", cache.to_str().unwrap())];
    let server = Server::start_in(&environment, home, ["--model", &model_flag("hello", model)]);
    let request = json!({ "model": "hello", "temperature": 1, "seed": 7, "max_tokens": 8, "logprobs": true,
                        "messages": [{ "role": "user", "content": "Say 7" }] });
    server.post("/v1/chat/completions", &request).expect(200)["choices"][0]["logprobs"]["content"].clone()
}

#[test]
fn a_run_that_trains_all_weights_is_exported_merged_and_as_gguf_and_answers_as_it_did() {
    let (project, summary) = trained(0);
    let name = exported(&project, &["run", "--format", "merged"]);
    assert_eq!(name, "run-000003-merged");
    let merged = project.path(&name);
    assert!(std::fs::read(merged.join("model.safetensors")).unwrap() == saved(&summary, "model.safetensors"));
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        assert!(merged.join(file).exists(), "{file}");
    }
    assert!(!merged.join("optimizer.state").exists());
    let name = exported(&project, &["run", "--format", "gguf", "--dtype", "f32", "--checkpoint", "2"]);
    assert_eq!(name, "run-000002-f32.gguf");
    let home = project.directory.path();
    let checkpoint = answer(home, &project.path("run/checkpoints/000002"));
    assert_eq!(answer(home, &project.path(&name)), checkpoint, "logprobs to the bit");
    assert!(checkpoint[0]["logprob"].is_number() && checkpoint != answer(home, &merged));
    // A directory for it, which is made, and a checkpoint that is named by its path.
    let name = exported(&project, &["run/checkpoints/000002", "--format", "gguf", "--output", "out/files"]);
    assert_eq!(name, "out/files/run-000002-f16.gguf");
    let report = run(["model", "inspect", "--json", project.path(&name).to_str().unwrap()]).json_lines();
    assert_eq!(report[0]["gguf"]["converted_to"], "f16");

    let refused = |arguments: &[&str]| export(&project, arguments).failure(home);
    insta::assert_snapshot!(refused(&["run", "--format", "peft"]), @"error: [directory]/run/checkpoints/000003 is a whole model, trained without LoRA, and has no adapter: --format merged writes it ([[models]] lora_rank trains an adapter)");
    insta::assert_snapshot!(refused(&["run", "--format", "merged", "--checkpoint", "7"]), @"error: [directory]/run has no checkpoint after 7 updates: there are those after 1, 2, 3");
    insta::assert_snapshot!(refused(&["run", "--format", "merged"]), @"error: run-000003-merged is there already: name another place by --output, or remove it");
    insta::assert_snapshot!(refused(&["rum", "--format", "gguf"]), @"error: rum is no run, in runs/ neither, and no directory of weights: `fulgurite runs` lists the runs");
    insta::assert_snapshot!(refused(&["run/checkpoints/000002", "--format", "gguf", "--checkpoint", "best"]), @"error: run/checkpoints/000002 is no run, and so has no checkpoint best: leave --checkpoint out");
    insta::assert_snapshot!(refused(&["model-1", "--format", "merged", "--base", "model-1"]), @"error: [directory]/model-1 is a whole model: leave --base out");
    insta::assert_snapshot!(refused(&["run/checkpoints", "--format", "merged"]), @"error: [directory]/run/checkpoints holds neither a model (config.json) nor an adapter (adapter_config.json)");
}

#[test]
fn an_adapter_is_exported_for_peft_and_added_to_its_model_in_the_other_forms() {
    let (project, summary) = trained(4);
    let name = exported(&project, &["run", "--format", "peft"]);
    let peft = project.path(&name);
    let weights = std::fs::read(peft.join("adapter_model.safetensors")).unwrap();
    assert!(weights == saved(&summary, "adapter_model.safetensors"));
    let config: Value = serde_json::from_slice(&std::fs::read(peft.join("adapter_config.json")).unwrap()).unwrap();
    let base = project.path("model-1");
    assert_eq!((&config["peft_type"], &config["r"]), (&json!("LORA"), &json!(4)));
    assert_eq!(config["base_model_name_or_path"], base.to_str().unwrap());

    // By the run, by its checkpoint, and by what was exported, which names its model itself.
    let merged = project.path(&exported(&project, &["run", "--format", "merged"]));
    let again = project.path(&exported(&project, &[&name, "--format", "merged"]));
    let read = |directory: &Path| std::fs::read(directory.join("model.safetensors")).unwrap();
    assert!(read(&merged) == read(&again) && read(&merged) != read(&base));
    let gguf = project.path(&exported(&project, &["run", "--format", "gguf", "--dtype", "f32"]));
    let home = project.directory.path();
    assert_eq!(answer(home, &gguf), answer(home, &merged));

    let refused = |arguments: &[&str]| export(&project, arguments).failure(home);
    insta::assert_snapshot!(refused(&["run", "--format", "peft", "--dtype", "f16", "--output", "x"]), @"error: --dtype is of merged and gguf: an adapter is written as it is");
    std::fs::rename(&base, project.path("elsewhere")).unwrap();
    insta::assert_snapshot!(refused(&["run", "--format", "merged", "--output", "x"]), @"error: [directory]/model-1, the model that [directory]/run/checkpoints/000003 is over, is not there: name its directory by --base");
    exported(&project, &["run", "--format", "merged", "--output", "x", "--base", "elsewhere"]);
    assert!(read(&project.path("x")) == read(&merged));
}

#[test]
fn a_model_that_no_run_has_made_is_exported_by_its_directory() {
    let home = tempfile::tempdir().unwrap();
    let model = tiny_model(home.path(), 64);
    let file = home.path().join("tiny.gguf");
    let arguments = ["--format", "gguf", "--dtype", "f32", "--output"];
    let ran: Ran = fulgurite(["model", "export"]).arg(&model).args(arguments).arg(&file).output().unwrap().into();
    assert_eq!(ran.stdout.trim_end(), file.to_str().unwrap(), "{}", ran.stderr);
    assert_eq!(answer(home.path(), &file), answer(home.path(), &model));
}

#[test]
fn half_an_adapter_and_one_that_computes_otherwise_are_refused_by_every_command() {
    let (project, _) = trained(4);
    let home = project.directory.path();
    let adapter = project.path(&exported(&project, &["run", "--format", "peft"]));
    let in_project = |arguments: &[&str]| {
        let mut command = fulgurite(arguments.iter().copied());
        Ran::from(command.current_dir(home).env("XDG_CACHE_HOME", project.path("cache")).output().unwrap())
    };
    let name = adapter.file_name().unwrap().to_str().unwrap();
    let chat = ["chat", name, "--prompt", "Say 7", "--temperature", "0", "--max-tokens", "4", "--json"];
    assert_eq!(in_project(&chat).json_lines()[0]["token_ids"].as_array().unwrap().len(), 4);
    // The config has never heard of an adapter.
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap().replace("lora_rank = 4", "");
    std::fs::write(project.path("plain.toml"), config).unwrap();
    let eval = ["eval", "plain.toml", "--checkpoint", name, "--samples", "1", "--json"];
    let scored = in_project(&eval);
    assert_eq!(scored.code, Some(0), "{}", scored.stderr);

    std::fs::remove_file(adapter.join("fulgurite.sha256")).unwrap();
    let path = adapter.join("adapter_config.json");
    let whole: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let server = Server::start(home, ["--model", &model_flag("hello", &project.path("model-1"))]);
    for (key, value, expected) in [
        ("use_dora", json!(true), "use_dora is true"),
        ("alora_invocation_tokens", json!([5]), "alora_invocation_tokens is [5]"),
        ("layer_replication", json!([[0, 1]]), "layer_replication is [[0,1]]"),
        ("init_lora_weights", json!("pissa"), "init_lora_weights is \"pissa\""),
        ("rank_pattern", json!({"q_proj": 8}), "rank_pattern is"),
        ("r", json!(8), "its shape is"),
        ("target_modules", json!(["q_proj"]), "adapter_config.json does not say that its module is adapted"),
        ("layers_to_transform", json!([0]), "adapter_config.json does not say that its module is adapted"),
    ] {
        let mut changed = whole.clone();
        changed[key] = value;
        std::fs::write(&path, changed.to_string()).unwrap();
        for arguments in [
            &["model", "merge", "model-1", name, "x"][..],
            &["model", "export", name, "--format", "merged", "--output", "x"],
            &["model", "export", name, "--format", "gguf", "--output", "x.gguf"],
            &["model", "export", name, "--format", "peft", "--output", "x"],
            &chat,
            &eval,
        ] {
            let failure = in_project(arguments).failure(home);
            assert!(failure.contains(expected), "{arguments:?}: {failure}");
        }
        let request = json!({ "version": 1, "adapter": adapter });
        let refused = server.post("/v1/fulgurite/models/hello/weights", &request);
        let text = refused.text.replace("\\\"", "\"");
        assert!(refused.status >= 400 && text.contains(expected), "{} {text}", refused.status);
    }
    assert!(!project.path("x").exists() && !project.path("x.gguf").exists());
}
