//! The parent of an agent: a process of its own that ends every process which the agent leaves, wherever they have gone,
//! and outlives a runner that is killed.
//!
//! Its standard input is its leash. The runner sends how many bytes of input the program has, a line end and those bytes, and
//! then says nothing more: when the leash ends, because the runner has let go of it or is dead, everything is killed.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, wait};

/// Between two looks for processes that are still there.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// What a shell ends with if it cannot start a program, or if a signal ended it, to which the signal's number is added.
const CANNOT_START: i32 = 127;
const SIGNALLED: i32 = 128;

/// What the runner sends over the leash before it falls silent.
pub fn preamble(input: &[u8]) -> Vec<u8> {
    [format!("{}\n", input.len()).as_bytes(), input].concat()
}

/// Runs a program with the input that comes over standard input, and leaves no process of it behind. Gives the exit code
/// to end with. A signal that ended the program ends this process too.
///
/// On Linux all descendants are found, whatever group or session they are in; elsewhere those of the program's process group.
///
/// # Errors
///
/// Fails if standard input tells nothing that can be read, or the system no process.
pub fn supervise(program: &OsString, arguments: &[OsString]) -> io::Result<i32> {
    adopt_orphans()?;
    let mut leash = BufReader::new(io::stdin());
    let input = read_preamble(&mut leash)?;
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    let mut child = match Command::new(program).args(arguments).stdin(stdin).process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            writeln!(io::stderr(), "cannot be run as {}: {error}", program.display())?;
            return Ok(CANNOT_START);
        }
    };
    let group = Pid::from_child(&child);
    feed(&mut child, input);
    let is_cut = Arc::new(AtomicBool::new(false));
    watch(leash, group, Arc::clone(&is_cut));
    let status = wait_for(group)?;
    end_all(group);
    if is_cut.load(Ordering::Acquire) {
        die_of(Signal::KILL);
    }
    Ok(code_of(status))
}

/// Becomes the parent of every descendant whose own parent ends.
fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

fn read_preamble(leash: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = String::new();
    leash.read_line(&mut line)?;
    let length: usize = line.trim_end().parse().map_err(io::Error::other)?;
    let mut input = vec![0; length];
    leash.read_exact(&mut input)?;
    Ok(input)
}

/// Writes the program's input to it, on a thread of its own: a program may read it late or never.
fn feed(child: &mut Child, input: Vec<u8>) {
    if let Some(mut pipe) = child.stdin.take() {
        // A program that closes its input without having read all of it does no wrong.
        thread::spawn(move || drop(pipe.write_all(&input)));
    }
}

/// Kills everything once the leash ends, on a thread of its own, until this process has ended.
fn watch(mut leash: impl Read + Send + 'static, group: Pid, is_cut: Arc<AtomicBool>) {
    thread::spawn(move || {
        // Nothing more is said over it; an error is an end as well.
        let _ = io::copy(&mut leash, &mut io::sink());
        is_cut.store(true, Ordering::Release);
        loop {
            kill_descendants(group);
            thread::sleep(LOOK_AGAIN);
        }
    });
}

/// Waits until the program itself has ended, and takes leave of what ended before it.
fn wait_for(program: Pid) -> io::Result<ExitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills what is left until nothing is.
fn end_all(group: Pid) {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => {
                kill_descendants(group);
                thread::sleep(LOOK_AGAIN);
            }
            // There is no child, and so no descendant: orphans would be children.
            Err(_) => return kill_group(group),
        }
    }
}

fn kill_group(group: Pid) {
    // A group without members is what was wanted.
    let _ = kill_process_group(group, Signal::KILL);
}

fn kill_descendants(group: Pid) {
    kill_group(group);
    #[cfg(target_os = "linux")]
    for process in descendants::of(rustix::process::getpid()) {
        // It may have ended by itself meanwhile.
        let _ = kill_process(process, Signal::KILL);
    }
}

/// What a program's end is as an exit code. One that a signal ended ends this process by the same one, where that can be.
fn code_of(status: ExitStatus) -> i32 {
    let Some(number) = status.signal() else { return status.code().unwrap_or(SIGNALLED) };
    if let Some(signal) = Signal::from_named_raw(number) {
        die_of(signal);
    }
    SIGNALLED + number
}

/// Ends this process by a signal, unless that one is handled or ignored.
fn die_of(signal: Signal) {
    // Whatever comes of it, the caller goes on if it is still there.
    let _ = kill_process(rustix::process::getpid(), signal);
}

#[cfg(target_os = "linux")]
mod descendants {
    use std::collections::HashMap;
    use std::fs;

    use rustix::process::Pid;

    /// Every process below `ancestor`, as the system lists them now.
    pub fn of(ancestor: Pid) -> Vec<Pid> {
        let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for (process, parent) in processes() {
            children.entry(parent).or_default().push(process);
        }
        let mut found = children.remove(&ancestor).unwrap_or_default();
        let mut next = 0;
        while let Some(process) = found.get(next) {
            next += 1;
            found.extend(children.remove(process).unwrap_or_default());
        }
        found
    }

    /// All processes, each with its parent.
    fn processes() -> impl Iterator<Item = (Pid, Pid)> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((Pid::from_raw(process)?, parent(&text)?))
        })
    }

    /// The parent in a line of `/proc/PID/stat`. The name before it is in brackets, and may hold any character.
    fn parent(line: &str) -> Option<Pid> {
        let (_, after_name) = line.rsplit_once(')')?;
        Pid::from_raw(after_name.split_whitespace().nth(1)?.parse().ok()?)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_parent_is_read_whatever_its_child_is_called() {
            assert_eq!(parent("12 (a) S 7) R 34 12 0").unwrap().as_raw_pid(), 34);
            assert_eq!(parent("1 (init) S 0 1 1"), None);
            assert_eq!(parent(""), None);
        }

        #[test]
        fn a_child_is_found_below_its_parent() {
            let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            assert!(of(rustix::process::getpid()).contains(&Pid::from_child(&child)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_goes_over_the_leash_before_it_falls_silent() {
        for input in [&b""[..], b"\n", b"12\nthree"] {
            let sent = [preamble(input), b"more".to_vec()].concat();
            assert_eq!(read_preamble(&mut &sent[..]).unwrap(), input);
        }
        for wrong in [&b""[..], b"-1\n", b"9\nshort"] {
            assert!(read_preamble(&mut &wrong[..]).is_err());
        }
    }
}
