//! Tasks in Harbor's format, from their directories to their rewards.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{there_are_no_sandboxes, write};
use crate::common::{Server, fulgurite, run};

/// A task whose file says 2, where 3 is wanted; the tests write what `say` prints.
fn task(at: &Path, name: &str, say: &str) {
    write(at, &format!("tasks/{name}/task.toml"), "version = \"1.0\"\n[verifier]\ntimeout_sec = 60.0\n");
    write(at, &format!("tasks/{name}/instruction.md"), "Make the number in /app/src/number one greater.\n");
    write(at, &format!("tasks/{name}/environment/src/number"), "2\n");
    write(at, &format!("tasks/{name}/tests/test.sh"), say);
}

const CONFIG: &str = r#"
[runner]
command = ["sh", "-c", "test -e /tests -o -e /logs && exit 3; cd /app && test {world} = /app && echo $(($(cat src/number) + 1)) > src/number"]
harbor_tests = true
sandbox = { kind = "bubblewrap" }
"#;

#[test]
fn the_tests_of_a_task_find_its_reward_where_the_agent_was() {
    if there_are_no_sandboxes() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let server = Server::start(at, [""; 0]);
    write(at, "c.toml", CONFIG);
    task(
        at,
        "json",
        "grep -qx 3 src/number && echo '{\"reward\": 0.5, \"tests\": 3}' > /logs/verifier/reward.json; exit 1",
    );
    task(at, "text", "echo $(grep -c 3 /app/src/number) > /logs/verifier/reward.txt");
    task(at, "none", "echo broken >&2");
    let input = |name: &str| json!({ "harbor": { "name": name, "directory": at.join("tasks").join(name) } });
    for name in ["json", "text", "none"] {
        server.enqueue([input(name)], &Value::Null);
    }
    let mut command = fulgurite(["run", "--server", &server.url, "--until-idle", "--parallel", "1"]);
    command.arg("--config").arg(at.join("c.toml")).arg("--worlds").arg(at.join("worlds")).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
    let rollouts = server.query("rollouts");
    let rewards: Vec<&Value> = rollouts.iter().map(|rollout| &rollout["reward"]).collect();
    assert_eq!(rewards, [&json!(0.5), &json!(1.0), &Value::Null], "{:?}", server.query("attempts"));
    assert!(server.query("attempts").iter().all(|attempt| attempt["grader"] == "harbor"), "no agent rewards itself");
    let last = &server.query("attempts")[2]["metadata"];
    let reason = "Harbor's tests gave no reward: in reward.txt of its world: there is no such file; they wrote: broken";
    assert_eq!((&last["fault"], &last["reason"]), (&json!("grader"), &json!(reason)));
    assert_eq!(last["world_changes"]["changed"][0]["path"], "src/number");
}

#[test]
fn tasks_that_cannot_be_run_here_are_refused_by_name_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    task(at, "a", "true");
    let refused = |sandbox: &str| {
        let config = format!(
            "[[models]]\nname = \"m\"\nbackend = \"embedded\"\npath = \"m\"\n[tasks]\ntrain = {{ harbor = \"tasks\" }}\n\
             held_out = {{ harbor = \"tasks\" }}\n[runner]\ncommand = [\"true\"]\n{sandbox}"
        );
        write(at, "c.toml", &config);
        let ran = run(["train", at.join("c.toml").to_str().unwrap()]);
        assert_eq!(ran.code, Some(1));
        ran.stderr.replace(at.to_str().unwrap(), "[directory]").trim().to_owned()
    };
    let said = refused("");
    assert!(said.contains("Harbor's task \"a\" has tests: [runner] harbor_tests = true"), "{said}");
    let said = refused("harbor_tests = true");
    assert!(said.contains("sandbox = { kind = \"bubblewrap\" }"), "{said}");
    write(at, "tasks/a/environment/Dockerfile", "FROM scratch\n");
    let said = refused("harbor_tests = true\nsandbox = { kind = \"bubblewrap\" }");
    assert!(said.contains("runs in an image ([directory]/tasks/a/environment/Dockerfile)"), "{said}");
}
