use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::UnboundedSender;

use super::encrypted_export::Recipients;
use super::training_request::TrainingRequest;
use crate::server::base::TinkerBase;
use crate::server::futures::Promise;
use crate::server::state::records::{SamplerRecord, UserMetadata};
use crate::wire::{AdamParams, LoraConfig};

/// A training run that is in memory, as everybody but its worker sees it.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) base: Arc<TinkerBase>,
    /// What it trains beside the base; the base itself without it.
    pub(crate) adapter: Option<LoraConfig>,
    pub(crate) session_id: String,
    /// What is to be done. The worker ends when all of these are gone.
    pub(crate) commands: UnboundedSender<Command>,
    /// The place of the request that is carried out, or waited for.
    pub(crate) next: Arc<AtomicU64>,
}

/// A request that was taken.
#[derive(Debug)]
pub(crate) struct Command {
    /// Its place among the model's, where making it is 0; without one it is carried out when it comes.
    pub(crate) place: Option<u64>,
    pub(crate) work: Work,
    pub(crate) promise: Promise,
}

/// What can be asked of a model.
#[derive(Debug)]
pub(crate) enum Work {
    /// To be there: as the base is, or as a checkpoint was.
    Begin(Option<Source>),
    /// A pass over datums, or why they cannot be read.
    Pass {
        request: Result<TrainingRequest, String>,
        forward_only: bool,
    },
    Step(AdamParams),
    SaveCheckpoint(Save),
    SaveForSampler(Save),
    SaveExternally(Save),
    /// To be kept for one sampling session alone, or put in flight for all that sample from the run's.
    SaveForSession(SamplerRecord, PathBuf),
    Load(Source),
    /// What cannot be done: it has its place all the same, and those after it do not wait for it.
    Nothing {
        because: String,
    },
}

/// A checkpoint to go on from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// As the client called it.
    pub(crate) path: String,
    pub(crate) directory: PathBuf,
    /// What it holds.
    pub(crate) adapter: Option<LoraConfig>,
    /// Whether the optimizer goes on, too.
    pub(crate) optimizer: bool,
}

/// A checkpoint to be made.
#[derive(Clone, Debug)]
pub(crate) struct Save {
    pub(crate) name: String,
    pub(crate) overwrite: bool,
    pub(crate) ttl_seconds: Option<u64>,
    pub(crate) user_metadata: Option<UserMetadata>,
    /// To whom it is encrypted, if it is.
    pub(crate) recipients: Option<Recipients>,
}

impl Model {
    /// Whether a place is so far ahead that its request is better sent later.
    pub(crate) fn is_full_for(&self, place: u64, requests_ahead: u64) -> bool {
        place > self.next.load(Ordering::Acquire).saturating_add(requests_ahead)
    }
}
