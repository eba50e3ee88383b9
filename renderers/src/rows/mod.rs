//! Conversations and tokens as lines of JSON, for people who debug a prompt and for scripts.

mod error;
mod parse_row;
mod render_row;

pub use self::error::RowError;
pub use self::parse_row::{Parsing, parse_row};
pub use self::render_row::render_row;
