use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use crate::observe::call_facts::CallFacts;
use crate::observe::observed_body::{BodyEnd, ObservedBody};
use crate::observe::telemetry::{Api, Outcome, Telemetry};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Counts and measures requests for a model's answer, each when its last byte has left or its client has.
pub(crate) async fn meter(State(telemetry): State<Arc<Telemetry>>, mut request: Request, next: Next) -> Response {
    let Some(api) = Api::of_path(request.uri().path()).filter(|_| request.method() == Method::POST) else {
        return next.run(request).await;
    };
    let facts = Arc::clone(request.extensions_mut().get_or_insert_default::<Arc<CallFacts>>());
    let call = MeteredCall { telemetry, api, facts: Arc::clone(&facts), outcome: Outcome::ClientDisconnected };
    let mut response = next.run(request).await;
    facts.describe(&mut response);
    if !matches!(api, Api::Messages | Api::GenerateContent) {
        name_request(&mut response);
    }
    let status = response.status();
    response.map(|body| Body::new(ObservedBody::new(body, move |end| call.end(status, end))))
}

/// What OpenAI's clients tell a person who asks about an answer; Anthropic's have a header of their own, Google's the
/// answer's `responseId`.
fn name_request(response: &mut Response) {
    let id = format!("req_{}", uuid::Uuid::now_v7().simple());
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().entry(REQUEST_ID).or_insert(value);
    }
}

/// A call that counts itself when it is over: dropped before there is an answer, its client has gone.
struct MeteredCall {
    telemetry: Arc<Telemetry>,
    api: Api,
    facts: Arc<CallFacts>,
    outcome: Outcome,
}

impl MeteredCall {
    /// Ends with the body of the response.
    fn end(mut self, status: StatusCode, end: BodyEnd) {
        self.outcome = match () {
            () if status.is_client_error() => Outcome::Refused,
            () if status.is_server_error() || self.facts.has_failed() => Outcome::Failed,
            () if end.is_whole => Outcome::Answered,
            () => Outcome::ClientDisconnected,
        };
    }
}

impl Drop for MeteredCall {
    fn drop(&mut self) {
        let Self { telemetry, api, facts, outcome } = self;
        telemetry.call_ended(facts.model(), *api, *outcome);
        if let (Some(operation), Outcome::Answered) = (facts.operation(), outcome) {
            operation.duration.record(facts.arrived.elapsed());
        }
    }
}
