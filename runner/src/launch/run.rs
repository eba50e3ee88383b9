//! Runs one process in a process group of its own, keeps the end of what it prints, and leaves nothing of it behind.

use crate::launch::launcher::{Launcher, Process, Started, Stdin};
use crate::order::Order;
use crate::process::end::ProcessError;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Sender;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// How much of a program's standard output is kept: its end, where the answer is.
const KEPT_OUTPUT: usize = 1 << 20;

/// How much of what a program writes to its standard error is kept.
pub(crate) const KEPT_ERRORS: usize = 2 << 10;

/// How long a pipe is still read after the process has ended and its group was killed. Only a process that has left the
/// group can hold a pipe open for longer, and nobody waits for what that prints.
pub(crate) const PIPE_GRACE: Duration = Duration::from_secs(2);

/// What ended a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// It ended by itself.
    Itself,
    /// It was killed at its deadline.
    Deadline,
    /// It was killed for this reason.
    Stopped(String),
}

/// How a process ended and what it said.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// What ended it.
    pub ended_by: EndedBy,
    /// The last MiB of its standard output.
    pub output: Vec<u8>,
    /// The last 2 KiB of its standard error.
    pub errors: Vec<u8>,
}

/// Runs a program with `input` on its stdin until it ends or, at `deadline`, is killed; then kills what it leaves behind, as
/// far as `launcher` reaches. Dropping the future kills all that at once.
///
/// # Errors
///
/// Fails if the program cannot be started, its pipes fail or its supervisor dies. How it ends is no error here.
pub(crate) async fn run(
    launcher: &Launcher,
    order: &Order,
    input: &[u8],
    deadline: Instant,
) -> Result<Finished, ProcessError> {
    run_unless(launcher, order, input, deadline, pending()).await
}

/// The same, where it is killed as well once there is a reason to `stop` it.
pub(crate) async fn run_unless(
    launcher: &Launcher,
    order: &Order,
    input: &[u8],
    deadline: Instant,
    stop: impl Future<Output = String>,
) -> Result<Finished, ProcessError> {
    let stdin = if input.is_empty() { Stdin::Empty } else { Stdin::Piped };
    let Started { stdin, stdout, stderr, mut process } = launcher.start(order, stdin).await?;
    let (mut output, mut errors) = (Tail::new(KEPT_OUTPUT), Tail::new(KEPT_ERRORS));

    let ended = Notify::new();
    let wait = async {
        let outcome = end(&mut process, deadline, stop).await;
        ended.notify_one();
        outcome
    };
    let pipes = async {
        let talked = tokio::try_join!(feed(stdin, input), output.read(stdout), errors.read(stderr));
        talked.map(|_| ()).map_err(|error| ProcessError::cannot_run(&order.program, error))
    };
    let ((status, ended_by), ()) = tokio::try_join!(wait, until_silent(pipes, &ended))?;
    Ok(Finished { status, ended_by, output: output.into_bytes(), errors: errors.into_bytes() })
}

/// Waits for the process's end, or brings it about at the deadline or once there is a reason to; says what it was.
async fn end(
    process: &mut Process,
    deadline: Instant,
    stop: impl Future<Output = String>,
) -> Result<(ExitStatus, EndedBy), ProcessError> {
    let ended_by = tokio::select! {
        biased;
        status = process.wait() => return Ok((status?, EndedBy::Itself)),
        () = sleep_until(deadline) => EndedBy::Deadline,
        reason = stop => EndedBy::Stopped(reason),
    };
    Ok((process.kill().await?, ended_by))
}

/// Reads and writes a process's pipes to their end, or for a while after it has ended.
async fn until_silent<E>(pipes: impl Future<Output = Result<(), E>>, ended: &Notify) -> Result<(), E> {
    let too_long = async {
        ended.notified().await;
        sleep(PIPE_GRACE).await;
    };
    tokio::select! {
        talked = pipes => talked,
        () = too_long => Ok(()),
    }
}

/// Writes `input` to the process. One that ends, or closes its stdin, without having read all of it does no wrong.
async fn feed(pipe: Option<Sender>, input: &[u8]) -> io::Result<()> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    match pipe.write_all(input).await {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// The last bytes of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    kept: usize,
}

impl Tail {
    /// Keeps the last `kept` bytes.
    pub(crate) fn new(kept: usize) -> Self {
        Self { bytes: Vec::new(), kept }
    }

    /// Reads `pipe` to its end.
    async fn read(&mut self, mut pipe: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut chunk = [0; 8 << 10];
        loop {
            let read = pipe.read(&mut chunk).await?;
            if read == 0 {
                return Ok(());
            }
            self.push(&chunk[..read]);
        }
    }

    /// Cuts only when twice too long, so that every byte is moved once at most.
    pub(crate) fn push(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
        if self.bytes.len() > 2 * self.kept {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let surplus = self.bytes.len().saturating_sub(self.kept);
        self.bytes.drain(..surplus);
    }

    /// What is kept.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.cut();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Path, PathBuf};
    use std::pin::pin;
    use tempfile::TempDir;

    /// Far enough away never to matter.
    const LONG: Duration = Duration::from_secs(600);

    async fn shell(script: &str, input: &[u8], time: Duration) -> Finished {
        let arguments = ["-c", script].map(Into::into).to_vec();
        let order = Order { program: "/bin/sh".into(), arguments, ..Order::default() };
        run(&Launcher::Direct, &order, input, Instant::now() + time).await.unwrap()
    }

    /// A named pipe: whoever reads it meets its end exactly when the last process that can write to it is gone.
    fn named_pipe() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alive");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        (folder, path)
    }

    async fn open(path: &Path) -> tokio::fs::File {
        tokio::fs::File::open(path).await.unwrap()
    }

    async fn read_to_end(mut pipe: tokio::fs::File) -> String {
        let mut text = String::new();
        pipe.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn keeps_what_was_said_and_how_it_ended() {
        let finished = shell("echo out; echo err >&2; exit 3", b"", LONG).await;
        assert_eq!((finished.output.as_slice(), finished.errors.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(finished.status.code(), Some(3));
    }

    #[tokio::test]
    async fn input_is_read_to_its_end_or_not_at_all() {
        let input = vec![b'x'; 300_000];
        let counted = shell("wc -c", &input, LONG).await;
        assert_eq!(String::from_utf8(counted.output).unwrap().trim(), "300000");
        let ignored = shell("exit 0", &input, LONG).await;
        assert!(ignored.status.success());
        let empty = shell("wc -c", b"", LONG).await;
        assert_eq!(String::from_utf8(empty.output).unwrap().trim(), "0");
    }

    #[tokio::test]
    async fn keeps_the_end_of_too_much_output() {
        let finished = shell("yes 1234567 | head -c 5000000; echo; echo the end", b"", LONG).await;
        assert_eq!(finished.output.len(), KEPT_OUTPUT);
        assert!(finished.output.ends_with(b"\nthe end\n"));
    }

    #[tokio::test]
    async fn leaves_nothing_behind_when_the_process_ends() {
        let (_folder, path) = named_pipe();
        let script = format!("exec 3>{}; (sleep 600; echo survived >&3) & echo done", path.display());
        let (finished, left) = tokio::join!(shell(&script, b"", LONG), async { read_to_end(open(&path).await).await });
        assert_eq!(finished.output, b"done\n");
        assert_eq!(left, "");
    }

    #[tokio::test]
    async fn is_killed_at_its_deadline() {
        let finished = shell("sleep 600", b"", Duration::ZERO).await;
        assert_eq!(finished.ended_by, EndedBy::Deadline);
        assert_eq!(finished.status.code(), None);
    }

    #[tokio::test]
    async fn a_dropped_run_kills_grandchildren_too() {
        let (_folder, path) = named_pipe();
        let script = format!("exec 3>{}; (sleep 600; echo survived >&3) & wait", path.display());
        let pipe = {
            let mut running = pin!(shell(&script, b"", LONG));
            tokio::select! {
                finished = &mut running => panic!("ended by itself: {finished:?}"),
                pipe = open(&path) => pipe,
            }
        };
        assert_eq!(read_to_end(pipe).await, "");
    }

    proptest! {
        #[test]
        fn a_tail_is_the_end_of_all_that_was_pushed(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            kept in 1..30_usize,
        ) {
            let mut tail = Tail::new(kept);
            chunks.iter().for_each(|chunk| tail.push(chunk));
            let all = chunks.concat();
            prop_assert_eq!(tail.into_bytes(), &all[all.len().saturating_sub(kept)..]);
        }
    }
}
