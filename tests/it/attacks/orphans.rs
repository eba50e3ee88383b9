//! Agents that try to stay when their attempt is over, or their runner dead.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;

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

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// An agent that has started under a runner. It holds a named pipe, whose reader meets its end once no process is left that
/// could write to it.
struct StartedAgent {
    rollout: String,
    runner: Process,
    disconnected: Receiver<()>,
    pipe: PathBuf,
}

impl StartedAgent {
    fn new(server: &Server, directory: &Path, options: &[&str], seconds: &str) -> Self {
        let rollout = server.enqueue([json!("task")], &json!({})).remove(0);
        let pipe = directory.join("alive");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (has_started, disconnected) = watch(pipe.clone());
        std::fs::write(directory.join("agent.sh"), STUBBORN).unwrap();
        let mut command = fulgurite(["run", "--server", &server.url, "--until-idle"]);
        command.args(options).args(["--", "/bin/sh"]);
        command.arg(directory.join("agent.sh")).arg(&pipe).arg(seconds);
        command.stdout(Stdio::null());
        let runner = Process::spawn(command);
        has_started.recv_timeout(PATIENCE).unwrap();
        Self { rollout, runner, disconnected, pipe }
    }

    /// Waits until nothing of it is left.
    fn has_ended(&self) {
        self.disconnected.recv_timeout(PATIENCE).unwrap();
        std::fs::remove_file(&self.pipe).unwrap();
    }
}

/// Reads until every process that holds a pipe has ended, on a thread, and says when the first of them has started.
fn watch(pipe: PathBuf) -> (Receiver<()>, Receiver<()>) {
    let (started, has_started) = std::sync::mpsc::channel();
    let (ended, disconnected) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(std::fs::File::open(pipe).unwrap());
        pipe.read_line(&mut String::new()).unwrap();
        started.send(()).unwrap();
        pipe.read_to_end(&mut Vec::new()).unwrap();
        ended.send(()).unwrap();
    });
    (has_started, disconnected)
}

#[test]
fn nothing_of_an_agent_survives_a_runner_that_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    for options in [&[][..], &["--warm"]] {
        // A runner of the same name takes over what the one before it held.
        let options = [options, &["--worker-id", "one"]].concat();
        let mut agent = StartedAgent::new(&server, directory.path(), &options, "600");
        agent.runner.kill();
        agent.has_ended();
    }
}

#[test]
fn nothing_of_an_agent_survives_its_time_or_its_own_end() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    for (options, seconds, status) in
        [(&["--timeout", "5"][..], "600", "timeout"), (&[], "0", "failed"), (&["--warm"], "0", "failed")]
    {
        let mut agent = StartedAgent::new(&server, directory.path(), options, seconds);
        agent.has_ended();
        assert_eq!(agent.runner.exit_code(), Some(0));
        let attempts = server.query("attempts");
        let attempt = attempts.iter().find(|attempt| attempt["rollout_id"] == *agent.rollout).unwrap();
        assert_eq!(attempt["status"], status);
    }
}

#[test]
fn a_runner_that_is_told_to_leave_takes_its_agents_along() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [""; 0]);
    for options in [&[][..], &["--warm"]] {
        let mut agent = StartedAgent::new(&server, directory.path(), options, "600");
        assert_eq!(agent.runner.terminate(), Some(0));
        agent.has_ended();
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
