//! Runs that learn from data.

use std::fs;

use serde_json::{Value, json};

use super::host::Host;
use super::project;

#[test]
fn a_run_learns_from_conversations_or_comparisons_by_tools_alone() {
    let project = project();
    let chat = |n: u32| json!({ "messages": [{ "role": "user", "content": format!("Say {n}.") }, { "role": "assistant", "content": "yes" }] });
    let chats: Vec<Value> = (0..40).map(chat).collect();
    fs::write(project.path("chats.jsonl"), chats.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    let mut host = Host::start(project.directory.path(), &[]);
    let seen = host.done("look_at_data", json!({ "path": "chats.jsonl", "rows": 1 }));
    assert!(seen.starts_with("40 rows; fields: messages (40);"), "{seen}");
    let run = json!({
        "name": "taught", "model": "model-1", "objective": "sft", "data": "chats.jsonl",
        "settings": { "trainer.learning_rate": 0.01, "trainer.batch_size": 4, "trainer.epochs": 3 },
    });
    let text =
        host.refused("start_run", json!({ "name": "taught", "model": "model-1", "objective": "sft", "tasks": [1] }));
    assert!(text.contains("sft learns from `data`: leave out tasks"), "{text}");
    host.done("start_run", run);
    let trained = host.done("train_steps", json!({ "run": "taught", "steps": 5, "wait_seconds": -1 }));
    assert!(trained.starts_with("Run \"taught\" has made 5 updates") && trained.contains(" nll "), "{trained}");
    let nll: Vec<f64> = trained
        .lines()
        .filter_map(|line| {
            line.trim_start().strip_prefix(|c: char| c.is_ascii_digit())?.split_whitespace().next()?.parse().ok()
        })
        .collect();
    assert!(nll.len() == 5 && nll[4] < nll[0], "{trained}");
    let more = host.done("train_steps", json!({ "run": "taught", "steps": 1000, "wait_seconds": -1 }));
    assert!(more.starts_with("Run \"taught\" is over after 27 updates"), "{more}");
    let text = host.done("sample", json!({ "run": "taught", "prompts": ["Say 99."], "temperature": 0 }));
    assert_eq!(text, "Say 99.\n  -> yes");

    let pair = |n: u32| json!({ "prompt": format!("Say {n}."), "chosen": "no", "rejected": "yes" });
    let run = json!({
        "name": "preferred", "model": "fulgurite/runs/taught/checkpoints/000027", "objective": "dpo",
        "data": (0..40).map(pair).collect::<Vec<_>>(),
        "settings": { "trainer.learning_rate": 0.003, "trainer.batch_size": 8 },
    });
    host.done("start_run", run);
    let trained = host.done("train_steps", json!({ "run": "preferred", "steps": 4, "wait_seconds": -1 }));
    assert!(trained.contains("updates"), "{trained}");
    let ended = host.tool("finish", json!({ "run": "preferred" }));
    assert!(ended.text.contains("is finished"), "{}", ended.text);
    host.close();
}
