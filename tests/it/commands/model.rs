//! `fulgurite model`.

use std::path::Path;

use crate::common::{Ran, Server, fulgurite, run};
use serde_json::{Value, json};

fn vector(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("engine/tests/vectors").join(name).display().to_string()
}

#[test]
fn a_model_is_told_with_what_it_takes() {
    let output = fulgurite(["model", "inspect", "--json", &vector("llama-3.1")]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["architecture"], "LlamaForCausalLM");
    assert_eq!(report["element_types"]["F32"], report["parameters"]);
    let memory = |what: &str| report["memory"][what].as_u64().unwrap();
    assert_eq!(memory("sampling"), memory("weights") + memory("rotation") + memory("prefix_cache"));
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
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["element_types"]["BF16"], report["parameters"]);
    let failure = run(arguments).failure(directory.path());
    assert!(failure.contains("cannot be converted") && failure.contains("exists"), "{failure}");
    let merged = directory.path().join("merged").display().to_string();
    let failure = run(["model", "merge", &target, "/nowhere", &merged]).failure(directory.path());
    assert!(failure.contains("/nowhere cannot be merged into") && failure.contains("adapter_config.json"), "{failure}");
}

#[test]
fn a_gguf_file_is_told_without_being_converted() {
    let output = fulgurite(["model", "inspect", &vector("gguf/qwen3-tied.gguf")]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    insta::assert_snapshot!([&lines[..8], &lines[12..]].concat().join("\n"), @r"
    architecture     Qwen3ForCausalLM
    parameters       6256
    layers           2 of width 16
    vocabulary       48
    head             tied to the embedding
    context          64 tokens
    elements         F32 (6256)
    files            1
    tokenizer        smollm, 47 tokens, a chat template
    converted to     f32
    ");
    let output = fulgurite(["model", "inspect", "--json", &vector("gguf/llama.gguf")]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["gguf"]["converted_to"], &report["gguf"]["chat_template"]), (&json!("f16"), &json!(true)));
}

/// The model's words for a question, and what the server said when it started.
fn served(path: &Path, home: &Path) -> (Value, String) {
    let cache = home.join("cache");
    let environment = [("XDG_CACHE_HOME", cache.to_str().unwrap())];
    let server = Server::start_in(&environment, home, ["--model", &format!("tiny=embedded:{}", path.display())]);
    let request = json!({ "model": "tiny", "temperature": 0, "max_tokens": 8, "logprobs": true,
                        "messages": [{ "role": "user", "content": "ab 12" }] });
    let answer = server.post("/v1/chat/completions", &request).expect(200)["choices"][0]["logprobs"].clone();
    (answer, std::fs::read_to_string(home.join("serve.log")).unwrap())
}

#[test]
fn a_gguf_file_is_served_as_the_directory_that_it_converts_to_which_is_made_once() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("tiny.gguf");
    std::fs::copy(vector("gguf/qwen3-tied.gguf"), &file).unwrap();
    let directory = home.path().join("directory");
    let converted = ["model", "convert", file.to_str().unwrap(), directory.to_str().unwrap()];
    assert!(fulgurite(converted).status().unwrap().success());

    let (expected, log) = served(&directory, home.path());
    assert!(expected["content"][0]["logprob"].is_number() && !log.contains("converting"), "{expected} {log}");
    assert!(!home.path().join("cache").exists());
    let (first, log) = served(&file, home.path());
    assert!(log.contains("tiny.gguf: converting it into") && log.contains("cache/fulgurite/models/tiny-"), "{log}");
    let (again, log) = served(&file, home.path());
    assert!(!log.contains("converting"), "{log}");
    assert_eq!((&first, &again), (&expected, &expected));
}

#[test]
fn whatever_takes_a_model_names_the_file_that_is_none() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).display().to_string();
    let whole = std::fs::read(vector("gguf/llama.gguf")).unwrap();
    std::fs::write(path("cut.gguf"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(path("text.gguf"), "not a model").unwrap();
    let failure = |arguments: &[&str]| {
        let ran: Ran = fulgurite(arguments).env("XDG_CACHE_HOME", path("cache")).output().unwrap().into();
        ran.failure(home.path())
    };
    insta::assert_snapshot!(failure(&["template", "check", &path("text.gguf")]), @"error: [directory]/text.gguf is neither a model directory nor a GGUF file");
    insta::assert_snapshot!(failure(&["serve", "--listen", "127.0.0.1:0", "--store", &format!("sqlite://{}", path("s.db")), "--model", &format!("m=embedded:{}", path("cut.gguf"))]), @r"
    error: model `m`
      caused by: [directory]/cut.gguf cannot be converted into a directory in [directory]/cache/fulgurite/models
      caused by: [directory]/cut.gguf: tensor blk.0.attn_v.weight: it reaches beyond the file's end
    ");
    assert!(failure(&["model", "inspect", &path("cut.gguf")]).contains("it reaches beyond the file's end"));
}

/// Wherever eight bytes of the header claim to be thousands of millions: in a process that cannot have so much memory.
#[test]
fn no_memory_is_taken_for_what_a_gguf_file_claims() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("lying.gguf");
    let whole = std::fs::read(vector("gguf/llama.gguf")).unwrap();
    let mut refused = 0;
    for place in (8..3300).step_by(41) {
        let mut bytes = whole.clone();
        bytes[place..place + 8].copy_from_slice(&(1_u64 << 33).to_le_bytes());
        std::fs::write(&file, bytes).unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -v 4000000; exec \"$0\" model inspect \"$1\"", env!("CARGO_BIN_EXE_fulgurite")]);
        let ran: Ran = command.arg(&file).output().unwrap().into();
        let answered = ran.code == Some(0) || (ran.code == Some(1) && ran.stderr.contains("cannot be run here"));
        assert!(answered, "byte {place}: {ran:?}");
        refused += usize::from(ran.code == Some(1));
    }
    assert!(refused > 40, "{refused}");
}

#[test]
fn a_text_over_which_the_models_own_pattern_never_ends_is_refused_in_every_dialect() {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("model");
    let converted = ["model", "convert", &vector("gguf/llama.gguf"), model.to_str().unwrap()];
    assert!(fulgurite(converted).status().unwrap().success());
    std::fs::remove_file(model.join("fulgurite.sha256")).unwrap();
    let path = model.join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    tokenizer["pre_tokenizer"] = json!({ "type": "Sequence", "pretokenizers": [
        { "type": "Split", "pattern": { "Regex": r"((a|aa)+)\1\1c" }, "behavior": "Isolated", "invert": false },
        { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false },
    ] });
    std::fs::write(&path, tokenizer.to_string()).unwrap();
    let server = Server::start(home.path(), ["--model", &format!("tiny=embedded:{}", model.display())]);
    let text = "a".repeat(100);
    let messages = json!([{ "role": "user", "content": text }]);
    for (route, body) in [
        ("/v1/chat/completions", json!({ "model": "tiny", "messages": messages, "max_tokens": 2 })),
        ("/v1/chat/completions", json!({ "model": "tiny", "messages": messages, "max_tokens": 2, "stream": true })),
        ("/v1/completions", json!({ "model": "tiny", "prompt": text, "max_tokens": 2 })),
        ("/v1/responses", json!({ "model": "tiny", "input": text, "max_output_tokens": 16 })),
        ("/v1/messages", json!({ "model": "tiny", "messages": messages, "max_tokens": 2 })),
        ("/v1/messages/count_tokens", json!({ "model": "tiny", "messages": messages })),
        ("/v1beta/models/tiny:generateContent", json!({ "contents": [{ "parts": [{ "text": text }] }] })),
    ] {
        let refused = server.post(route, &body);
        assert_eq!(refused.status, 400, "{route}: {}", refused.text);
        assert!(refused.text.contains("the model's pattern that cuts text into words"), "{route}: {}", refused.text);
    }
    let other = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "b" }], "max_tokens": 2 });
    server.post("/v1/chat/completions", &other).expect(200);
}
