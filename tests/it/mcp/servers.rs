//! Tools that train beside a server: what was recorded there is read as if it were here.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::host::Host;
use super::{project, run, short, tasks};
use crate::common::Server;
use crate::common::project::Project;

/// Tools beside a server that serves the project's model.
fn at_server(server: &Server, project: &Project, more: &[&str]) -> Host {
    Host::start(project.directory.path(), &[&["--server", server.url.as_str()], more].concat())
}

/// Tools beside a server at which a run has made so many updates.
fn with_a_run(server: &Server, project: &Project, steps: u64) -> Host {
    let mut host = at_server(server, project, &[]);
    host.done("write_grader", short());
    host.done("start_run", run("one", "short"));
    host.done("train_steps", json!({ "run": "one", "steps": steps, "wait_seconds": -1 }));
    host
}

fn server(directory: &Path, project: &Project) -> Server {
    Server::start(directory, ["--model", &format!("model-1=embedded:{}", project.path("model-1").display())])
}

#[test]
fn what_a_server_recorded_of_a_run_is_shown_graded_and_counted() {
    let project = project();
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path(), &project);
    // Rollouts of others, which are none of the run's.
    server.enqueue([json!("somebody else's")], &json!({}));
    let mut host = with_a_run(&server, &project, 2);
    assert!(!project.path("fulgurite/runs/one/fulgurite.db").exists(), "the record is the server's");

    let shown = host.done("show_rollouts", json!({ "run": "one", "order": "best", "number": 3 }));
    assert!(shown.matches("    -> ").count() == 3 && shown.contains("Say you are"), "{shown}");
    let why = host.done("why_no_signal", json!({ "run": "one" }));
    assert!(why.contains("The latest answers:") || why.contains("NO SIGNAL"), "{why}");
    let status = host.done("run_status", json!({ "run": "one" }));
    assert!(status.contains("updates") && status.contains("sampled"), "{status}");

    let longer = json!({
        "name": "longer", "code": "def grade(task, answer):\n    return min(len(answer.encode()), 20) / 20\n",
        "examples": [{ "task": {}, "answer": "", "reward": 0 }, { "task": {}, "answer": "abcd", "reward": 0.2 }],
    });
    host.done("write_grader", longer);
    let regraded = host.done("regrade", json!({ "run": "one", "grader": "longer" }));
    assert!(regraded.contains("Nothing is changed"), "{regraded}");
    host.done("report", json!({ "runs": ["one"] }));
    let page = fs::read_to_string(project.path("fulgurite/runs/one/report.html")).unwrap();
    assert!(page.contains("Say you are") && !page.contains("somebody else"), "the page is of the run's rollouts");
    host.close();

    // Its rollouts are among those that a limit counts.
    let mut host = at_server(&server, &project, &["--max-tokens", "10"]);
    let message = host.refused("train_steps", json!({ "run": "one", "steps": 1 }));
    assert!(message.contains("sampled tokens of 10"), "{message}");
    host.close();
}

#[test]
fn a_limit_refuses_runs_whose_record_nobody_here_can_read() {
    let project = project();
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path(), &project);
    let host = with_a_run(&server, &project, 1);
    host.close();
    // As if the server were on another machine.
    let file = project.path("fulgurite/runs/one/config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert!(config["servers_store"].as_str().unwrap().starts_with("sqlite:///"), "{config}");
    config["servers_store"] = json!("sqlite:///nowhere/store.db");
    fs::write(&file, config.to_string()).unwrap();
    let mut host = at_server(&server, &project, &["--max-tokens", "1000000"]);
    let message = host.refused("train_steps", json!({ "run": "one", "steps": 1 }));
    assert!(message.contains("run \"one\": the user limits") && message.contains("cannot be read here"), "{message}");
    let message = host.refused("show_rollouts", json!({ "run": "one" }));
    assert!(message.contains("cannot open the store sqlite:///nowhere/store.db"), "{message}");
    host.close();
}

#[test]
fn a_start_that_weights_at_the_server_are_in_the_way_of_is_refused_with_choices_that_go_on() {
    let project = project();
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path(), &project);
    let mut host = with_a_run(&server, &project, 1);
    // The choices of a refusal: each one's tool, and what that takes.
    let choices = |host: &mut Host, tool: &str, arguments: &Value| -> Vec<(String, Value)> {
        let refused = host.tool(tool, arguments.clone());
        assert!(refused.is_error && refused.data["error"] == "weights_in_place", "{refused:?}");
        assert!(refused.text.contains("Choices:\n- train_steps("), "{}", refused.text);
        let choices = refused.data["choices"].as_array().unwrap();
        choices.iter().map(|choice| (choice["tool"].as_str().unwrap().to_owned(), choice["at_start"].clone())).collect()
    };
    let with = |mut arguments: Value, (tool, at_start): (String, Value)| {
        arguments["at_start"] = at_start;
        (tool, arguments)
    };
    let offered = choices(&mut host, "start_run", &run("two", "short"));
    assert_eq!(offered, [("train_steps".into(), Value::Null), ("start_run".into(), json!("start_over"))]);
    let (tool, arguments) = with(run("two", "short"), offered[1].clone());
    host.done(&tool, arguments);
    host.done("train_steps", json!({ "run": "two", "steps": 1, "wait_seconds": -1 }));
    let goes_on = json!({ "run": "one", "steps": 1, "wait_seconds": -1 });
    let offered = choices(&mut host, "train_steps", &goes_on);
    assert_eq!(offered, [("train_steps".into(), json!("replace_weights")), ("start_run".into(), json!("start_over"))]);
    let (tool, arguments) = with(goes_on, offered[0].clone());
    let message = host.done(&tool, arguments);
    assert!(message.contains("has made 2 updates"), "{message}");
    let from_checkpoint = json!({ "run": "two", "checkpoint": "1", "new_run": "three" });
    let offered = choices(&mut host, "load_checkpoint", &from_checkpoint);
    assert_eq!(offered[1], ("load_checkpoint".into(), json!("start_over")));
    // What no start can do.
    let message = host.refused("train_steps", json!({ "run": "two", "steps": 1, "at_start": "start_over" }));
    assert!(message.contains("start_run with another name"), "{message}");
    let mut of_none = run("four", "short");
    of_none["at_start"] = json!("replace_weights");
    let message = host.refused("start_run", of_none.clone());
    assert!(message.contains("has no checkpoint yet"), "{message}");
    host.close();
    let mut host = Host::start(project.directory.path(), &[]);
    let message = host.refused("start_run", of_none);
    assert!(message.contains("this run has none: leave it out"), "{message}");
    host.close();
}

#[test]
fn tinkerers_tools_beside_a_server_offer_choices_of_their_own() {
    let project = project();
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path(), &project);
    let mut host = at_server(&server, &project, &["--tools", "tinkerer"]);
    let grpo = json!({
        "base_model": "model-1", "prompts": tasks(0..20), "held_out_prompts": tasks(20..22), "max_tokens": 8,
        "grading_function": short()["code"], "examples": short()["examples"], "learning_rate": 0.01, "group_size": 4,
        "groups_per_batch": 2,
    });
    host.done("init_grpo", grpo.clone());
    host.done("train_grpo_step", json!({ "wait_seconds": -1 }));
    let refused = host.tool("init_grpo", grpo.clone());
    assert!(refused.is_error && refused.data["error"] == "weights_in_place", "{refused:?}");
    let choices = refused.data["choices"].as_array().unwrap();
    let offered: Vec<(&Value, &Value)> = choices.iter().map(|choice| (&choice["tool"], &choice["at_start"])).collect();
    let expected = [(json!("train_grpo_step"), Value::Null), (json!("init_grpo"), json!("start_over"))];
    assert_eq!(offered, expected.each_ref().map(|(tool, at_start)| (tool, at_start)));
    host.done("train_grpo_step", json!({ "wait_seconds": -1 }));
    let mut starts_over = grpo;
    starts_over["at_start"] = json!("start_over");
    assert!(host.done("init_grpo", starts_over).contains("Run \"session-2\" has begun"));
    host.done("train_grpo_step", json!({ "wait_seconds": -1 }));
    host.close();
}
