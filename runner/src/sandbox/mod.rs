//! Sandboxes: an agent that sees its world, the files that it is shown, and the model, and nothing else.
//!
//! What isolation means is decided in `isolation.rs`. A sandbox's wall has this program on both sides ([`sandbox_part`]): outside
//! it joins what bounds the sandbox and becomes `bwrap`; inside it takes every right from itself, looks whether that has
//! worked, and starts the agent or the grader.
//!
//! Inside, the agent finds the model at an address of its own loopback, where the forwarder listens. That hands all
//! on to a socket in the file system, and the door outside lets those calls pass that are the attempt's.

mod bounds;
mod bubblewrap;
mod container;
mod door;
mod forwarder;
mod grader_sandbox;
mod images;
mod inside;
mod invocation;
mod isolation;
mod lending;
mod listening;
mod options;
mod outside;
mod part;
mod seccomp;
mod shown;
mod wrapper;

pub use bounds::Bounds;
pub(crate) use container::Container;
pub(crate) use door::Door;
pub use forwarder::ForwardError;
pub use grader_sandbox::GraderSandboxOptions;
pub(crate) use grader_sandbox::{GraderSandbox, LentWorld};
pub(crate) use images::Image;
pub(crate) use invocation::{Inside, Mount};
pub(crate) use isolation::Sandboxed;
pub(crate) use lending::{lend, take_back};
pub use options::{SandboxKind, SandboxNetwork, SandboxOptions};
pub use part::{SandboxPartError, sandbox_part};
pub(crate) use wrapper::Wrapper;
