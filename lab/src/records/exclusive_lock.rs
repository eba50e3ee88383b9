//! Locks on what one process at a time may have: a store's file, a run's directory. The system lets go of a lock when its
//! process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::time;

/// What to do where a store is in use.
const SHARED: &str = "; queries read it all the while, and several servers may share a PostgreSQL database (--store)";

/// A lock that this process holds, until it is dropped.
#[derive(Debug)]
pub struct ExclusiveLock {
    path: PathBuf,
    /// What the lock is on, for as long as it is open.
    _file: File,
}

impl ExclusiveLock {
    /// Takes the lock in the file `path`, which is made. `what` is locked, by `command`.
    ///
    /// # Errors
    /// Names who holds it, and then `hint`.
    pub fn take(path: PathBuf, what: &str, command: &str, hint: &str) -> Result<Self> {
        Self::take_or(path, what, command, |_| hint.to_owned())
    }

    /// The same; what to do may depend on the number of the process that holds it.
    fn take_or(path: PathBuf, what: &str, command: &str, hint: impl Fn(Option<u64>) -> String) -> Result<Self> {
        let cannot = || format!("cannot lock {what} by {}", path.display());
        loop {
            let mut file = open(&path).with_context(cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let Holder { text, pid } = holder(&mut file);
                    bail!("{what} is in use by {text}{}", hint(pid))
                }
                Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
            }
            // Whoever held it before may have removed the file meanwhile, and another may have made it anew.
            if is_at(&file, &path) {
                let holder = json!({
                    "pid": std::process::id(), "host": host(), "command": command, "since": time::now(),
                });
                file.set_len(0).and_then(|()| writeln!(file, "{holder}")).with_context(cannot)?;
                return Ok(Self { path, _file: file });
            }
        }
    }

    /// Takes the lock on a SQLite database, if that is what a store's URL names: servers share a PostgreSQL database.
    pub fn of_store(url: &str, command: &str) -> Result<Option<Self>> {
        let path = match url.split_once("://") {
            Some(("sqlite", path)) => path,
            Some(_) => return Ok(None),
            None => url,
        };
        // One file has one lock, whatever links lead to it.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
        if path.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
            // There is nothing to lock, and SQLite says so.
            return Ok(None);
        }
        let mut lock = path.clone().into_os_string();
        lock.push(".lock");
        let what = format!("the store {}", path.display());
        Self::take(lock.into(), &what, command, SHARED).map(Some)
    }

    /// Takes the lock on a run's directory.
    pub fn of_run(directory: &Path) -> Result<Self> {
        let what = format!("the run in {}", directory.display());
        Self::take_or(directory.join(RUN_LOCK), &what, "fulgurite train", end_it)
    }
}

/// What to do where a process is at a run.
fn end_it(pid: Option<u64>) -> String {
    let kill = pid.map(|pid| format!(" (`kill {pid}`)")).unwrap_or_default();
    format!(
        ": it goes on by itself; to go on with it here, end that process first{kill}, and for a new run name another directory"
    )
}

impl ExclusiveLock {
    /// Takes the lock on the directory of an evaluation.
    pub fn of_evaluation(directory: &Path) -> Result<Self> {
        let what = format!("the evaluation in {}", directory.display());
        Self::take(directory.join(RUN_LOCK), &what, "fulgurite eval", "")
    }
}

/// Name of the file in a run's directory, or an evaluation's, that is locked while a process is at it.
const RUN_LOCK: &str = "run.lock";

/// Whether a process is at the run in a directory.
pub fn is_run_held(directory: &Path) -> bool {
    is_held(&directory.join(RUN_LOCK))
}

/// Whether somebody holds the lock in the file `path`.
fn is_held(path: &Path) -> bool {
    // A file that is not there, or cannot be opened, is nobody's.
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

impl Drop for ExclusiveLock {
    fn drop(&mut self) {
        // What is left if it cannot be removed locks nothing.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Whether a file is the one that a path leads to.
fn is_at(file: &File, path: &Path) -> bool {
    let same = || Ok::<_, std::io::Error>((file.metadata()?, std::fs::metadata(path)?));
    same().is_ok_and(|(one, other)| (one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// This machine's name.
fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

/// Who holds a lock.
struct Holder {
    text: String,
    pid: Option<u64>,
}

/// Who holds a lock, as its file says.
fn holder(file: &mut File) -> Holder {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let stated: Value = read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
    let (pid, command, since) = (stated["pid"].as_u64(), stated["command"].as_str(), stated["since"].as_f64());
    let text = match (pid, command, since) {
        (Some(pid), Some(command), Some(since)) => {
            // Of a disk that several machines see.
            let elsewhere = stated["host"].as_str().filter(|there| host().is_some_and(|here| here != *there));
            let elsewhere = elsewhere.map(|host| format!(" on {host}")).unwrap_or_default();
            format!("`{command}` (process {pid}{elsewhere}, since {} UTC)", time::text(since))
        }
        // It has the lock, and is about to say who it is.
        _ => "another process".to_owned(),
    };
    Holder { text, pid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one_and_names_its_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.lock");
        let lock = ExclusiveLock::take(path.clone(), "it", "fulgurite serve", "").unwrap();
        let refused = ExclusiveLock::take(path.clone(), "it", "fulgurite train", "").unwrap_err().to_string();
        let words = format!("it is in use by `fulgurite serve` (process {}, since ", std::process::id());
        assert!(refused.starts_with(&words), "{refused}");
        assert!(is_held(&path));
        // A process of another machine, whose number says nothing here.
        let elsewhere = json!({ "pid": 7, "host": "another-machine", "command": "fulgurite train", "since": 0.0 });
        std::fs::write(&path, elsewhere.to_string()).unwrap();
        let refused = ExclusiveLock::take(path.clone(), "it", "fulgurite train", "").unwrap_err().to_string();
        assert!(refused.contains("(process 7 on another-machine, since "), "{refused}");
        drop(lock);
        assert!(!path.exists() && !is_held(&path));
        // A file that nobody holds locks nothing: its process was killed.
        std::fs::write(&path, "{}").unwrap();
        ExclusiveLock::take(path, "it", "fulgurite serve", "").unwrap();
    }

    #[test]
    fn a_run_in_use_says_which_process_to_end() {
        let directory = tempfile::tempdir().unwrap();
        let _lock = ExclusiveLock::of_run(directory.path()).unwrap();
        let refused = ExclusiveLock::of_run(directory.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("end that process first (`kill {}`)", std::process::id())), "{refused}");
    }

    #[test]
    fn one_file_has_one_lock_whatever_leads_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("store.db");
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, directory.path().join("link.db")).unwrap();
        let url = |name: &str| format!("sqlite://{}", directory.path().join(name).display());
        let _lock = ExclusiveLock::of_store(&url("store.db"), "fulgurite serve").unwrap().unwrap();
        assert!(ExclusiveLock::of_store(&url("link.db"), "fulgurite serve").is_err());
        assert!(ExclusiveLock::of_store("postgres://host/db", "fulgurite serve").unwrap().is_none());
    }
}
