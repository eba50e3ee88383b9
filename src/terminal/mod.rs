//! What the command prints, and how: lines, tables, colours, progress, times.

pub mod notices;
pub mod output;
pub mod paint;
pub mod progress;
pub mod table;
