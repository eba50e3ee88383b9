//! The command line: what it takes, and how it prints.

pub mod arguments;
pub mod completions;
pub mod csv;
pub mod output;
pub mod paint;
pub mod progress;
pub mod time;
pub mod version;
pub mod visible;
