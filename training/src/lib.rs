//! What `fulgurite train`, `fulgurite eval` and the arms of a sweep run: opens models, starts the server and the runner's
//! process, begins or resumes a run. It prints nothing: what people should see goes to a [`Notices`] and to the run's reporter.
//!
//! Errors are `anyhow`'s, as in the command: they name the key or the flag, and are only ever shown.

mod auxiliary;
pub mod chat_host;
mod data;
pub mod evaluation;
pub mod learners;
pub mod models;
mod notices;
pub mod rescore;
pub mod runners;
mod silent_reporter;
pub mod start;
pub mod train;
mod upload_keys;
pub mod weights;

pub use self::notices::{Notices, ShownProgress};
pub use self::silent_reporter::SilentReporter;
