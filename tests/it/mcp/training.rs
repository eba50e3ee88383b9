//! A whole training with nothing but tools.

use std::fs;

use serde_json::json;

use super::host::Host;
use super::{project, run, short, tasks};
use crate::common::fulgurite;

/// The number behind a word.
fn number(text: &str, word: &str) -> f64 {
    let after = text.split_once(word).unwrap_or_else(|| panic!("{word}: {text}")).1;
    after.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn an_agent_trains_a_model_with_nothing_but_tools() {
    let project = project();
    let mut host = Host::start(project.directory.path(), &[]);
    assert!(host.done("list_models", json!({})).starts_with("No models yet. fetch_model brings one"));
    let fetched = host.done("fetch_model", json!({ "source": "model-1", "name": "tiny" }));
    assert!(fetched.starts_with("tiny: ") && fetched.ends_with("Next: start_run(model = \"tiny\", ...)."), "{fetched}");
    let text = host.done("sample", json!({ "model": "tiny", "prompts": ["Say you are 7.", "-x"], "max_tokens": 4 }));
    assert!(text.starts_with("Say you are 7.\n  -> ") && text.contains("\n-x\n  -> "), "{text}");

    // A grader that asks for what the model never says.
    let strict = json!({
        "name": "strict", "code": "def grade(task, answer):\n    return float(answer == 'I am ' + task['answer'] + '!')\n",
        "examples": [
            { "task": { "answer": "7" }, "answer": "I am 7!", "reward": 1 },
            { "task": { "answer": "7" }, "answer": "I am 7", "reward": 0 },
        ],
    });
    host.done("write_grader", strict);
    let started = host.done("start_run", run("first", "strict"));
    assert!(started.starts_with("Run \"first\" has begun: objective grpo"), "{started}");
    let trained = host.done("train_steps", json!({ "run": "first", "steps": 2, "wait_seconds": -1 }));
    assert!(trained.contains("NO SIGNAL: 4 of 4 groups were constant (0 % all good, 100 % all bad)"), "{trained}");
    assert!(
        trained.contains("All earn little: the task is too hard") && trained.matches("    -> ").count() == 3,
        "{trained}"
    );
    let why = host.done("why_no_signal", json!({ "run": "first" }));
    assert!(why.contains("NO SIGNAL") && why.contains("error constant_groups"), "{why}");

    // The fix: another grader, and so another run.
    host.done("write_grader", short());
    let mut second = run("second", "short");
    second["final_tasks"] = tasks(50..52);
    second["settings"] =
        json!({ "trainer.group_size": 8, "trainer.groups_per_batch": 4, "trainer.learning_rate": 0.03 });
    host.done("start_run", second);
    let trained = host.done("train_steps", json!({ "run": "second", "steps": 10, "wait_seconds": -1 }));
    assert!(trained.starts_with("Run \"second\" has made 10 updates (10 in this call) and waits."), "{trained}");
    assert!(trained.contains("     9  ") && trained.contains("Next: show_rollouts"), "{trained}");
    let progress: Vec<f64> =
        host.notified.iter().filter_map(|progress| progress["params"]["progress"].as_f64()).collect();
    assert!(progress.is_sorted() || progress.len() > 10, "{progress:?}");
    assert!(host.notified.iter().any(|progress| progress["params"]["total"] == 10.0), "{:?}", host.notified);
    let before = host.done("evaluate", json!({ "run": "second", "checkpoint": "before", "samples": 2 }));
    let after = host.done("evaluate", json!({ "run": "second", "samples": 2 }));
    let reward = |text: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(" all")).unwrap();
        line.split_whitespace().find(|word| word.starts_with(['+', '-'])).unwrap().parse().unwrap()
    };
    assert!(reward(&after) > reward(&before) + 0.5, "{before}\n{after}");
    let best = host.done("show_rollouts", json!({ "run": "second", "order": "best", "number": 2 }));
    let worst = host.done("show_rollouts", json!({ "run": "second", "order": "worst", "number": 1 }));
    let earned = |text: &str| text.split_whitespace().next().unwrap().parse::<f64>().unwrap();
    assert!(earned(&best) > earned(&worst) && best.matches("    -> ").count() == 2, "{best}\n{worst}");
    let compared = host.done("compare", json!({ "run": "second", "prompts": ["Say you are 60."], "max_tokens": 8 }));
    assert!(compared.contains("\n  before: ") && compared.contains("\n  after:  "), "{compared}");

    let ended = host.done("finish", json!({ "run": "second" }));
    assert!(ended.contains("final tasks, scored once: +") && ended.contains("Run \"second\" is finished."), "{ended}");
    let exported = host.done("export_weights", json!({ "run": "second", "format": "merged", "name": "out" }));
    assert!(exported.starts_with("Run \"second\" after 10 updates is in fulgurite/exports/out."), "{exported}");
    let directory = project.path("fulgurite/exports/out");
    assert!(directory.join("model.safetensors").is_file() && directory.join("tokenizer.json").is_file());
    for (tool, what) in
        [("train_steps", json!({ "run": "second", "steps": 1 })), ("finish", json!({ "run": "second" }))]
    {
        assert!(host.refused(tool, what).contains("is finished"));
    }
    let page = host.done("report", json!({ "runs": ["first", "second"] }));
    assert_eq!(page, "The page is fulgurite/runs/first/report.html.");
    assert!(fs::read_to_string(project.path("fulgurite/runs/first/report.html")).unwrap().contains("second"));
    let status = host.done("run_status", json!({ "run": "second" }));
    assert!(status.contains("state                 ended") && number(&status, "updates ") == 10.0, "{status}");
    let listed = host.done("list_runs", json!({}));
    assert!(listed.contains("first") && listed.contains("second"), "{listed}");
    assert_eq!(host.close(), Some(0));
    // Nothing of it is anybody's but the runs': the account of tokens is whole.
    let show = fulgurite(["runs", "show", "--json"]).arg(project.path("fulgurite/runs/second")).output().unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&show.stdout).unwrap();
    assert!(shown["tokens"]["by_cause"]["other"].as_u64().unwrap_or(0) == 0, "{shown}");
}

#[test]
fn a_checkpoint_is_named_and_gone_on_from() {
    let project = project();
    let mut host =
        Host::start(project.directory.path(), &["--autocheckpoint-reward", "0.0", "--autocheckpoint-after", "2"]);
    host.done("write_grader", short());
    host.done("start_run", run("one", "short"));
    let trained = host.done("train_steps", json!({ "run": "one", "steps": 2, "wait_seconds": -1 }));
    assert!(trained.contains("Checkpoint \"auto-2\" is kept: reward 0."), "{trained}");
    let saved = host.done("save_checkpoint", json!({ "run": "one", "name": "early" }));
    assert!(saved.starts_with("fulgurite/runs/one/checkpoints/000002, after 2 updates, is \"early\"."), "{saved}");
    for name in ["early", "7", "a/b", "before"] {
        host.refused("save_checkpoint", json!({ "run": "one", "name": name }));
    }
    host.done("train_steps", json!({ "run": "one", "steps": 1, "wait_seconds": -1 }));
    let loaded = host.done("load_checkpoint", json!({ "run": "one", "checkpoint": "early", "new_run": "two" }));
    assert!(loaded.starts_with("Run \"two\" has begun from run \"one\" after 2 updates"), "{loaded}");
    host.done("train_steps", json!({ "run": "two", "steps": 1, "wait_seconds": -1 }));
    let weights = |path: &str| fs::read(project.path(path)).unwrap();
    let merged = weights("fulgurite/models/one-2/model.safetensors");
    assert_eq!(merged.len(), weights("fulgurite/runs/one/checkpoints/000002/model.safetensors").len());
    let unknown = host.refused("load_checkpoint", json!({ "run": "one", "checkpoint": "late", "new_run": "three" }));
    assert!(unknown.starts_with("there is no checkpoint \"late\"; there are auto-2, "), "{unknown}");
    assert!(unknown.ends_with(", early, 2, 3"), "{unknown}");
    let other = json!({ "name": "same", "code": short()["code"], "examples": short()["examples"] });
    host.done("write_grader", other);
    let regraded = host.done("regrade", json!({ "run": "one", "grader": "same" }));
    assert!(regraded.contains(" 0 earn something else"), "{regraded}");
    host.close();
}
