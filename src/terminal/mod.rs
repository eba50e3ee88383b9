//! What the command prints, and how: lines, tables, colours, progress, times.

pub mod csv;
pub mod interruptions;
pub mod output;
pub mod paint;
pub mod progress;
pub mod table;
pub mod time;
pub mod visible;
