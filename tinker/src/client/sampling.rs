use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use fulgurite_types::WeightsVersion;
use reqwest::StatusCode;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use super::http::{Answer as HttpAnswer, Request};
use super::patience::{Failure, Tries, Trouble};
use super::sampled;
use super::service::{NoResult, Refusal, RequestKind, TinkerService};
use super::session::Session;
use crate::wire::protobuf::SampleResponse;
use crate::wire::{CreateSamplingSessionRequest, CreateSamplingSessionResponse, OWN_SEED, SubmittedRequest};
use fulgurite_backends::remote::Elements;
use fulgurite_backends::remote::{Answer, EndsAt};
use fulgurite_backends::{BackendError, PromptScores, SampleEvent, SampleRequest};

/// What is sampled from.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) version: WeightsVersion,
    /// `None` is the base model.
    pub(super) checkpoint: Option<String>,
}

/// What a service samples from under one id.
#[derive(Debug)]
struct SamplingSession {
    id: String,
    weights: Arc<Weights>,
    session: Arc<Session>,
    /// The place of the next request.
    next: AtomicU64,
}

/// What is asked of a service.
#[derive(Clone, Copy, Debug)]
pub(super) enum SamplingQuestion<'a> {
    /// An answer.
    Tokens(&'a SampleRequest),
    /// How likely a prompt is.
    Scores { prompt: &'a [u32], alternatives: usize },
}

/// A request that the service has taken.
#[derive(Debug)]
pub(super) struct Submitted {
    sampling_session: Arc<SamplingSession>,
    submitted: SubmittedRequest,
}

/// Sampling at one service from weights that may change.
#[derive(Debug)]
pub(super) struct Sampling {
    pub(super) service: Arc<TinkerService>,
    base_model: String,
    vocabulary_size: usize,
    weights: RwLock<Arc<Weights>>,
    open: Mutex<Option<Arc<SamplingSession>>>,
}

impl Sampling {
    pub(super) fn new(service: Arc<TinkerService>, base_model: String, vocabulary_size: usize) -> Self {
        let weights = RwLock::new(Arc::new(Weights { version: WeightsVersion(0), checkpoint: None }));
        Self { service, base_model, vocabulary_size, weights, open: Mutex::new(None) }
    }

    /// What requests are sampled from that arrive now.
    pub(super) fn weights(&self) -> Arc<Weights> {
        self.weights.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Samples from other weights, once the service has them ready.
    pub(super) async fn change(&self, weights: Weights) -> Result<(), BackendError> {
        let mut open = self.open.lock().await;
        let opened = self.open(Arc::new(weights)).await?;
        *self.weights.write().unwrap_or_else(PoisonError::into_inner) = opened.weights.clone();
        *open = Some(Arc::new(opened));
        Ok(())
    }

    /// The sampling session of the weights, made if there is none.
    async fn sampling_session(&self) -> Result<Arc<SamplingSession>, Refusal> {
        let mut open = self.open.lock().await;
        if let Some(open) = open.as_ref().filter(|open| !open.session.is_over()) {
            return Ok(open.clone());
        }
        let opened = Arc::new(self.open(self.weights()).await?);
        Ok(open.insert(opened).clone())
    }

    async fn open(&self, weights: Arc<Weights>) -> Result<SamplingSession, Refusal> {
        let session = self.service.session().await?;
        let request = CreateSamplingSessionRequest {
            session_id: session.id.clone(),
            sampling_session_seq_id: session.next_sampling_session(),
            base_model: weights.checkpoint.is_none().then(|| self.base_model.clone()),
            model_path: weights.checkpoint.clone(),
        };
        let created = self.service.post("api/v1/create_sampling_session", &request).await;
        let created: CreateSamplingSessionResponse =
            created.inspect_err(|refusal| end_if_unknown(&session, refusal))?;
        Ok(SamplingSession { id: created.sampling_session_id, weights, session, next: AtomicU64::new(0) })
    }

    /// Has the service take a request. One that was started again does not know the session any more, and is asked once
    /// more in a new one.
    pub(super) async fn submit(&self, question: SamplingQuestion<'_>) -> Result<Submitted, BackendError> {
        match self.submit_once(question).await {
            Err(Refusal { status: Some(StatusCode::NOT_FOUND), .. }) => Ok(self.submit_once(question).await?),
            submitted => Ok(submitted?),
        }
    }

    async fn submit_once(&self, question: SamplingQuestion<'_>) -> Result<Submitted, Refusal> {
        let sampling_session = self.sampling_session().await?;
        let place = sampling_session.next.fetch_add(1, Ordering::Relaxed);
        let body = match question {
            SamplingQuestion::Tokens(request) => {
                let greatest_seed = sampling_session.session.greatest_seed();
                sampled::request(&sampling_session.id, place, request, greatest_seed)
            }
            SamplingQuestion::Scores { prompt, alternatives } => {
                sampled::scoring_request(&sampling_session.id, place, prompt, alternatives)
            }
        };
        let mut submission = Request::post("api/v1/asample", &body)?;
        // Has the service answer 429 instead of queueing without end.
        submission.headers.push(("X-Tinker-Sampling-Backpressure", "1".to_owned()));
        submission.headers.push((OWN_SEED, "1".to_owned()));
        let submitted = self.service.submit(&submission).await;
        let submitted = submitted.inspect_err(|refusal| end_if_unknown(&sampling_session.session, refusal))?;
        Ok(Submitted { sampling_session, submitted })
    }

    /// Sees a request to its end, or until its receiver is dropped.
    pub(super) async fn run(
        self: Arc<Self>,
        mut submitted: Submitted,
        request: SampleRequest,
        sender: UnboundedSender<Result<SampleEvent, BackendError>>,
    ) {
        let response = tokio::select! {
            biased;
            () = sender.closed() => None,
            response = self.response(&mut submitted, SamplingQuestion::Tokens(&request)) => Some(response),
        };
        let Some(response) = response else {
            if submitted.sampling_session.session.cancels() {
                self.service.cancel(&submitted.submitted).await;
            }
            return;
        };
        let version = submitted.sampling_session.weights.version;
        match response.and_then(|response| self.events(&response, &request, version)) {
            // The caller may leave at any time.
            Ok(events) => events.into_iter().for_each(|event| drop(sender.send(Ok(event)))),
            Err(error) => drop(sender.send(Err(error))),
        }
    }

    /// Waits for the answer, asking again when the service has forgotten that it was asked.
    async fn response(
        &self,
        submitted: &mut Submitted,
        question: SamplingQuestion<'_>,
    ) -> Result<SampleResponse, BackendError> {
        let mut tries = Tries::new(self.service.patience());
        loop {
            match self.service.result(&submitted.submitted, RequestKind::Sample, HttpAnswer::message_of).await {
                Ok(response) => return Ok(response),
                Err(NoResult::Failed(error)) => return Err(error),
                Err(NoResult::Lost) => {
                    let error = self.service.lost("sample");
                    tries.failed(Failure { trouble: Trouble::Failing, retry_after: None, error }).await?;
                    *submitted = self.submit(question).await?;
                }
            }
        }
    }

    /// How likely a prompt is, with that many alternatives to each of its tokens.
    pub(super) async fn score(&self, prompt: &[u32], alternatives: usize) -> Result<PromptScores, BackendError> {
        let question = SamplingQuestion::Scores { prompt, alternatives };
        let mut submitted = self.submit(question).await?;
        let response = self.response(&mut submitted, question).await?;
        let scores = sampled::prompt_scores(&response, prompt, alternatives);
        scores.map_err(|fault| self.service.broken_answer(fault))
    }

    fn events(
        &self,
        response: &SampleResponse,
        request: &SampleRequest,
        version: WeightsVersion,
    ) -> Result<Vec<SampleEvent>, BackendError> {
        let answer = Answer::new(request, self.vocabulary_size, EndsAt::StopTokens);
        let events = sampled::piece(response, request).and_then(|piece| answer.of_weights(Some(version)).take(piece));
        events.map(Elements::into_vec).map_err(|fault| self.service.broken_answer(fault))
    }
}

fn end_if_unknown(session: &Session, refusal: &Refusal) {
    if refusal.status == Some(StatusCode::NOT_FOUND) {
        session.end();
    }
}
