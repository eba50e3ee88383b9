//! The vocabulary of the record: what every room calls a rollout, an attempt, a generation, a span, a reward. Plain data,
//! without input or output; strings and JSON of the store and of the wires end here.
//!
//! What goes over Agent-lightning's wires serialises exactly as its JSON: every field is written, nulls included. Times are
//! seconds since the Unix epoch.
//!
//! - [`Rollout`], [`Attempt`], [`Worker`], [`ResourcesUpdate`]: tasks, tries at them, and who tries.
//! - [`Generation`], [`Span`]: one model call, token by token, and what everybody else records.
//! - [`StopReason`], [`Defect`], [`BranchReason`], [`Verdict`], [`TokenUse`]: the words that decide what is trained.
//! - [`RolloutRecord`]: a rollout with all that was recorded of it.
//! - [`Reward`]: how good something was, and who says so.
//! - [`Run`], [`Step`], [`Checkpoint`]: what a trainer records of itself.
//! - [`RolloutFilter`], [`ListFilter`], [`Page`]: which of them.

mod archive;
mod attempt;
mod attempted_rollout;
mod defect;
mod departure;
mod drift;
mod gateway;
mod generation;
mod ids;
mod listing;
mod packed_generation;
mod packing;
mod page;
mod present;
mod query;
mod resources;
mod reward;
mod rollout;
mod rollout_record;
mod run;
mod sampling;
mod session;
mod span;
mod stop_reason;
mod verdict;
mod words;
mod worker;

pub use archive::{
    ArchiveRecord, ArchiveScope, ArchivedCheckpoint, ArchivedGatewayRollout, ArchivedGeneration, ArchivedRollout,
    ArchivedUse, Imported,
};
pub use attempt::{Attempt, AttemptRef, AttemptStatus, AttemptUpdate};
pub use attempted_rollout::AttemptedRollout;
pub use defect::{AuxiliaryMark, Defect};
pub use departure::{BranchReason, DepartureReason};
pub use drift::{CallDrift, DriftReport};
pub use gateway::{Completions, Event, GatewayRollout, GatewayState, GatewayUpdate, NewGatewayRollout};
pub use generation::{Generation, NewGeneration, WeightsFrom};
pub use ids::{new_attempt_id, new_id, new_rollout_id};
pub use listing::{Cursor, FoundReward, ListFilter, Listed, Part};
pub use packed_generation::{PackedGeneration, PackingError};
pub use packing::{pack_logprobs, pack_tokens, unpack_logprobs, unpack_tokens};
pub use page::Paginated;
pub use query::{FilterLogic, GenerationFilter, Page, RolloutFilter, SortOrder, SpanFilter, TextFilter, WorkerFilter};
pub use resources::ResourcesUpdate;
pub use reward::{NewReward, RecordedReward, Repeat, Reward, RewardGiver, Rewarded, RewardedAttempts};
pub use rollout::{NewRollout, Rollout, RolloutConfig, RolloutMode, RolloutStatus, RolloutUpdate};
pub use rollout_record::{PackedRolloutRecord, RolloutRecord};
pub use run::{
    Checkpoint, CheckpointRecord, GenerationUse, LedgerRow, ModelWeights, NewRun, Run, Step, StepRecord,
    UnaccountedGeneration,
};
pub use sampling::{Constraint, RecordedSampling, SamplingParameters, WeightsVersion};
pub use session::SessionIds;
pub use span::{IncomingSpan, Ingested, Span, SpanContext, SpanEvent, SpanLink, SpanResource, SpanStatus, StatusCode};
pub use stop_reason::StopReason;
pub use verdict::{TokenUse, UntrainedCause, Verdict};
pub use worker::{Worker, WorkerStatus};

/// A JSON object.
pub type Object = serde_json::Map<String, serde_json::Value>;
