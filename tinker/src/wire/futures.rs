use serde::{Deserialize, Deserializer, Serialize};

/// What answers a request whose result takes time: it is fetched by `POST /api/v1/retrieve_future`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubmittedRequest {
    /// Names the result to come.
    #[serde(deserialize_with = "text_or_number")]
    pub request_id: String,
    /// The model that the request is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// For a sample request, an id for each sequence to come. SDKs from 0.26 insist on exactly as many as they asked
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_sequence_ids: Option<Vec<String>>,
}

/// Some servers count their requests, and send the number.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrNumber {
        Text(String),
        Number(u64),
    }
    Ok(match TextOrNumber::deserialize(deserializer)? {
        TextOrNumber::Text(text) => text,
        TextOrNumber::Number(number) => number.to_string(),
    })
}

/// `POST /api/v1/retrieve_future`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetrieveFutureRequest {
    /// Which result.
    #[serde(deserialize_with = "text_or_number")]
    pub request_id: String,
    /// Whether [`CompleteMetadata`] may come in place of the result.
    #[serde(default)]
    pub allow_metadata_only: bool,
}

/// There is no result yet: ask again at once. Status 408, or 200.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "try_again")]
pub struct TryAgain {
    /// Which result.
    pub request_id: String,
    /// Whether the request is held up.
    pub queue_state: QueueState,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_state_reason: Option<String>,
}

/// Whether requests are held up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// They are not.
    Active,
    /// The server is full.
    PausedCapacity,
    /// The client asks for too much.
    PausedRateLimit,
    /// Something that there was not when this was written.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The result is there, and this large. Comes only where it was allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename = "complete_metadata")]
pub struct CompleteMetadata {
    /// Bytes.
    pub response_payload_size: u64,
}

/// There will be no result. Status 200.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestFailed {
    /// Why.
    pub error: String,
    /// Whose fault it is.
    #[serde(default)]
    pub category: ErrorCategory,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCategory {
    /// Whoever asked.
    User,
    /// The server.
    Server,
    /// Nobody knows.
    #[default]
    #[serde(other)]
    Unknown,
}

/// `POST /api/v1/retrieve_futures`: which of a sampling session's requests are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FuturesRetrieveRequest {
    /// Whose requests.
    pub target: FuturesTarget,
    /// The cursor of the answer before.
    #[serde(default)]
    pub prev_cursor: i64,
    /// Seconds that the server may wait for something new; 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Those whose result has been fetched.
    #[serde(default)]
    pub retrieved_request_ids: Vec<String>,
}

/// Whose requests are asked after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "sampling_session")]
pub struct FuturesTarget {
    /// The sampling session.
    pub sampling_session_id: String,
    /// Which copy of the client.
    #[serde(default)]
    pub cloned_sampler_id: i64,
}

/// The answer of `POST /api/v1/retrieve_futures`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FuturesRetrieveResponse {
    /// Those that are done.
    pub completions: Vec<FutureCompletion>,
    /// For the next request.
    pub cursor: i64,
}

/// A request that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FutureCompletion {
    /// How it went.
    pub state: FutureState,
    /// Which.
    pub request_id: String,
    /// Bytes of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_payload_uncompressed_size: Option<u64>,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FutureState {
    /// There is a result.
    Finished,
    /// There is an error.
    Failed,
}

/// `POST /api/v1/cancel_future`, answered by an empty success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CancelFutureRequest {
    /// Whose result nobody waits for any more.
    #[serde(deserialize_with = "text_or_number")]
    pub request_id: String,
}
