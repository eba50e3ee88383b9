//! The config: its keys, how its text is read, and what is shown of it.

pub mod admin_key;
pub mod declarations;
pub mod models;
pub mod redaction;
pub mod show;
pub mod text;
