use std::sync::Arc;

use reqwest::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::http::{Answer, Http, PROTOBUF, Request};
use super::patience::{Failure, Patience, Tries, Trouble};
use super::session::Session;
use crate::wire::{
    CancelFutureRequest, CompleteMetadata, ErrorCategory, QueueState, RequestFailed, RetrieveFutureRequest,
    ServerCapabilities, SubmittedRequest, TryAgain,
};
use fulgurite_backends::remote::{HEALTH_LIMIT, refusal};
use fulgurite_backends::{AnswerFault, BackendError};

/// Where a service is, and how long it is waited for.
#[derive(Clone)]
pub struct TinkerOptions {
    /// Scheme, address and path. An `/api/v1` at the end is left out.
    pub url: String,
    /// Sent as `X-API-Key`, or exchanged for a token that is. Never shown.
    pub api_key: Option<String>,
    /// How long it is waited for.
    pub patience: Patience,
}

impl std::fmt::Debug for TinkerOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TinkerOptions").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A service that speaks the Tinker API, and the session that this process has there.
///
/// The session is made when it is first needed, since the service may be down before, and again after it is over.
#[derive(Debug)]
pub struct TinkerService {
    http: Arc<Http>,
    patience: Patience,
    session: Mutex<Option<Arc<Session>>>,
}

/// What a result is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    CreateModel,
    ForwardBackward,
    OptimStep,
    SaveWeights,
    LoadWeights,
    SaveWeightsForSampler,
    Sample,
}

impl RequestKind {
    /// As the service has it counted.
    fn name(self) -> &'static str {
        match self {
            Self::CreateModel => "CreateModel",
            Self::ForwardBackward => "ForwardBackward",
            Self::OptimStep => "OptimStep",
            Self::SaveWeights => "SaveWeights",
            Self::LoadWeights => "LoadWeights",
            Self::SaveWeightsForSampler => "SaveWeightsForSampler",
            Self::Sample => "Sample",
        }
    }
}

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum NoResult {
    /// The service has forgotten that it was asked.
    Lost,
    /// There will be none.
    Failed(BackendError),
}

impl From<BackendError> for NoResult {
    fn from(error: BackendError) -> Self {
        Self::Failed(error)
    }
}

/// What an answer to a request for a result says.
enum Polled<T> {
    Result(T),
    NotYet,
    TryAgainLater(Failure),
    None(NoResult),
}

impl TinkerService {
    /// A service that is not looked at yet. Fails for what cannot be an address or a key.
    pub fn new(options: &TinkerOptions) -> Result<Self, BackendError> {
        let http = Arc::new(Http::new(&options.url, options.api_key.as_deref())?);
        Ok(Self { http, patience: options.patience, session: Mutex::new(None) })
    }

    /// Its URL, as errors and logs show it.
    pub(crate) fn name(&self) -> String {
        self.http.name()
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// What it is that the service has forgotten a request.
    pub(crate) fn lost(&self, what: &str) -> BackendError {
        self.http.unavailable(format!("it has lost a {what} request that it had taken"))
    }

    /// Whether `GET /api/v1/healthz` succeeds.
    pub async fn check_health(&self) -> Result<(), BackendError> {
        let answer = self.http.send(&Request::get("api/v1/healthz"), HEALTH_LIMIT).await?;
        match answer.status.is_success() {
            true => Ok(()),
            false => Err(refusal(&self.name(), answer.status, &answer.message())),
        }
    }

    /// The session, made if there is none.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, BackendError> {
        let mut session = self.session.lock().await;
        if let Some(open) = session.as_ref().filter(|session| !session.is_over()) {
            return Ok(open.clone());
        }
        let opened = Arc::new(Session::open(self.http.clone(), self.patience).await?);
        tracing::info!(host = %self.name(), session = %opened.id, is_current = opened.is_current(), "opened a session");
        Ok(session.insert(opened).clone())
    }

    /// The session, once the service answers: one that is away is tried again for as long as its requests are.
    pub(crate) async fn session_once_it_answers(&self) -> Result<Arc<Session>, BackendError> {
        let (mut tries, mut is_reported) = (Tries::new(self.patience), false);
        loop {
            let error = match self.session().await {
                Err(error) if matches!(error, BackendError::Unavailable { .. }) => error,
                outcome => return outcome,
            };
            if !is_reported {
                let seconds = self.patience.failing.as_secs();
                tracing::warn!(%error, seconds, "the service that trains does not answer, and is tried again");
                is_reported = true;
            }
            tries.failed(failing(error)).await?;
        }
    }

    /// What models the service has; `None` if it does not say.
    pub(crate) async fn capabilities(&self) -> Result<Option<ServerCapabilities>, BackendError> {
        match self.exchange(&Request::get("api/v1/get_server_capabilities"), Answer::json).await {
            Ok(capabilities) => Ok(Some(capabilities)),
            Err(Refusal { status: Some(StatusCode::NOT_FOUND), .. }) => Ok(None),
            Err(refusal) => Err(refusal.error),
        }
    }

    /// POSTs a request that is answered at once.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Refusal> {
        self.exchange(&Request::post(path, body)?, Answer::json).await
    }

    /// POSTs a request whose result is to come. It must be one that the service knows again when it comes twice.
    pub(crate) async fn submit(&self, request: &Request) -> Result<SubmittedRequest, Refusal> {
        self.exchange(request, Answer::json).await
    }

    /// Sends a request until it is answered or refused.
    async fn exchange<T>(&self, request: &Request, read: impl Fn(&Answer) -> Result<T, String>) -> Result<T, Refusal> {
        let mut tries = Tries::new(self.patience);
        loop {
            let failure = match self.http.send(request, self.patience.silence).await {
                Ok(answer) if answer.status.is_success() => match read(&answer) {
                    Ok(value) => return Ok(value),
                    Err(message) => self.doubtful(AnswerFault::Unreadable { message }),
                },
                Ok(answer) => match self.trouble(&answer) {
                    Some(failure) => failure,
                    None => return Err(self.refusal(&answer)),
                },
                Err(error) if matches!(error, BackendError::Unavailable { .. }) => failing(error),
                Err(error) => return Err(error.into()),
            };
            tries.failed(failure).await?;
        }
    }

    /// Waits for a result.
    pub(crate) async fn result<T>(
        &self,
        submitted: &SubmittedRequest,
        kind: RequestKind,
        read: impl Fn(&Answer) -> Result<T, String>,
    ) -> Result<T, NoResult> {
        let body = RetrieveFutureRequest { request_id: submitted.request_id.clone(), allow_metadata_only: false };
        let mut request = Request::post("api/v1/retrieve_future", &body)?;
        if matches!(kind, RequestKind::ForwardBackward | RequestKind::Sample) {
            request.accept = PROTOBUF;
        }
        let mut tries = Tries::new(self.patience);
        let mut iteration = 0u64;
        loop {
            request.headers = vec![
                ("X-Tinker-Request-Iteration", iteration.to_string()),
                ("X-Tinker-Request-Type", kind.name().to_owned()),
            ];
            iteration += 1;
            let started = Instant::now();
            match self.poll(&request, &read).await {
                Polled::Result(result) => return Ok(result),
                Polled::None(no_result) => return Err(no_result),
                Polled::TryAgainLater(failure) => tries.failed(failure).await?,
                Polled::NotYet => {
                    tries.succeeded();
                    // The service does the waiting; one that does not must not be asked without end all the same.
                    tokio::time::sleep_until(started + self.patience.first_wait / 10).await;
                }
            }
        }
    }

    async fn poll<T>(&self, request: &Request, read: &impl Fn(&Answer) -> Result<T, String>) -> Polled<T> {
        let answer = match self.http.send(request, self.patience.poll).await {
            Ok(answer) => answer,
            Err(error) if matches!(error, BackendError::Unavailable { .. }) => {
                return Polled::TryAgainLater(failing(error));
            }
            Err(error) => return Polled::None(error.into()),
        };
        match answer.status {
            StatusCode::REQUEST_TIMEOUT => {
                report_queue(&answer);
                Polled::NotYet
            }
            StatusCode::GONE => Polled::None(NoResult::Lost),
            // SkyRL's server says so of requests that failed, gateways of requests that did not.
            StatusCode::BAD_REQUEST => {
                let error = self.refusal(&answer).error;
                Polled::TryAgainLater(Failure { trouble: Trouble::Doubtful, retry_after: answer.retry_after, error })
            }
            status if status.is_success() => self.polled(&answer, read),
            _ => match self.trouble(&answer) {
                Some(failure) => Polled::TryAgainLater(failure),
                None => Polled::None(self.refusal(&answer).error.into()),
            },
        }
    }

    /// What a success says, which may be that there is no result yet, or none at all.
    fn polled<T>(&self, answer: &Answer, read: &impl Fn(&Answer) -> Result<T, String>) -> Polled<T> {
        if !answer.content_type.starts_with(PROTOBUF) {
            if let Ok(failed) = answer.json::<RequestFailed>() {
                return Polled::None(self.failure_of_request(failed).into());
            }
            if answer.json::<TryAgain>().is_ok() {
                report_queue(answer);
                return Polled::NotYet;
            }
            if answer.json::<CompleteMetadata>().is_ok() {
                let message = "its size came instead, for which nobody asked".to_owned();
                return Polled::TryAgainLater(self.doubtful(AnswerFault::Unreadable { message }));
            }
        }
        match read(answer) {
            Ok(result) => Polled::Result(result),
            Err(message) => Polled::TryAgainLater(self.doubtful(AnswerFault::Unreadable { message })),
        }
    }

    fn failure_of_request(&self, failed: RequestFailed) -> BackendError {
        let message = failed.error;
        match failed.category {
            ErrorCategory::User => {
                BackendError::InvalidRequest { message: AnswerFault::Refused { message }.to_string() }
            }
            ErrorCategory::Server | ErrorCategory::Unknown => {
                BackendError::Internal { message: format!("{}: {message}", self.name()) }
            }
        }
    }

    /// Has the service delete what is at a path.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), BackendError> {
        let answer = self.http.send(&Request::delete(path), self.patience.silence).await?;
        match answer.status.is_success() {
            true => Ok(()),
            false => Err(self.refusal(&answer).error),
        }
    }

    /// Tells the service that nobody waits for a result any more.
    pub(crate) async fn cancel(&self, submitted: &SubmittedRequest) {
        let body = CancelFutureRequest { request_id: submitted.request_id.clone() };
        let sent = match Request::post("api/v1/cancel_future", &body) {
            Ok(request) => self.http.send(&request, self.patience.silence).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(answer) if answer.status.is_success() => {}
            Ok(answer) => tracing::debug!(status = %answer.status, "a sample request could not be cancelled"),
            Err(error) => tracing::debug!(%error, "a sample request could not be cancelled"),
        }
    }

    /// Whether a status is worth another try.
    fn trouble(&self, answer: &Answer) -> Option<Failure> {
        let trouble = match answer.status {
            StatusCode::TOO_MANY_REQUESTS => Trouble::Busy,
            StatusCode::PAYMENT_REQUIRED => Trouble::Unpaid,
            StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY => Trouble::Failing,
            status if status.is_server_error() => Trouble::Failing,
            _ => return None,
        };
        Some(Failure { trouble, retry_after: answer.retry_after, error: self.refusal(answer).error })
    }

    fn refusal(&self, answer: &Answer) -> Refusal {
        Refusal { status: Some(answer.status), error: refusal(&self.name(), answer.status, &answer.message()) }
    }

    fn doubtful(&self, fault: AnswerFault) -> Failure {
        let error = self.broken_answer(fault);
        Failure { trouble: Trouble::Doubtful, retry_after: None, error }
    }

    /// The error that a fault in an answer is.
    pub(crate) fn broken_answer(&self, fault: AnswerFault) -> BackendError {
        BackendError::BrokenAnswer { host: self.name(), fault }
    }
}

/// A request that came to nothing.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What the service answered, if it was the service that refused.
    pub(crate) status: Option<StatusCode>,
    pub(crate) error: BackendError,
}

impl From<BackendError> for Refusal {
    fn from(error: BackendError) -> Self {
        Self { status: None, error }
    }
}

impl From<Refusal> for BackendError {
    fn from(refusal: Refusal) -> Self {
        refusal.error
    }
}

fn failing(error: BackendError) -> Failure {
    Failure { trouble: Trouble::Failing, retry_after: None, error }
}

/// Says why requests are held up, if they are.
fn report_queue(answer: &Answer) {
    let Ok(TryAgain { request_id, queue_state, queue_state_reason }) = answer.json() else { return };
    if !matches!(queue_state, QueueState::Active) {
        let reason = queue_state_reason.unwrap_or_default();
        tracing::info!(request_id, ?queue_state, reason, "the service holds requests up");
    }
}
