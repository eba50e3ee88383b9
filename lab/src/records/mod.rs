//! What is on disk of runs: their stores, their directories, and the locks on both.

pub mod exclusive_lock;
pub mod failure;
pub mod matching_rollouts;
pub mod open_store;
pub mod run_directory;
pub mod run_files;
pub mod weights_in_place;

pub use self::run_directory::{
    config_of_run, has_own_store, is_run, run_file, run_store_url, run_tokenizers, store_of_run, write_whole,
};
