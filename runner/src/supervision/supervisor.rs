//! The process that is the parent of agents, one at a time, and ends every process which an agent leaves, wherever it has gone.

use super::wire::{Ends, Reply, Request, receive};
use crate::order::Order;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// Between two looks for processes that are still there.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The process group of the agent that runs now.
type Group = Arc<Mutex<Option<Pid>>>;

/// Starts the programs that are asked for over standard input, a socket, one after another, and leaves no process of one
/// behind before the next is started. Returns when the socket ends; by then everything has been killed.
///
/// On Linux all descendants are found, whatever group or session they are in; elsewhere those of the program's process group.
///
/// # Errors
///
/// Fails if standard input is no such socket, or the system gives no process away.
pub fn supervise() -> io::Result<()> {
    adopt_orphans()?;
    keep_to_this_process()?;
    let mut leash = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let group = Group::default();
    for request in listen(leash.try_clone()?, Arc::clone(&group)) {
        let Request { order, ends } = request?;
        play(&order, ends, &mut leash, &group)?;
    }
    Ok(())
}

/// Becomes the parent of every descendant whose own parent ends.
fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Keeps agents from reading in this process's memory what it was given for others.
fn keep_to_this_process() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Receives requests on a thread of its own, which from the leash's end kills everything until this process has ended.
fn listen(leash: UnixStream, group: Group) -> mpsc::Receiver<io::Result<Request>> {
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        while let Some(request) = receive(&leash).transpose() {
            let is_last = request.is_err();
            if sender.send(request).is_err() || is_last {
                break;
            }
        }
        drop(sender);
        loop {
            kill_descendants(*group.lock().unwrap_or_else(PoisonError::into_inner));
            thread::sleep(LOOK_AGAIN);
        }
    });
    requests
}

/// Runs one agent to its end, and replies when nothing of it is left.
fn play(order: &Order, ends: Ends, leash: &mut UnixStream, group: &Group) -> io::Result<()> {
    let last = match spawn(order, ends) {
        Ok(program) => {
            set(group, Some(program));
            reply(leash, Reply::Started(program));
            let status = wait_for(program)?;
            end_all(program);
            set(group, None);
            Reply::Ended(status)
        }
        Err(error) => Reply::Refused(error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error())),
    };
    reply(leash, last);
    Ok(())
}

/// Starts the program and keeps nothing of its streams here.
fn spawn(order: &Order, [stdin, stdout, stderr]: Ends) -> io::Result<Pid> {
    let child = order.command().stdin(stdin).stdout(stdout).stderr(stderr).process_group(0).spawn()?;
    Ok(Pid::from_child(&child))
}

fn set(group: &Group, program: Option<Pid>) {
    *group.lock().unwrap_or_else(PoisonError::into_inner) = program;
}

fn reply(leash: &mut UnixStream, reply: Reply) {
    // A runner that is gone is noticed where requests are received.
    let _ = leash.write_all(&reply.to_bytes());
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
                kill_descendants(Some(group));
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

fn kill_descendants(group: Option<Pid>) {
    if let Some(group) = group {
        kill_group(group);
    }
    #[cfg(target_os = "linux")]
    for process in super::descendants::of(rustix::process::getpid()) {
        // It may have ended by itself meanwhile.
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
}
