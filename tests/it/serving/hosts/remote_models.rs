//! `fulgurite serve` with models at remote hosts.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Server, eventually, fulgurite, model_flag, run, tiny_model, tiny_weights};
use crate::scripted::{ScriptedReply, ScriptedServer, Step, Vllm, generated, generated_by};
use serde_json::{Value, json};

/// A variable that every test has.
const KEY_VARIABLE: &str = "CARGO_PKG_NAME";

#[test]
fn a_host_may_come_up_after_the_server_and_is_sent_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bind = |address| runtime.block_on(tokio::net::TcpListener::bind(address)).unwrap();
    let address = bind("127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap()).local_addr().unwrap();
    let flag = format!("tiny=vllm:http://{address}/v1,path={},api_key_env={KEY_VARIABLE}", model.display());
    std::fs::write(directory.path().join("serve.toml"), "[proxy]\nhost_patience_seconds = 0").unwrap();
    let server = Server::start(directory.path(), ["--config", "serve.toml", "--model", &flag]);
    let listed = server.get("/v1/models").expect(200);
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["max_model_len"]), (&json!("tiny"), &Value::Null));
    let request = json!({ "model": "tiny", "prompt": "Say", "max_tokens": 4 });
    let error = server.post("/v1/completions", &request).expect(503);
    assert_eq!(error["error"]["code"], "backend_unavailable", "{error}");

    let vllm = Vllm::new(true, true);
    let spans = [("3", 0, 2)];
    let mut steps = vec![Step::Event(generated(&[(65, -0.5)], None))];
    steps.push(Step::Event(generated_by(&[(66, -1.5)], "length", &spans)));
    steps.extend(Step::done());
    vllm.play(ScriptedReply::Stream(steps));
    let listener = bind(address);
    let _enter = runtime.enter();
    let host = ScriptedServer::start_on(listener, move |request| vllm.answer(request));
    server.post("/v1/completions", &request).expect(200);
    let [generation] = &server.query("generations")[..] else { panic!("one call was answered") };
    assert_eq!((&generation["sampled_tokens"], &generation["logprobs"]), (&json!([65, 66]), &json!([-0.5, -1.5])));
    assert_eq!(generation["weights_versions"], json!([{ "version": 3, "first_token": 0 }]));
    let key = format!("Bearer {}", env!("CARGO_PKG_NAME"));
    assert!(host.heads().iter().all(|head| head.contains(&key)));
    let log = std::fs::read_to_string(directory.path().join("serve.log")).unwrap();
    assert!(!log.contains(&key) && log.contains("Connection refused"), "{log}");
}

/// A first call of a model whose host labels its own weights so; what the server's log says of them in the end.
fn log_of_label(directory: &Path, label: &str) -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let vllm = Arc::new(Vllm::new(true, true));
    let host = runtime.block_on(vllm.serve());
    let flag = format!("tiny=vllm:{},path={}", host.url, directory.join("others").display());
    let mut server = Server::start(directory, ["--model", &flag]);
    let mut steps = vec![Step::Event(generated_by(&[(66, -1.5)], "length", &[(label, 0, 1)]))];
    steps.extend(Step::done());
    vllm.play(ScriptedReply::Stream(steps));
    server.post("/v1/completions", &json!({ "model": "tiny", "prompt": "Say", "max_tokens": 4 })).expect(200);
    // Named or warned of: either is done within a look of the server.
    let log = || std::fs::read_to_string(directory.join("serve.log")).unwrap();
    let log = eventually("a look at the host's label", || {
        let named = server.get("/v1/fulgurite/weights?model=tiny").expect(200);
        let is_named =
            named.as_array().unwrap().iter().any(|named| named["version"] == json!(label.parse::<u64>().unwrap()));
        (log().contains("labels its own weights") || label != "0" && is_named).then(log)
    });
    server.process.terminate();
    log
}

#[test]
fn a_host_that_labels_its_own_weights_with_the_version_of_others_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    tiny_weights(directory.path(), 64, "others", 2);
    let mut server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let named = server.get("/v1/fulgurite/weights?model=tiny").expect(200);
    assert_eq!(named[0]["version"], 0, "{named}");
    server.process.terminate();
    let log = log_of_label(directory.path(), "7");
    assert!(!log.contains("labels its own weights"), "{log}");
    let log = log_of_label(directory.path(), "0");
    let warned = log.lines().filter(|line| line.contains("labels its own weights with a version that names others"));
    let warned: Vec<_> = warned.collect();
    let [warning] = &warned[..] else { panic!("once: {log}") };
    assert!(warning.contains("tiny") && warning.contains("version"), "{warning}");
}

#[test]
fn a_config_that_cannot_be_served_says_where_and_why() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 64);
    let file = directory.path().join("c.toml");
    let failure = |model: &str| {
        std::fs::write(&file, format!("[[models]]\nname = \"q\"\npath = \"model\"\n{model}")).unwrap();
        let store = format!("sqlite://{}", directory.path().join("s.db").display());
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--config", file.to_str().unwrap()];
        run(arguments).failure(directory.path())
    };
    insta::assert_snapshot!(failure("backend = \"vllm\""), @r#"
    error: [directory]/c.toml: models[0] `q`
      caused by: backend = "vllm" needs urls, one for each host: urls = ["http://127.0.0.1:8000"]
    "#);
    insta::assert_snapshot!(failure("backend = \"vllm\"\nurls = [\"h:1\"]"), @r"
    error: model `q`
      caused by: `h:1` is no URL of a model host: it must begin with http:// or https://
    ");
    insta::assert_snapshot!(failure("backend = \"sglang\"\nurls = [\"http://h\"]\napi_key_env = \"NO_SUCH_VARIABLE\""), @r"
    error: model `q`
      caused by: the environment variable NO_SUCH_VARIABLE (api_key_env): environment variable not found
    ");
    insta::assert_snapshot!(failure("backend = \"vllm\"\nurl = \"http://h\""), @r#"
    error: [directory]/c.toml
      caused by: line 5: models[0] has no key `url`; did you mean `urls`?
        5 | url = "http://h"
          | ^^^
    "#);
    std::fs::write(&file, "[[models]]\nname = \"q\"\npath = \"model\"\nbackend = \"vllm\"\nurls = [\"http://h\"]\n")
        .unwrap();
    let shown = fulgurite(["config", "show", "--config"]).arg(&file).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("models.0.max_concurrency = 256  # default"), "{shown}");
}

/// As `engine/tests/it/real_vllm.rs`: without a server there is nothing to try.
#[test]
fn a_conversation_through_a_real_vllm_goes_on_token_by_token() {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(url), Some(model)) = (variable("FULGURITE_TEST_VLLM"), variable("FULGURITE_TEST_VLLM_MODEL")) else {
        eprintln!("FULGURITE_TEST_VLLM is not set: no conversation through vLLM (tests/backends/vllm starts one)");
        return;
    };
    converse(&format!("tiny=vllm:{url},path={model},api_key_env=VLLM_API_KEY"), json!({}));
}

/// As `engine/tests/it/real_llama_cpp.rs`.
#[test]
fn a_conversation_through_a_real_llama_cpp_goes_on_token_by_token() {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(url), Some(model)) = (variable("FULGURITE_TEST_LLAMA_CPP"), variable("FULGURITE_TEST_LLAMA_CPP_MODEL"))
    else {
        eprintln!(
            "FULGURITE_TEST_LLAMA_CPP is not set: no conversation through it (tests/backends/llama-cpp starts one)"
        );
        return;
    };
    // Of bytes of characters beyond ASCII some are never told.
    let ascii: serde_json::Map<_, _> = (90..290).map(|token| (token.to_string(), json!(-100))).collect();
    let flag = format!("tiny=llama-cpp:{url},path={model},api_key_env=LLAMA_API_KEY");
    converse(&flag, json!({ "logit_bias": ascii }));
}

/// As `engine/tests/it/real_sglang.rs`.
#[test]
fn a_conversation_through_a_real_sglang_goes_on_token_by_token() {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(url), Some(model)) = (variable("FULGURITE_TEST_SGLANG"), variable("FULGURITE_TEST_SGLANG_MODEL")) else {
        eprintln!(
            "FULGURITE_TEST_SGLANG is not set: no conversation through SGLang (tests/backends/sglang starts one)"
        );
        return;
    };
    converse(&format!("tiny=sglang:{url},path={model},api_key_env=SGLANG_API_KEY"), json!({}));
}

/// Four turns with a model, each of which goes on where the last one ended.
fn converse(flag: &str, fields: Value) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), ["--model", flag]);
    let started = server.post("/v1/agl/rollouts", &json!({ "input": "x" })).expect(201);
    let base = format!(
        "/rollout/{}/attempt/{}/v1",
        started["rollout_id"].as_str().unwrap(),
        started["attempt"]["attempt_id"].as_str().unwrap()
    );
    let mut messages = vec![json!({ "role": "user", "content": "How is the weather in Paris?" })];
    for turn in 0..4 {
        let mut request = json!({ "model": "tiny", "messages": messages, "max_tokens": 24, "seed": turn });
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let reply = server.post(&format!("{base}/chat/completions"), &request).expect(200);
        messages.push(reply["choices"][0]["message"].clone());
        messages.push(json!({ "role": "user", "content": format!("And in town {turn}?") }));
    }
    let generations = server.query("generations");
    assert_eq!(generations.len(), 4);
    for (earlier, later) in generations.iter().zip(&generations[1..]) {
        assert_eq!(later["parent_id"], earlier["generation_id"], "{later}");
    }
}
