//! Starts programs, and runs them to their end.
//!
//! - [`launcher`]: starts one, as a child of this process or below a supervisor.
//! - [`run`]: one to its end, with what it said.

pub(crate) mod launcher;
pub(crate) mod run;
