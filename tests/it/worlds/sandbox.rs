//! Agents in a sandbox of bubblewrap's: what they reach, and what they do not.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{there_are_no_sandboxes, write, write_program};

use crate::common::{Server, model_flag, run, tiny_model};

/// Tries what it should not be able to do, calls the model, and prints what came of each.
const AGENT: &str = r#"
import json, os, socket, sys, urllib.error, urllib.request

def outcome(of):
    try:
        return of()
    except (OSError, urllib.error.URLError) as error:
        return getattr(error, "code", None) or type(error).__name__

def post(url, body):
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request)

base = os.environ["OPENAI_BASE_URL"]
call = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
streamed = post(base + "/chat/completions", {**call, "stream": True}).read().decode()
origin = base.split("/rollout/")[0]
seen = {
    "answer": json.load(post(base + "/chat/completions", call))["choices"][0]["message"]["role"],
    "streamed": streamed.strip().endswith("data: [DONE]"),
    "admin": outcome(lambda: post(origin + "/v1/fulgurite/rollouts", {}).status),
    "around": outcome(lambda: post(base + "/../../../../../v1/agl/rollouts", {}).status),
    "another": outcome(lambda: post(origin + "/rollout/ro-x/attempt/at-x/v1/chat/completions", call).status),
    "outside": outcome(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)),
    "project": outcome(lambda: os.listdir(os.environ["FULGURITE_PROJECT"])),
    "store": outcome(lambda: open(sys.argv[2]).read()),
    "shadow": outcome(lambda: open("/etc/shadow").read()),
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]) < 10,
    "secret": os.environ.get("SECRET_OF_THE_RUNNER"),
    "kept": os.environ.get("KEPT_OF_THE_RUNNER"),
    "home": os.environ["HOME"] == os.environ["FULGURITE_AGENT_HOME"] and os.path.exists(os.path.expanduser("~/.from_setup")),
    "world": os.getcwd() == os.environ["FULGURITE_WORLD"],
}
json.dump(seen, open("seen.json", "w"))
print(json.dumps({"reward": 1}))
"#;

/// What keeps the agent in its world, its Python, and what shows that: bubblewrap, or, for who has one, the kind of container
/// and the image that the environment names.
fn sandbox() -> Option<(String, String)> {
    if let (Ok(kind), Ok(image)) = (std::env::var("SANDBOX_KIND"), std::env::var("SANDBOX_IMAGE")) {
        let keys = format!("kind = \"{kind}\"\nimage = \"{image}\"\nread = [\"{{project}}/agent.py\"]");
        return Some(("python3".to_owned(), keys));
    }
    if there_are_no_sandboxes() {
        return None;
    }
    // A shim, as pyenv has them, would have to be shown with all that it looks for.
    let found =
        Command::new("python3").args(["-c", "import sys; print(sys.executable, sys.base_prefix)"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let (python, prefix) = found.trim().split_once(' ').unwrap();
    let keys = format!("kind = \"bubblewrap\"\nread = [\"{{project}}/agent.py\", \"{prefix}\"]");
    Some((python.to_owned(), keys))
}

#[test]
fn a_sandboxed_agent_reaches_its_model_and_its_world_and_nothing_else() {
    let Some((python, sandbox)) = sandbox() else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let model = tiny_model(at, 256);
    let server = Server::start(at, ["--model", &model_flag("m", &model)]);
    let store = server.store.strip_prefix("sqlite://").unwrap();
    assert!(fs::exists(store).unwrap());
    let port = server.url.rsplit(':').next().unwrap();
    write(at, "agent.py", AGENT);
    write(
        at,
        "c.toml",
        &format!(
            r#"
            [runner]
            setup = ["sh", "-c", "touch $FULGURITE_AGENT_HOME/.from_setup"]
            command = ["{python}", "{{project}}/agent.py", "{port}", "{store}"]
            grade = ["sh", "-c", "cp $FULGURITE_WORLD/seen.json . && echo '{{\"reward\": 1}}'"]
            [runner.sandbox]
            environment = ["KEPT_OF_THE_RUNNER"]
            {sandbox}
            "#
        ),
    );
    server.enqueue([json!("one")], &Value::Null);
    let worlds = tempfile::tempdir().unwrap();
    let mut command = crate::common::fulgurite(["run", "--server", &server.url, "--until-idle"]);
    command.arg("--config").arg(at.join("c.toml")).arg("--worlds").arg(worlds.path());
    command.envs([("SECRET_OF_THE_RUNNER", "x"), ("KEPT_OF_THE_RUNNER", "y")]).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
    let rollout = server.query("rollouts").pop().unwrap();
    assert_eq!(rollout["status"], "succeeded", "{:?}", server.query("attempts"));
    let mut seen: Value = serde_json::from_str(&fs::read_to_string(at.join("seen.json")).unwrap()).unwrap();
    if sandbox.contains("image") {
        // The image has one of its own.
        seen["shadow"] = json!("FileNotFoundError");
    }
    let expected = json!({
        "answer": "assistant", "streamed": true, "admin": 403, "around": 403, "another": 403,
        "outside": "ConnectionRefusedError", "project": ["agent.py"], "store": "FileNotFoundError",
        "shadow": "FileNotFoundError", "processes": true, "secret": null, "kept": "y", "home": true, "world": true,
    });
    assert_eq!(seen, expected);
    let generations = server.query("generations");
    assert_eq!(generations.len(), 2);
    assert!(generations.iter().all(|call| call["rollout_id"] == rollout["rollout_id"]));
}

#[test]
fn a_container_is_started_with_its_world_its_door_and_no_network() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let server = Server::start(at, [""; 0]);
    // Stands for Docker's command: says how it was called, and plays the agent itself.
    write_program(
        at,
        "docker",
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >> calls; [ \"$1\" = rm ] || echo '{\"reward\": 1}'\n",
    );
    write(
        at,
        "c.toml",
        r#"
        [runner]
        command = ["agent-of-the-image", "{task}"]
        [runner.sandbox]
        kind = "docker"
        image = "python:3.12-slim"
        read = ["{project}/skills"]
        arguments = ["--memory", "512m"]
        "#,
    );
    server.enqueue([json!("one")], &Value::Null);
    let path = format!("{}:{}", at.display(), std::env::var("PATH").unwrap());
    let mut command = crate::common::fulgurite(["run", "--server", &server.url, "--until-idle"]);
    command.arg("--config").arg(at.join("c.toml")).arg("--worlds").arg(at.join("worlds"));
    command.envs([("PATH", path.as_str()), ("LANG", "C"), ("TERM", "dumb")]).env_remove("LC_ALL");
    command.current_dir(at).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
    let attempt = server.query("attempts").pop().unwrap();
    assert_eq!(attempt["status"], "succeeded", "{attempt}");
    let name = format!("{}.{}", attempt["rollout_id"].as_str().unwrap(), attempt["attempt_id"].as_str().unwrap());
    let user = super::user_inside();
    let program = env!("CARGO_BIN_EXE_fulgurite");
    let calls = fs::read_to_string(at.join("calls")).unwrap();
    let calls = calls.replace(&name, "[world]").replace(at.to_str().unwrap(), "[directory]");
    insta::assert_snapshot!(calls.replace(program, "[program]").replace(&user, "[user]"), @r"
    run
    --rm
    --init
    --name
    fulgurite-[world]
    --network
    none
    --user
    [user]
    --cap-drop
    ALL
    --security-opt
    no-new-privileges
    --ulimit
    core=0
    --pids-limit
    1024
    --memory
    8589934592
    --ulimit
    fsize=17179869184
    --volume
    [directory]/skills:[directory]/skills:ro
    --volume
    [directory]/worlds/[world]/home:[directory]/worlds/[world]/home:rw
    --volume
    [directory]/worlds/[world]/files:[directory]/worlds/[world]/files:rw
    --volume
    [program]:/run/fulgurite/fulgurite:ro
    --volume
    [directory]/worlds/[world]/proxy.sock:/run/fulgurite/proxy.sock:rw
    --workdir
    [directory]/worlds/[world]/files
    --env
    ANTHROPIC_API_KEY
    --env
    ANTHROPIC_BASE_URL
    --env
    FULGURITE_AGENT_HOME
    --env
    FULGURITE_ATTEMPT_ID
    --env
    FULGURITE_PROJECT
    --env
    FULGURITE_REWARD_URL
    --env
    FULGURITE_ROLLOUT_ID
    --env
    FULGURITE_TASK
    --env
    FULGURITE_WORLD
    --env
    FULGURITE_WORLD_VARIABLES
    --env
    GEMINI_API_KEY
    --env
    GOOGLE_GEMINI_BASE_URL
    --env
    OPENAI_API_KEY
    --env
    OPENAI_BASE_URL
    --env
    LANG
    --env
    TERM
    --env
    HOME=[directory]/worlds/[world]/home
    --entrypoint
    /run/fulgurite/fulgurite
    --memory
    512m
    python:3.12-slim
    sandbox-forward
    /run/fulgurite/proxy.sock
    4747
    agent-of-the-image
    one
    rm
    --force
    fulgurite-[world]
    ");
}

#[test]
fn what_makes_sandboxes_is_named_where_it_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at, "c.toml", "[runner]\ncommand = [\"true\"]\nsandbox = { kind = \"podman\", image = \"x\" }\n");
    let config = at.join("c.toml");
    let mut command = crate::common::fulgurite(["run", "--server", "http://127.0.0.1:9", "--config"]);
    let ran = command.arg(config).env("PATH", "/nowhere").output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && errors.contains("cannot find the program \"podman\""), "{errors}");
    // And of what is there, `run` itself is unchanged.
    assert_eq!(run(["run", "--server", "http://127.0.0.1:9"]).code, Some(2));
}
