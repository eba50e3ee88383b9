//! `fulgurite train` with `[trainer] harvest`: rollouts of agents that nobody told to run, rewarded when somebody got to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{
    Process, Ran, Server, client, eventually, fulgurite, model_flag, text, tiny_model, wait_until_ready,
};
use serde_json::{Value, json};

const HARVEST: &str = "max_steps = 3\nlearning_rate = 1e-2\nharvest = { rollouts_per_step = 4, max_staleness = 9 }";

/// A config beside a model, with a store of its own unless a server has it.
pub(crate) fn write_config(directory: &Path, host: &str, store: Option<&Path>, trainer: &str) -> PathBuf {
    let store = store.map_or(String::new(), |store| format!("[store]\nurl = \"sqlite://{}\"\n", store.display()));
    let config = format!(
        "[run]\nname = \"h\"\n{store}[server]\nlisten = \"127.0.0.1:0\"\n\
         [[models]]\nname = \"hello\"\npath = \"model\"\n{host}\n[trainer]\n{trainer}\n"
    );
    let path = directory.join("h.toml");
    std::fs::write(&path, config).unwrap();
    path
}

pub(crate) fn train(config: &Path, run: &Path) -> Command {
    let mut command = fulgurite(["train", "--json"]);
    command.arg(config).arg("--run-directory").arg(run);
    command
}

fn summary(output: Output) -> Value {
    Ran::from(output).json_lines().pop().unwrap()
}

pub(super) fn weights(summary: &Value) -> Vec<u8> {
    let checkpoint = Path::new(summary["checkpoint"].as_str().unwrap());
    std::fs::read(checkpoint.join("model.safetensors")).unwrap()
}

/// Causes of what was not trained, once it is known that all adds up.
fn untrained(summary: &Value) -> BTreeMap<String, u64> {
    let untrained: BTreeMap<String, u64> = serde_json::from_value(summary["untrained_tokens"].clone()).unwrap();
    assert_eq!(untrained["other"], 0, "{summary}");
    let all = untrained.values().sum::<u64>() + summary["trained_tokens"].as_u64().unwrap();
    assert_eq!(summary["sampled_tokens"], all);
    untrained
}

pub(super) fn ask(question: u64) -> Value {
    json!({ "model": "hello", "messages": [{ "role": "user", "content": format!("Say {question}") }], "max_tokens": 5 })
}

fn post(url: &str, path: &str, body: &Value) -> Value {
    let reply = client().post(format!("{url}{path}")).json(body).send().unwrap();
    let (status, text) = (reply.status(), reply.text().unwrap());
    assert!(status.is_success(), "{path}: {status}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// An agent's rollout from beginning to end; `metadata` and `mode` say whose it is.
fn play(url: &str, task: u64, reward: f64, rollout: &Value) {
    let mut body = json!({ "input": { "task": task } });
    body.as_object_mut().unwrap().extend(rollout.as_object().unwrap().clone());
    let started = post(url, "/v1/agl/rollouts", &body);
    let (id, attempt) = (text(&started["rollout_id"]), text(&started["attempt"]["attempt_id"]));
    post(url, &format!("/rollout/{id}/attempt/{attempt}/v1/chat/completions"), &ask(task));
    post(url, &format!("/rollout/{id}/reward"), &json!({ "value": reward }));
    post(url, &format!("/v1/agl/rollouts/{id}/attempts/{attempt}"), &json!({ "status": "succeeded" }));
}

/// A call that says nothing of whose it is, judged later.
fn play_session(url: &str, question: u64, reward: f64) {
    let known = |url: &str| -> Vec<String> {
        let reply =
            client().get(format!("{url}/v1/agl/rollouts?include_sessions=true")).send().unwrap().text().unwrap();
        let rollouts: Value = serde_json::from_str(&reply).unwrap();
        rollouts["items"].as_array().unwrap().iter().map(|rollout| text(&rollout["rollout_id"])).collect()
    };
    let before = known(url);
    post(url, "/v1/chat/completions", &ask(question));
    let session = known(url).into_iter().find(|id| !before.contains(id)).unwrap();
    post(url, &format!("/rollout/{session}/reward"), &json!({ "value": reward }));
}

/// A store with twelve rollouts to learn from, four of them alone with their task, and some that are not to be learnt from.
pub(super) fn recorded(directory: &Path, model: &Path) -> PathBuf {
    let served = directory.join("recorded");
    std::fs::create_dir(&served).unwrap();
    let mut server = Server::start(&served, ["--model", &model_flag("hello", model)]);
    for place in 0..8 {
        play(&server.url, place % 2, (place % 3) as f64, &json!({}));
    }
    play(&server.url, 1, 9.0, &json!({ "mode": "val" }));
    play(&server.url, 1, 9.0, &json!({ "metadata": { "run_id": "another" } }));
    for place in 0..4 {
        play_session(&server.url, 10 + place, (place % 2) as f64);
    }
    post(&server.url, "/v1/chat/completions", &ask(99));
    server.process.terminate();
    served.join("store.db")
}

#[test]
fn what_a_store_holds_is_harvested_once_wherever_the_trainer_runs() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 128);
    let recorded = recorded(directory.path(), &model);
    let copy = |name: &str| {
        let path = directory.path().join(name);
        std::fs::copy(&recorded, &path).unwrap();
        path
    };

    let config = write_config(directory.path(), "backend = \"embedded\"", Some(&copy("here.db")), HARVEST);
    let here = summary(train(&config, &directory.path().join("here")).output().unwrap());
    let causes = untrained(&here);
    assert_eq!(here["steps"], 3);
    assert!(here["max_logprob_difference"].as_f64().unwrap() > 0.0, "later steps learn from what earlier weights said");
    // Those of another run, of an evaluation, and the call that nobody judged.
    assert_eq!(causes.keys().collect::<Vec<_>>(), ["other", "unattributed"], "{here}");
    assert!(here["trained_tokens"].as_u64().unwrap() >= 12 && causes["unattributed"] >= 3);
    assert!(here.get("held_out_reward_before").is_none());
    assert!(weights(&here) != std::fs::read(model.join("model.safetensors")).unwrap());

    // Killed after each step, it goes on behind what it has learnt from.
    let config = write_config(directory.path(), "backend = \"embedded\"", Some(&copy("killed.db")), HARVEST);
    let run = directory.path().join("killed");
    let mut resume: &[&str] = &[];
    for steps in [1, 2] {
        let mut command = train(&config, &run);
        command.args(resume).stdout(Stdio::null());
        let mut process = Process::spawn(command);
        let recorded = || std::fs::read_to_string(run.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
        eventually("a step", || (recorded() >= steps).then_some(()));
        process.kill();
        resume = &["--resume"];
    }
    let killed = summary(train(&config, &run).arg("--resume").output().unwrap());
    assert!(weights(&killed) == weights(&here), "{killed}");
    assert_eq!(killed["trained_tokens"], here["trained_tokens"]);
    untrained(&killed);

    // Beside a server, over HTTP: the trainer's own learner, and weights in a directory that the server reads.
    let served = directory.path().join("served");
    std::fs::create_dir(&served).unwrap();
    let store = format!("sqlite://{}", copy("there.db").display());
    let server = Server::start_on(&store, &served, ["--model", &model_flag("hello", &model)]);
    let config = write_config(directory.path(), "backend = \"embedded\"", None, HARVEST);
    let mut command = train(&config, &directory.path().join("there"));
    let there = summary(command.args(["--server", &server.url]).output().unwrap());
    assert!(weights(&there) == weights(&here), "{there}");
    assert_eq!(untrained(&there), causes);
    let state = server.get("/v1/fulgurite/models/hello").expect(200);
    assert_eq!(state["weights_version"], 3, "agents are answered from what was learnt");
}

#[test]
fn what_another_run_of_the_store_has_learnt_from_is_learnt_from_once() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 128);
    let store = recorded(directory.path(), &model);
    let learnt = |run: &str, steps: u64, again: &str| {
        let trainer = HARVEST.replace("max_staleness = 9", &format!("max_staleness = 9{again}"));
        let config = write_config(directory.path(), "backend = \"embedded\"", Some(&store), &trainer);
        let mut command = train(&config, &directory.path().join(run));
        let lines = Ran::from(command.args(["--max-steps", &steps.to_string()]).output().unwrap()).json_lines();
        let passed_over: u64 = lines.iter().filter_map(|line| line["harvest/trained_before"].as_u64()).sum();
        (lines.last().unwrap().clone(), passed_over)
    };
    let (first, passed_over) = learnt("first", 2, "");
    assert_eq!((passed_over, untrained(&first).get("trained_before")), (0, None), "{first}");
    // Eight of the twelve are the first run's. It trained with the files that this one begins with, so that what they sampled
    // is known.
    let (second, passed_over) = learnt("second", 1, "");
    let causes = untrained(&second);
    assert_eq!((passed_over, causes["trained_before"]), (8, first["trained_tokens"].as_u64().unwrap()), "{second}");
    assert!(second["trained_tokens"].as_u64().unwrap() > 0 && !causes.contains_key("unknown_weights"), "{second}");
    // Whoever wants them again learns the same from them.
    let (again, passed_over) = learnt("again", 2, ", again = true");
    assert!(weights(&again) == weights(&first) && passed_over == 0, "{again}");

    // The versions of the three runs name different weights.
    let url = format!("sqlite://{}", store.display());
    let named = crate::common::run([
        "sql",
        "--store",
        &url,
        "--json",
        "SELECT version, run_id, step FROM named_weights ORDER BY version",
    ]);
    let named: Vec<Value> = named.json_lines();
    let expected = [
        (0, Value::Null, Value::Null),
        (1, json!("first"), json!(1)),
        (2, json!("first"), json!(2)),
        (3, json!("second"), json!(1)),
        (4, json!("again"), json!(1)),
        (5, json!("again"), json!(2)),
    ];
    let expected =
        expected.map(|(version, run_id, step)| json!({ "version": version, "run_id": run_id, "step": step }));
    assert_eq!(named, expected);
}

/// Rewards a rollout that was called and ends it.
fn judge(url: &str, (id, attempt): &(String, String), rewards: &[(&str, f64)]) {
    for (of, value) in rewards {
        post(url, &format!("/rollout/{id}{of}/reward"), &json!({ "value": value }));
    }
    post(url, &format!("/v1/agl/rollouts/{id}/attempts/{attempt}"), &json!({ "status": "succeeded" }));
}

#[test]
fn rewards_that_no_sum_can_hold_or_that_are_out_of_bounds_train_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 128);
    let flag = ["--model".to_owned(), model_flag("hello", &model)];
    let called = directory.path().join("called");
    std::fs::create_dir(&called).unwrap();
    let mut server = Server::start(&called, &flag);
    let call = |task: u64| {
        let started = post(&server.url, "/v1/agl/rollouts", &json!({ "input": { "task": task } }));
        let (id, attempt) = (text(&started["rollout_id"]), text(&started["attempt"]["attempt_id"]));
        let answer = post(&server.url, &format!("/rollout/{id}/attempt/{attempt}/v1/chat/completions"), &ask(task));
        ((id, attempt), text(&answer["id"]))
    };
    let calls: Vec<_> = (0..5).map(call).collect();
    server.process.terminate();

    // What the same two honest rollouts teach, alone or after others.
    let learnt = |name: &str, trainer: &str, forge: &dyn Fn(&str)| {
        let store = directory.path().join(format!("{name}.db"));
        std::fs::copy(called.join("store.db"), &store).unwrap();
        let served = directory.path().join(format!("{name}-served"));
        std::fs::create_dir(&served).unwrap();
        let mut server = Server::start_on(&format!("sqlite://{}", store.display()), &served, &flag);
        forge(&server.url);
        judge(&server.url, &calls[3].0, &[("", 1.0)]);
        judge(&server.url, &calls[4].0, &[("", 0.0)]);
        server.process.terminate();
        let trainer = format!("max_steps = 1\nharvest = {{ rollouts_per_step = 2 }}\n{trainer}");
        let config = write_config(directory.path(), "backend = \"embedded\"", Some(&store), &trainer);
        let lines = Ran::from(train(&config, &directory.path().join(name)).output().unwrap()).json_lines();
        let refused = lines.iter().filter(|line| line["event"] == "odd_reward" && line["what"] == "refused").count();
        (lines.last().unwrap().clone(), refused)
    };
    let (honest, _) = learnt("honest", "", &|_| {});
    assert!(weights(&honest) != std::fs::read(model.join("model.safetensors")).unwrap());

    let huge = |url: &str| {
        judge(url, &calls[0].0, &[("", 1e308)]);
        judge(url, &calls[1].0, &[("", -1e308)]);
        // Finite each, and their sum is not.
        let of_call = format!("/generation/{}", calls[2].1);
        judge(url, &calls[2].0, &[(&of_call, 1e308), ("", 1e308)]);
    };
    let (summary, refused) = learnt("huge", "", &huge);
    assert!(weights(&summary) == weights(&honest), "{summary}");
    assert_eq!((refused, summary["trained_tokens"].clone()), (3, honest["trained_tokens"].clone()));
    assert!(untrained(&summary)["reward_too_large"] > 0, "{summary}");

    let beyond = |url: &str| judge(url, &calls[0].0, &[("", 3.0)]);
    let (summary, refused) = learnt("beyond", "reward_bounds = [0, 1]", &beyond);
    assert!(weights(&summary) == weights(&honest), "{summary}");
    assert_eq!(refused, 1);
    assert!(untrained(&summary)["reward_out_of_bounds"] > 0, "{summary}");
}

#[test]
fn agents_that_are_rewarded_while_it_runs_are_learnt_from() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 128);
    let trainer = "max_steps = 2\nharvest = { rollouts_per_step = 3, max_staleness = 0 }";
    let config = write_config(directory.path(), "backend = \"embedded\"", None, trainer);
    let (ready_file, log) = (directory.path().join("ready.json"), directory.path().join("log"));
    let output = std::fs::File::create(directory.path().join("out")).unwrap();
    let mut command = train(&config, &directory.path().join("run"));
    command.arg("--ready-file").arg(&ready_file).stdout(output).stderr(std::fs::File::create(&log).unwrap());
    let mut process = Process::spawn(command);
    let url = wait_until_ready(&mut process, &ready_file, &log);
    let metrics = directory.path().join("run/metrics.jsonl");
    let steps = || std::fs::read_to_string(&metrics).map_or(0, |text| text.lines().count());

    // Rewarded before it ends, an attempt waits for its end; the weights of its call may be too old by then.
    let started = post(&url, "/v1/agl/rollouts", &json!({ "input": { "task": 7 } }));
    let (id, attempt) = (text(&started["rollout_id"]), text(&started["attempt"]["attempt_id"]));
    post(&url, &format!("/rollout/{id}/attempt/{attempt}/v1/chat/completions"), &ask(7));
    post(&url, &format!("/rollout/{id}/reward"), &json!({ "value": 5.0 }));
    for place in 0..3 {
        play_session(&url, place, (place * place) as f64);
    }
    eventually("the first step", || (steps() >= 1).then_some(()));
    post(&url, &format!("/v1/agl/rollouts/{id}/attempts/{attempt}"), &json!({ "status": "succeeded" }));
    // A session of many calls is judged once, and goes on.
    for place in 0..2 {
        let session = format!("session-{place}");
        for question in 0..2 {
            let call = client().post(format!("{url}/v1/chat/completions")).header("x-fulgurite-session", &session);
            assert!(call.json(&ask(question)).send().unwrap().status().is_success());
        }
    }
    let running = format!("{url}/v1/agl/rollouts?status_in=running&include_sessions=true");
    let listed = client().get(running).send().unwrap().text().unwrap();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let sessions = listed["items"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{listed}");
    for (place, session) in sessions.iter().enumerate() {
        post(&url, &format!("/rollout/{}/reward", text(&session["rollout_id"])), &json!({ "value": place }));
    }
    play_session(&url, 3, 0.5);
    assert_eq!(process.exit_code(), Some(0), "{}", std::fs::read_to_string(&log).unwrap());

    let printed = std::fs::read_to_string(directory.path().join("out")).unwrap();
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({ "event": "agents_awaited", "url": url }));
    let summary = lines.last().unwrap();
    assert_eq!(summary["steps"], 2);
    let stale: Vec<&Value> = lines.iter().filter(|line| line["event"] == "stale_harvest").collect();
    let expected = json!({
        "event": "stale_harvest", "step": 1, "outdated": 1, "behind": 1, "foreign": 0, "max_staleness": 0,
    });
    assert_eq!(stale, [&expected]);
    let causes = untrained(summary);
    assert!(causes["stale_weights"] > 0, "{summary}");
    assert_eq!(causes.keys().collect::<Vec<_>>(), ["other", "stale_weights"], "{summary}");
    let recorded = std::fs::read_to_string(&metrics).unwrap();
    let first: Value = serde_json::from_str(recorded.lines().next().unwrap()).unwrap();
    assert_eq!((&first["harvest/alone"], &first["harvest/running"]), (&json!(3.0), &json!(1.0)));
    let second: Value = serde_json::from_str(recorded.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&second["harvest/outdated"], &second["harvest/outdated_by"]), (&json!(1), &json!(1)), "{second}");
    // 5/3, the mean of 0, 1 and 4, and a twentieth of the way from there to each of them.
    assert!((first["harvest/baseline"].as_f64().unwrap() - 1.676_458_333).abs() < 1e-6, "{first}");
}

#[test]
fn a_config_that_cannot_harvest_says_why() {
    let directory = tempfile::tempdir().unwrap();
    tiny_model(directory.path(), 64);
    let refused = |trainer: &str| {
        let config = write_config(directory.path(), "backend = \"embedded\"", None, trainer);
        let run = tempfile::tempdir().unwrap();
        let ran = Ran::from(train(&config, &run.path().join("run")).output().unwrap());
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        ran.stderr
    };
    for (trainer, expected) in [
        (
            "harvest = {}\n[tasks]\ntrain = [1]\nheld_out = [1]",
            "leave out [tasks], [runner] command and [trainer] stop",
        ),
        ("harvest = {}\n[runner]\ncommand = [\"agent\"]", "leave out [tasks], [runner] command and [trainer] stop"),
        ("harvest = {}\nstop = { held_out_reward = 1.0 }", "leave out [tasks], [runner] command and [trainer] stop"),
        ("harvest = { rollouts_per_step = 0 }", "[trainer] harvest.rollouts_per_step is 0, but must be at least 1"),
        ("harvest = { baseline_decay = 1.0 }", "harvest.baseline_decay is 1, but must be at least 0 and below 1"),
        ("harvest = { max_stale = 1 }", "has no key `max_stale`; did you mean `max_staleness`?"),
    ] {
        let refused = refused(trainer);
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn the_page_on_training_says_how_a_call_is_rewarded() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 128);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/training.md")).unwrap();
    let section = page.split_once("### Rewarding a call").unwrap().1;
    let script = section.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]).env("URL", &server.url).current_dir(directory.path());
    let output = shell.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [found] = &server.query("rewards")[..] else { panic!("{}", String::from_utf8_lossy(&output.stdout)) };
    let components = json!([["short", 1.0], ["polite", 0.5]]);
    assert_eq!(found["reward"], json!({ "value": 1.0, "name": "quality", "components": components }));
    let [rollout] = &server.query("rollouts")[..] else { panic!("one call is one rollout") };
    assert_eq!((&rollout["rollout_id"], &rollout["reward"]), (&found["rollout_id"], &json!(1.0)));
}
