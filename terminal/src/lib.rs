//! What a person sees in a terminal: lines, tables, colours, progress, a run that is trained or watched. It turns values of the
//! crates below into text, and reads and opens nothing itself.

pub mod notices;
pub mod output;
pub mod paint;
pub mod progress;
pub mod records;
pub mod reporters;
pub mod table;
pub mod tables;
pub mod transcript;
pub mod watch;
