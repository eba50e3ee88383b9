//! The command line: all that it takes, and what is said of it.

pub mod arguments;
pub mod completions;
pub mod reference;
pub mod show_config;
pub mod version;
