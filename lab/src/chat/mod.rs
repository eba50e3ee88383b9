//! One reply of a model at any host with OpenAI's Chat Completions, as it comes.

mod error;
mod reply;

pub use self::error::ChatError;
pub use self::reply::{ChatEndpoint, Reply, SampledToken, ask};
