use std::sync::Arc;

use axum::extract::Request;

use crate::error::ProxyError;
use crate::models::caller_key::CallerKey;
use crate::models::pause_state::InFlight;
use crate::models::template_work::TemplateWork;
use crate::observe::call_facts::CallFacts;
use crate::requests::call_target::{CallMaker, CallPath, CallTarget};
use crate::requests::google_request::key_in_query;
use crate::requests::large_requests::RequestSize;

/// Header by which a client allows or forbids that the answers are trained.
const TRAINABLE: &str = "x-fulgurite-trainable";

/// Whose request it is, and whether it came before.
#[derive(Default)]
pub(crate) struct Caller {
    pub(crate) target: CallTarget,
    pub(crate) key: CallerKey,
    /// The key that came with a request which names no rollout, as it was sent.
    pub(crate) sent_key: Option<String>,
    /// A grader's answers are never trained.
    pub(crate) maker: CallMaker,
    /// Whether the attempt is made if it is not there.
    pub(crate) begins_attempt: bool,
    /// If the gateway counts it.
    pub(crate) in_flight: Option<InFlight>,
    /// `Idempotency-Key`.
    pub(crate) idempotency_key: Option<String>,
    /// How often the client's library has sent the request before, by its own count.
    pub(crate) retries: u32,
    /// Whether its answers may be trained, whatever the rules for auxiliary calls say.
    pub(crate) trainable: Option<bool>,
    pub(crate) facts: Arc<CallFacts>,
    /// Of the body.
    pub(crate) size: RequestSize,
}

impl Caller {
    pub(crate) fn new(path: CallPath, request: &Request) -> Result<Self, ProxyError> {
        let target = CallTarget::read(path, request.headers(), request.extensions())?;
        Self { target, ..Self::default() }.with_headers(request)
    }

    /// Renders, on this thread as long as that is brief; else when it is the turn of the call's attempt or session. `work` may
    /// be begun twice.
    pub(crate) async fn render<T: Send + 'static>(
        &self,
        templates: &TemplateWork,
        work: impl Fn() -> T + Send + 'static,
    ) -> Result<T, ProxyError> {
        templates.run(self.size.template_start(), || self.target.owner(), work).await
    }

    /// With the key's holder, and with the headers about retries, which the libraries of OpenAI and Anthropic count, and about
    /// training.
    pub(crate) fn with_headers(self, request: &Request) -> Result<Self, ProxyError> {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let trainable = header(TRAINABLE).map(|value| {
            value.parse().map_err(|_| ProxyError::invalid(TRAINABLE, format!("{TRAINABLE} must be true or false")))
        });
        let sent_key = matches!(self.target, CallTarget::Unnamed).then(|| sent_key(request)).flatten();
        Ok(Self {
            sent_key,
            key: CallerKey::read(request.method(), request.extensions()),
            maker: CallMaker::read(request.extensions()),
            idempotency_key: header("idempotency-key").map(str::to_owned),
            retries: header("x-stainless-retry-count").and_then(|count| count.parse().ok()).unwrap_or_default(),
            trainable: trainable.transpose()?,
            facts: request.extensions().get().map(Arc::clone).unwrap_or_default(),
            ..self
        })
    }
}

/// Headers that clients send their keys in.
const KEYS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// The keys that a request carries, wherever its client puts them.
fn sent_key(request: &Request) -> Option<String> {
    let values = KEYS.iter().flat_map(|name| request.headers().get_all(*name));
    let in_headers = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let keys: Vec<String> = in_headers.chain(key_in_query(request.uri())).collect();
    (!keys.is_empty()).then(|| keys.join("\n"))
}
