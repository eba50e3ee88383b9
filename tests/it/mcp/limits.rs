//! What the user allows, and what hosts send that is wrong.

use std::fs;

use serde_json::json;

use super::host::Host;
use super::{project, run, short};

#[test]
fn nothing_is_spent_beyond_what_the_user_allows() {
    let project = project();
    let mut host = Host::start(project.directory.path(), &["--max-tokens", "150"]);
    host.done("write_grader", short());
    host.done("start_run", run("one", "short"));
    let message = host.refused("train_steps", json!({ "run": "one", "steps": 1000, "wait_seconds": -1 }));
    assert!(
        message.starts_with("the user's limit is reached: ") && message.contains(" sampled tokens of 150"),
        "{message}"
    );
    for (tool, arguments) in [
        ("train_steps", json!({ "run": "one", "steps": 1 })),
        ("evaluate", json!({ "run": "one" })),
        ("sample", json!({ "run": "one", "checkpoint": "before", "prompts": ["x"] })),
        ("start_run", run("two", "short")),
    ] {
        assert!(host.refused(tool, arguments).contains("sampled tokens of 150"), "{tool}");
    }
    host.close();
    // The user raises it.
    let mut host = Host::start(project.directory.path(), &["--max-tokens", "100000"]);
    host.done("train_steps", json!({ "run": "one", "steps": 1, "wait_seconds": -1 }));
    host.close();
}

#[test]
fn a_config_is_the_users_word_and_settings_name_no_commands() {
    let project = project();
    let mut host = Host::start(project.directory.path(), &[]);
    let message = host.refused("start_run", json!({ "name": "one", "config": "t.toml" }));
    assert!(message.contains("is not among the configs that the user has named"), "{message}");
    host.done("write_grader", short());
    let mut sly = run("sly", "short");
    sly["settings"] = json!({ "runner.command": ["sh", "-c", "touch stolen"] });
    let message = host.refused("start_run", sly);
    assert!(message.contains("settings: runner.command cannot be set"), "{message}");
    for (key, value) in [
        ("models.0.path ", json!("/etc")),
        ("models.0.backend='vllm' #", json!(1)),
        ("models.0.\"p\\u0061th\"", json!("/etc")),
        ("trainer", json!({ "checkpoint_url": "s3://bucket/x" })),
        ("trainer.kl", json!({ "coefficient": 0.1, "file": "/etc/passwd" })),
        ("trainer.kl.reference", json!("http://127.0.0.1:1/v1")),
        ("trainer.checkpoint_url\n", json!("s3://bucket/x")),
    ] {
        let mut sly = run("sly", "short");
        sly["settings"] = json!({ key: value });
        let message = host.refused("start_run", sly);
        assert!(message.starts_with("arguments of start_run: settings: "), "{key:?}: {message}");
    }
    assert!(!project.path("fulgurite/runs/sly").exists());
    host.close();
    let mut host = Host::start(project.directory.path(), &["--config", "t.toml"]);
    let settings = json!({ "name": "one", "config": "t.toml", "settings": { "trainer.group_size": 2 } });
    host.done("start_run", settings);
    let trained = host.done("train_steps", json!({ "run": "one", "steps": 1, "wait_seconds": -1 }));
    assert!(trained.starts_with("Run \"one\" has made 1 updates"), "{trained}");
    let kept = fs::read_to_string(project.path("fulgurite/runs/one/config.json")).unwrap();
    assert!(kept.contains("\"group_size\": 2"), "{kept}");
    // Nor does it change while the run goes on.
    project.change_config("learning_rate = 1e-3", "learning_rate = 1e-2");
    let message = host.refused("train_steps", json!({ "run": "one", "steps": 1 }));
    assert!(message.contains("t.toml has been changed since run \"one\" began"), "{message}");
    host.close();
}

#[test]
fn what_is_malformed_is_a_clear_error_and_the_session_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start(directory.path(), &[]);
    for (tool, arguments, why) in [
        ("train_steps", json!({ "run": "none", "steps": 1 }), "there is no run \"none\"; there are none yet"),
        ("train_steps", json!({ "run": "../../etc", "steps": 1 }), "there is no run"),
        ("train_steps", json!({ "run": "none", "steps": -1 }), "arguments of train_steps: invalid value"),
        ("train_steps", json!({ "run": "none" }), "missing field `steps`"),
        ("train_steps", json!({ "run": "none", "steps": 1, "more": 1 }), "unknown field `more`"),
        ("look_at_data", json!({ "path": "/etc/passwd" }), "is not looked at"),
        ("look_at_data", json!({ "path": "none.jsonl" }), "No such file"),
        ("fetch_model", json!({ "source": "/etc", "name": "m" }), "is not looked at"),
        ("sample", json!({ "prompts": ["x"] }), "name either a `run`"),
        ("start_run", json!({ "name": "x", "objective": "sft" }), "`model` is missing"),
        ("finish", json!({ "run": "none" }), "there is no run"),
        ("no_tool", json!({}), "there is no tool \"no_tool\"; there are list_models"),
    ] {
        let message = host.refused(tool, arguments);
        assert!(message.contains(why), "{tool}: {message}");
    }
    let rows = vec!["x".repeat(1000); 9000];
    let message = host.refused("start_run", json!({ "name": "x", "tasks": rows }));
    assert!(message.contains("write data to a file, and name that"), "{message}");
    let unknown = host.request("no/method", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    host.write(&json!("not a message"));
    assert!(host.done("list_runs", json!({})).starts_with("No runs yet."));
    assert!(fs::read_dir(directory.path().join("fulgurite/runs")).unwrap().next().is_none());
    assert_eq!(host.close(), Some(0));
}

#[test]
fn a_pipe_that_nobody_writes_to_is_no_data_and_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let pipe = directory.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    };
    fs::create_dir(directory.path().join("model")).unwrap();
    make("pipe.jsonl");
    make("model/config.json");
    let mut host = Host::start(directory.path(), &[]);
    for (tool, arguments) in [
        ("look_at_data", json!({ "path": "pipe.jsonl" })),
        ("fetch_model", json!({ "source": "pipe.jsonl", "name": "m" })),
        ("fetch_model", json!({ "source": "model", "name": "m" })),
        ("start_run", json!({ "name": "x", "objective": "sft", "model": "model", "data": "pipe.jsonl" })),
    ] {
        let message = host.refused(tool, arguments);
        assert!(message.contains("is neither a file nor a directory, but a pipe"), "{tool}: {message}");
    }
    assert_eq!(host.close(), Some(0));
}

#[test]
fn a_record_that_was_rewritten_beside_the_tools_trains_nothing() {
    let project = project();
    let mut host = Host::start(project.directory.path(), &[]);
    host.done("write_grader", short());
    host.done("start_run", run("one", "short"));
    host.close();
    let record = project.path("fulgurite/runs/one/tools.json");
    let text = fs::read_to_string(&record).unwrap();
    let rewritten = text.replace("trainer.learning_rate=0.01", "runner.command=['touch','stolen']");
    assert_ne!(rewritten, text);
    fs::write(&record, rewritten).unwrap();
    let mut host = Host::start(project.directory.path(), &[]);
    for (tool, arguments) in [
        ("train_steps", json!({ "run": "one", "steps": 1 })),
        ("evaluate", json!({ "run": "one" })),
        ("save_checkpoint", json!({ "run": "one", "name": "x" })),
        ("load_checkpoint", json!({ "run": "one", "checkpoint": "1", "new_run": "two" })),
        ("finish", json!({ "run": "one" })),
    ] {
        let message = host.refused(tool, arguments);
        assert!(message.contains("tools.json was not written by these tools for run \"one\""), "{tool}: {message}");
    }
    // It is looked at all the same, and goes on once it is what it was.
    assert!(host.done("run_status", json!({ "run": "one" })).contains("one"));
    fs::write(&record, text).unwrap();
    host.done("train_steps", json!({ "run": "one", "steps": 1, "wait_seconds": -1 }));
    host.close();
}
