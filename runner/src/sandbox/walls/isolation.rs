//! What isolation means: decided here for everything that runs in bubblewrap, agents and graders alike.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::RunnerError;
use crate::order::Order;
use crate::sandbox::parts::{ENTER, EndpointInside, Restrictions, START, Surroundings, filter};
use crate::sandbox::terms::{Bounds, INSIDE, Identity, NOBODY, SYSTEM, SandboxNetwork};
use crate::sandbox::walls::cgroup::{Cgroup, Cgroups};

/// A program in its sandbox, and what bounds it until this is dropped.
#[derive(Debug)]
pub(crate) struct Sandboxed {
    /// What starts it.
    pub order: Order,
    /// What counts its processes and memory, where the machine has that.
    pub cgroup: Option<Cgroup>,
}

impl From<Order> for Sandboxed {
    fn from(order: Order) -> Self {
        Self { order, cgroup: None }
    }
}

/// What isolates programs, tried once before any of them runs.
#[derive(Debug)]
pub(crate) struct Isolation {
    bwrap: PathBuf,
    /// This program, which is on both sides of a sandbox's wall.
    own: PathBuf,
    identity: Identity,
    bounds: Bounds,
    cgroups: Option<Cgroups>,
    /// Whether this `bwrap` bounds what is written to memory.
    has_size: bool,
}

impl Isolation {
    /// Tries a sandbox without anything in it, with the user's `further` arguments.
    ///
    /// # Errors
    /// If none can be made, or if what is inside could get out.
    pub(crate) fn try_out(bwrap: PathBuf, own: &Path, bounds: Bounds, further: &[String]) -> Result<Self, RunnerError> {
        let help = Command::new(&bwrap).arg("--help").output();
        let has_size = help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--size "));
        let (own, identity, cgroups) = (own.to_owned(), Identity::of_this_process(), Cgroups::find());
        let mut isolation = Self { bwrap, own, identity, bounds, cgroups, has_size };
        let mut tried = isolation.probe(further);
        if tried.is_err() && isolation.cgroups.take().is_some() {
            // Perhaps it may make them, and may not use them.
            tried = isolation.probe(further);
        }
        match tried {
            Ok(()) => {
                isolation.say_what_is_unbounded();
                Ok(isolation)
            }
            Err(why) => Err(RunnerError::NoIsolation { why }),
        }
    }

    /// Who the programs inside are.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// What every sandbox begins with: namespaces of its own, and nothing of the machine's but devices without content.
    pub(super) fn walls(&self, network: SandboxNetwork) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
        add(&["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]);
        if network == SandboxNetwork::Proxy {
            add(&["--unshare-net"]);
        }
        match self.identity {
            // A user namespace would know no other user than root, whom files outside belong to.
            Identity::Nobody => {
                add(&["--cap-drop", "ALL"]);
                for kept in ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_CHOWN"] {
                    add(&["--cap-add", kept]);
                }
            }
            Identity::Own => add(&["--unshare-user", "--cap-drop", "ALL"]),
            Identity::Renamed => {
                let id = NOBODY.to_string();
                add(&["--unshare-user", "--uid", &id, "--gid", &id, "--cap-drop", "ALL"]);
            }
        }
        add(&["--die-with-parent", "--new-session", "--proc", "/proc"]);
        for closed in ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"] {
            add(&["--ro-bind-try", closed, closed]);
        }
        add(&["--dev", "/dev"]);
        let size = self.bounds.temporary_bytes().to_string();
        for temporary in ["/tmp", "/dev/shm"] {
            add(&["--perms", "1777"]);
            if self.has_size && self.bounds.temporary_bytes() > 0 {
                add(&["--size", &size]);
            }
            add(&["--tmpfs", temporary]);
        }
        if self.identity == Identity::Nobody {
            // Else bwrap makes them for root alone.
            for above in ["/etc", "/etc/ssl"] {
                add(&["--perms", "0755", "--dir", above]);
            }
        }
        words
    }

    /// What the walls end with: of the file systems that are made for a sandbox, only those of bounded size can be written to.
    pub(super) fn closing() -> [OsString; 4] {
        ["--remount-ro", "/dev", "--remount-ro", "/"].map(OsString::from)
    }

    /// The words in front of a program inside. They bound it and take its rights away before it begins.
    pub(super) fn threshold(&self, directory: Option<&Path>, endpoint: Option<EndpointInside>) -> Vec<OsString> {
        let Bounds { processes, memory_bytes, disk_bytes } = self.bounds;
        let known = |bound: u64| (bound > 0).then_some(bound);
        let is_counted = |of: fn(&Cgroups) -> bool| self.cgroups.as_ref().is_some_and(of);
        let restrictions = Restrictions {
            user: self.identity.owner(),
            directory: directory.map(Path::to_owned),
            is_filtered: filter().is_some(),
            file_bytes: known(disk_bytes),
            data_bytes: known(memory_bytes).filter(|_| !is_counted(Cgroups::count_memory)),
            processes: known(processes.into()).filter(|_| !is_counted(Cgroups::count_processes)),
            endpoint,
        };
        vec![self.inside().into(), START.into(), restrictions.to_word()]
    }

    /// Shows this program inside.
    pub(super) fn show_own(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        for directory in ["/run", INSIDE] {
            words.extend(["--perms", "0755", "--dir", directory].map(OsString::from));
        }
        words.extend(["--ro-bind".into(), self.own.clone().into(), self.inside().into()]);
        words
    }

    fn inside(&self) -> PathBuf {
        Path::new(INSIDE).join("fulgurite")
    }

    /// What starts `bwrap` with these arguments, within its bounds and without what others have left open.
    ///
    /// # Errors
    /// If the machine's control groups cannot be had any more.
    pub(super) fn around(
        &self,
        arguments: Vec<OsString>,
        environment: Vec<(OsString, Option<OsString>)>,
    ) -> Result<Sandboxed, String> {
        let made = self.cgroups.as_ref().map(|cgroups| cgroups.make(&self.bounds)).transpose();
        let cgroup = made.map_err(|error| format!("cannot be bounded by a control group: {error}"))?;
        let surroundings = Surroundings {
            cgroups: cgroup.as_ref().map(|cgroup| cgroup.directories().to_vec()).unwrap_or_default(),
            is_filtered: filter().is_some(),
        };
        let mut words: Vec<OsString> = vec![ENTER.into(), surroundings.to_word(), self.bwrap.clone().into()];
        words.extend(arguments);
        let order = Order { program: self.own.clone(), arguments: words, environment, directory: None };
        Ok(Sandboxed { order, cgroup })
    }

    /// Makes a sandbox in which this program only looks at what it could do.
    fn probe(&self, further: &[String]) -> Result<(), String> {
        let mut words = self.walls(SandboxNetwork::Proxy);
        for path in SYSTEM {
            words.extend(["--ro-bind-try", path, path].map(OsString::from));
        }
        words.extend(self.show_own());
        words.extend(further.iter().map(OsString::from));
        words.extend(Self::closing());
        words.push("--".into());
        words.extend(self.threshold(None, None));
        let Sandboxed { order, cgroup: _bound } = self.around(words, Vec::new())?;
        let tried = order.command().env_clear().output().map_err(|error| error.to_string())?;
        match tried.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
        }
    }

    fn say_what_is_unbounded(&self) {
        static WARNED: Mutex<bool> = Mutex::new(false);
        let is_counted = |of: fn(&Cgroups) -> bool| self.cgroups.as_ref().is_some_and(of);
        if is_counted(Cgroups::count_memory) && is_counted(Cgroups::count_processes) {
            return;
        }
        let Ok(mut warned) = WARNED.lock() else { return };
        if !std::mem::replace(&mut warned, true) {
            tracing::info!(
                "no control group counts what sandboxes use: memory is bounded for each process, and processes for each user"
            );
        }
    }
}
