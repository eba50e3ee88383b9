//! Models from elsewhere: fetching from Hugging Face's hub, GGUF files made into directories, and what a person means who
//! names a model that is not one.

mod digest;
mod download;
mod fetch;
mod gguf_cache;
mod hub;
mod named_model;
mod patience;
mod place;
mod selection;
mod source;

pub use self::fetch::{FetchObserver, FetchRequest, Fetched, FileOutcome, WholeFile, fetch};
pub use self::gguf_cache::{known_model_directory, model_directory};
pub use self::named_model::{fetched_by, holds_adapter, must_be_whole, must_exist};
pub use self::patience::Waiting;
pub use self::source::ModelSource;
