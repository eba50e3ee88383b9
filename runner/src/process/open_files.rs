//! How many files a runner may have open: as many as the machine lets it, while its programs keep the limit that it was started
//! with.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that this process was started with, once it has raised its own.
static STARTED_WITH: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's own limit of open files as far as it may. Programs that runners start keep the limit of before.
pub fn raise_open_files() {
    let started_with = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: started_with.maximum, maximum: started_with.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => drop(STARTED_WITH.set(started_with)),
        Err(error) => tracing::debug!(%error, "the limit of open files stays as it is"),
    }
}

/// Gives a child the limit that this process was started with. Only Linux lets one process set another's: elsewhere the child
/// keeps what it has inherited.
pub(crate) fn lower_open_files_of(child: Option<u32>) {
    #[cfg(not(target_os = "linux"))]
    let _ = child;
    #[cfg(target_os = "linux")]
    lower(child);
}

#[cfg(target_os = "linux")]
fn lower(child: Option<u32>) {
    use rustix::process::{Pid, prlimit};

    let child = child.and_then(|id| Pid::from_raw(id.try_into().ok()?));
    if let (Some(child), Some(started_with)) = (child, STARTED_WITH.get()) {
        // It may have ended by itself meanwhile.
        let _ended = prlimit(Some(child), Resource::Nofile, *started_with);
    }
}

/// Connections that each of so many sandboxes may have at a time, if all of them together are to leave half of the files that
/// this process may open. Each connection takes two: its own, and one to the server.
pub(crate) fn connections_for_each(sandboxes: usize) -> usize {
    let files =
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    share_of(files, sandboxes)
}

/// Connections of a sandbox, at least and at most.
const CONNECTIONS: (usize, usize) = (4, 128);

fn share_of(files: usize, sandboxes: usize) -> usize {
    (files / sandboxes.max(1) / 4).clamp(CONNECTIONS.0, CONNECTIONS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandboxes_that_open_all_that_they_may_leave_a_runner_half_of_its_files() {
        for (files, sandboxes) in [(1024, 8), (1024, 2), (4096, 64), (524_288, 64), (usize::MAX, 1)] {
            let each = share_of(files, sandboxes);
            assert!((4..=128).contains(&each) && 2 * each * sandboxes <= files / 2, "{files} {sandboxes}: {each}");
        }
        assert_eq!((share_of(64, 8), share_of(1024, 8), share_of(1024, 0)), (4, 32, 128));
    }
}
