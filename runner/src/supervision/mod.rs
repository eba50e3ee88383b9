//! Supervisors: processes that are the parents of agents, so that nothing of an agent is left when it has ended or its runner
//! is dead.
//!
//! The `supervisor` is the process's own side, the `pool` the runner's, which keeps supervisors and gives each one agent at a
//! time. Between the two is a socket, the supervisor's standard input, which is its leash as well: when it ends, because the
//! runner has let go of it or is dead, the supervisor kills everything and leaves. What is said over it is in `wire`.

#[cfg(target_os = "linux")]
mod descendants;
mod pool;
mod supervisor;
mod wire;

pub(crate) use pool::{Supervised, Supervisors};
pub use supervisor::supervise;

/// The first word by which the `fulgurite` command is a supervisor. Like those of sandboxes it is no part of the command line's
/// grammar: only a runner has the socket that it needs.
pub const SUPERVISE_AGENT: &str = "supervise-agent";
