//! A runner with a warm agent against a scripted server.

use crate::support::Scripted;
use fulgurite_runner::{RunnerError, RunnerOptions, RunnerSummary, run};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

/// Reads tasks; `answer` is called with each one, and `say` writes a line.
const BEGINNING: &str = r#"
import json, os, sys, time
def say(**line):
    print(json.dumps(line))
def tasks():
    for line in sys.stdin:
        yield json.loads(line)
"#;

fn python(script: &str) -> Vec<String> {
    ["python3", "-c", &format!("{BEGINNING}{script}")].map(str::to_owned).to_vec()
}

fn options(server: &Scripted, agent: &str) -> RunnerOptions {
    RunnerOptions {
        until_idle: true,
        warm: true,
        parallel: 4,
        worker_id: "worker".to_owned(),
        patience: Duration::from_secs(30),
        ..RunnerOptions::new(&server.url, python(agent))
    }
}

/// How an attempt ended, with its reason.
fn ended(server: &Scripted) -> BTreeMap<String, String> {
    let describe = |(attempt, ending): &(String, Value)| {
        let reason = ending["metadata"]["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
        (attempt.clone(), format!("{}{reason}", ending["status"].as_str().unwrap()))
    };
    server.record().endings.iter().map(describe).collect()
}

/// Plays `tasks` to the end with an agent, and gives the server.
async fn play(agent: &str, tasks: impl IntoIterator<Item = Value>) -> Scripted {
    let server = Scripted::start(tasks).await;
    run(options(&server, agent), pending()).await.unwrap();
    server
}

#[tokio::test]
async fn one_process_plays_all_attempts_and_may_answer_in_any_order() {
    let agent = r#"
several = [task for _, task in zip(range(4), tasks())]
for task in reversed(several):
    say(rollout_id=task['rollout_id'], reward=task['task']['n'], process=os.getpid())
for task in tasks():
    say(rollout_id=task['rollout_id'], attempt_id=task['attempt_id'], reward=task['task']['n'], process=os.getpid())
"#;
    let server = play(agent, (1..=9).map(|n| json!({"n": n}))).await;
    let record = server.record();
    assert_eq!(record.rewards.len(), 9);
    let mut processes: Vec<_> = record.rewards.iter().map(|(_, reward)| &reward["components"]["process"]).collect();
    processes.dedup();
    assert_eq!(processes.len(), 1, "{processes:?}");
    for (attempt, reward) in &record.rewards {
        assert_eq!(format!("at-{}", reward["value"]), *attempt);
    }
}

#[tokio::test]
async fn a_task_says_all_that_an_attempt_needs_and_the_environment_nothing_of_it() {
    let agent = r#"
for task in tasks():
    known = [name for name in os.environ if name.startswith(('OPENAI_', 'ANTHROPIC_', 'FULGURITE_'))]
    say(rollout_id=task['rollout_id'], error=json.dumps([task, known]))
"#;
    let server = Scripted::start([json!({"n": 17})]).await;
    server.record().keys = Some("key-one".to_owned());
    run(RunnerOptions { admin_key: Some("opens all".to_owned()), ..options(&server, agent) }, pending()).await.unwrap();
    let base = format!("{}/rollout/ro-1/attempt/at-1", server.url);
    let ended = ended(&server);
    let message = ended["at-1"].strip_prefix("failed: agent failed: ").unwrap();
    let expected = json!([{
        "rollout_id": "ro-1", "attempt_id": "at-1", "task": {"n": 17}, "base_url": format!("{base}/v1"),
        "anthropic_base_url": base, "api_key": "key-one", "reward_url": format!("{base}/reward"), "timeout_seconds": 600.0,
    }, []]);
    assert_eq!(serde_json::from_str::<Value>(message).unwrap(), expected);
}

#[tokio::test]
async fn the_grader_is_given_the_output_of_its_attempts_answer() {
    let agent = r#"
for task in tasks():
    if task['task'] == 'silent':
        say(rollout_id=task['rollout_id'], reward=1)
    else:
        say(rollout_id=task['rollout_id'], output=task['task'])
"#;
    let server = Scripted::start(["0.25", "silent", "0.75"].map(Value::from)).await;
    let grader = ["/bin/sh", "-c", r#"echo "{\"reward\": $(cat)}""#].map(str::to_owned).to_vec();
    run(RunnerOptions { grade: Some(grader), ..options(&server, agent) }, pending()).await.unwrap();
    assert_eq!(ended(&server)["at-2"], "failed: agent answered without an `output`, which the grader needs");
    let record = server.record();
    let values: BTreeMap<_, _> =
        record.rewards.iter().map(|(attempt, reward)| (attempt.as_str(), reward["value"].as_f64().unwrap())).collect();
    assert_eq!(values, BTreeMap::from([("at-1", 0.25), ("at-3", 0.75)]));
}

#[tokio::test]
async fn lines_that_are_no_answers_harm_nobody() {
    let agent = r#"
print('getting ready')
for task in tasks():
    me, other = task['rollout_id'], 'ro-2' if task['rollout_id'] == 'ro-1' else 'ro-1'
    print('thinking about', me)
    say(level='info', note=1)
    say(rollout_id='ro-99', reward=-1)
    say(rollout_id=me, attempt_id='at-of-another', reward=-1)
    print('x' * 6000000)
    if me == 'ro-1':
        say(rollout_id=me, reward=1)
        say(rollout_id=me, reward=-1)
    else:
        say(rollout_id=other, reward=-1)
        say(rollout_id=me, reward=2)
"#;
    let server = Scripted::start([json!(1), json!(2)]).await;
    run(RunnerOptions { parallel: 1, ..options(&server, agent) }, pending()).await.unwrap();
    let record = server.record();
    let values: Vec<_> =
        record.rewards.iter().map(|(attempt, reward)| (attempt.as_str(), reward["value"].clone())).collect();
    assert_eq!(values, [("at-1", json!(1)), ("at-2", json!(2))]);
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_fails_its_attempt_by_name() {
    let agent = r#"
for task in tasks():
    me, kind = task['rollout_id'], task['task']
    if kind == 'huge':
        say(rollout_id=me, output='x' * 6000000)
    elif kind == 'nan':
        say(rollout_id=me, reward=float('nan'))
    elif kind == 'python':
        print({'rollout_id': me, 'reward': 1})
    elif kind == 'field':
        say(rollout_id=me, result=1)
    elif kind == 'text':
        say(rollout_id=me, reward='1')
    elif kind == 'nothing':
        say(rollout_id=me)
    else:
        say(rollout_id=me, error='no luck')
"#;
    let kinds = ["huge", "nan", "python", "field", "text", "nothing", "error"];
    let server = play(agent, kinds.map(Value::from)).await;
    let ended = ended(&server);
    let reasons: Vec<_> = ended.values().map(|reason| reason.trim_start_matches("failed: ")).collect();
    let none = "no reward: none was posted, and of the agent's output: its answer has no number `reward`";
    for (reason, expected) in reasons.iter().zip([
        "agent failed: its answer is 6000",
        "agent failed: its answer is not JSON",
        "agent failed: its answer is not JSON",
        &format!("{none}: it holds result"),
        &format!("{none}: it holds reward"),
        &format!("{none}: it holds neither `reward` nor `output`"),
        "agent failed: no luck",
    ]) {
        assert!(reason.starts_with(expected), "{reason} instead of {expected}");
    }
}

#[tokio::test]
async fn a_crash_costs_the_attempts_that_the_process_held_and_another_takes_over() {
    let agent = r#"
for task in tasks():
    if task['task'] == 'wait':
        continue
    if task['task'] == 'crash':
        print('out of sand', file=sys.stderr)
        sys.exit(3)
    say(rollout_id=task['rollout_id'], reward=1)
"#;
    let server = Scripted::start(["wait", "wait", "crash", "fine", "fine", "fine"].map(Value::from)).await;
    run(RunnerOptions { parallel: 3, ..options(&server, agent) }, pending()).await.unwrap();
    let ended = ended(&server);
    let lost = "failed: agent exited with status 3 before it had answered";
    assert_eq!(["at-1", "at-2", "at-3"].map(|attempt| ended[attempt].as_str()), [lost; 3]);
    assert!(["at-4", "at-5", "at-6"].iter().all(|attempt| ended[*attempt] == "succeeded"), "{ended:?}");
    let record = server.record();
    let (_, crashed) = record.endings.iter().find(|(attempt, _)| attempt == "at-3").unwrap();
    assert_eq!(crashed["metadata"]["stderr_tail"], "out of sand\n");
}

#[tokio::test]
async fn processes_that_keep_dying_end_the_runner_with_the_last_that_they_wrote() {
    let server = Scripted::start((0..100).map(Value::from)).await;
    let options = options(&server, "import no_such_module");
    let error = run(options, pending()).await.unwrap_err();
    let RunnerError::AgentCrashLoop { processes, how, last_words } = error else { panic!("{error}") };
    assert_eq!((processes, how.as_str()), (5, "exited with status 1"));
    assert_eq!(last_words, "ModuleNotFoundError: No module named 'no_such_module'");
}

#[tokio::test]
async fn a_client_made_without_a_base_url_when_a_warm_agent_starts_is_pointed_to_its_task() {
    let server = Scripted::start((0..100).map(Value::from)).await;
    let message = "The api_key client option must be set either by passing api_key to the client or by setting the OPENAI_API_KEY";
    let error =
        run(options(&server, &format!("raise RuntimeError('{message}')")), pending()).await.unwrap_err().to_string();
    assert!(error.contains("(help: each task brings its own base URL and key"), "{error}");
}

#[tokio::test]
async fn an_attempt_out_of_time_is_a_timeout() {
    let server = Scripted::start([json!(1)]).await;
    let command = ["/bin/sh", "-c", "echo importing >&2; cat > /dev/null"].map(str::to_owned).to_vec();
    let options = RunnerOptions { timeout: Duration::from_secs(1), command, ..options(&server, "") };
    let summary = run(options, pending()).await.unwrap();
    assert_eq!(summary, RunnerSummary { timed_out: 1, ..RunnerSummary::default() });
    let expected = "timeout: agent still ran after 1s ([runner] timeout_seconds): the agent's standard error ends with \"importing\"";
    assert_eq!(ended(&server)["at-1"], expected);
}

#[tokio::test]
async fn an_agent_that_looks_for_its_model_in_the_environment_is_pointed_to_its_task() {
    let agent = r#"
import urllib.request
for task in tasks():
    try:
        urllib.request.urlopen('http://127.0.0.1:1/v1')
    except Exception as error:
        say(rollout_id=task['rollout_id'], error=repr(error))
"#;
    let ended = ended(&play(agent, [json!(1)]).await);
    assert!(ended["at-1"].contains("Connection refused"), "{ended:?}");
    assert!(ended["at-1"].contains("(help: each task brings its own base URL and key"), "{ended:?}");
}

/// Waits until it is so.
async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_attempt_that_is_given_up_is_cancelled_and_its_late_answer_is_nobodys() {
    let folder = tempfile::tempdir().unwrap();
    let agent = r#"
for task in tasks():
    if 'cancel' in task:
        say(rollout_id=task['cancel'], reward=-1)
        open('cancelled', 'w').write(task['attempt_id'])
    elif task['task'] == 'hang':
        open('hangs', 'w').close()
    else:
        say(rollout_id=task['rollout_id'], reward=2)
        say(rollout_id=task['rollout_id'], reward=-1)
"#;
    let server = Scripted::start([json!("hang")]).await;
    let working_directory = Some(folder.path().to_path_buf());
    let heartbeat_interval = Duration::from_millis(5);
    let options = RunnerOptions { heartbeat_interval, working_directory, until_idle: false, ..options(&server, agent) };
    let scenario = async {
        until(|| folder.path().join("hangs").exists()).await;
        server.record().ended_elsewhere.insert("at-1".to_owned(), "timeout");
        until(|| std::fs::read_to_string(folder.path().join("cancelled")).is_ok_and(|id| id == "at-1")).await;
        server.record().queue.push_back(json!("fine"));
        until(|| server.record().endings.len() == 1).await;
    };
    run(options, scenario).await.unwrap();
    let record = server.record();
    let values: Vec<_> =
        record.rewards.iter().map(|(attempt, reward)| (attempt.as_str(), reward["value"].clone())).collect();
    assert_eq!(values, [("at-2", json!(2))]);
}

#[tokio::test]
async fn a_process_that_will_not_stop_is_replaced_without_cost_to_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let agent = r#"
import threading
def slow(task):
    while not os.path.exists('go'):
        time.sleep(0.01)
    say(rollout_id=task['rollout_id'], reward=os.getpid())
for task in tasks():
    if 'cancel' in task:
        continue
    elif task['task'] == 'hang':
        open('hangs', 'w').close()
    elif task['task'] == 'slow':
        threading.Thread(target=slow, args=(task,)).start()
    else:
        say(rollout_id=task['rollout_id'], reward=os.getpid())
"#;
    let server = Scripted::start([json!("slow"), json!("hang")]).await;
    let working_directory = Some(folder.path().to_path_buf());
    let heartbeat_interval = Duration::from_millis(5);
    let options = RunnerOptions { heartbeat_interval, working_directory, until_idle: false, ..options(&server, agent) };
    let processes = || {
        let record = server.record();
        record.rewards.iter().map(|(_, reward)| reward["value"].to_string()).collect::<Vec<_>>()
    };
    let scenario = async {
        until(|| folder.path().join("hangs").exists()).await;
        server.record().queue.push_back(json!("first"));
        until(|| processes().len() == 1).await;
        server.record().ended_elsewhere.insert("at-2".to_owned(), "timeout");
        // Sooner or later the deaf process gets no more.
        while processes().iter().all(|process| *process == processes()[0]) {
            let count = processes().len();
            server.record().queue.push_back(json!("next"));
            until(|| processes().len() > count).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        std::fs::write(folder.path().join("go"), "").unwrap();
        until(|| server.record().endings.iter().any(|(attempt, _)| attempt == "at-1")).await;
    };
    run(options, scenario).await.unwrap();
    let record = server.record();
    let of = |wanted: &str| record.rewards.iter().find(|(attempt, _)| attempt == wanted).unwrap().1["value"].clone();
    assert_eq!(of("at-1"), of("at-3"), "what the deaf process still held was answered by it");
}

#[tokio::test]
async fn the_runners_end_closes_standard_input_and_kills_whoever_stays() {
    let folder = tempfile::tempdir().unwrap();
    let agent = r#"
for task in tasks():
    say(rollout_id=task['rollout_id'], reward=1)
open('left', 'w').write('by itself')
if os.path.exists('stay'):
    time.sleep(600)
    open('left', 'w').write('never')
"#;
    for stays in [false, true] {
        if stays {
            std::fs::write(folder.path().join("stay"), "").unwrap();
        }
        let server = Scripted::start([json!(1)]).await;
        let working_directory = Some(folder.path().to_path_buf());
        run(RunnerOptions { working_directory, ..options(&server, agent) }, pending()).await.unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("left")).unwrap(), "by itself");
    }
}

#[tokio::test]
async fn a_warm_agents_command_asks_for_no_task() {
    let options = RunnerOptions {
        warm: true,
        ..RunnerOptions::new("http://127.0.0.1:9", ["python3", "{task.n}"].map(str::to_owned).to_vec())
    };
    let error = run(options, pending()).await.unwrap_err().to_string();
    assert_eq!(error, r#"a warm agent is given tasks on its standard input: leave "{task.n}" out of its command"#);
}
