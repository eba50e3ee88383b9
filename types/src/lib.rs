//! The vocabulary of the record: what every room calls a message, a rollout, an attempt, a generation, a span, a
//! reward, a datum. Plain data, without input or output; strings and JSON of the store and of the wires end here.
//!
//! What goes over Agent-lightning's wires serialises exactly as its JSON: every field is written, nulls included. Times are
//! seconds since the Unix epoch.
//!
//! - [`Rollout`], [`Attempt`], [`Worker`], [`ResourcesUpdate`]: tasks, tries at them, and who tries.
//! - [`Conversation`], [`Message`]: what a model is given and what it answers, in the shape of OpenAI's chat API.
//! - [`Generation`], [`Span`]: one model call, token by token, and what everybody else records.
//! - [`StopReason`], [`Defect`], [`BranchReason`], [`Verdict`], [`TokenUse`]: the words that decide what is trained.
//! - [`Datum`]: one row of training data, the same for every learner.
//! - [`RolloutRecord`]: a rollout with all that was recorded of it.
//! - [`Reward`]: how good something was, and who says so.
//! - [`Run`], [`Step`], [`Checkpoint`]: what a trainer records of itself.
//! - [`WeightsId`], [`NamedWeights`], [`Publication`]: which weights a version names, and which are behind a model.
//! - [`RolloutExpression`]: which rollouts are meant, in words that people write.
//! - [`RolloutFilter`], [`ListFilter`], [`Page`]: which of them.
//! - [`Backoff`]: the pauses between tries.
//! - [`shortened`]: the beginning of a text that is too long to be shown.
//! - [`TaskPlaceholder`]: `{task}` and `{task.FIELD}` in what people write.
//! - [`time`]: now, and how times are written and read.

#[cfg(not(unix))]
compile_error!("Fulgurite is for Unix systems: on Windows, build and run it in WSL 2");

mod backoff;
mod datum;
mod filter;
mod gateway;
mod generations;
mod ids;
mod lists;
mod messages;
mod present;
mod rollouts;
mod run;
mod span;
mod text;
pub mod time;
mod weights;

pub use backoff::Backoff;
pub use datum::{Chunk, Datum, DatumError, LossInputs};
pub use filter::{Comparison, Condition, ExpressionError, Field, Operand, RolloutExpression, RolloutFacts};
pub use gateway::{Completions, Event, GatewayRollout, GatewayState, GatewayUpdate, NewGatewayRollout};
pub use generations::defect::{AuxiliaryMark, Defect};
pub use generations::departure::{BranchReason, DepartureReason};
pub use generations::drift::{CallDrift, DriftReport};
pub use generations::generation::{Generation, NewGeneration, WeightsFrom};
pub use generations::packed_generation::{PackedGeneration, PackingError};
pub use generations::packing::{pack_logprobs, pack_tokens, unpack_logprobs, unpack_tokens};
pub use generations::sampling::{Constraint, RecordedSampling, SamplingParameters, WeightsVersion};
pub use generations::stop_reason::StopReason;
pub use generations::trained_tokens::{
    TokenFate, TrainedTokens, pack_trained_tokens, trained_tokens_file, unpack_trained_tokens,
};
pub use generations::verdict::{TokenUse, UntrainedCause, Verdict};
pub use ids::{new_attempt_id, new_id, new_rollout_id};
pub use lists::archive::{
    ArchiveRecord, ArchiveScope, ArchivedCheckpoint, ArchivedGatewayRollout, ArchivedGeneration, ArchivedRollout,
    ArchivedUse, Imported,
};
pub use lists::listing::{Cursor, FoundReward, ListFilter, Listed, Part};
pub use lists::page::Paginated;
pub use lists::query::{
    FilterLogic, GenerationFilter, Page, RolloutFilter, SortOrder, SpanFilter, TextFilter, WorkerFilter,
};
pub use messages::conversation::Conversation;
pub use messages::message::{Content, ContentPart, FunctionCall, Message, PartNotText, ToolCall};
pub use messages::tool::{Tool, ToolFault};
pub use rollouts::attempt::{Attempt, AttemptNote, AttemptRef, AttemptStatus, AttemptUpdate, Fault};
pub use rollouts::attempted_rollout::AttemptedRollout;
pub use rollouts::episode_stop::EpisodeStop;
pub use rollouts::resources::ResourcesUpdate;
pub use rollouts::reward::{NewReward, RecordedReward, Repeat, Reward, RewardGiver, Rewarded, RewardedAttempts};
pub use rollouts::rollout::{
    NewRollout, Rollout, RolloutConfig, RolloutMode, RolloutSampling, RolloutStatus, RolloutUpdate,
};
pub use rollouts::rollout_record::{PackedRolloutRecord, RolloutRecord};
pub use rollouts::session::{SESSION_HEADERS, SessionIds, session_rollout_id, session_rollout_ids};
pub use rollouts::worker::{Worker, WorkerStatus};
pub use rollouts::world_changes::{FileChange, WorldChanges};
pub use run::{
    Checkpoint, CheckpointRecord, GenerationUse, LedgerRow, NewRun, OtherCallers, RecordedTeacherLogprobs, Run,
    RunClaim, RunLease, RunOwner, Step, StepRecord, TeacherLogprobs, UnaccountedGeneration,
};
pub use span::{IncomingSpan, Ingested, Span, SpanContext, SpanEvent, SpanLink, SpanResource, SpanStatus, StatusCode};
pub use text::json_text::{MendedJson, mended_json};
pub use text::long_numbers::{exact_json, exact_value, long_number, with_long_numbers, without_objects};
pub use text::nearest_name::nearest_name;
pub use text::short_text::{shortened, shortened_line};
pub use text::task_placeholder::{TaskPlaceholder, fill_placeholders};
pub use weights::{
    NamedWeights, NewNamedWeights, NewPublication, NoWeightsId, OtherFiles, Publication, PublicationCause,
    PublishedFiles, Replaces, ServedWeights, ServingState, WeightsId,
};

/// A JSON object.
pub type Object = serde_json::Map<String, serde_json::Value>;
