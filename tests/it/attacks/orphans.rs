//! Agents that try to stay when their attempt is over, or their runner dead.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{Process, Server, eventually, fulgurite};

/// Leaves its process group and session twice over, ignores to be told to end, and holds `alive` open in every process.
const STUBBORN: &str = r#"
trap '' TERM HUP INT
exec 3>"$1"
setsid sh -c 'trap "" TERM HUP INT; (setsid sh -c "trap \"\" TERM HUP INT; (sleep 600 & wait) & sleep 600" &) ; sleep 600' &
echo started >&3
sleep "$2"
"#;

/// A named pipe, whose reader meets its end once no process is left that could write to it.
struct Alive {
    path: PathBuf,
}

impl Alive {
    fn new(directory: &Path) -> Self {
        let path = directory.join("alive");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self { path }
    }

    /// Reads until every process that holds it is gone, on a thread, and says when the first of them has begun.
    fn watch(&self) -> (std::sync::mpsc::Receiver<()>, std::sync::mpsc::Receiver<()>) {
        use std::io::{BufRead, BufReader, Read};
        let (started, has_started) = std::sync::mpsc::channel();
        let (ended, disconnected) = std::sync::mpsc::channel();
        let path = self.path.clone();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(std::fs::File::open(path).unwrap());
            pipe.read_line(&mut String::new()).unwrap();
            started.send(()).unwrap();
            pipe.read_to_end(&mut Vec::new()).unwrap();
            ended.send(()).unwrap();
        });
        (has_started, disconnected)
    }
}

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

fn runner(server: &Server, directory: &Path, options: &[&str], seconds: &str) -> Process {
    std::fs::write(directory.join("agent.sh"), STUBBORN).unwrap();
    let mut command = fulgurite(["run", "--server", &server.url, "--until-idle"]);
    command.args(options).args(["--", "/bin/sh"]);
    command.arg(directory.join("agent.sh")).arg(directory.join("alive")).arg(seconds);
    command.stdout(Stdio::null());
    Process::spawn(command)
}

#[test]
fn nothing_of_an_agent_survives_a_runner_that_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    for options in [&[][..], &["--warm"]] {
        server.enqueue([json!("task")], &json!({}));
        let alive = Alive::new(directory.path());
        let (has_started, disconnected) = alive.watch();
        // A runner of the same name takes over what the one before it held.
        let mut runner = runner(&server, directory.path(), &[options, &["--worker-id", "one"]].concat(), "600");
        has_started.recv_timeout(PATIENCE).unwrap();
        runner.kill();
        disconnected.recv_timeout(PATIENCE).unwrap();
        std::fs::remove_file(alive.path).unwrap();
    }
}

#[test]
fn nothing_of_an_agent_survives_its_time_or_its_own_end() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    for (options, seconds, status) in
        [(&["--timeout", "5"][..], "600", "timeout"), (&[], "0", "failed"), (&["--warm"], "0", "failed")]
    {
        let [rollout] = &*server.enqueue([json!("task")], &json!({})) else { panic!("one was queued") };
        let alive = Alive::new(directory.path());
        let (has_started, disconnected) = alive.watch();
        let mut runner = runner(&server, directory.path(), options, seconds);
        has_started.recv_timeout(PATIENCE).unwrap();
        disconnected.recv_timeout(PATIENCE).unwrap();
        assert_eq!(runner.exit_code(), Some(0));
        let attempts = server.query("attempts");
        let attempt = attempts.iter().find(|attempt| attempt["rollout_id"] == **rollout).unwrap();
        assert_eq!(attempt["status"], status);
        std::fs::remove_file(alive.path).unwrap();
    }
}

#[test]
fn a_runner_that_is_told_to_leave_takes_its_agents_along() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    for options in [&[][..], &["--warm"]] {
        server.enqueue([json!("task")], &json!({}));
        let alive = Alive::new(directory.path());
        let (has_started, disconnected) = alive.watch();
        let mut runner = runner(&server, directory.path(), options, "600");
        has_started.recv_timeout(PATIENCE).unwrap();
        assert_eq!(runner.terminate(), Some(0));
        disconnected.recv_timeout(PATIENCE).unwrap();
        std::fs::remove_file(alive.path).unwrap();
    }
}

#[test]
fn an_agent_under_its_supervisor_ends_as_it_would_without() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    let attempt_of = |script: &str, more: &[&str]| -> Value {
        let [rollout] = &*server.enqueue([json!({"word": "it's"})], &json!({})) else { panic!("one was queued") };
        let mut command = fulgurite(["run", "--server", &server.url, "--until-idle"]);
        command
            .args(more)
            .args(["--", "/bin/sh", "-c", script, "name", "--", "{task.word}", "-x"])
            .stdout(Stdio::null());
        assert_eq!(Process::spawn(command).exit_code(), Some(0));
        let attempts = server.query("attempts");
        attempts.into_iter().find(|attempt| attempt["rollout_id"] == **rollout).unwrap()
    };
    let failed = attempt_of("echo said >&2; exit 3", &[]);
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["metadata"]["reason"], "agent exited with status 3");
    assert_eq!(failed["metadata"]["stderr_tail"], "said\n");
    let signalled = attempt_of("kill -KILL $$", &[]);
    assert_eq!(signalled["metadata"]["reason"], "agent was killed by signal 9");
    let lost = attempt_of("kill -KILL $PPID; sleep 600", &[]);
    assert_eq!(lost["metadata"]["reason"], "agent was lost: the process that supervised it was killed by signal 9");
    let rewarded = attempt_of("test \"$1 $2 $3\" = \"-- it's -x\" && echo '{\"reward\": 1}'", &[]);
    assert_eq!(rewarded["status"], "succeeded", "{rewarded}");
    // The grader finds the agent's output on its standard input, and its end.
    let graded = attempt_of("echo '{\"reward\": 0.25}'", &["--grade", "cat"]);
    assert_eq!(graded["status"], "succeeded", "{graded}");
    eventually("rewards", || (server.query("rewards").len() == 2).then_some(()));
}
