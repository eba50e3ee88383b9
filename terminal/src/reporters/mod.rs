//! What a person, or a program, sees of a training run.

mod json_reporter;
mod messages;
mod pace;
mod sft_table;
mod stale_harvest;
mod step_table;
mod summary;
mod table_reporter;
mod weights_line;
mod within_step;

pub use self::json_reporter::JsonReporter;
pub use self::table_reporter::TableReporter;
pub use self::within_step::SampledTokens;
