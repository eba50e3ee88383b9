//! Which tools and prompts there are, as hosts are told.

use serde_json::{Value, json};

use super::host::Host;
use super::{project, short, tasks};
use crate::common::printed;

fn names(answer: &Value, list: &str) -> Vec<String> {
    let listed = answer["result"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
    listed.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// What hosts take: above 25 tools, or a schema of that many characters, some drop tools without a word.
#[test]
fn tools_are_twenty_at_most_and_their_schemas_small() {
    let directory = tempfile::tempdir().unwrap();
    for (set, number) in [("own", 19), ("tinkerer", 8)] {
        let mut host = Host::start(directory.path(), &["--tools", set]);
        let answer = host.request("tools/list", &json!({}));
        assert_eq!(names(&answer, "tools").len(), number);
        for tool in answer["result"]["tools"].as_array().unwrap() {
            assert!(tool["inputSchema"].to_string().len() < 16_384 && tool["description"].is_string(), "{tool}");
        }
        let prompts = host.request("prompts/list", &json!({}));
        let prompts = names(&prompts, "prompts");
        let recipes = printed(["init"]);
        let recipes: Vec<&str> = recipes.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert!(recipes.len() > 10 && prompts[0] == "general", "{recipes:?}");
        for recipe in recipes {
            assert!(prompts.iter().any(|prompt| prompt == recipe), "there is no prompt for the recipe {recipe}");
        }
        let prompt = host.request("prompts/get", &json!({ "name": "general" }));
        assert!(
            prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap().contains("write_grader"),
            "{prompt}"
        );
        assert!(
            host.request("prompts/get", &json!({ "name": "none" }))["error"]["message"]
                .as_str()
                .unwrap()
                .contains("general")
        );
        host.close();
    }
}

#[test]
fn tinkerers_eight_names_do_the_same_work() {
    let project = project();
    let mut host = Host::start(project.directory.path(), &["--tools", "tinkerer"]);
    assert!(host.refused("train_grpo_step", json!({})).contains("there is no session yet"));
    let started = host.done(
        "init_grpo",
        json!({
            "base_model": "model-1", "prompts": tasks(0..20), "held_out_prompts": tasks(20..22), "max_tokens": 8,
            "grading_function": short()["code"], "examples": short()["examples"], "learning_rate": 0.01, "group_size": 4,
            "groups_per_batch": 2,
        }),
    );
    assert!(
        started.contains("The grader \"session-1\" counts.") && started.contains("Run \"session-1\" has begun"),
        "{started}"
    );
    host.done("sample", json!({ "prompts": ["Say 7."], "max_tokens": 4 }));
    host.done("train_grpo_step", json!({ "num_steps": 2, "wait_seconds": -1 }));
    host.done("save", json!({ "name": "kept" }));
    assert!(
        host.done("load", json!({ "name": "kept" })).starts_with("Run \"session-2\" has begun from run \"session-1\"")
    );
    host.done("train_grpo_step", json!({ "wait_seconds": -1 }));
    assert!(host.done("finish", json!({})).contains("Run \"session-2\" is finished."));
    let chat = |n: u32| json!({ "messages": [{ "role": "user", "content": format!("{n}") }, { "role": "assistant", "content": "yes" }] });
    let data: Vec<Value> = (0..20).map(chat).collect();
    host.done("init_sft", json!({ "base_model": "model-1", "data": data, "learning_rate": 0.01, "batch_size": 4 }));
    assert!(host.done("train_sft_step", json!({ "num_steps": 2, "wait_seconds": -1 })).contains("has made 2 updates"));
    host.close();
}
