use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

use crate::error::ProxyError;
use crate::observe::call_facts::CallFacts;
use crate::reply::answer_token::AnswerToken;
use crate::reply::call_event::{CallEvent, Finished};
use crate::reply::flight::{ChoiceEvent, Listener};
use crate::reply::reply_writer::{ReplyWriter, WholeChoice};
use crate::reply::response_body::{StreamedBody, WholeBody};

/// The answers in one piece, once all are there.
pub(crate) async fn whole(
    mut listener: Listener,
    mut writer: Box<dyn ReplyWriter>,
    choices: usize,
    facts: &CallFacts,
) -> Result<Response, Arc<ProxyError>> {
    let mut tokens: Vec<Vec<Arc<[AnswerToken]>>> = vec![Vec::new(); choices];
    let mut finished: Vec<Option<Arc<Finished>>> = vec![None; choices];
    while finished.iter().any(Option::is_none) {
        let ChoiceEvent { choice, event } = listener.next().await.ok_or_else(ProxyError::broken_off)?;
        match event {
            CallEvent::Tokens(sampled) => {
                facts.count_delivered(sampled.len());
                tokens[choice].push(sampled);
            }
            CallEvent::Finished(end) => finished[choice] = Some(end),
            CallEvent::Failed(error) => return Err(error),
        }
    }
    let ended = tokens.into_iter().zip(finished.into_iter().flatten());
    let choices: Vec<WholeChoice> = ended.map(|(tokens, finished)| WholeChoice { tokens, finished }).collect();
    if let Some(error) = writer.refused(&choices) {
        listener.refused();
        return Err(error.into());
    }
    let mut bytes = Vec::new();
    writer.whole(&choices, &mut bytes);
    let mut response = Response::new(Body::new(WholeBody::new(bytes.into(), listener)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The answers while they are sampled. What fails soon, before any event, is an ordinary error and not an aborted stream.
pub(crate) async fn stream(
    mut listener: Listener,
    writer: Box<dyn ReplyWriter>,
    choices: usize,
    quiet: Duration,
    facts: Arc<CallFacts>,
) -> Result<Response, Arc<ProxyError>> {
    let first_event = match tokio::time::timeout(quiet, listener.next()).await {
        Ok(Some(ChoiceEvent { event: CallEvent::Failed(error), .. })) => return Err(error),
        Ok(Some(event)) => Some(event),
        Ok(None) => return Err(ProxyError::broken_off().into()),
        Err(_) => None,
    };
    let body = StreamedBody::new(listener, writer, first_event, choices, quiet, facts);
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}
