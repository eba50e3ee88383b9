//! Replies of a model at any host with OpenAI's Chat Completions: as they come, or to one question.

mod error;
mod question;
mod reply;

pub use self::error::ChatError;
pub use self::question::{Question, QuestionError};
pub use self::reply::{ChatEndpoint, Reply, SampledToken, ask};
