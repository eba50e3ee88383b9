//! The messages of the Tinker API, for client and server.
//!
//! Control messages are JSON: what is unset is left out, what is unknown is ignored, and the constant `type` that most
//! of them carry is written but never required. Training requests and the results of training and sampling are
//! Protocol Buffers (package `tinker_public`); training requests were JSON before SDK 0.25, and still may be.
//!
//! - [`protobuf`]: the binary messages, by their numbers.
//! - [`Array`], [`WireError`]: arrays of either form as numbers, and why one cannot be read.
//! - [`CheckpointPath`]: a checkpoint by its run, its kind and its name.
//! - the rest: the JSON bodies, by what they are for (sessions, futures, models, training, sampling, management).

mod array;
mod checkpoint_path;
mod dtype;
mod futures;
mod management;
mod models;
mod packed;
pub mod protobuf;
mod sampling;
mod sessions;
mod training;
mod wire_error;

pub use array::{Array, Numbers};
pub use checkpoint_path::{CheckpointKind, CheckpointPath, NoCheckpointPath};
pub use futures::{
    CancelFutureRequest, CompleteMetadata, ErrorCategory, FutureCompletion, FutureState, FuturesRetrieveRequest,
    FuturesRetrieveResponse, FuturesTarget, QueueState, RequestFailed, RetrieveFutureRequest, SubmittedRequest,
    TryAgain,
};
pub use management::{
    AssignProjectRequest, CopyWeightsRequest, CopyWeightsResponse, SessionOwner, SessionSearchCursor,
    SessionSearchRequest, SessionStatusQuery, SetTtlRequest,
};
pub use models::{
    CreateModelRequest, GetInfoRequest, GetInfoResponse, LoadWeightsRequest, LoadWeightsResponse, LoraConfig,
    ModelCreated, ModelData, ModelUnloaded, OptimizerConfig, SamplerWeightsKind, SaveWeightsExternalRequest,
    SaveWeightsExternalResponse, SaveWeightsForSamplerRequest, SaveWeightsForSamplerResponse, SaveWeightsRequest,
    SaveWeightsResponse, UnloadModelRequest,
};
pub use sampling::{
    CreateSamplingSessionRequest, CreateSamplingSessionResponse, GetSamplerResponse, JoinSamplingSessionRequest,
    JoinSamplingSessionResponse, JsonSampleResponse, JsonSampledSequence, OWN_SEED, SampleRequest, SamplingParams,
    StopSequences,
};
pub use sessions::{
    AuthTokenResponse, ClientConfig, ClientConfigRequest, CreateSessionRequest, CreateSessionResponse, DynamicConfig,
    FinishReason, FinishSessionRequest, HealthResponse, ServerCapabilities, SessionHeartbeatRequest,
    SessionHeartbeatResponse, SupportedModel, TelemetryResponse,
};
pub use training::{
    AdamParams, ForwardBackwardInput, JsonChunk, JsonDatum, JsonForwardBackwardOutput, JsonForwardBackwardRequest,
    JsonForwardRequest, ModelInput, OptimStepRequest, OptimStepResponse, TensorData, TensorDtype,
};
pub use wire_error::WireError;
