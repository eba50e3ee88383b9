//! Notifications of recorded model calls, sent after their commit.

use fulgurite_types::Span;
use serde_json::json;

use crate::Result;
use crate::call_records::call_listener::CallListener;
use crate::call_records::call_span::call_span;
use crate::call_records::new_call::NewCall;
use crate::database::sql::count;
use crate::recording::Recording;

/// Why a call ended, as the store has it, and as OpenTelemetry's conventions do.
const FINISH_REASON: &str = "gen_ai.completion.0.finish_reason";

const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// A span that is sent once it is committed.
pub(super) struct CallNotification<'l> {
    listener: &'l CallListener,
    span: Span,
}

impl Recording {
    /// Calls `notify` from now on for each model call that is recorded through this store, once it is committed. It must
    /// not block, and there can be one such listener. Without content the span has no attributes of its conversation. Its
    /// sequence id is assigned where it is written, and is read by [`Recording::number_spans`]: no answer waits for that.
    pub fn notify_of_calls(&self, with_content: bool, notify: impl Fn(Span) + Send + Sync + 'static) {
        let listener = CallListener { with_content, notify: Box::new(notify) };
        if self.listener.set(listener).is_err() {
            tracing::error!("calls are told to somebody already");
        }
    }

    /// The notification of a call that is being recorded, if there is a listener.
    pub(super) fn call_notification(&self, call: &NewCall) -> Option<CallNotification<'_>> {
        let listener = self.listener.get()?;
        let generation = &call.generation;
        let mut attributes = listener.visible(&generation.attributes);
        if let Some(conversation) = call.conversation.as_ref().filter(|_| listener.with_content) {
            conversation.put_back(&mut attributes);
        }
        if let Some(reason) = generation.attributes.get(FINISH_REASON) {
            attributes.insert(FINISH_REASONS.to_owned(), json!([reason]));
        }
        Some(CallNotification { listener, span: call_span(generation, attributes, 0) })
    }

    /// Gives spans that have none, their `sequence_id` being 0, their places in their rollouts. One that is not stored
    /// any more stays without.
    pub async fn number_spans(&self, spans: &mut [Span]) -> Result<()> {
        if spans.iter().all(|span| span.sequence_id != 0) {
            return Ok(());
        }
        let mut connection = self.database.reader().await?;
        for span in spans.iter_mut().filter(|span| span.sequence_id == 0) {
            let row =
                sqlx::query("SELECT sequence_id FROM spans WHERE rollout_id = $1 AND attempt_id = $2 AND span_id = $3")
                    .bind(span.rollout_id.as_str())
                    .bind(span.attempt_id.as_str())
                    .bind(span.span_id.as_str())
                    .fetch_optional(&mut *connection)
                    .await?;
            if let Some(row) = row {
                span.sequence_id = count(&row, "sequence_id")?;
            }
        }
        Ok(())
    }

    /// Tells of a model call that is recorded as a span alone, because it has no answer of tokens. To be called once the
    /// span is committed.
    pub fn notify_of_span(&self, span: &Span) {
        let Some(listener) = self.listener.get() else { return };
        let mut notified = Span { attributes: listener.visible(&span.attributes), ..span.clone() };
        if !listener.with_content {
            // A host's error message may repeat content.
            notified.status.description = None;
        }
        (listener.notify)(notified);
    }
}

impl CallNotification<'_> {
    /// Once its call is committed.
    pub(super) fn send(self) {
        (self.listener.notify)(self.span);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use fulgurite_types::Object;

    use super::*;
    use crate::testing::{TestStore, generation};

    async fn notified(with_content: bool) -> (Object, Object) {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let (sender, notified) = mpsc::channel();
        store.recording().notify_of_calls(with_content, move |span| sender.send(span).unwrap());
        let recorded = json!({
            "gen_ai.request.model": "tiny", "gen_ai.usage.input_tokens": 2, "gen_ai.prompt.0.content": "secret",
            "gen_ai.completion.0.content": "secret", "gen_ai.completion.0.finish_reason": "stop",
            "gen_ai.request.functions.0.name": "secret", "fulgurite.request.extra": "secret",
            "fulgurite.departure.detail": "secret", "fulgurite.departure.reason": "first_turn", "new": "secret",
        });
        let mut call = generation("a", &attempted, &[1, 2], &[3]);
        call.attributes = recorded.as_object().unwrap().clone();
        let refused = generation("a", &attempted, &[1, 2], &[3]);
        store.spans().next_sequence_id(&attempted.rollout.rollout_id).await.unwrap();
        store.recording().record(call).await.unwrap();
        store.recording().record(refused).await.unwrap_err();
        let span = notified.recv().unwrap();
        assert!(notified.try_recv().is_err(), "what was not recorded is not told");
        let mut spans = [span.clone(), Span { span_id: "gone".to_owned(), ..span.clone() }];
        store.recording().number_spans(&mut spans).await.unwrap();
        assert_eq!(spans.each_ref().map(|span| span.sequence_id), [2, 0]);
        (span.attributes, recorded.as_object().unwrap().clone())
    }

    #[tokio::test]
    async fn what_was_said_is_told_only_where_it_is_asked_for() {
        let (attributes, _) = notified(false).await;
        let expected = json!({
            "gen_ai.request.model": "tiny", "gen_ai.usage.input_tokens": 2, "fulgurite.departure.reason": "first_turn",
            "gen_ai.response.finish_reasons": ["stop"],
        });
        assert_eq!(json!(attributes), expected);
        let (attributes, mut recorded) = notified(true).await;
        recorded.insert(FINISH_REASONS.to_owned(), json!(["stop"]));
        assert_eq!(attributes, recorded);
    }
}
