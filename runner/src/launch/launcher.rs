//! Starts programs: as children of this process, or below a supervisor.

use crate::order::Order;
use crate::process::end::ProcessError;
use crate::process::group::Group;
use crate::process::open_files::lower_open_files_of;
use crate::supervision::{Supervised, Supervisors};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::{Child, Command};

/// How programs are started.
#[derive(Debug, Clone)]
pub(crate) enum Launcher {
    /// As children of this process. What leaves their process group, or outlives this process, stays.
    Direct,
    /// Each below a supervisor, which leaves nothing of it.
    Supervised(Arc<Supervisors>),
}

/// What a program finds on its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdin {
    /// Its end.
    Empty,
    /// What is written to it.
    Piped,
}

/// A program that has been started.
#[derive(Debug)]
pub(crate) struct Started {
    /// Its standard input, unless that is empty.
    pub stdin: Option<Sender>,
    /// Its standard output.
    pub stdout: Receiver,
    /// Its standard error.
    pub stderr: Receiver,
    /// The program itself. Dropped, it is killed with what it has started, as far as its launcher reaches.
    pub process: Process,
}

/// A program that runs.
#[derive(Debug)]
pub(crate) enum Process {
    /// A child of this process.
    Child {
        /// It.
        child: Child,
        /// The group that it leads.
        group: Group,
        /// What it was started from.
        program: PathBuf,
    },
    /// A supervisor's.
    Supervised(Supervised),
}

impl Launcher {
    /// Starts programs below supervisors which that command runs, or as children of this process if it has no words.
    pub(crate) fn new(supervisor: &[OsString]) -> Self {
        match supervisor {
            [] => Self::Direct,
            words => Self::Supervised(Arc::new(Supervisors::new(words.to_vec()))),
        }
    }

    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started, which of one below a supervisor is known only when its end is [awaited](Process::wait).
    pub(crate) async fn start(&self, order: &Order, stdin: Stdin) -> Result<Started, ProcessError> {
        let cannot_run = |error| ProcessError::cannot_run(&order.program, error);
        let (stdin, their_stdin) = input(stdin).map_err(cannot_run)?;
        let (stdout, their_stdout) = output().map_err(cannot_run)?;
        let (stderr, their_stderr) = output().map_err(cannot_run)?;
        let ends = [their_stdin, their_stdout, their_stderr];
        let process = match self {
            Self::Direct => Process::child(order, ends).map_err(cannot_run)?,
            Self::Supervised(supervisors) => Process::Supervised(supervisors.start(order, &ends).await?),
        };
        Ok(Started { stdin, stdout, stderr, process })
    }
}

impl Process {
    fn child(order: &Order, [stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Result<Self> {
        let mut command = Command::from(order.command());
        command.stdin(stdin).stdout(stdout).stderr(stderr).process_group(0).kill_on_drop(true);
        let child = command.spawn()?;
        lower_open_files_of(child.id());
        Ok(Self::Child { group: Group::of(child.id()), child, program: order.program.clone() })
    }

    /// Waits until the program has ended, and what it leaves is killed. May be dropped and called again until it has returned.
    ///
    /// # Errors
    ///
    /// Fails if the program could not be started or its supervisor dies.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus, ProcessError> {
        match self {
            Self::Child { child, group, program } => {
                let status = child.wait().await;
                group.kill();
                status.map_err(|error| ProcessError::cannot_run(program, error))
            }
            Self::Supervised(supervised) => supervised.wait().await,
        }
    }

    /// Kills the program and what it has started, and waits for the end; gives how a program ends that is killed.
    ///
    /// # Errors
    ///
    /// Fails if the system does not say how it, or its supervisor, ended.
    pub(crate) async fn kill(&mut self) -> Result<ExitStatus, ProcessError> {
        match self {
            Self::Child { child, group, program } => {
                group.kill();
                child.wait().await.map_err(|error| ProcessError::cannot_run(program, error))
            }
            Self::Supervised(supervised) => {
                supervised.kill().await?;
                Ok(ExitStatus::from_raw(Signal::KILL.as_raw()))
            }
        }
    }
}

/// Our end and the program's of its standard input.
fn input(stdin: Stdin) -> io::Result<(Option<Sender>, OwnedFd)> {
    match stdin {
        Stdin::Empty => Ok((None, File::open("/dev/null")?.into())),
        Stdin::Piped => {
            let (theirs, ours) = pipe()?;
            Ok((Some(Sender::from_owned_fd(ours.into())?), theirs.into()))
        }
    }
}

/// Our end and the program's of what it prints.
fn output() -> io::Result<(Receiver, OwnedFd)> {
    let (ours, theirs) = pipe()?;
    Ok((Receiver::from_owned_fd(ours.into())?, theirs.into()))
}
