//! The process that computes, for as long as it is needed.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::frames::{Frame, PROTOCOL, read_frame, write_frame};
use crate::BackendError;

/// Lines of its standard error that are kept, for when it dies.
const KEPT_LINES: usize = 12;
/// How long a process whose socket is closed may take to end.
const LONGEST_END: Duration = Duration::from_secs(5);
/// Ends a process that takes too much memory, as well as one that somebody kills.
const SIGKILL: i32 = 9;

/// A process that answers calls over its standard input, which is one end of a socket pair. It ends when the other end does,
/// however this process ends.
#[derive(Debug)]
pub(super) struct LearnerChild {
    python: PathBuf,
    process: Child,
    stream: UnixStream,
    last_lines: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl LearnerChild {
    /// Starts `python -m fulgurite.learner` and reads what it says first.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] if there is no such interpreter, package, or version of the package.
    pub(super) fn start(python: &Path) -> Result<Self, BackendError> {
        let cannot_start = |error: std::io::Error| BackendError::Configuration {
            message: format!("cannot start {} ([torch] python): {error}", python.display()),
        };
        let (stream, theirs) = UnixStream::pair().map_err(cannot_start)?;
        let mut command = Command::new(python);
        command.args(["-m", "fulgurite.learner"]).stdin(OwnedFd::from(theirs));
        // An interrupt of the terminal is for this process, which ends its child when it is done with it.
        command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut process = command.spawn().map_err(cannot_start)?;
        // The command holds the child's end, which must be open in the child alone.
        drop(command);
        let last_lines = Arc::default();
        let reader = process.stderr.take().map(|stderr| keep_lines(stderr, Arc::clone(&last_lines))).transpose();
        let reader = reader.map_err(cannot_start)?;
        let mut child = Self { python: python.to_owned(), process, stream, last_lines, reader };
        let hello = read_frame(&mut child.stream).map_err(|_| child.not_started())?;
        match hello.header["protocol"].as_u64() {
            Some(PROTOCOL) => Ok(child),
            other => Err(child.other_version(other)),
        }
    }

    /// Sends a call and waits for the reply.
    pub(super) fn call(&mut self, header: &Value, body: &[u8]) -> Result<Frame, BackendError> {
        let sent = write_frame(&mut self.stream, header, body);
        let reply = sent.and_then(|()| read_frame(&mut self.stream)).map_err(|_| self.ended(header))?;
        match reply.header.get("error") {
            Some(error) => Err(error_of(error)),
            None => Ok(reply),
        }
    }

    /// The connection, to end the process by.
    pub(super) fn connection(&self) -> Result<UnixStream, BackendError> {
        let failed = |error: std::io::Error| BackendError::Internal { message: error.to_string() };
        self.stream.try_clone().map_err(failed)
    }

    fn not_started(&mut self) -> BackendError {
        let ended = self.end();
        let (python, words) = (self.python.display(), self.last_words());
        let install = format!("help: {python} -m pip install 'fulgurite[torch]'");
        let message = match words.contains("No module named") {
            true => format!("{python} ([torch] python) has no package fulgurite.learner ({words}); {install}"),
            false => format!("{python} -m fulgurite.learner ({ended}) did not start: {words}"),
        };
        BackendError::Configuration { message }
    }

    fn other_version(&self, found: Option<u64>) -> BackendError {
        let found = found.map_or("none".to_owned(), |version| version.to_string());
        let (python, own) = (self.python.display(), env!("CARGO_PKG_VERSION"));
        let message = format!(
            "the package of {python} ([torch] python) speaks version {found} of the learner's protocol, and this program \
             {PROTOCOL}; help: {python} -m pip install 'fulgurite[torch]=={own}'"
        );
        BackendError::Configuration { message }
    }

    /// Error of a call whose process has ended.
    fn ended(&mut self, header: &Value) -> BackendError {
        let ended = self.end();
        let call = header["call"].as_str().unwrap_or_default();
        let words = self.last_words();
        let words = if words.is_empty() { String::new() } else { format!("; its last words: {words}") };
        let message = format!(
            "the torch learner ended ({ended}) in the midst of `{call}`{words}; the run goes on from its checkpoint by --resume"
        );
        BackendError::Unavailable { message }
    }

    /// Waits for the end, and brings it about where it does not come.
    fn end(&mut self) -> String {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let started = Instant::now();
        let status = loop {
            match self.process.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if started.elapsed() < LONGEST_END => std::thread::sleep(Duration::from_millis(10)),
                _ => {
                    let _ = self.process.kill();
                    break self.process.wait().ok();
                }
            }
        };
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        status.map_or("its end is not known".to_owned(), described)
    }

    fn last_words(&self) -> String {
        let lines = self.last_lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for LearnerChild {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn described(status: ExitStatus) -> String {
    match status.signal() {
        Some(SIGKILL) => {
            "killed by SIGKILL, as the system kills what takes too much memory: dmesg would say so".to_owned()
        }
        _ => status.to_string(),
    }
}

/// Logs what the process prints, and keeps the end of it.
fn keep_lines(
    stderr: impl Read + Send + 'static,
    kept: Arc<Mutex<VecDeque<String>>>,
) -> std::io::Result<JoinHandle<()>> {
    Builder::new().name("fulgurite-torch".into()).spawn(move || {
        let mut stderr = BufReader::new(stderr);
        let mut line = Vec::new();
        while stderr.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            tracing::debug!("torch learner: {text}");
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == KEPT_LINES {
                kept.pop_front();
            }
            kept.push_back(text);
            line.clear();
        }
    })
}

fn error_of(error: &Value) -> BackendError {
    let message = error["message"].as_str().unwrap_or("it does not say why").to_owned();
    match (error["kind"].as_str(), error["path"].as_str()) {
        (Some("invalid_request"), _) => BackendError::InvalidRequest { message },
        (Some("configuration"), _) => BackendError::Configuration { message },
        (Some("files"), Some(path)) => BackendError::Files { path: path.into(), message },
        _ => BackendError::Internal { message },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    /// An interpreter that does what a shell is told in its place.
    fn interpreter(directory: &Path, script: &str) -> PathBuf {
        let path = directory.join("python");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Words of a shell that write a frame without a body to the socket.
    fn frame(header: &str) -> String {
        format!(
            "printf '\\{:03o}\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000%s' '{header}' >&0",
            header.len()
        )
    }

    #[test]
    fn a_learner_that_cannot_be_started_says_what_to_do() {
        let home = tempfile::tempdir().unwrap();
        let error = |script: &str| LearnerChild::start(&interpreter(home.path(), script)).unwrap_err().to_string();
        let none = LearnerChild::start(&home.path().join("none")).unwrap_err().to_string();
        assert!(none.starts_with("cannot start ") && none.contains("[torch] python"), "{none}");
        let lacking = error("echo 'python: No module named fulgurite' >&2; exit 1");
        assert!(lacking.contains("-m pip install 'fulgurite[torch]'"), "{lacking}");
        let other = error(&frame("{\"protocol\": 7}"));
        assert!(other.contains("speaks version 7") && other.contains("and this program 1"), "{other}");
    }

    #[test]
    fn a_learner_that_dies_leaves_its_last_words() {
        let home = tempfile::tempdir().unwrap();
        let script = format!(
            "{}; echo 'Segmentation fault' >&2; head -c 4 <&0 >/dev/null; kill -9 $$",
            frame("{\"protocol\": 1}")
        );
        let mut child = LearnerChild::start(&interpreter(home.path(), &script)).unwrap();
        let error = child.call(&json!({ "call": "forward" }), &[]).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, BackendError::Unavailable { .. }), "{message}");
        for words in ["killed by SIGKILL", "in the midst of `forward`; its last words: Segmentation fault", "--resume"]
        {
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn a_refused_call_is_the_error_that_it_is() {
        let error = |kind: &str| error_of(&json!({ "kind": kind, "message": "m", "path": "p" }));
        assert!(matches!(error("invalid_request"), BackendError::InvalidRequest { .. }));
        assert!(matches!(error("configuration"), BackendError::Configuration { .. }));
        assert!(matches!(error("files"), BackendError::Files { path, .. } if path == Path::new("p")));
        assert!(matches!(error("internal"), BackendError::Internal { .. }));
    }
}
