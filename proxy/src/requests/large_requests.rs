use std::borrow::Cow;

use fulgurite_backends::{FairShare, ShareLimits, aside};
use serde::Deserialize;

use crate::error::ProxyError;
use crate::error::queued_work::QueuedWork;
use crate::models::served_models::ServedModels;
use crate::models::template_work::WorkStart;
use crate::requests::call_target::CallTarget;

/// Bodies up to this size are worked at where they arrive: less than a millisecond.
const SMALL: usize = 64 * 1024;

/// Bytes of JSON for a byte of a prompt's text: escapes, and punctuation of few tokens.
const JSON_PER_BYTE: usize = 2;

/// Bytes of a body that are no text of its prompt, such as tools, metadata and reasoning that templates leave out.
const AROUND_PROMPT: usize = 1 << 20;

/// How large requests are worked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeRequestLimits {
    /// Requests of more than 64 KiB that are read or rendered together.
    pub at_once: usize,
    /// Requests of one attempt, session or anonymous callers that may wait for that.
    pub waiting: usize,
}

impl Default for LargeRequestLimits {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |processors| processors.get());
        Self { at_once: processors.div_ceil(2), waiting: 16 }
    }
}

impl LargeRequestLimits {
    /// The places that are shared out among their clients.
    pub(crate) fn share(self) -> FairShare {
        FairShare::new(ShareLimits {
            places: self.at_once.max(1),
            waiting_of_owner: self.waiting,
            waiting: self.waiting.saturating_mul(OWNERS_WAITING),
        })
    }
}

/// Queues that may be full together.
const OWNERS_WAITING: usize = 16;

/// A request's size, and whose turn its work takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestSize {
    pub(crate) bytes: usize,
    owner: String,
}

impl RequestSize {
    /// Of a body.
    pub(crate) fn of(bytes: usize, target: &CallTarget) -> Self {
        let owner = if bytes <= SMALL { String::new() } else { target.owner() };
        Self { bytes, owner }
    }

    /// Where the work of templates begins for such a request.
    pub(crate) fn template_start(&self) -> WorkStart {
        if self.bytes <= SMALL { WorkStart::Here } else { WorkStart::Aside }
    }

    /// Does a piece of the request's work: of a large one when it is its owner's turn, and without keeping others from
    /// the thread. Between pieces it ends if its client leaves.
    pub(crate) async fn work<T>(&self, turns: &FairShare, work: impl FnOnce() -> T) -> Result<T, ProxyError> {
        if self.bytes <= SMALL {
            return Ok(work());
        }
        let full = |full| ProxyError::TooManyWaiting { work: QueuedWork::LargeRequest, full };
        let _place = turns.enter(&self.owner).await.map_err(full)?;
        Ok(aside(work))
    }
}

/// Refuses a large body that no prompt of its model has, before it is parsed. `named` is the model that its path names; else
/// the body does.
pub(crate) async fn check_against_context(
    models: &ServedModels,
    turns: &FairShare,
    size: &RequestSize,
    body: &[u8],
    named: Option<&str>,
) -> Result<(), ProxyError> {
    if body.len() <= AROUND_PROMPT {
        return Ok(());
    }
    let named = match named {
        Some(named) => Some(Cow::Borrowed(named)),
        None => size.work(turns, || model_named(body)).await?,
    };
    let Some(model) = named.and_then(|name| models.get(&name)?.sampled()) else { return Ok(()) };
    // A host that cannot be reached now is queried again later.
    let Ok(info) = model.sampler.info().await else { return Ok(()) };
    let limit = bytes_of_context(info.context_length, model.renderer.tokenizer().longest_token_bytes());
    match body.len() > limit {
        true => Err(ProxyError::BodyOverContext { bytes: body.len(), limit, context_length: info.context_length }),
        false => Ok(()),
    }
}

/// The most that the JSON takes of a request whose prompt is no longer than the context.
fn bytes_of_context(context_length: usize, longest_token: usize) -> usize {
    context_length.saturating_mul(longest_token).saturating_mul(JSON_PER_BYTE).saturating_add(AROUND_PROMPT)
}

/// The model that a body names, found without keeping anything else of it.
fn model_named(body: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Named<'b> {
        #[serde(borrow)]
        model: Option<Cow<'b, str>>,
    }
    serde_json::from_slice::<Named<'_>>(body).ok()?.model
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_in_a_body_without_reading_the_rest() {
        let named = |text: &str| model_named(text.as_bytes()).map(Cow::into_owned);
        assert_eq!(named(r#"{"messages":[{"a":[1,{}]}],"model":"m","x":null}"#).as_deref(), Some("m"));
        assert_eq!(named(r#"{"model":"\u006d"}"#).as_deref(), Some("m"));
        for none in ["[]", "{", r#"{"model":7}"#, r#"{"messages":"model"}"#] {
            assert_eq!(named(none), None, "{none}");
        }
        let deep = format!(r#"{{"x":{}{},"model":"m"}}"#, "[".repeat(100_000), "]".repeat(100_000));
        // The parser reports the error.
        let _ = named(&deep);
    }

    #[test]
    fn those_who_send_large_requests_take_turns_by_attempt_or_session() {
        let of = |target: &CallTarget| RequestSize::of(SMALL + 1, target).owner;
        let attempt = |attempt_id: Option<&str>| CallTarget::Attempt {
            rollout_id: "r".to_owned(),
            attempt_id: attempt_id.map(str::to_owned),
        };
        assert_eq!([of(&attempt(Some("a"))), of(&attempt(None)), of(&CallTarget::Unnamed)], ["r/a", "r", ""]);
    }
}
