//! `fulgurite plan`, and `doctor` without a run.

use serde_json::Value;

use crate::common::{printed, run};

const CONFIG: &str = "\
[[models]]
name = \"policy\"
backend = \"vllm\"
urls = [\"http://127.0.0.1:8000\"]
path = \"models/Qwen3-4B\"
lora_rank = 32
learner = \"torch\"

[torch]
max_tokens_per_pass = 8192
";

#[test]
fn a_plan_of_a_model_that_is_not_there_says_what_to_type() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("train.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let config = config.to_str().unwrap();
    let refused = run(["plan", config, "--gpu", "24GiB"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    assert!(refused.stderr.contains("models/Qwen3-4B has no config.json"), "{}", refused.stderr);
    assert!(refused.stderr.contains("fulgurite model fetch hf:OWNER/Qwen3-4B"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--model-config Qwen3-4B"), "{}", refused.stderr);

    let arguments =
        ["plan", config, "--gpu", "24GiB", "--model-config", "Qwen3-4B", "--rollout-tokens", "1000", "--json"];
    let plan: Value = serde_json::from_str(&printed(arguments)).unwrap();
    assert_eq!((&plan["parameters"], &plan["job"]["rollout_tokens"]), (&4_022_468_096u64.into(), &1000.into()));
    assert_eq!((&plan["job"]["max_tokens_per_pass"], &plan["gpu"]["work"]), (&8192.into(), &"both".into()));
    let vllm = plan["gpu"]["vllm"].as_str().unwrap();
    assert!(
        vllm.starts_with("VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve") && vllm.contains("--max-lora-rank 32")
    );

    // Its config.json is enough.
    let models = directory.path().join("models/Qwen3-4B");
    std::fs::create_dir_all(&models).unwrap();
    std::fs::write(models.join("config.json"), "{}").unwrap();
    let refused = run(["plan", config]);
    assert!(
        refused.stderr.contains("num_attention_heads is missing") || refused.stderr.contains("hidden_size is missing")
    );
}

#[test]
fn a_plan_without_a_config_lists_public_models() {
    let table = printed(["plan", "--gpu", "24GiB"]);
    assert!(table.lines().next().unwrap().contains("24.0 GiB"), "{table}");
    assert!(table.contains("Qwen3-32B"), "{table}");
    assert_eq!(run(["plan", "--gpu", "fast"]).code, Some(2));
}

#[test]
fn a_doctor_without_a_run_looks_at_the_machine() {
    let facts = printed(["doctor", "--json"]);
    let facts: Vec<Value> = facts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for name in ["cores", "memory", "processor", "gpu", "disk", "bwrap", "docker", "podman", "python", "port 8000"] {
        assert!(facts.iter().any(|fact| fact["name"] == name), "{name}");
    }
    for fact in &facts {
        assert_eq!(fact["state"] == "ok", fact["command"].is_null(), "{fact}");
    }
}
