//! What sandboxes are described in: who is inside, what they may use, what they are shown.

mod bounds;
mod identity;
mod invocation;
mod options;

pub use bounds::Bounds;
pub(super) use identity::{Identity, NOBODY};
pub(super) use invocation::{INSIDE, Invocation, KEPT, PORT, SYSTEM};
pub(crate) use invocation::{Inside, Mount};
pub use options::{SandboxKind, SandboxNetwork, SandboxOptions};
