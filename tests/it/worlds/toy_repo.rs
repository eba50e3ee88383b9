//! `examples/toy_repo`: its twenty repositories, and that nothing but mending one earns its reward.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{there_are_no_sandboxes, write};
use crate::common::{Ran, Server, fulgurite};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// A copy of the example, without what may have been installed or run in it.
fn example(to: &Path) {
    for entry in fs::read_dir(root().join("examples/toy_repo")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Evaluates every case as the grader does, but here.
const EVERY_CASE: &str = r"
import json
from repositories import REPOSITORIES

def worth(source, expression):
    *lines, last = expression.split('\n')
    names = {}
    try:
        exec(source, names)
        exec('\n'.join(lines), names)
        return eval(last, names)
    except Exception as error:
        return {'raised': type(error).__name__}

assert len(REPOSITORIES) == 20
for repository in REPOSITORIES:
    for source, is_whole in [(repository.repaired, True), (repository.broken, False)]:
        passed = [json.dumps(worth(source, case)) == json.dumps(worth_) for case, worth_ in repository.cases.items()]
        assert all(passed) == is_whole, f'{repository.name}: {source} passes {passed}'
";

#[test]
fn each_of_the_twenty_repositories_fails_its_tests_until_it_is_mended() {
    let directory = tempfile::tempdir().unwrap();
    example(directory.path());
    let python = |arguments: &[&str]| {
        let ran = Command::new("python3").args(arguments).current_dir(directory.path()).output().unwrap();
        let ran = Ran::from(ran);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    python(&["-c", EVERY_CASE]);
    let tasks = fs::read_to_string(directory.path().join("tasks.jsonl")).unwrap();
    assert_eq!(python(&["toy_repo.py", "tasks"]), tasks, "tasks.jsonl is what `toy_repo.py tasks` prints");
}

/// What agents do in the repository `slugs`, and what that earns: the reward, and the share of cases that pass.
const AGENTS: [(&str, f64, f64); 11] = [
    ("sed -i 's/z0-9.[*]/z0-9]+/' slugs.py", 1.0, 1.0),
    ("true", 0.0, 0.0),
    ("rm slugs.py; echo '{\"reward\": 1}'", 0.0, 0.0),
    // What pytest reads where it starts.
    (
        "printf '[pytest]\\npython_files = none\\n' | tee pytest.ini tox.ini > setup.cfg
         printf 'import os\\nos._exit(0)\\n' | tee conftest.py sitecustomize.py hidden_test.py repositories.py > pytest.py",
        0.0,
        0.0,
    ),
    ("echo 'import os; os._exit(0)' > slugs.py", 0.0, 0.0),
    ("echo 'raise SystemExit(0)' > slugs.py", 0.0, 0.0),
    // What takes over the process that it is tested in.
    (
        "cat > slugs.py <<'END'
import os, sys
sys.modules['pytest'] = sys.modules['json'] = None
for place in ('/proc/self/fd/1', '/proc/1/fd/1'):
    try: open(place, 'w').write('{\"reward\": 1}\\n1 passed\\n')
    except OSError: pass
os._exit(0)
END",
        0.0,
        0.0,
    ),
    // What is equal to everything.
    (
        "cat > slugs.py <<'END'
class Any(str):
    __eq__ = lambda self, other: True
    __hash__ = str.__hash__
slugify = lambda title: Any('any')
END",
        0.0,
        0.0,
    ),
    // What looks the answers up.
    (
        "cat > slugs.py <<END
import sys
sys.path.append('$FULGURITE_PROJECT')
from repositories import BY_NAME
slugify = lambda title: BY_NAME['slugs'].cases[f'slugify({title!r})']
END",
        0.0,
        0.0,
    ),
    ("ln -sf $FULGURITE_PROJECT/repositories.py slugs.py", 0.0, 0.0),
    ("mkfifo fifo; rm slugs.py; head -c 100000000 /dev/zero > slugs.py", 0.0, 0.0),
];

#[test]
fn nothing_that_an_agent_leaves_in_its_repository_earns_the_reward_but_the_mended_module() {
    let python = root().join("target/toy_repo/bin/python");
    assert!(python.exists(), "tests/setup makes target/toy_repo, which has pytest");
    if there_are_no_sandboxes() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    example(at);
    let config = format!(
        r#"
        [runner]
        setup = ["python3", "toy_repo.py", "setup", "{{task.name}}"]
        command = ["sh", "-c", "{{task.does}}"]
        grade = ["{}", "-I", "toy_repo.py", "grade", "{{task.name}}"]
        "#,
        python.display()
    );
    write(at, "c.toml", &config);
    let server = Server::start(at, [""; 0]);
    server.enqueue(AGENTS.map(|(does, ..)| json!({ "name": "slugs", "does": does })), &Value::Null);
    let mut command = fulgurite(["run", "--server", &server.url, "--until-idle", "--parallel", "2"]);
    command.arg("--config").arg(at.join("c.toml")).arg("--worlds").arg(at.join("worlds"));
    assert!(command.stdout(Stdio::null()).status().unwrap().success());
    let (rollouts, rewards) = (server.query("rollouts"), server.query("rewards"));
    assert_eq!(rollouts.len(), AGENTS.len());
    for rollout in rollouts {
        let does = rollout["input"]["does"].as_str().unwrap();
        let (_, reward, passed) = AGENTS.into_iter().find(|(agent, ..)| *agent == does).unwrap();
        assert_eq!(rollout["reward"], json!(reward), "{does}: {rollout}");
        let given = rewards.iter().find(|given| given["rollout_id"] == rollout["rollout_id"]).unwrap();
        assert_eq!(given["reward"]["components"], json!([["passed", passed]]), "{does}: {given}");
    }
}
