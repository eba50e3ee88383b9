//! The runner's side of supervisors: they are kept when their agent has ended, for the next.

use super::wire::{Ends, REPLY_LENGTH, Reply, send};
use crate::agent_environment::KEPT_BACK;
use crate::order::Order;
use crate::process::end::{ProcessError, ended_how};
use crate::process::open_files::lower_open_files_of;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// Supervisors that have nothing to do: as many at most as agents ran at one time.
#[derive(Debug)]
pub(crate) struct Supervisors {
    words: Vec<OsString>,
    idle: Mutex<Vec<Supervisor>>,
}

/// A supervisor. When it is dropped its leash ends, and so do it and its agent.
#[derive(Debug)]
struct Supervisor {
    leash: UnixStream,
    process: Child,
}

impl Supervisors {
    /// None yet. `words` is the command that runs [`supervise`](super::supervise).
    pub(crate) fn new(words: Vec<OsString>) -> Self {
        Self { words, idle: Mutex::default() }
    }

    /// Has a supervisor start a program with these streams; a new one if none of those that are kept is alive.
    ///
    /// # Errors
    ///
    /// Fails if the order holds a zero byte or there is no supervisor. How starting the program goes is not known yet.
    pub(crate) async fn start(self: &Arc<Self>, order: &Order, ends: &Ends) -> Result<Supervised, ProcessError> {
        let text = order.to_bytes().map_err(|error| ProcessError::cannot_run(&order.program, error))?;
        loop {
            let kept = self.idle().pop();
            let was_kept = kept.is_some();
            let mut supervisor = match kept {
                Some(supervisor) => supervisor,
                None => Supervisor::start(&self.words).map_err(ProcessError::NoSupervisor)?,
            };
            match send(&mut supervisor.leash, &text, ends).await {
                Ok(()) => return Ok(Supervised::new(Arc::clone(self), supervisor, order)),
                Err(error) => tracing::debug!(%error, "a supervisor has died while it had nothing to do"),
            }
            if !was_kept {
                let how = supervisor.lost().await.to_string();
                return Err(ProcessError::NoSupervisor(io::Error::other(how)));
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Supervisor>> {
        // The list is whole after every statement, so a poisoned lock holds nothing broken.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Supervisor {
    fn start(words: &[OsString]) -> io::Result<Self> {
        let (program, arguments) = words.split_first().ok_or(ErrorKind::NotFound)?;
        let (leash, theirs) = UnixStream::pair()?;
        let theirs = theirs.into_std()?;
        theirs.set_nonblocking(false)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        for name in KEPT_BACK {
            command.env_remove(name);
        }
        // A group of its own: a signal that a terminal sends to the runner's is not for it.
        let process = command.process_group(0).spawn()?;
        lower_open_files_of(process.id());
        Ok(Self { leash, process })
    }

    /// Has it go on if it was stopped, which an agent can do to it, so that it hears its leash end.
    fn wake(&self) {
        if let Some(process) = self.process.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
            // It may have ended by itself meanwhile.
            let _ = kill_process(process, Signal::CONT);
        }
    }

    /// What is to be said of a supervisor that does not speak any more.
    async fn lost(&mut self) -> ProcessError {
        let how = self.process.wait().await.map_or_else(|error| format!("cannot be waited for: {error}"), ended_how);
        ProcessError::SupervisorLost { how }
    }
}

/// A program that was given to a supervisor. Dropped, it is killed with everything that it has started.
#[derive(Debug)]
pub(crate) struct Supervised {
    pool: Arc<Supervisors>,
    /// `None` once it is given back.
    supervisor: Option<Supervisor>,
    program: PathBuf,
    group: Option<Pid>,
    reply: [u8; REPLY_LENGTH],
    received: usize,
}

impl Supervised {
    fn new(pool: Arc<Supervisors>, supervisor: Supervisor, order: &Order) -> Self {
        let program = order.program.clone();
        Self { pool, supervisor: Some(supervisor), program, group: None, reply: [0; REPLY_LENGTH], received: 0 }
    }

    /// Waits until the program has ended and nothing of it is left. May be dropped and called again until it has returned.
    ///
    /// # Errors
    ///
    /// Fails if the program could not be started, or its supervisor dies; then the program's process group is killed.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus, ProcessError> {
        loop {
            match self.next_reply().await {
                Ok(Reply::Started(group)) => self.group = Some(group),
                Ok(Reply::Ended(status)) => {
                    self.give_back();
                    return Ok(status);
                }
                Ok(Reply::Refused(number)) => {
                    self.give_back();
                    return Err(ProcessError::cannot_run(&self.program, io::Error::from_raw_os_error(number)));
                }
                Err(error) => {
                    tracing::debug!(%error, "a supervisor has died while its agent ran");
                    return Err(self.lost().await);
                }
            }
        }
    }

    /// Kills the program and everything that it has started, with the supervisor, and waits for that.
    ///
    /// # Errors
    ///
    /// Fails if the system does not say how the supervisor ended.
    pub(crate) async fn kill(&mut self) -> Result<(), ProcessError> {
        let Some(supervisor) = self.supervisor.take() else { return Ok(()) };
        supervisor.wake();
        let Supervisor { leash, mut process } = supervisor;
        drop(leash);
        process.wait().await.map(|_| ()).map_err(|error| ProcessError::cannot_run(&self.program, error))
    }

    async fn next_reply(&mut self) -> io::Result<Reply> {
        let supervisor = self.supervisor.as_mut().ok_or(ErrorKind::NotConnected)?;
        while self.received < REPLY_LENGTH {
            match supervisor.leash.read(&mut self.reply[self.received..]).await? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => self.received += read,
            }
        }
        self.received = 0;
        Reply::from_bytes(self.reply).ok_or_else(|| ErrorKind::InvalidData.into())
    }

    fn give_back(&mut self) {
        self.pool.idle().extend(self.supervisor.take());
    }

    async fn lost(&mut self) -> ProcessError {
        if let Some(group) = self.group.take() {
            // Nobody else does it now. A group without members is what was wanted.
            let _ = kill_process_group(group, Signal::KILL);
        }
        match &mut self.supervisor {
            Some(supervisor) => supervisor.lost().await,
            None => ProcessError::SupervisorLost { how: "was let go of".to_owned() },
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::supervise;
    use super::super::wire::Reply;
    use crate::launch::launcher::{Launcher, Process, Started, Stdin};
    use crate::launch::run::{EndedBy, Finished, run};
    use crate::order::Order;
    use crate::process::end::ProcessError;
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::ffi::OsStringExt;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{Instant, sleep};

    #[test]
    #[ignore = "other tests start this program with it alone, as their supervisor"]
    fn supervisor_of_other_tests() {
        // Run for its own sake it has no leash, which is no failure.
        let _ = supervise();
    }

    fn launcher() -> Launcher {
        let own = module_path!().split_once("::").unwrap().1;
        let test = format!("{own}::supervisor_of_other_tests");
        let words = [OsString::from("--ignored"), "--exact".into(), test.into(), "--nocapture".into()];
        let words: Vec<_> = [std::env::current_exe().unwrap().into()].into_iter().chain(words).collect();
        Launcher::new(&words)
    }

    fn shell(script: &str) -> Order {
        Order { program: "/bin/sh".into(), arguments: ["-c", script].map(Into::into).to_vec(), ..Order::default() }
    }

    async fn play(launcher: &Launcher, order: &Order) -> Result<Finished, ProcessError> {
        run(launcher, order, b"", Instant::now() + Duration::from_secs(600)).await
    }

    /// What a script prints that must succeed.
    async fn printed_by(launcher: &Launcher, script: &str) -> String {
        let finished = play(launcher, &shell(script)).await.unwrap();
        assert!(finished.status.success(), "{finished:?}");
        String::from_utf8(finished.output).unwrap()
    }

    #[tokio::test]
    async fn what_an_agent_leaves_is_gone_before_the_same_supervisor_starts_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let launcher = launcher();
        let marker = folder.path().join("begun").display().to_string();
        let leaves = format!(
            "setsid sh -c 'echo >{marker}; exec sleep 600' >/dev/null 2>&1 & echo $PPID $!; until [ -e {marker} ]; do :; done"
        );
        let first = printed_by(&launcher, &leaves).await;
        let (supervisor, left) = first.trim().split_once(' ').unwrap();
        let second = printed_by(&launcher, &format!("kill -0 {left} 2>/dev/null && echo alive; echo $PPID")).await;
        assert_eq!(second.trim(), supervisor);
    }

    #[tokio::test]
    async fn as_many_supervisors_are_kept_as_agents_ran_at_a_time() {
        let launcher = launcher();
        let (first, second) = tokio::join!(printed_by(&launcher, "echo $PPID"), printed_by(&launcher, "echo $PPID"));
        let third = printed_by(&launcher, "echo $PPID").await;
        assert!(first != second && (third == first || third == second), "{first} {second} {third}");
    }

    #[tokio::test]
    async fn a_supervisor_that_is_killed_fails_its_agent_by_name_and_the_next_has_another() {
        let launcher = launcher();
        let killed = play(&launcher, &shell("kill -KILL $PPID; sleep 600")).await.unwrap_err();
        assert_eq!(killed.to_string(), "was lost: the process that supervised it was killed by signal 9");
        assert_eq!(printed_by(&launcher, "echo next").await, "next\n");
    }

    #[tokio::test]
    async fn an_agent_whose_supervisor_is_killed_is_killed_with_its_group() {
        let launcher = launcher();
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("(sleep 600 & wait) & echo $$ >{}; read go; kill -KILL $PPID; sleep 600", pid.display());
        let Started { stdin, process, .. } = launcher.start(&shell(&script), Stdin::Piped).await.unwrap();
        let Process::Supervised(mut supervised) = process else { panic!("it has no supervisor") };
        // A supervisor that is killed before it has said which group it started leaves that group alone.
        let Reply::Started(leader) = supervised.next_reply().await.unwrap() else { panic!("it was not started") };
        supervised.group = Some(leader);
        stdin.unwrap().write_all(b"go\n").await.unwrap();
        supervised.wait().await.unwrap_err();
        let group = fs::read_to_string(pid).unwrap();
        until(|| !is_group_alive(group.trim())).await;
    }

    fn is_group_alive(group: &str) -> bool {
        let processes = std::process::Command::new("ps").args(["-e", "-o", "pgid=,stat="]).output().unwrap().stdout;
        let processes = String::from_utf8(processes).unwrap();
        let mut states = processes.lines().filter_map(|line| line.trim().split_once(' '));
        states.any(|(of, state)| of == group && !state.trim().starts_with('Z'))
    }

    /// Waits until it is so.
    async fn until(what: impl Fn() -> bool) {
        while !what() {
            sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_supervisor_that_died_while_idle_is_replaced() {
        let launcher = launcher();
        let first = printed_by(&launcher, "echo $PPID").await;
        let killed = std::process::Command::new("kill").args(["-KILL", first.trim()]).status().unwrap();
        assert!(killed.success());
        // Its leash is closed by the last of its threads, and not where the first has ended.
        let process = format!("/proc/{}", first.trim());
        let is_dead = |stat: String| {
            stat.contains(") Z ") && fs::read_dir(format!("{process}/task")).is_ok_and(|threads| threads.count() == 1)
        };
        until(|| fs::read_to_string(format!("{process}/stat")).map_or(true, is_dead)).await;
        assert_ne!(printed_by(&launcher, "echo $PPID").await, first);
    }

    #[tokio::test]
    async fn no_agent_inherits_more_than_its_three_streams() {
        let list = "ls /proc/$$/fd";
        // What whoever runs the tests left open is every child's.
        let others = printed_by(&Launcher::Direct, list).await;
        assert!(others.starts_with("0\n1\n") && others.lines().any(|descriptor| descriptor == "2"), "{others}");
        let launcher = launcher();
        for _ in 0..2 {
            assert_eq!(printed_by(&launcher, list).await, others);
        }
    }

    #[tokio::test]
    async fn arguments_environment_and_folder_arrive_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let odd = OsString::from_vec(b"\xff =\n\xfe".to_vec());
        let mut order = shell(r#"printf '%s|%s|%s|%s|' "$1" "$2" "$ODD" "${HOME-none}"; pwd"#);
        order.arguments.extend(["name".into(), odd.clone(), OsString::new()]);
        order.environment = vec![("ODD".into(), Some(odd)), ("HOME".into(), None)];
        order.directory = Some(folder.path().to_owned());
        let output = play(&launcher(), &order).await.unwrap().output;
        let expected = b"\xff =\n\xfe||\xff =\n\xfe|none|";
        let place = format!("{}\n", folder.path().canonicalize().unwrap().display());
        assert_eq!(output, [&expected[..], place.as_bytes()].concat());
    }

    #[tokio::test]
    async fn input_is_read_to_its_end() {
        let deadline = Instant::now() + Duration::from_secs(600);
        let finished = run(&launcher(), &shell("wc -c"), &[b'x'; 300_000], deadline).await.unwrap();
        assert_eq!(String::from_utf8(finished.output).unwrap().trim(), "300000");
    }

    #[tokio::test]
    async fn a_program_that_cannot_be_started_is_refused_as_without_a_supervisor() {
        let supervised = launcher();
        let nowhere = Order { program: "/no/such/agent".into(), ..Order::default() };
        let zero = Order { arguments: vec!["a\0b".into()], ..shell("") };
        for order in [nowhere, zero] {
            let refused = play(&supervised, &order).await.unwrap_err().to_string();
            assert!(refused.starts_with("cannot be run as /"), "{refused}");
            assert_eq!(refused, play(&Launcher::Direct, &order).await.unwrap_err().to_string());
        }
        assert_eq!(printed_by(&supervised, "echo next").await, "next\n");
    }

    #[tokio::test]
    async fn an_agent_is_killed_at_its_deadline_and_the_next_has_another_supervisor() {
        let launcher = launcher();
        let finished = run(&launcher, &shell("setsid sleep 600 & sleep 600"), b"", Instant::now()).await.unwrap();
        assert_eq!(finished.ended_by, EndedBy::Deadline);
        assert_eq!(finished.status.code(), None);
        assert_eq!(printed_by(&launcher, "echo next").await, "next\n");
    }

    /// An agent that has stopped its supervisor, and holds its output open for as long as it lives.
    async fn stopping() -> Started {
        let script = "kill -STOP $PPID; echo stopped; sleep 600";
        let mut started = launcher().start(&shell(script), Stdin::Empty).await.unwrap();
        let mut output = [0; 8];
        started.stdout.read_exact(&mut output).await.unwrap();
        assert_eq!(&output, b"stopped\n");
        started
    }

    #[tokio::test]
    async fn an_agent_that_stops_its_supervisor_is_killed_all_the_same() {
        let mut killed = stopping().await;
        killed.process.kill().await.unwrap();
        assert_eq!(killed.stdout.read(&mut [0]).await.unwrap(), 0);
        let Started { mut stdout, process, .. } = stopping().await;
        drop(process);
        assert_eq!(stdout.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn without_a_supervisor_no_agent_is_run() {
        let refused = play(&Launcher::new(&["/no/such/supervisor".into()]), &shell("")).await.unwrap_err();
        assert!(matches!(refused, ProcessError::NoSupervisor(_)), "{refused}");
    }
}
