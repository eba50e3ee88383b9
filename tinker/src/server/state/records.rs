use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::{FinishSessionRequest, LoraConfig};

/// Notes of a client's, kept as they came.
pub(crate) type UserMetadata = Map<String, Value>;

/// Whose a training run is. There is one owner of everything.
pub(crate) const OWNER: &str = "local";

/// A session, as long as anything of it is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub(crate) session_id: String,
    pub(crate) created: f64,
    pub(crate) tags: Vec<String>,
    pub(crate) display_name: Option<String>,
    pub(crate) user_metadata: Option<UserMetadata>,
    #[serde(default)]
    pub(crate) project_id: Option<String>,
    pub(crate) is_over: bool,
    /// How its client ended it; none where that fell silent.
    #[serde(default)]
    pub(crate) finish: Option<FinishSessionRequest>,
}

/// A training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) run_id: String,
    /// Empty for a copy, which nobody trains.
    pub(crate) session_id: String,
    /// Its own, where its session has none for it.
    #[serde(default)]
    pub(crate) project_id: Option<String>,
    pub(crate) base_model: String,
    /// The adapter that it trains; all weights without one.
    #[serde(default)]
    pub(crate) adapter: Option<LoraConfig>,
    pub(crate) last_request: f64,
    pub(crate) user_metadata: Option<UserMetadata>,
    /// The weights that it has put in flight last, below the state directory.
    #[serde(default)]
    pub(crate) inflight: Option<PathBuf>,
}

/// A checkpoint that a client has named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckpointRecord {
    /// `tinker://RUN/KIND/NAME`.
    pub(crate) path: String,
    pub(crate) base_model: String,
    /// The adapter that it holds; all weights without one.
    #[serde(default)]
    pub(crate) adapter: Option<LoraConfig>,
    /// Where its files are, below the state directory.
    pub(crate) directory: PathBuf,
    pub(crate) created: f64,
    pub(crate) size_bytes: u64,
    pub(crate) public: bool,
    /// When it may be deleted.
    pub(crate) expires: Option<f64>,
    pub(crate) user_metadata: Option<UserMetadata>,
}

/// What a sampling session samples from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SampledWeights {
    /// The base model's.
    Base,
    /// Those of a checkpoint, by its path.
    Checkpoint(String),
    /// Those that were saved for this sampling session alone, below the state directory.
    Own(PathBuf),
    /// Those that a training run has put in flight last.
    Inflight(String),
}

/// A sampling session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SamplerRecord {
    pub(crate) sampler_id: String,
    pub(crate) session_id: String,
    pub(crate) base_model: String,
    pub(crate) weights: SampledWeights,
    /// Copies of the client that have asked to be told apart.
    #[serde(default)]
    pub(crate) copies: u64,
}

/// What is remembered, by its id, one file each.
pub(crate) trait Record: Serialize + DeserializeOwned {
    /// The directory of its kind.
    const KIND: &'static str;

    fn id(&self) -> &str;
}

macro_rules! records {
    ($($record:ty, $kind:literal, $id:ident;)*) => {$(
        impl Record for $record {
            const KIND: &'static str = $kind;

            fn id(&self) -> &str {
                &self.$id
            }
        }
    )*};
}

records! {
    SessionRecord, "sessions", session_id;
    RunRecord, "runs", run_id;
    CheckpointRecord, "checkpoints", path;
    SamplerRecord, "samplers", sampler_id;
}
