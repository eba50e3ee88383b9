//! The command line: all that it takes, and what is said of it.

pub mod arguments;
pub mod completions;
mod learning_rate_rule;
pub mod reference;
pub mod show_config;
pub mod version;
