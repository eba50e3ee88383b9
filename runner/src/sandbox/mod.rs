//! Sandboxes: an agent that sees its world, the files that it is shown, and the model, and nothing else.
//!
//! Inside, the agent finds the model at an address of its own loopback, where the [forwarder](forward) listens. That hands all
//! on to a socket in the file system, and the door outside lets those calls pass that are the attempt's.

mod bubblewrap;
mod container;
mod door;
mod forwarder;
mod grader_sandbox;
mod images;
mod invocation;
mod listening;
mod options;
mod wrapper;

pub(crate) use container::Container;
pub(crate) use door::Door;
pub use forwarder::{ForwardError, forward};
pub(crate) use grader_sandbox::GraderSandbox;
pub(crate) use images::Image;
pub(crate) use invocation::{Inside, Mount};
pub use options::{SandboxKind, SandboxNetwork, SandboxOptions};
pub(crate) use wrapper::Wrapper;
