//! Who failed an attempt: decided here for every way in which one fails.
//!
//! Whatever an agent can bring about counts as its own failure. Otherwise an agent that is about to fail could break its world
//! and have its attempt run again.

use std::io::{self, ErrorKind};
use std::time::Duration;

use fulgurite_types::Fault;
use rustix::io::Errno;

use crate::grader::GradeFault;
use crate::process::end::ProcessError;
use crate::world::WorldFault;

/// Why an agent's program did not run to its end. Each is the end of a sentence about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum AgentNotRun {
    /// It cannot be started for this task.
    #[error("{0}")]
    NotStarted(String),
    /// The system did not start it, or lost it.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// How the time was spent that an agent and its grader share.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedTime {
    /// How long the agent played.
    pub agent: Duration,
    /// How long its grader had after that.
    pub grader: Duration,
}

/// Of an agent's program that did not run to its end.
pub(super) fn of_agent(not_run: &AgentNotRun) -> Fault {
    match not_run {
        // An agent may kill the process that supervises it.
        AgentNotRun::Process(ProcessError::SupervisorLost { .. }) => Fault::Agent,
        AgentNotRun::Process(ProcessError::CannotRun { .. } | ProcessError::NoSupervisor(_))
        | AgentNotRun::NotStarted(_) => Fault::Runner,
    }
}

/// Of a world that cannot be looked at after its agent.
pub(super) fn of_world_left(fault: &WorldFault) -> Fault {
    match fault {
        WorldFault::Disk { error, .. } if is_agents(error) => Fault::Agent,
        // The same command looked at the world before the agent came.
        WorldFault::Hook { .. } => Fault::Agent,
        WorldFault::Disk { .. }
        | WorldFault::HookNotRun { .. }
        | WorldFault::Image { .. }
        | WorldFault::Variable { .. } => Fault::World,
    }
}

/// Of grading that gave no reward.
pub(super) fn of_grading(fault: &GradeFault, time: SharedTime) -> Fault {
    match fault {
        // Harbor's tests run what the agent left: it may hang them, end them, or remove what they wrote.
        GradeFault::TestsTimedOut | GradeFault::NoRewardOfTests(_) => Fault::Agent,
        GradeFault::World { error, .. } if is_agents(error) => Fault::Agent,
        GradeFault::World { .. } => Fault::World,
        // An agent that leaves no time to be graded in is not run again for that.
        GradeFault::TimedOut if time.agent > time.grader => Fault::Agent,
        GradeFault::TimedOut | GradeFault::Failed(_) => Fault::Grader,
    }
}

/// Whether an agent can bring that about by what it does to its files. A disk that is full or breaks, and too many open files,
/// are the machine's.
fn is_agents(error: &io::Error) -> bool {
    let is_kind = matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AlreadyExists
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::DirectoryNotEmpty
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput
            | ErrorKind::TooManyLinks
    );
    is_kind || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Hook;

    #[test]
    fn what_an_agent_can_do_to_its_world_is_its_own_failure_and_a_broken_disk_is_not() {
        let of_disk = |errno: Errno| {
            let error = || io::Error::from(errno);
            let left = of_world_left(&WorldFault::Disk { path: "/w".into(), error: error() });
            let time = SharedTime { agent: Duration::ZERO, grader: Duration::ZERO };
            assert_eq!(of_grading(&GradeFault::World { path: "/w".into(), error: error() }, time), left);
            left
        };
        for made in [Errno::ACCESS, Errno::NOENT, Errno::NOTDIR, Errno::ISDIR, Errno::LOOP, Errno::NAMETOOLONG] {
            assert_eq!(of_disk(made), Fault::Agent, "{made}");
        }
        for broken in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ROFS] {
            assert_eq!(of_disk(broken), Fault::World, "{broken}");
        }
        let hook = || Hook::Snapshot;
        let failed = WorldFault::Hook { hook: hook(), how: String::new(), errors: String::new() };
        assert_eq!(of_world_left(&failed), Fault::Agent);
        assert_eq!(of_world_left(&WorldFault::HookNotRun { hook: hook(), why: String::new() }), Fault::World);
    }

    #[test]
    fn an_agent_that_leaves_its_grader_no_time_fails_by_itself() {
        let took = |agent, grader| {
            let [agent, grader] = [agent, grader].map(Duration::from_secs);
            of_grading(&GradeFault::TimedOut, SharedTime { agent, grader })
        };
        assert_eq!((took(599, 1), took(1, 599), took(0, 0)), (Fault::Agent, Fault::Grader, Fault::Grader));
    }

    #[test]
    fn what_an_agent_left_that_hangs_or_ends_harbors_tests_is_its_own_failure() {
        let time = SharedTime { agent: Duration::ZERO, grader: Duration::from_secs(600) };
        let without = GradeFault::NoRewardOfTests(String::new());
        assert_eq!([of_grading(&GradeFault::TestsTimedOut, time), of_grading(&without, time)], [Fault::Agent; 2]);
        assert_eq!(of_grading(&GradeFault::Failed("Harbor's tests cannot be run".to_owned()), time), Fault::Grader);
    }

    #[test]
    fn an_agent_that_kills_its_supervisor_fails_by_itself() {
        let lost = ProcessError::SupervisorLost { how: "was killed by signal 9".to_owned() };
        assert_eq!(of_agent(&lost.into()), Fault::Agent);
        let none = ProcessError::NoSupervisor(ErrorKind::NotFound.into());
        assert_eq!(of_agent(&none.into()), Fault::Runner);
    }
}
