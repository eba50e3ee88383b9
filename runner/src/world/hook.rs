//! What the commands of a world are for.

use std::fmt::{self, Display};

/// What a command of a world is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Makes it.
    Setup,
    /// Says what state it is in.
    Snapshot,
    /// Takes away what was made outside of it.
    Teardown,
}

impl Display for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Setup => "setup",
            Self::Snapshot => "snapshot",
            Self::Teardown => "teardown",
        })
    }
}
