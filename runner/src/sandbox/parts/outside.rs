//! The last step outside of a sandbox: joins what bounds it, lets go of what others have left open, and becomes `bwrap`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use super::seccomp;
use super::words::{SandboxPartError, Surroundings, from_word};

/// Becomes the program that makes a sandbox, as `SURROUNDINGS PROGRAM [ARGUMENT...]` says.
///
/// # Errors
/// If it cannot; it does not return otherwise.
pub(super) fn enter(words: &[OsString]) -> Result<u8, SandboxPartError> {
    let [surroundings, program, arguments @ ..] = words else { return Err(SandboxPartError::Usage) };
    let Surroundings { cgroups, is_filtered } = from_word(surroundings)?;
    keep_streams_only()?;
    for cgroup in cgroups {
        let procs = cgroup.join("cgroup.procs");
        // 0 is whoever writes.
        std::fs::write(&procs, "0").map_err(|error| SandboxPartError::Cgroup { path: procs, error })?;
    }
    let mut command = Command::new(program);
    let filter = is_filtered.then(seccomp::filter).flatten().map(|filter| in_memory(&filter)).transpose()?;
    if let Some(filter) = &filter {
        command.arg("--seccomp").arg(filter.as_raw_fd().to_string());
    }
    let error = command.args(arguments).exec();
    Err(SandboxPartError::Start { program: program.into(), error })
}

/// A file in memory that the next program finds under the same number.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("filter", MemfdFlags::empty())?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Has the next program find nothing open but its standard streams: whoever started the runner may have left files open.
#[expect(unsafe_code, reason = "descriptors that others have left open have no owner here")]
fn keep_streams_only() -> io::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let open: Vec<RawFd> = open.filter(|descriptor| *descriptor > 2).collect();
    for descriptor in open {
        // SAFETY: It was open a moment ago, nothing else runs in this process, and it is borrowed for this call only.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        match fcntl_setfd(descriptor, FdFlags::CLOEXEC) {
            // The one by which they were listed.
            Err(rustix::io::Errno::BADF) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
