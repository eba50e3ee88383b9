//! Sandboxes: an agent that sees its world, the files that it is shown, and the model, and nothing else.
//!
//! What isolation means is decided in `walls/isolation.rs`. A sandbox's wall has this program on both sides ([`sandbox_part`]): outside
//! it joins what bounds the sandbox and becomes `bwrap`; inside it takes every right from itself, looks whether that has
//! worked, and starts the agent or the grader.
//!
//! Inside, the agent finds the model at an address of its own loopback, where the forwarder listens. That hands all
//! on to a socket in the file system, and the endpoint outside lets those calls pass that are the attempt's.

mod endpoint;
mod lending;
mod listening;
mod parts;
mod terms;
mod walls;

pub(crate) use endpoint::Endpoint;
pub(crate) use lending::{lend, take_back};
pub use parts::{SandboxPartError, sandbox_part};
pub use terms::{Bounds, SandboxKind, SandboxNetwork, SandboxOptions};
pub(crate) use terms::{Inside, Mount};
pub use walls::GraderSandboxOptions;
pub(crate) use walls::{Cgroup, Container, GraderSandbox, Image, LentWorld, Sandboxed, Wrapper};
