use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `POST /api/v1/client/config` and `POST /api/v1/client/dynamic_config`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientConfigRequest {
    /// The client's version of the protocol, as that of the official SDK.
    pub sdk_version: String,
}

/// How a server wants to be used. What it does not say is as [`ClientConfig::default`] has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientConfig {
    /// Whether keys are to be exchanged for short-lived tokens (`/api/v1/auth/token`).
    pub pjwt_auth_enabled: bool,
    /// Where clients look for a key first.
    pub credential_default_source: String,
    /// Whether the chunks of one pass may be sent at the same time.
    pub parallel_fwdbwd_chunks: bool,
    /// Whether training requests may be compressed with zstd.
    pub proto_compress_fwdbwd: bool,
    /// Whether training requests are binary. Read by SDKs before 0.25 only.
    pub proto_write_fwdbwd: bool,
    /// Whether forward passes go to `/forward_backward` too. Read by SDKs before 0.25 only.
    pub fwd_via_fwdbwd: bool,
    /// Whether models are made from checkpoints by `/load_weights` alone. Read by SDKs before 0.26 only.
    pub create_model_via_load_weights: bool,
    /// Datums of one training request at most.
    pub fwdbwd_max_chunk_len: usize,
    /// Bytes of one training request at most, as clients estimate them.
    pub fwdbwd_max_chunk_bytes_count: usize,
    /// Bytes of training requests under way at most.
    pub fwdbwd_dispatch_bytes_semaphore_size: usize,
    /// Bytes of sample requests under way at most.
    pub sample_dispatch_bytes_semaphore_size: usize,
    /// Bytes of results under way at most.
    pub inflight_response_bytes_semaphore_size: usize,
    /// Seconds that a client waits for payment.
    pub billing_exception_max_pause_duration_sec: u64,
    /// Whether a client gives a sample request up at its first failure.
    pub sample_no_retries: bool,
    /// Whether a client gives up when no sample comes for a long time.
    pub sample_enable_stuck_detection: bool,
    /// Sample requests under way at most.
    pub sample_max_concurrent_requests: usize,
    /// Which HTTP client the official SDK uses.
    pub use_pyqwest_transport: bool,
    /// Whether clients ask which samples are done with one request for many (`/api/v1/retrieve_futures`).
    pub sample_use_retrieve_futures: bool,
    /// Whether the server computes losses that clients bring along.
    pub custom_loss_server_side: bool,
    /// Whether copies of a sampling client are told apart by `/api/v1/join_sampling_session`.
    pub sample_join_sampling_session: bool,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            pjwt_auth_enabled: false,
            credential_default_source: "api_key".to_owned(),
            parallel_fwdbwd_chunks: true,
            proto_compress_fwdbwd: false,
            proto_write_fwdbwd: false,
            fwd_via_fwdbwd: false,
            create_model_via_load_weights: false,
            fwdbwd_max_chunk_len: 1024,
            fwdbwd_max_chunk_bytes_count: 5_000_000,
            fwdbwd_dispatch_bytes_semaphore_size: 50_000_000,
            sample_dispatch_bytes_semaphore_size: 10 * 1024 * 1024,
            inflight_response_bytes_semaphore_size: 50 * 1024 * 1024,
            billing_exception_max_pause_duration_sec: 60 * 60,
            sample_no_retries: false,
            sample_enable_stuck_detection: true,
            sample_max_concurrent_requests: 2000,
            use_pyqwest_transport: true,
            sample_use_retrieve_futures: false,
            custom_loss_server_side: false,
            sample_join_sampling_session: false,
        }
    }
}

/// What a server may change its mind about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DynamicConfig {
    /// Seconds until clients ask again.
    pub refresh_interval_sec: u64,
    /// Whether `/api/v1/cancel_future` is there.
    pub sample_cancel_enabled: bool,
    /// Requests that one cancellation names at most.
    pub sample_cancel_max_batch_size: usize,
}

impl Default for DynamicConfig {
    fn default() -> Self {
        Self { refresh_interval_sec: 300, sample_cancel_enabled: false, sample_cancel_max_batch_size: 64 }
    }
}

/// The answer of `POST /api/v1/auth/token`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct AuthTokenResponse {
    /// Stands for the key until it is refused.
    pub jwt: String,
}

/// `POST /api/v1/create_session`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "create_session")]
pub struct CreateSessionRequest {
    /// Labels for people.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Notes for people. Always sent, since servers on an SDK's own types insist on it.
    #[serde(default)]
    pub user_metadata: Option<Map<String, Value>>,
    /// The client's version of the protocol. Servers refuse old ones.
    #[serde(default)]
    pub sdk_version: String,
    /// Whose the session is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// The answer of `POST /api/v1/create_session`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "create_session")]
pub struct CreateSessionResponse {
    /// The session.
    pub session_id: String,
    /// To be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info_message: Option<String>,
    /// To be shown as a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning_message: Option<String>,
    /// To be shown as an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// `POST /api/v1/session_heartbeat`, every ten seconds. 410 answers it when the session is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "session_heartbeat")]
pub struct SessionHeartbeatRequest {
    /// The session.
    pub session_id: String,
}

/// The answer of `POST /api/v1/session_heartbeat`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "session_heartbeat")]
pub struct SessionHeartbeatResponse {}

/// `POST /api/v1/sessions/{session_id}/finish`, answered by an empty success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinishSessionRequest {
    /// How it went.
    pub reason: FinishReason,
    /// More about it.
    #[serde(default)]
    pub detail: Option<String>,
}

/// How a session went for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FinishReason {
    /// To its end.
    Success,
    /// To an error.
    Errored,
    /// Until somebody stopped it.
    Interrupted,
}

impl FinishReason {
    /// Its `type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Errored => "errored",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The answer of `POST /api/v1/telemetry`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TelemetryResponse {
    /// `accepted`.
    pub status: String,
}

/// The answer of `GET /api/v1/healthz`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HealthResponse {
    /// `ok`.
    pub status: String,
}

/// The answer of `GET /api/v1/get_server_capabilities`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCapabilities {
    /// The models that there are.
    pub supported_models: Vec<SupportedModel>,
}

/// A model that a server has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SupportedModel {
    /// What requests call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
    /// Tokens of prompt and answer together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context_length: Option<usize>,
    /// Whether it can be trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainable: Option<bool>,
    /// Whether it can be sampled from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampleable: Option<bool>,
}
