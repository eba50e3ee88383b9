//! The process group of a program that is a child of this process.

use rustix::process::{Pid, Signal, kill_process_group};

/// The process group of a child, killed when dropped.
#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    /// The group that the process `leader` leads.
    pub(crate) fn of(leader: Option<u32>) -> Self {
        Self(leader.and_then(|id| Pid::from_raw(id.try_into().ok()?)))
    }

    /// Kills whatever is left of the group. The group keeps its id from being given to another for as long as it has a member,
    /// and this is called as soon as its leader has ended; a group without members is what `ESRCH` says, and is well.
    pub(crate) fn kill(&mut self) {
        if let Some(leader) = self.0.take()
            && let Err(error) = kill_process_group(leader, Signal::KILL)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(group = leader.as_raw_nonzero(), %error, "cannot kill a process group");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
