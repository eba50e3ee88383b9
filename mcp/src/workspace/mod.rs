//! Where models, graders and runs are, and what is known of them.

mod files;
mod guard;
mod layout;
mod metrics;
mod run_record;
mod seal;
mod seal_key;

pub(crate) use files::{check_name, copy_file, open_file, read_text, write_whole};
pub(crate) use guard::Guarded;
pub(crate) use layout::Workspace;
pub(crate) use metrics::{HELD_OUT_REWARD, REWARD};
pub(crate) use run_record::{RunHome, RunRecord, learns_from_data};
pub(crate) use seal::Seal;
pub use seal_key::{SealKeyError, read_or_make_seal_key};
