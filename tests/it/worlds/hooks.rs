//! `fulgurite run` and `fulgurite train` with worlds, as their users start them.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::write;
use crate::common::{Process, Server, eventually, fulgurite, printed, run};

/// Waits at the stage that the file `stage` names until it is killed, the first time.
const SCRIPT: &str = r#"
if [ "$1" = "$(cat stage)" ] && [ ! -e here ]; then touch here; exec sleep 600; fi
case $1 in
    setup) echo old > "$FULGURITE_WORLD/file"; echo "$FULGURITE_ATTEMPT_ID" >> outside ;;
    snapshot) cp -r "$FULGURITE_WORLD/." "$FULGURITE_SNAPSHOT" ;;
    agent) echo new > "$FULGURITE_WORLD/file" ;;
    grade) grep -q new "$FULGURITE_WORLD/file" && echo '{"reward": 1}' ;;
    teardown) grep -v "$FULGURITE_ATTEMPT_ID" outside > left; mv left outside ;;
esac
"#;

const CONFIG: &str = r#"
[runner]
setup = ["sh", "script.sh", "setup"]
snapshot = ["sh", "script.sh", "snapshot"]
command = ["sh", "-c", "cd $FULGURITE_PROJECT && sh script.sh agent"]
grade = ["sh", "script.sh", "grade"]
teardown = ["sh", "script.sh", "teardown"]
"#;

/// A runner of a config at a server, which leaves when there is nothing to do.
fn runner(server: &Server, directory: &Path) -> std::process::Command {
    let mut command = fulgurite(["run", "--server", &server.url, "--until-idle", "--worker-id", "one", "--json"]);
    command.arg("--config").arg(directory.join("c.toml")).arg("--worlds").arg(directory.join("worlds"));
    command.args(["--parallel", "1"]).stdout(Stdio::null());
    command
}

/// The homes of worlds that are there.
fn homes(directory: &Path) -> usize {
    let entries = fs::read_dir(directory.join("worlds")).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir()).count()
}

#[test]
fn nothing_of_a_world_survives_a_runner_that_is_killed_at_any_stage() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let server = Server::start(at, [""; 0]);
    write(at, "c.toml", CONFIG);
    write(at, "script.sh", SCRIPT);
    for stage in ["setup", "snapshot", "agent", "grade", "teardown"] {
        write(at, "stage", stage);
        write(at, "outside", "");
        let _ = fs::remove_file(at.join("here"));
        server.enqueue([json!(stage)], &json!({ "max_attempts": 3, "retry_condition": ["failed", "unresponsive"] }));
        let mut killed = Process::spawn(runner(&server, at));
        eventually("the stage", || at.join("here").exists().then_some(()));
        killed.kill();
        assert_eq!(homes(at), 1, "{stage}");
        let mut next = Process::spawn(runner(&server, at));
        assert_eq!(next.exit_code(), Some(0), "{stage}");
        assert_eq!((homes(at), fs::read_to_string(at.join("outside")).unwrap().as_str()), (0, ""), "{stage}");
        let rollout = server.query("rollouts").pop().unwrap();
        assert_eq!((&rollout["status"], &rollout["reward"]), (&json!("succeeded"), &json!(1.0)), "{stage}");
        assert_eq!(rollout["attempt"]["sequence_id"], 2, "{stage}");
    }
}

/// Leaves a process in a session of its own, and waits until it is killed where it is to.
const LEAVING: &str = r#"
setsid sh -c 'echo $$ > daemon; exec sleep 600' > /dev/null 2>&1 &
until [ -s daemon ]; do :; done
if [ -e wait ]; then echo $$ > grader; exec sleep 600; fi
echo '{"reward": 1}'
"#;

#[test]
fn what_a_grader_starts_ends_with_it_and_with_its_runner() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let server = Server::start(at, [""; 0]);
    write(at, "c.toml", "[runner]\ncommand = [\"true\"]\ngrade = [\"sh\", \"grade.sh\"]\n");
    write(at, "grade.sh", LEAVING);
    let is_alive = |name: &str| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", fs::read_to_string(at.join(name)).unwrap().trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    server.enqueue([json!(1)], &Value::Null);
    assert_eq!(Process::spawn(runner(&server, at)).exit_code(), Some(0));
    assert_eq!(server.query("rollouts")[0]["reward"], json!(1.0), "{:?}", server.query("attempts"));
    assert!(!is_alive("daemon"), "it has outlived its grader");

    write(at, "wait", "");
    fs::remove_file(at.join("daemon")).unwrap();
    server.enqueue([json!(2)], &Value::Null);
    let mut killed = Process::spawn(runner(&server, at));
    eventually("the grader", || fs::read_to_string(at.join("grader")).ok().filter(|pid| pid.ends_with('\n')));
    killed.kill();
    eventually("the end of all that it started", || (!is_alive("grader") && !is_alive("daemon")).then_some(()));
}

#[test]
fn what_an_agent_changed_is_shown_and_a_setup_that_fails_is_the_worlds_fault() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let server = Server::start(at, [""; 0]);
    write(at, "c.toml", CONFIG);
    write(at, "script.sh", SCRIPT);
    write(at, "stage", "none");
    let ids = server.enqueue([json!("one")], &Value::Null);
    assert_eq!(Process::spawn(runner(&server, at)).exit_code(), Some(0));
    let shown = printed(["show", &ids[0], "--store", &server.store]);
    let world: Vec<&str> = shown.lines().skip_while(|line| !line.contains("world")).take(5).collect();
    insta::assert_snapshot!(world.join("\n"), @r"
      world
        changed file (4 bytes)
        @@ -1 +1 @@
        -old
        +new
    ");

    write(at, "script.sh", "echo no disk >&2; exit 9");
    server.enqueue([json!("two")], &Value::Null);
    assert_eq!(Process::spawn(runner(&server, at)).exit_code(), Some(0));
    let attempt = server.query("attempts").pop().unwrap();
    let metadata = &attempt["metadata"];
    assert_eq!(
        (&metadata["fault"], &metadata["reason"]),
        (&json!("world"), &json!("setup exited with status 9: no disk"))
    );
    assert_eq!(homes(at), 1, "its teardown fails as well, and is tried again by the next");
}

#[test]
fn a_config_with_worlds_is_refused_where_it_contradicts_itself() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at, "agent.py", "");
    let refused = |runner: &str| {
        write(at, "c.toml", &format!("[runner]\n{runner}\n"));
        let config = at.join("c.toml");
        let ran = run(["run", "--server", "http://127.0.0.1:9", "--config", config.to_str().unwrap()]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        ran.stderr.replace(at.to_str().unwrap(), "[directory]").trim().to_owned()
    };
    let all = [
        "setup = [\"true\"]\nwarm = true\ncommand = [\"true\"]",
        "command = [\"cat\", \"{world}/x\"]",
        "world = true\ncommand = [\"python3\", \"agent.py\"]",
        "command = [\"true\"]\nreward_file = \"../reward\"",
        "command = [\"true\"]\nreward_key = \"x\"",
        "command = [\"true\"]\nhook_timeout_seconds = -1\nworld = true",
        "world = true",
        "command = [\"python3\", \"{project}/agent.py\"]\nsandbox = { kind = \"bubblewrap\" }",
        "command = [\"true\"]\nsandbox = { kind = \"docker\" }",
        "command = [\"true\"]\nsandbox = { kind = \"jail\" }",
        "command = [\"true\"]\nurl = \"http://a\"",
        "url = \"http://a\"\nworld = true",
        "url = \"agents:8000\"",
    ];
    insta::assert_snapshot!(all.map(refused).join("\n"), @r##"
    error: [runner] warm: one agent for all attempts cannot be given a world for each; leave one of them out
    error: [runner] "{world}/x" asks for the attempt's world, and there are none: world = true makes them
    error: [runner] command: "agent.py" is a file in [directory], but the agent is started in its world: write "{project}/agent.py"
    error: [runner] reward_file is "../reward", but names a file within the world: it must be relative, without `..`
    error: [runner] reward_key says which number of reward_file is meant, and there is none
    error: [runner] hook_timeout_seconds is -1, but must be a number of seconds above 0
    error: [runner] command (or url) is missing: it, or what follows --, is the agent
    error: [runner] command: the sandbox hides "{project}/agent.py" from the agent: read = ["{project}/agent.py"] shows it
    error: the runner stopped
      caused by: [runner.sandbox] image is missing: a container is made of one, such as "python:3.12-slim"
    error: [directory]/c.toml
      caused by: line 3: runner.sandbox.kind cannot be `jail`; there is `none`, `bubblewrap`, `docker`, `podman`
        3 | sandbox = { kind = "jail" }
          |                    ^^^^^^
    error: [runner] url is an agent that lives elsewhere: leave out `command` and `warm`, or `url`
    error: [runner] url: one agent for all attempts cannot be given a world for each; leave one of them out
    error: the runner stopped
      caused by: the agent's URL "agents:8000" cannot be used: it is neither http nor https
    "##);
}
