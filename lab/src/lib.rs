//! All that reads runs: where they are, what became of them, what is wrong with them, sweeps over them, reports and trackers.
//! The command prints what these functions give. `plan` computes what a run needs before there is one.

pub mod chat;
pub mod csv;
pub mod doctor;
pub mod error_chain;
pub mod estimate;
pub mod interruptions;
pub mod learning_rate_rule;
pub mod page;
pub mod plan;
pub mod queries;
pub mod records;
pub mod regrade;
pub mod report;
pub mod rescore;
mod run_routes;
pub mod runs;
pub mod shell_word;
pub mod sweep;
pub mod time;
pub mod trackers;
pub mod transfer;
pub mod visible;
pub mod watched;

pub use self::run_routes::run_routes;
