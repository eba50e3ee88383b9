//! The tools by which a coding agent trains a model, over the Model Context Protocol.
//!
//! A run is a child `fulgurite train` that makes as many updates as it was allowed, keeps what it has learnt in a checkpoint and
//! waits. It ends with this process, however that ends, and the next one goes on from there. What opens a model is a child as
//! well, so that it ends with the call and gives its memory back. What is recorded of runs is read by `fulgurite_lab`.

mod at_start;
mod error;
mod options;
mod program;
mod progress;
mod prompts;
mod server;
mod session;
mod skills;
mod tools;
mod training;
mod transport;
mod workspace;

pub use error::ToolError;
pub use options::{Autocheckpoint, Limits, Options, SealKey, SettingRule, ToolSet};
pub use server::TrainingTools;
pub use skills::{SkillError, install_skills};
pub use transport::{http_routes, serve_standard_streams};
pub use workspace::{SealKeyError, read_or_make_seal_key};
