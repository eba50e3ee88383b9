//! What makes sandboxes: bubblewrap, Docker and Podman, and what isolation means for whatever runs in the first.

mod bubblewrap;
mod cgroup;
mod container;
mod grader_sandbox;
mod images;
mod isolation;
mod shown;
mod wrapper;

pub(crate) use cgroup::Cgroup;
pub(crate) use container::Container;
pub use grader_sandbox::GraderSandboxOptions;
pub(crate) use grader_sandbox::{GraderSandbox, LentWorld};
pub(crate) use images::Image;
pub(crate) use isolation::Sandboxed;
pub(crate) use wrapper::Wrapper;
