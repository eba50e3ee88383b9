//! `fulgurite run` against a real server.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;

use crate::common::{Process, Ran, Server, eventually, fulgurite, model_flag, program, run, text, tiny_model};
use serde_json::{Value, json};

const ADMIN_KEY: &str = "opens-all-that-there-is-to-open";

/// What a warm agent in Python is that plays these tasks: it calls the model with its attempt's key and nothing else.
const WARM_AGENT: &str = r#"
import json, os, sys, urllib.request
from fulgurite_agent import serve

def play(task):
    print("playing", task.input)
    kind = task.input["kind"]
    if kind == "broken":
        raise ValueError("out of sand")
    if kind == "leaves":
        sys.exit(3)
    body = {"model": "hello", "messages": [{"role": "user", "content": f"Say {task.input['n']}"}], "max_tokens": 3}
    headers = {"content-type": "application/json", "authorization": "Bearer " + task.api_key}
    request = urllib.request.Request(task.base_url + "/chat/completions", json.dumps(body).encode(), headers)
    answer = json.load(urllib.request.urlopen(request))
    assert answer["choices"][0]["message"]["role"] == "assistant"
    os.system("echo a program of the agent prints as well")
    return {"reward": task.input["n"], "process": os.getpid()}

serve(play)
"#;

/// Works off the server's queue with an agent, to the end.
fn work_off(server: &Server, flags: &[&str], agent: &[&str]) -> Ran {
    let ran =
        run(["run", "--server", &server.url, "--until-idle", "--json"].iter().chain(flags).chain(&["--"]).chain(agent));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran
}

fn shell(script: &str) -> [&str; 3] {
    ["/bin/sh", "-c", script]
}

/// How the runner says that its attempts ended.
fn tally(ran: &Ran) -> Value {
    ran.json_lines().pop().unwrap()
}

/// The store's rollouts by their input, as JSON text.
fn rollouts(server: &Server) -> HashMap<String, Value> {
    server.query("rollouts").into_iter().map(|rollout| (rollout["input"].to_string(), rollout)).collect()
}

fn start(directory: &Path) -> Server {
    Server::start(directory, [] as [&str; 0])
}

#[test]
fn a_reward_comes_from_the_grader_the_last_line_or_a_post() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());

    server.enqueue([json!("graded")], &Value::Null);
    let grader = directory.path().join("grader.sh");
    std::fs::write(&grader, r#"read said; test "$said" = "I am $1" && echo '{"reward": 0.75, "exact": 1}'"#).unwrap();
    let grade = format!("/bin/sh {} {{task}}", grader.display());
    work_off(&server, &["--grade", &grade], &shell(r#"echo "I am $(echo $FULGURITE_TASK | tr -d '"')""#));

    server.enqueue([json!("last line")], &Value::Null);
    work_off(&server, &[], &shell(r#"echo thinking; echo '{"reward": -0.5}'"#));

    server.enqueue([json!("posted")], &Value::Null);
    let post = "import os, urllib.request\n\
        request = urllib.request.Request(os.environ['FULGURITE_REWARD_URL'], b'{\"value\": 0.25}',\n\
        {'content-type': 'application/json', 'authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})\n\
        print(urllib.request.urlopen(request).status)";
    let ran = work_off(&server, &[], &["python3", "-c", post]);
    assert_eq!(tally(&ran)["succeeded"], 1);

    let rollouts = rollouts(&server);
    for (task, reward) in [("graded", 0.75), ("last line", -0.5), ("posted", 0.25)] {
        let rollout = &rollouts[&json!(task).to_string()];
        assert_eq!((&rollout["status"], &rollout["reward"]), (&json!("succeeded"), &json!(reward)), "{rollout}");
    }
    let spans = server.query("spans");
    let graded = spans.iter().find(|span| span["attributes"]["agentlightning.reward.0.value"] == 0.75).unwrap();
    assert_eq!(graded["attributes"]["agentlightning.reward.1.name"], "exact");
}

#[test]
fn the_environment_and_the_arguments_say_what_and_where() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let task = json!({ "question": "six * seven; $(touch x)", "n": 42 });
    let ids = server.enqueue([task.clone()], &Value::Null);
    let folder = directory.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let agent = "import json, os, sys\n\
        json.dump([dict(os.environ), sys.argv[1:]], open('seen.json', 'w'))\n\
        print('{\"reward\": 1}')";
    let arguments = ["python3", "-c", agent, "{task.question}", "n={task.n}", "{task}"];
    work_off(&server, &["--directory", folder.to_str().unwrap()], &arguments);

    let seen: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("seen.json")).unwrap()).unwrap();
    let (environment, arguments) = (&seen[0], &seen[1]);
    let rollout = &server.query("rollouts")[0];
    let attempt_id = text(&rollout["attempt"]["attempt_id"]);
    let base = format!("{}/rollout/{}/attempt/{attempt_id}", server.url, ids[0]);
    assert_eq!(environment["OPENAI_BASE_URL"], format!("{base}/v1"));
    assert_eq!(environment["ANTHROPIC_BASE_URL"], base);
    assert_eq!(environment["FULGURITE_REWARD_URL"], format!("{base}/reward"));
    assert_eq!(
        (&environment["FULGURITE_ROLLOUT_ID"], &environment["FULGURITE_ATTEMPT_ID"]),
        (&json!(ids[0]), &json!(attempt_id))
    );
    assert_ne!(text(&environment["OPENAI_API_KEY"]), "");
    assert_eq!(environment["OPENAI_API_KEY"], environment["ANTHROPIC_API_KEY"]);
    let task_seen: Value = serde_json::from_str(&text(&environment["FULGURITE_TASK"])).unwrap();
    assert_eq!(task_seen, task);
    assert_eq!((&arguments[0], &arguments[1]), (&json!("six * seven; $(touch x)"), &json!("n=42")));
    assert_eq!(serde_json::from_str::<Value>(&text(&arguments[2])).unwrap(), task);
    assert_eq!(folder.read_dir().unwrap().count(), 1, "no shell has seen the task");
}

#[test]
fn the_hello_agent_plays_against_an_untrained_model() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 256);
    let server = Server::start(directory.path(), ["--model", &model_flag("hello", &model)]);
    server.enqueue((0..12).map(Value::from), &Value::Null);
    let (agent, grader) = (program("hello-agent"), program("hello-grader"));
    let ran = work_off(&server, &["--grade", &grader, "--parallel", "3"], &[&agent, "{task}"]);
    assert_eq!(tally(&ran)["succeeded"], 12);

    let rollouts = server.query("rollouts");
    assert!(rollouts.iter().all(|rollout| rollout["status"] == "succeeded"));
    let triplets = server.query("triplets");
    assert_eq!(triplets.len(), 12);
    for triplet in triplets {
        let rollout =
            rollouts.iter().find(|rollout| rollout["rollout_id"] == triplet["metadata"]["rollout_id"]).unwrap();
        assert_eq!(triplet["reward"], rollout["reward"]);
        assert!([-1.0, 0.0, 1.0].contains(&triplet["reward"].as_f64().unwrap()));
        assert_eq!(triplet["metadata"]["exclusion"], Value::Null);
        let prompt = &triplet["prompt"]["token_ids"];
        assert!(!prompt.as_array().unwrap().is_empty());
    }
    // A bare name is looked up beside the command first.
    server.enqueue([json!(13)], &Value::Null);
    let ran = work_off(&server, &["--grade-word", "hello-grader"], &["hello-agent", "{task}"]);
    assert_eq!(tally(&ran)["succeeded"], 1);
}

#[test]
fn a_failure_is_told_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let config = json!({ "max_attempts": 1 });
    server.enqueue([json!("crash"), json!("silent"), json!("slow")], &config);
    let agent = r#"case $FULGURITE_TASK in
        *crash*) echo 'out of sand' >&2; exit 3;;
        *silent*) ;;
        *slow*) echo importing >&2; sleep 600;;
    esac"#;
    let ran = work_off(&server, &["--timeout", "1.5"], &shell(agent));
    let tally = tally(&ran);
    assert_eq!((&tally["failed"], &tally["timed_out"], &tally["succeeded"]), (&json!(2), &json!(1), &json!(0)));

    let rollouts = rollouts(&server);
    let reason = |task: &str| {
        let rollout = &rollouts[&json!(task).to_string()];
        assert_eq!((&rollout["status"], &rollout["reward"]), (&json!("failed"), &Value::Null));
        (text(&rollout["attempt"]["status"]), text(&rollout["attempt"]["metadata"]["reason"]))
    };
    let ending = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    assert_eq!(reason("crash"), ending("failed", "agent exited with status 3"));
    let silent = "no reward: none was posted, and of the agent's output: it printed nothing (help: print {\"reward\": 1.0} as \
                  the last line, post to FULGURITE_REWARD_URL, or set [runner] grade)";
    assert_eq!(reason("silent"), ending("failed", silent));
    let slow =
        "agent still ran after 1.5s ([runner] timeout_seconds): the agent's standard error ends with \"importing\"";
    assert_eq!(reason("slow"), ending("timeout", slow));
    assert_eq!(rollouts[r#""crash""#]["attempt"]["metadata"]["stderr_tail"], "out of sand\n");
    let table = run(["rollouts", "--store", &server.store]);
    assert!(table.stdout.contains("agent exited with status 3"), "{}", table.stdout);
}

#[test]
fn what_an_agent_writes_to_standard_error_is_logged_at_trace_alone() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    for (level, is_logged) in [("debug", false), ("trace", true)] {
        server.enqueue([json!(level)], &json!({ "max_attempts": 1 }));
        let mut command = fulgurite(["run", "--server", &server.url, "--until-idle", "--"]);
        command.args(shell("echo sk-secret >&2; exit 3")).env("FULGURITE_LOG", format!("fulgurite_runner={level}"));
        let log = Ran::from(command.output().unwrap()).stderr;
        assert!(log.contains("attempt ended") && log.contains("status=failed"), "{log}");
        assert_eq!(log.contains("sk-secret"), is_logged, "{log}");
    }
}

#[test]
fn a_failed_attempt_is_tried_again_as_often_as_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let config = json!({ "max_attempts": 3, "retry_condition": ["failed"] });
    server.enqueue([json!("third time lucky"), json!("never")], &config);
    let agent = r#"n=$(cat count 2>/dev/null || echo 0)
        case $FULGURITE_TASK in *never*) exit 1;; esac
        n=$((n + 1)); echo $n > count; test $n = 3 && echo '{"reward": 1}'"#;
    let ran = work_off(&server, &["--parallel", "1", "--directory", directory.path().to_str().unwrap()], &shell(agent));
    let tally = tally(&ran);
    assert_eq!((&tally["succeeded"], &tally["failed"]), (&json!(1), &json!(5)));
    let rollouts = rollouts(&server);
    for (task, status) in [("third time lucky", "succeeded"), ("never", "failed")] {
        let rollout = &rollouts[&json!(task).to_string()];
        assert_eq!((&rollout["status"], &rollout["attempt"]["sequence_id"]), (&json!(status), &json!(3)), "{rollout}");
    }
}

fn keep_running(server: &Server, directory: &Path, agent: &str) -> Process {
    let mut command = fulgurite(["run", "--server", &server.url, "--worker-id", "worker", "--parallel", "4"]);
    command.arg("--directory").arg(directory).arg("--").args(shell(agent)).stdout(Stdio::null());
    Process::spawn(command)
}

#[test]
fn a_killed_runners_rollouts_are_finished_by_its_successor_each_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let config = json!({ "max_attempts": 5, "retry_condition": ["unresponsive"] });
    let ids = server.enqueue((0..24).map(Value::from), &config);
    // Every fourth agent hangs for as long as the file is not there.
    let agent = r#"echo $FULGURITE_ROLLOUT_ID >> started
        if [ $((FULGURITE_TASK % 4)) = 3 ]; then while [ -e started ] && [ ! -e go ]; do sleep 0.02; done; fi
        echo '{"reward": 1}'"#;
    let done =
        |server: &Server| server.query("rollouts").iter().filter(|rollout| rollout["status"] == "succeeded").count();
    let mut runner = keep_running(&server, directory.path(), agent);
    eventually("four agents to hang", || {
        let rollouts = server.query("rollouts");
        let running = rollouts.iter().filter(|rollout| rollout["attempt"]["status"] == "preparing").count();
        (running == 4 && done(&server) == 12).then_some(())
    });
    runner.kill();
    std::fs::write(directory.path().join("go"), "").unwrap();
    let before = done(&server);
    assert_eq!(before, 12);

    let mut successor = keep_running(&server, directory.path(), agent);
    eventually("the rest", || (done(&server) == ids.len()).then_some(()));
    assert_eq!(successor.terminate(), Some(0));
    let mut tried_again = 0;
    for rollout in server.query("rollouts") {
        let path = format!("/v1/agl/rollouts/{}/attempts", text(&rollout["rollout_id"]));
        let attempts = server.get(&path).expect(200);
        let ends: Vec<String> = attempts["items"].as_array().unwrap().iter().map(|one| text(&one["status"])).collect();
        let (last, earlier) = ends.split_last().unwrap();
        assert_eq!(last, "succeeded");
        assert!(earlier.iter().all(|status| status == "unresponsive"), "{ends:?}");
        tried_again += earlier.len();
        let rewards = server.get(&format!("/v1/agl/spans?rollout_id={}", text(&rollout["rollout_id"]))).expect(200);
        assert_eq!(rewards["total"], 1, "one reward each");
    }
    assert_eq!(tried_again, 4);
}

#[test]
fn an_agent_whose_attempt_was_ended_elsewhere_is_killed_and_its_late_word_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let ids = server.enqueue([json!(1)], &Value::Null);
    let agent = "echo $$ > pid; exec sleep 600";
    let mut runner = keep_running(&server, directory.path(), agent);
    let pid = eventually("the agent", || {
        let pid = std::fs::read_to_string(directory.path().join("pid")).ok()?;
        pid.ends_with('\n').then(|| pid.trim().to_owned())
    });
    let latest = format!("/v1/agl/rollouts/{}/attempts/latest", ids[0]);
    server.post(&latest, &json!({ "status": "succeeded" })).expect(200);
    // The runner hears of it in the reply to its next heartbeat.
    eventually("the agent's death", || (!Path::new("/proc").join(&pid).exists()).then_some(()));
    assert_eq!(runner.terminate(), Some(0));
    let rollout = &server.query("rollouts")[0];
    assert_eq!((&rollout["status"], &rollout["attempt"]["sequence_id"]), (&json!("succeeded"), &json!(1)));
}

#[test]
fn what_cannot_work_is_a_clear_error() {
    let fail = |flags: &[&str], agent: &[&str]| {
        let ran = run(["run", "--until-idle"].iter().chain(flags).chain(&["--"]).chain(agent));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
        ran.stderr
    };
    insta::assert_snapshot!(fail(&[], &["no-such-agent"]), @r#"
    error: the runner stopped
      caused by: cannot find the program "no-such-agent" beside the running executable or on PATH
    "#);
    insta::assert_snapshot!(fail(&["--grade", ""], &["true"]), @"error: --grade is empty: it needs at least a program");
    insta::assert_snapshot!(fail(&["--timeout", "0"], &["true"]), @"error: --timeout is 0, but must be a number of seconds above 0");
    insta::assert_snapshot!(fail(&["--timeout", "1e20"], &["true"]), @"error: --timeout is 1e20, but no clock goes on for so many seconds");
    insta::assert_snapshot!(fail(&["--parallel", "0"], &["true"]), @"error: --parallel must be at least 1");
    insta::assert_snapshot!(fail(&["--directory", "/no/such/folder"], &["true"]), @r"
    error: the runner stopped
      caused by: /no/such/folder is not a folder that agents can run in
    ");
    insta::assert_snapshot!(fail(&["--server", "localhost"], &["true"]), @r"
    error: the runner stopped
      caused by: `localhost` is not the URL of a server: relative URL without a base; it looks like http://127.0.0.1:4747
    ");
}

#[test]
fn a_warm_agent_in_python_plays_all_rollouts_in_one_process_with_a_key_for_each() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 256);
    let environment = [("FULGURITE_ADMIN_KEY", ADMIN_KEY)];
    let server = Server::start_in(&environment, directory.path(), ["--model", &model_flag("hello", &model)]);
    let rollouts: Vec<Value> = (0..20)
        .map(|n| json!({ "n": n, "kind": match n { 3 => "broken", 7 => "leaves", _ => "fine" } }))
        .map(|task| json!({ "input": task, "config": { "max_attempts": 1 } }))
        .collect();
    let queue =
        crate::common::client().post(format!("{}/v1/agl/queues/rollouts/enqueue", server.url)).bearer_auth(ADMIN_KEY);
    assert!(queue.json(&json!({ "rollouts": rollouts })).send().unwrap().status().is_success());
    std::fs::write(directory.path().join("agent.py"), WARM_AGENT).unwrap();
    let mut command =
        fulgurite(["run", "--warm", "--server", &server.url, "--until-idle", "--parallel", "4", "--json"]);
    command.arg("--directory").arg(directory.path()).args(["--", "python3", "agent.py"]).envs(environment);
    command.env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("python"));
    let ran = Ran::from(command.output().unwrap());
    let tally = tally(&ran);
    assert_eq!((&tally["succeeded"], &tally["failed"]), (&json!(18), &json!(2)), "{ran:?}");

    let mut processes = std::collections::BTreeSet::new();
    for found in server.query("rewards") {
        let [component] = &found["reward"]["components"].as_array().unwrap()[..] else { panic!("{found}") };
        assert_eq!(component[0], "process");
        processes.insert(component[1].to_string());
    }
    assert_eq!(processes.len(), 1, "{processes:?}");
    let calls = server.query("generations");
    for rollout in server.query("rollouts") {
        let (n, reason) = (&rollout["input"]["n"], &rollout["attempt"]["metadata"]["reason"]);
        match rollout["input"]["kind"].as_str().unwrap() {
            "fine" => {
                assert_eq!(rollout["reward"].as_f64(), n.as_f64());
                assert!(calls.iter().any(|call| call["rollout_id"] == rollout["rollout_id"]), "{rollout}");
            }
            "broken" => assert_eq!(reason, "agent failed: ValueError: out of sand"),
            _ => assert_eq!(reason, "agent failed: SystemExit: 3"),
        }
    }
}

#[test]
fn a_warm_agent_that_cannot_start_ends_the_runner_with_what_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    server.enqueue((0..40).map(Value::from), &json!({ "max_attempts": 1 }));
    let agent = ["--", "python3", "-c", "import no_such_module"];
    let ran = run(["run", "--warm", "--server", &server.url, "--until-idle", "--parallel", "2"].iter().chain(&agent));
    assert_eq!(ran.code, Some(1));
    insta::assert_snapshot!(ran.stderr.lines().filter(|line| !line.contains("WARN")).collect::<Vec<_>>().join("\n"), @r"
    error: the runner stopped
      caused by: the warm agent ended 5 times in a row without an answer; the last time it exited with status 1, and the last that it wrote was: ModuleNotFoundError: No module named 'no_such_module' (a warm agent reads tasks from its standard input until that is closed: see docs/how-to/warm-agents.md)
    ");
    // Those that the runner gave back when it stopped have failed too, without a reason.
    let reason = "agent exited with status 1 before it had answered";
    let has_reason = |rollout: &Value| rollout["attempt"]["metadata"]["reason"] == reason;
    let failed = rollouts(&server).into_values().find(|rollout| has_reason(rollout)).unwrap();
    assert_eq!(failed["status"], "failed");
    let log = failed["attempt"]["metadata"]["stderr_tail"].as_str().unwrap();
    assert!(log.contains("ModuleNotFoundError"), "{log}");
}

#[test]
fn a_runner_that_stops_by_itself_does_not_wait_for_its_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    server.enqueue((0..40).map(Value::from), &json!({ "max_attempts": 1 }));
    let mut command = fulgurite(["run", "--warm", "--server", &server.url, "--until-stdin-closes", "--parallel", "2"]);
    command.args(["--", "python3", "-c", "import no_such_module"]).stdin(Stdio::piped()).stderr(Stdio::null());
    assert_eq!(Process::spawn(command).exit_code(), Some(1));
}
