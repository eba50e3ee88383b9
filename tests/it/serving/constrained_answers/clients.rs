//! OpenAI's and Anthropic's own clients, which read what they get back into the types that they asked for.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::serve;

/// What a script beside this file prints, run with the packages that `tests/setup` installs.
fn printed(script: &str, base_url: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/python/bin/python");
    assert!(python.exists(), "tests/setup makes {}", python.display());
    let home = tempfile::tempdir().unwrap();
    let mut client = Command::new(python);
    client.arg(root.join("tests/constrained_answers").join(script)).args([base_url, "qwen3_disable_thinking"]);
    let ran = client.env_clear().env("HOME", home.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

fn all_are(names: &Value, known: &[&str]) -> bool {
    let names = names.as_array().unwrap();
    !names.is_empty() && names.iter().all(|name| known.contains(&name.as_str().unwrap()))
}

#[test]
fn openais_client_gets_objects_and_calls_of_its_own_types() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path());
    let got = printed("openai_client.py", &format!("{}/v1", server.url));
    let objects = got["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 5);
    for object in objects {
        assert!(object["city"].as_str().unwrap().chars().count() <= 8, "{object}");
        assert!(["celsius", "fahrenheit"].contains(&object["unit"].as_str().unwrap()), "{object}");
    }
    // Whether it is streamed changes nothing: the seeds do.
    assert_eq!((&objects[0], &objects[1]), (&objects[2], &objects[3]));
    assert_ne!(objects[0], objects[1]);
    assert_eq!(got["calls"][0], got["calls"][1]);
    assert!(all_are(&got["calls"][0], &["Weather"]) && all_are(&got["response_calls"], &["Weather"]), "{got}");
    assert_eq!((&got["named"], &got["plain"]), (&json!(["Weather"]), &json!("{")));
    assert!(got["refused"].as_str().unwrap().contains("colour"), "{got}");
}

#[test]
fn anthropics_client_gets_the_calls_and_objects_that_it_asks_for() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(home.path());
    let got = printed("anthropic_client.py", &server.url);
    for called in got["calls"].as_array().unwrap() {
        assert!(all_are(called, &["weather", "time"]), "{got}");
    }
    assert_eq!(got["named"], json!(["time"]));
    assert!(got["object"]["days"].as_u64().unwrap() <= 9, "{got}");
    assert!(got["parsed"]["rains"].is_boolean(), "{got}");
}
