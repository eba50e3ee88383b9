//! Tasks in Harbor's format, from their directories to their rewards.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{there_are_no_sandboxes, write, write_program};
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
        "grep -qx 3 /app/src/number && echo '{\"reward\": 0.5, \"tests\": 3}' > /logs/verifier/reward.json; exit 1",
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
    let reason = "Harbor's tests gave no reward: in reward.txt of its world: there is no such file; they wrote: broken \
                  (help: test.sh begins in /tests, the world is at /app, and the reward belongs in \
                  /logs/verifier/reward.txt)";
    assert_eq!((&last["fault"], &last["reason"]), (&json!("agent"), &json!(reason)));
    assert_eq!(last["world_changes"]["changed"][0]["path"], "src/number");
}

/// Puts code wherever an interpreter or a tool of the tests could pick it up, all of which would write the greatest reward.
const PLANTING: &str = r#"
forge='echo 77 > /logs/verifier/reward.txt'
python="import os
if os.path.isdir('/logs/verifier'): os.system('$forge')"
site=$HOME/.local/lib/python$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')/site-packages
mkdir -p "$site" "$HOME/.local/bin" node_modules/left
for name in usercustomize sitecustomize; do echo "$python" > "$site/$name.py"; done
echo "import os; os.path.isdir('/logs/verifier') and os.system('$forge')" > "$site/planted.pth"
for name in json pytest conftest sitecustomize usercustomize; do echo "$python" > $name.py; done
for name in .bash_profile .bashrc .profile .bash_env; do echo "$forge" > "$HOME/$name"; done
printf '[alias]\n\tst = !%s\n[core]\n\tfsmonitor = %s\n' "$forge" "$forge" > "$HOME/.gitconfig"
echo "script-shell=/app/python3" > .npmrc; cp .npmrc "$HOME/.npmrc"
printf '[pytest]\naddopts = -p conftest\n' > pytest.ini
for name in python3 "$HOME/.local/bin/python3"; do printf '#!/bin/sh\n%s\n' "$forge" > "$name"; chmod +x "$name"; done
"#;

/// Says how it was started, runs what finds code by itself, and gives 0 unless something has written a reward already.
const LOOKING: &str = r#"
env | grep -E '^(PYTHON|GIT_|LD_|NODE_|BASH_ENV|ENV|LC_|XDG_)' && exit 1
test "$PWD" = /tests && test -z "$(ls -A $HOME)" && test "$FULGURITE_WORLD" = /app || exit 2
python3 -c 'import json, site' && python3 -m json.tool < /dev/null; git st; git status; bash -lc true
test -e /logs/verifier/reward.txt && exit 3
echo 0 > /logs/verifier/reward.txt
"#;

#[test]
fn what_an_agent_plants_for_the_tests_interpreters_is_not_run() {
    if there_are_no_sandboxes() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let server = Server::start(at, [""; 0]);
    write(at, "agent.sh", PLANTING);
    write(
        at,
        "c.toml",
        "[runner]\ncommand = [\"bash\", \"{project}/agent.sh\"]\nharbor_tests = true\n\
         sandbox = { kind = \"bubblewrap\", read = [\"{project}/agent.sh\"], environment = [\"PYTHONPATH\", \"BASH_ENV\"] }\n",
    );
    task(at, "a", LOOKING);
    server.enqueue([json!({ "harbor": { "name": "a", "directory": at.join("tasks/a") } })], &Value::Null);
    let mut command = fulgurite(["run", "--server", &server.url, "--until-idle", "--parallel", "1"]);
    command.arg("--config").arg(at.join("c.toml")).arg("--worlds").arg(at.join("worlds")).stdout(Stdio::null());
    let path = format!(".::/app:/app/bin:{}", std::env::var("PATH").unwrap());
    command
        .env("PATH", path)
        .env("PYTHONPATH", "/app")
        .env("BASH_ENV", "/app/.bash_env")
        .env("GIT_PAGER", "/app/python3");
    assert!(command.status().unwrap().success());
    assert_eq!(server.query("rollouts")[0]["reward"], json!(0.0), "{:?}", server.query("attempts"));
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
    let message = refused("");
    assert!(message.contains("Harbor's task \"a\" has tests: [runner] harbor_tests = true"), "{message}");
    let message = refused("harbor_tests = true");
    assert!(message.contains("sandbox = { kind = \"bubblewrap\" }"), "{message}");
    write(at, "tasks/a/environment/Dockerfile", "FROM scratch\n");
    let message = refused("harbor_tests = true\nsandbox = { kind = \"bubblewrap\" }");
    assert!(message.contains("runs in an image ([directory]/tasks/a/environment/Dockerfile)"), "{message}");
}

/// A task in an image, whose agent says where it is and mends what is there.
fn imaged(at: &Path, kind: &str, image: &str) {
    task(at, "a", "cp /srv/src/number /logs/verifier/reward.txt");
    write(at, "tasks/a/environment/Dockerfile", &format!("FROM {image}\nWORKDIR /srv\nCOPY src/ src/\n"));
    let agent = "test -e /tests && exit 3; test $PWD = /srv && test {world} = /srv && echo $(($(cat src/number) + 1)) > src/number";
    let config = format!(
        "[runner]\ncommand = [\"sh\", \"-c\", {agent:?}]\nharbor_tests = true\nsandbox = {{ kind = \"{kind}\" }}\n"
    );
    write(at, "c.toml", &config);
}

fn play(at: &Path, server: &Server, path: &str) {
    let queued =
        fulgurite(["enqueue", "--server", &server.url, "--samples", "2", "--harbor"]).arg(at.join("tasks")).output();
    assert!(queued.unwrap().status.success());
    let mut command = fulgurite(["run", "--server", &server.url, "--until-idle", "--parallel", "1"]);
    command.arg("--config").arg(at.join("c.toml")).arg("--worlds").arg(at.join("worlds"));
    assert!(command.env("PATH", path).stdout(Stdio::null()).status().unwrap().success());
}

/// Stands for Docker's command: says how it was called, has an image with one file, and plays the agent and the tests.
const DOCKER: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
echo "$*" | sed 's/ --cap-drop.*fulgurite-task/ ... fulgurite-task/' >> calls
case "$1" in
    image) echo /srv ;;
    cp) mkdir "$3/src" && echo 2 > "$3/src/number" ;;
    run)
        while [ $# -gt 0 ]; do
            case "$1" in *:/srv:rw) world="${1%:/srv:rw}" ;; *:/logs:rw) logs="${1%:/logs:rw}" ;; esac
            shift
        done
        if [ -n "$logs" ]; then cp "$world/src/number" "$logs/verifier/reward.txt"; else echo 3 > "$world/src/number"; fi ;;
esac
"#;

#[test]
fn a_task_with_a_dockerfile_is_played_in_its_image_where_there_are_containers() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let server = Server::start(at, [""; 0]);
    write_program(at, "docker", DOCKER);
    imaged(at, "docker", "scratch");
    play(at, &server, &format!("{}:{}", at.display(), std::env::var("PATH").unwrap()));
    let attempts = server.query("attempts");
    let rewards: Vec<Value> = server.query("rollouts").iter().map(|rollout| rollout["reward"].clone()).collect();
    assert_eq!(rewards, [json!(3.0), json!(3.0)], "{attempts:?}");
    assert_eq!(attempts[0]["metadata"]["world_changes"]["changed"][0]["path"], "src/number");
    let calls = std::fs::read_to_string(at.join("calls")).unwrap();
    let mut calls = calls.replace(at.to_str().unwrap(), "[directory]");
    for (attempt, name) in attempts.iter().zip(["[first]", "[second]"]) {
        let world = format!("{}.{}", attempt["rollout_id"].as_str().unwrap(), attempt["attempt_id"].as_str().unwrap());
        calls = calls.replace(&world, name);
    }
    let clean = calls.split("/bin/bash -pc ").nth(1).unwrap().split(" cd /tests").next().unwrap().to_owned();
    assert!(clean.contains("PYTHON*") && clean.contains("'/srv'/*"), "{clean}");
    calls = calls.replace(&clean, "[clean]");
    let tag = calls.split("--tag ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let user = super::user_inside();
    let short: Vec<String> =
        calls.replace(&tag, "[image]").replace(&user, "[user]").lines().map(str::to_owned).collect();
    insta::assert_snapshot!(short.join("\n"), @r"
    build --tag [image] --file [directory]/tasks/a/environment/Dockerfile [directory]/tasks/a/environment
    image inspect --format {{.Config.WorkingDir}} [image]
    create --name fulgurite-[first] [image] true
    cp fulgurite-[first]:/srv/. [directory]/worlds/[first]/files
    rm --force fulgurite-[first]
    run --rm --init --name fulgurite-[first] --network none --user [user] ... [image] sandbox-forward /run/fulgurite/proxy.sock 4747 sh -c test -e /tests && exit 3; test $PWD = /srv && test /srv = /srv && echo $(($(cat src/number) + 1)) > src/number
    run --rm --init --name fulgurite-[first] --network none --user [user] ... [image] sandbox-forward /run/fulgurite/proxy.sock 4747 /bin/bash -pc [clean] cd /tests && exec /bin/bash /tests/test.sh
    rm --force fulgurite-[first]
    create --name fulgurite-[second] [image] true
    cp fulgurite-[second]:/srv/. [directory]/worlds/[second]/files
    rm --force fulgurite-[second]
    run --rm --init --name fulgurite-[second] --network none --user [user] ... [image] sandbox-forward /run/fulgurite/proxy.sock 4747 sh -c test -e /tests && exit 3; test $PWD = /srv && test /srv = /srv && echo $(($(cat src/number) + 1)) > src/number
    run --rm --init --name fulgurite-[second] --network none --user [user] ... [image] sandbox-forward /run/fulgurite/proxy.sock 4747 /bin/bash -pc [clean] cd /tests && exec /bin/bash /tests/test.sh
    rm --force fulgurite-[second]
    ");

    // Where there is no such image, the attempt fails by the world's fault, and says what the program said.
    write(at, "docker", "#!/bin/sh\necho 'no space left on device' >&2; exit 1\n");
    play(at, &server, &format!("{}:{}", at.display(), std::env::var("PATH").unwrap()));
    let last = &server.query("attempts")[3]["metadata"];
    let reason = last["reason"].as_str().unwrap();
    assert!(reason.contains("environment/Dockerfile: no space left on device"), "{reason}");
    assert_eq!(last["fault"], "world");
}

#[test]
fn a_task_with_a_dockerfile_is_played_by_a_real_engine() {
    let (Ok(kind), Ok(image)) = (std::env::var("SANDBOX_KIND"), std::env::var("SANDBOX_IMAGE")) else {
        eprintln!("NOT RUN: SANDBOX_KIND and SANDBOX_IMAGE name no engine of containers");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let server = Server::start(at, [""; 0]);
    imaged(at, &kind, &image);
    play(at, &server, &std::env::var("PATH").unwrap());
    let rewards: Vec<Value> = server.query("rollouts").iter().map(|rollout| rollout["reward"].clone()).collect();
    assert_eq!(rewards, [json!(3.0), json!(3.0)], "{:?}", server.query("attempts"));
}
