//! Who this process is, and what shows whether another one has ended.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_types::RunOwner;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

/// Whether a process has the store of its run to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoreAccess {
    /// It holds the lock on the store's file.
    Exclusive,
    /// Other processes may write to it.
    Shared,
}

impl StoreAccess {
    /// That of a process which holds this lock on its store, if there is one.
    pub(crate) fn of_lock(lock: Option<&ExclusiveLock>) -> Self {
        if lock.is_some() { Self::Exclusive } else { Self::Shared }
    }
}

/// What a process leaves where other processes of its machine can see whether it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OwnerTraces {
    /// The start of the machine's kernel. Others have other numbers of processes and files.
    boot: Option<String>,
    /// The numbering of processes that `pid` is of: containers have their own.
    pid_namespace: Option<String>,
    /// When the process began, as its kernel counts: another process may have its number later.
    began: Option<u64>,
    /// Device and inode of the run's directory, which the process has locked.
    directory: Option<(u64, u64)>,
    store: StoreAccess,
}

/// This process, which has locked a run's directory.
pub(crate) fn this_process(directory: &Path, store: StoreAccess) -> RunOwner {
    let pid = std::process::id();
    let traces = OwnerTraces::of_this_process(directory, store);
    RunOwner {
        owner_id: Uuid::now_v7().to_string(),
        host: read("/proc/sys/kernel/hostname").unwrap_or_else(|| "an unknown machine".to_owned()),
        pid: pid.into(),
        directory: directory.display().to_string(),
        traces: json!(traces),
    }
}

/// Whether another process is known to have ended, as far as this one can see. Where it cannot, the other may be alive.
pub(crate) fn has_ended(other: &RunOwner, this: &RunOwner) -> bool {
    let read = |owner: &RunOwner| OwnerTraces::deserialize(&owner.traces).ok();
    let Some((there, here)) = read(other).zip(read(this)) else { return false };
    if there.store == StoreAccess::Exclusive && here.store == StoreAccess::Exclusive {
        // Both are locks on the file that says so, or it is a copy, in which the other process has no part.
        return true;
    }
    if there.boot.is_none() || there.boot != here.boot {
        return false;
    }
    // The lock on the directory is this process's now.
    let is_same_directory = there.directory.is_some() && there.directory == here.directory;
    let is_same_numbering = there.pid_namespace.is_some() && there.pid_namespace == here.pid_namespace;
    is_same_directory || is_same_numbering && !is_running(other.pid, there.began)
}

impl OwnerTraces {
    fn of_this_process(directory: &Path, store: StoreAccess) -> Self {
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok();
        let directory = std::fs::metadata(directory).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        Self {
            boot: read("/proc/sys/kernel/random/boot_id"),
            pid_namespace: namespace.map(|namespace| namespace.display().to_string()),
            began: process_state(std::process::id().into()).map(|state| state.began),
            directory,
            store,
        }
    }
}

/// Whether the process that began then is still there; one that cannot be looked at is.
fn is_running(pid: u64, began: Option<u64>) -> bool {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    if test_kill_process(number) == Err(rustix::io::Errno::SRCH) {
        return false;
    }
    process_state(pid).is_none_or(|state| !state.has_exited && (began.is_none() || began == Some(state.began)))
}

struct ProcessState {
    began: u64,
    /// Only its parent has not heard of it yet.
    has_exited: bool,
}

/// What the kernel tells of a process (`proc_pid_stat(5)`): fields 3 and 22, of which the first is behind the name.
fn process_state(pid: u64) -> Option<ProcessState> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(ProcessState { has_exited: matches!(*fields.first()?, "Z" | "X"), began: fields.get(19)?.parse().ok()? })
}

fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_traces(owner: &RunOwner, change: impl FnOnce(&mut OwnerTraces)) -> RunOwner {
        let mut traces = OwnerTraces::deserialize(&owner.traces).unwrap();
        change(&mut traces);
        RunOwner { traces: json!(traces), ..owner.clone() }
    }

    #[test]
    fn a_process_has_ended_only_where_that_can_be_seen() {
        let (directory, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let there = this_process(directory.path(), StoreAccess::Shared);
        let here = this_process(copy.path(), StoreAccess::Shared);
        assert!(!has_ended(&there, &here), "it runs");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let ended = RunOwner { pid: child.id().into(), ..there.clone() };
        assert!(has_ended(&ended, &here));
        let with_its_number = with_traces(&there, |traces| traces.began = Some(0));
        assert!(has_ended(&with_its_number, &here));
        // Another machine, and another container of this one.
        let elsewhere = with_traces(&ended, |traces| traces.boot = Some("other".to_owned()));
        assert!(!has_ended(&elsewhere, &here));
        let in_container = with_traces(&ended, |traces| traces.pid_namespace = Some("other".to_owned()));
        assert!(!has_ended(&in_container, &here));
        // What this process has locked, the other had locked.
        assert!(has_ended(&in_container, &this_process(directory.path(), StoreAccess::Shared)));
        // A store's file that is locked is nobody else's; one that servers share may be.
        let own = with_traces(&there, |traces| traces.store = StoreAccess::Exclusive);
        assert!(!has_ended(&own, &here) && has_ended(&own, &this_process(copy.path(), StoreAccess::Exclusive)));
        assert!(!has_ended(&RunOwner::default(), &here), "nothing is known of it");
    }
}
