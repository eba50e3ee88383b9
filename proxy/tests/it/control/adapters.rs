//! Adapters that a trainer loads by vLLM's routes.

use std::path::Path;

use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

use crate::common::{Script, Setup, body};

async fn post(setup: &Setup, path: &str, body: &Value) -> (u16, String) {
    let response = setup.client.post(format!("{}{path}", setup.url)).json(body).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn get(setup: &Setup, path: &str) -> Value {
    setup.client.get(format!("{}{path}", setup.url)).send().await.unwrap().json().await.unwrap()
}

fn adapter(directory: &Path, name: &str, config: &str) -> Value {
    let path = directory.join(name);
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("adapter_config.json"), config).unwrap();
    json!({ "lora_name": name, "lora_path": path, "load_inplace": false })
}

/// Type and message of an error, as vLLM writes one.
fn error((status, text): (u16, String)) -> (u16, String, String) {
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(body["error"]["code"], json!(status), "{body}");
    let text = |field: &str| body["error"][field].as_str().unwrap().to_owned();
    (status, text("type"), text("message"))
}

#[tokio::test]
async fn an_adapter_is_a_model_between_its_load_and_its_unload() {
    let setup = Setup::new(vec![]).await;
    let directory = tempfile::tempdir().unwrap();
    let load = adapter(directory.path(), "policy-v1", "{}");
    let success = "Success: LoRA adapter 'policy-v1' added successfully.";
    assert_eq!(post(&setup, "/v1/load_lora_adapter", &load).await, (200, success.to_owned()));
    let models = get(&setup, "/v1/models").await;
    assert_eq!((&models["data"][1]["id"], &models["data"][1]["parent"]), (&json!("policy-v1"), &json!("tiny")));

    // It has been read: its directory may go.
    std::fs::remove_dir_all(load["lora_path"].as_str().unwrap()).unwrap();
    let (rollout, base) = setup.attempt().await;
    setup.play(Script::Answer([setup.tokens("17"), vec![setup.stop()]].concat(), SamplingEnd::StopToken));
    let mut request = body();
    request["model"] = json!("policy-v1");
    let answer: Value = setup.post(&base, &request).await.json().await.unwrap();
    assert_eq!(answer["model"], "policy-v1", "{answer}");
    assert_eq!(setup.generation_of(&rollout).await.model, "policy-v1");

    let (status, kind, message) = error(post(&setup, "/v1/load_lora_adapter", &load).await);
    assert_eq!((status, kind.as_str()), (400, "InvalidUserInput"));
    assert!(message.starts_with("The lora adapter 'policy-v1' has already been loaded."), "{message}");
    let unload = json!({ "lora_name": "policy-v1" });
    let success = "Success: LoRA adapter 'policy-v1' removed successfully.";
    assert_eq!(post(&setup, "/v1/unload_lora_adapter", &unload).await, (200, success.to_owned()));
    let (status, kind, message) = error(post(&setup, "/v1/unload_lora_adapter", &unload).await);
    assert_eq!((status, kind.as_str()), (404, "NotFoundError"));
    assert_eq!(message, "The lora adapter 'policy-v1' cannot be found.");
    assert_eq!(setup.post(&format!("{}/v1", setup.url), &request).await.status(), 404);
}

#[tokio::test]
async fn what_is_no_adapter_of_the_model_is_refused_by_name() {
    let setup = Setup::new(vec![]).await;
    let directory = tempfile::tempdir().unwrap();
    let broken = adapter(directory.path(), "broken", "");
    let good = adapter(directory.path(), "good", "{}");
    let with = |field: &str, value: Value| {
        let mut load = good.clone();
        load[field] = value;
        load
    };
    for (load, status, kind, words) in [
        (broken, 400, "BadRequestError", "Loading lora broken failed: rank 4 where the configuration has 8"),
        (
            with("lora_path", json!("/no/such")),
            404,
            "NotFoundError",
            "Loading lora good failed: No adapter found for /no/such",
        ),
        (with("lora_name", json!("")), 400, "InvalidUserInput", "Both 'lora_name' and 'lora_path' must be provided."),
        (with("lora_name", json!("tiny")), 400, "InvalidUserInput", "'tiny' is the name of a served model"),
        (with("base_model_name", json!("huge")), 400, "InvalidUserInput", "huge"),
        (with("lora_name", json!(5)), 400, "InvalidUserInput", "lora_name"),
        (json!({}), 400, "InvalidUserInput", "Both 'lora_name' and 'lora_path' must be provided."),
    ] {
        let (found, found_kind, message) = error(post(&setup, "/v1/load_lora_adapter", &load).await);
        assert_eq!((found, found_kind.as_str()), (status, kind), "{load} {message}");
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(get(&setup, "/v1/models").await["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_trainer_finds_what_it_needs_and_holds_calls_while_it_hands_an_adapter_over() {
    let setup = Setup::new(vec![]).await;
    let config = get(&setup, "/server_info?config_format=json").await["vllm_config"].clone();
    assert_eq!(config["model_config"]["dtype"], "torch.float32");
    assert_eq!(config["parallel_config"]["data_parallel_size"], 1);
    assert!(config["lora_config"]["max_loras"].as_u64().unwrap() > 8, "{config}");
    let paused = json!({ "status": "paused" }).to_string();
    for mode in ["?mode=keep", "?mode=wait", ""] {
        assert_eq!(post(&setup, &format!("/pause{mode}"), &json!({})).await, (200, paused.clone()));
        assert_eq!(get(&setup, "/is_paused").await, json!({ "is_paused": true }));
        assert_eq!(post(&setup, "/resume", &json!({})).await.0, 200);
        assert_eq!(get(&setup, "/is_paused").await, json!({ "is_paused": false }));
    }
    for mode in ["abort", "now"] {
        let (status, _, message) = error(post(&setup, &format!("/pause?mode={mode}"), &json!({})).await);
        assert_eq!(status, 400);
        assert!(message.contains("'keep'"), "{message}");
    }
    assert_eq!(get(&setup, "/is_paused").await, json!({ "is_paused": false }));
}
