//! The first step inside of a sandbox: takes every right away, looks whether that has worked, and starts the program.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Access, FileType, access, fchown, fstat};
use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::forwarder::forward_from;
use super::words::{EndpointInside, Restrictions, START, SandboxPartError, from_word};
use crate::sandbox::terms::INSIDE;

impl Restrictions {
    /// Takes them from this process, for good.
    fn apply(&self) -> Result<(), SandboxPartError> {
        let failed = |what| move |error: Errno| SandboxPartError::Restrict { what, error: error.into() };
        if let Some(user) = self.user {
            hand_over_streams(user).map_err(|error| SandboxPartError::Restrict { what: "hand streams over", error })?;
            for capability in CapabilitySet::all().iter() {
                match remove_capability_from_bounding_set(capability) {
                    // This kernel has no such capability.
                    Err(Errno::INVAL) | Ok(()) => {}
                    Err(error) => return Err(failed("give up capabilities for good")(error)),
                }
            }
            let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
            set_thread_groups(&[]).map_err(failed("leave root's groups"))?;
            set_thread_res_gid(gid, gid, gid).map_err(failed("become an unprivileged group"))?;
            set_thread_res_uid(uid, uid, uid).map_err(failed("become an unprivileged user"))?;
        }
        clear_ambient_capability_set().map_err(failed("give up capabilities"))?;
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none).map_err(failed("give up capabilities"))?;
        set_no_new_privs(true).map_err(failed("keep programs from gaining rights"))?;
        let bounds = [
            (Resource::Core, Some(0)),
            (Resource::Fsize, self.file_bytes),
            // This program's own allocator takes more for itself than some agents may.
            (Resource::Data, self.data_bytes.filter(|_| self.endpoint.is_none())),
            (Resource::Nproc, self.processes),
        ];
        for (resource, bound) in bounds {
            let Some(bound) = bound else { continue };
            let known = rustix::process::getrlimit(resource).maximum;
            let bound = Some(known.map_or(bound, |known| known.min(bound)));
            setrlimit(resource, Rlimit { current: bound, maximum: bound }).map_err(failed("set a limit"))?;
        }
        Ok(())
    }
}

/// Gives the pipes of the standard streams to a user, so that `/dev/stderr` opens. Files and devices stay whose they are.
fn hand_over_streams(user: u32) -> io::Result<()> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    for stream in [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()] {
        if FileType::from_raw_mode(fstat(stream)?.st_mode) == FileType::Fifo {
            fchown(stream, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))?;
        }
    }
    Ok(())
}

/// Starts a program as `RESTRICTIONS [PROGRAM [ARGUMENT...]]` says; without one, only looks whether the sandbox holds.
///
/// # Errors
/// If it does not hold, or the program cannot be started.
pub(super) fn start(words: &[OsString]) -> Result<u8, SandboxPartError> {
    let [restrictions, words @ ..] = words else { return Err(SandboxPartError::Usage) };
    let restrictions: Restrictions = from_word(restrictions)?;
    restrictions.apply()?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    if let Some(why) = opening_in_status(&status, restrictions.is_filtered).or_else(opening_in_files) {
        return Err(SandboxPartError::Open(why));
    }
    let [program, arguments @ ..] = words else { return Ok(0) };
    if let Some(directory) = &restrictions.directory {
        // Only whoever runs here has a right to it; bwrap has not.
        std::env::set_current_dir(directory)
            .map_err(|error| SandboxPartError::Directory { path: directory.clone(), error })?;
    }
    match restrictions.endpoint.clone() {
        // What is bounded is the program, by this one once more, and not what forwards for it.
        Some(EndpointInside { socket, port }) if restrictions.data_bytes.is_some() => {
            let bounded = Restrictions { user: None, endpoint: None, directory: None, ..restrictions };
            let words = [START.into(), bounded.to_word()].into_iter().chain(words.iter().cloned());
            let own = Path::new(INSIDE).join("fulgurite");
            Ok(forward_from(&socket, port, own.as_os_str(), &words.collect::<Vec<_>>())?)
        }
        Some(EndpointInside { socket, port }) => Ok(forward_from(&socket, port, program, arguments)?),
        None => {
            let error = Command::new(program).args(arguments).exec();
            Err(SandboxPartError::Start { program: program.into(), error })
        }
    }
}

/// What a process could still do, by its `/proc/self/status`.
fn opening_in_status(status: &str, is_filtered: bool) -> Option<String> {
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        match value(set) {
            Some(bits) if bits.bytes().all(|bit| bit == b'0') => {}
            bits => return Some(format!("capabilities are left ({set} {})", bits.unwrap_or("unknown"))),
        }
    }
    let users = value("Uid").unwrap_or("unknown");
    if users.split_whitespace().any(|user| user.parse().ok().is_none_or(|user: u32| user == 0)) {
        return Some(format!("its user is root (Uid {users})"));
    }
    if value("NoNewPrivs") != Some("1") {
        return Some("programs that are set-user-id gain rights".to_owned());
    }
    (is_filtered && value("Seccomp") != Some("2")).then(|| "system calls are not filtered".to_owned())
}

/// What a process could still write of the machine's.
fn opening_in_files() -> Option<String> {
    const CLOSED: [&str; 6] =
        ["/", "/dev", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/usr", "/etc/passwd"];
    let open = CLOSED.into_iter().find(|path| access(*path, Access::WRITE_OK).is_ok())?;
    Some(format!("{open} can be written to"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDS: &str = "Name:\tx\nUid:\t65534\t65534\t65534\t65534\nNoNewPrivs:\t1\nSeccomp:\t2\n\
        CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
        CapBnd:\t000001fffeffffff\nCapAmb:\t0000000000000000\n";

    #[test]
    fn a_sandbox_whose_programs_keep_a_right_is_told_from_one_that_holds() {
        assert_eq!(opening_in_status(HOLDS, true), None);
        for (kept, lost) in [
            ("CapEff:\t0000000000000000", "CapEff:\t0000000000200000"),
            ("CapPrm:\t0000000000000000", "CapPrm:\t0000000000000080"),
            ("Uid:\t65534\t65534", "Uid:\t65534\t0"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ("Seccomp:\t2", "Seccomp:\t0"),
            ("CapAmb", "Other"),
        ] {
            assert!(HOLDS.contains(kept));
            assert!(opening_in_status(&HOLDS.replace(kept, lost), true).is_some(), "{lost}");
        }
        assert_eq!(opening_in_status(&HOLDS.replace("Seccomp:\t2", "Seccomp:\t0"), false), None);
    }
}
