//! One typed, patient HTTP client of a Fulgurite server, for all who work with one from outside: runners, trainers.
//!
//! A server that is out of reach, or too busy, is asked again until it answers or patience ends; a redirect is no answer,
//! since whoever it points to must not get the key; no answer is read beyond its limit.
//!
//! - [`Server`], [`ServerOptions`]: where it is, and what it is asked. Its methods are in a file for each who asks:
//!   `queue` for runners, `rollouts` and `runs` for trainers, `models` for whoever puts weights behind one.
//! - [`ServerError`]: what a server said wrongly, or did not say.

mod error;
mod models;
mod queue;
mod reply;
mod rollouts;
mod runs;
mod server;
mod weights;

pub use error::ServerError;
pub use models::{PostedWeights, ServedModelWeights};
pub use queue::{Assignment, AttemptName, Dequeued, KnownAttempt};
pub use server::{Server, ServerOptions};
