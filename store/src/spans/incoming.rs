//! Spans that others made: adding them, each once, at their places.

use std::collections::HashMap;
use std::hash::Hash;

use fulgurite_types::{AttemptRef, IncomingSpan, Ingested, Span};

use crate::Result;
use crate::checksums::Recorded;
use crate::database::writer::Write;
use crate::reward_rules::rights::{Sender, settle, speaks_of_reward};
use crate::rollouts::attempts::activity::record_activity;
use crate::rollouts::attempts::rows::{existing_attempt, find_attempt};
use crate::spans::Spans;
use crate::spans::writing::{
    allocate_sequence_id, allocate_sequence_ids, body, insert_rows, raise_sequence_id, rows_digests, rows_of_insert,
};

impl Spans {
    /// Stores spans and records the activity of their attempts. Returns each as JSON text, or `None` for a span that exists
    /// already, which is left as it is. All are stored, or none.
    pub async fn add(&self, spans: Vec<Span>) -> Result<Vec<Option<String>>> {
        self.add_of(Sender::Server, spans).await
    }

    /// As [`Spans::add`]. A reward in a span counts if the sender may give it, and is set aside in the span if
    /// not.
    pub async fn add_of(&self, sender: Sender, mut spans: Vec<Span>) -> Result<Vec<Option<String>>> {
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        // Here, and not where one job at a time is done.
        let mut bodies: Vec<String> = spans.iter().map(body).collect::<Result<_>>()?;
        let with_rewards: Vec<bool> = spans.iter().map(speaks_of_reward).collect();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let mut stored = vec![false; spans.len()];
                    for indices in grouped(&spans, attempt_key) {
                        let (rollout_id, attempt_id) = attempt_key(&spans[indices[0]]);
                        let rollout_id = rollout_id.to_owned();
                        let attempt = AttemptRef::Id(attempt_id.to_owned());
                        let attempt = existing_attempt(write.connection(), &rollout_id, &attempt).await?;
                        for index in indices.iter().copied().filter(|index| with_rewards[*index]) {
                            settle(write.connection(), &attempt, &sender, &mut spans[index]).await?;
                            bodies[index] = body(&spans[index])?;
                        }
                        let body = |index: usize| Ok(bodies[index].clone());
                        insert_of_attempt(write, &spans, body, &indices, &mut stored).await?;
                        let new = indices.iter().filter(|index| stored[**index]).map(|index| spans[*index].sequence_id);
                        if let Some(last) = new.max() {
                            raise_sequence_id(write, &rollout_id, last).await?;
                        }
                    }
                    Ok(bodies.into_iter().zip(stored).map(|(body, stored)| stored.then_some(body)).collect())
                })
            })
            .await
    }

    /// Stores what tracers send, in bulk: as [`Spans::add`], but a span of an unknown attempt is passed over
    /// alone, and a span without a place in its rollout gets the next, in the given order. Tells the fate of each.
    pub async fn ingest(&self, spans: Vec<IncomingSpan>) -> Result<Vec<Ingested>> {
        self.ingest_of(Sender::Server, spans).await
    }

    /// As [`Spans::ingest`], with rewards as in [`Spans::add_of`].
    pub async fn ingest_of(&self, sender: Sender, spans: Vec<IncomingSpan>) -> Result<Vec<Ingested>> {
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        let with_rewards: Vec<bool> = spans.iter().map(|incoming| speaks_of_reward(&incoming.span)).collect();
        self.database
            .write(move |write| Box::pin(async move { ingest(write, &sender, spans, &with_rewards).await }))
            .await
    }

    /// The next number in the order of a rollout's spans, starting at 1; never given twice. The rollout need not be
    /// known.
    pub async fn next_sequence_id(&self, rollout_id: &str) -> Result<u64> {
        let rollout_id = rollout_id.to_owned();
        self.database.write(move |write| Box::pin(async move { allocate_sequence_id(write, &rollout_id).await })).await
    }
}

/// Rollout id and attempt id.
fn attempt_key(span: &Span) -> (&str, &str) {
    (&span.rollout_id, &span.attempt_id)
}

/// Places of the spans of each key, the keys in the order of their first spans.
fn grouped<'s, K: Copy + Eq + Hash>(spans: &'s [Span], key: impl Fn(&'s Span) -> K) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut latest = None;
    for (index, span) in spans.iter().enumerate() {
        let key = key(span);
        let place = match latest {
            // Most often the span before has the same key, and nothing need be looked up.
            Some((of, place)) if of == key => place,
            _ => *places.entry(key).or_insert(groups.len()),
        };
        latest = Some((key, place));
        match groups.get_mut(place) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

async fn ingest(
    write: &mut Write,
    sender: &Sender,
    incoming: Vec<IncomingSpan>,
    with_rewards: &[bool],
) -> Result<Vec<Ingested>> {
    let (mut spans, given): (Vec<Span>, Vec<Option<u64>>) =
        incoming.into_iter().map(|incoming| (incoming.span, incoming.sequence_id)).unzip();
    let mut known = vec![false; spans.len()];
    let mut of_attempts = grouped(&spans, attempt_key);
    for indices in &of_attempts {
        let (rollout_id, attempt_id) = attempt_key(&spans[indices[0]]);
        let attempt = AttemptRef::Id(attempt_id.to_owned());
        let Some(attempt) = find_attempt(write.connection(), rollout_id, &attempt).await? else { continue };
        for index in indices.iter().copied() {
            known[index] = true;
            if with_rewards[index] {
                settle(write.connection(), &attempt, sender, &mut spans[index]).await?;
            }
        }
    }
    number(write, &mut spans, &given, &known).await?;
    let mut stored = vec![false; spans.len()];
    of_attempts.retain(|indices| known[indices[0]]);
    for indices in &of_attempts {
        insert_of_attempt(write, &spans, |index| body(&spans[index]), indices, &mut stored).await?;
    }
    let fate = |(span, (known, stored)): (Span, (bool, bool))| match (known, stored) {
        (false, _) => Ingested::UnknownAttempt(Box::new(span)),
        (true, false) => Ingested::Duplicate,
        (true, true) => Ingested::Stored { sequence_id: span.sequence_id },
    };
    Ok(spans.into_iter().zip(known.into_iter().zip(stored)).map(fate).collect())
}

/// Gives every span of a known attempt its place: the given one, or the next of its rollout.
pub(crate) async fn number(write: &mut Write, spans: &mut [Span], given: &[Option<u64>], known: &[bool]) -> Result<()> {
    for mut indices in grouped(spans, |span| span.rollout_id.as_str()) {
        indices.retain(|index| known[*index]);
        let Some(first) = indices.first() else { continue };
        let rollout_id = spans[*first].rollout_id.clone();
        let unnumbered = indices.iter().filter(|index| given[**index].is_none()).count();
        let mut next = match unnumbered {
            0 => 0,
            number => allocate_sequence_ids(write, &rollout_id, number).await?,
        };
        for index in &indices {
            spans[*index].sequence_id = given[*index].unwrap_or_else(|| {
                next += 1;
                next - 1
            });
        }
        if let Some(last) = indices.iter().filter_map(|index| given[*index]).max() {
            raise_sequence_id(write, &rollout_id, last).await?;
        }
    }
    Ok(())
}

/// Stores those of `spans` that `indices` name, all of one existing attempt, and notes which are new. `body` returns the
/// JSON text of the span with an index.
async fn insert_of_attempt(
    write: &mut Write,
    spans: &[Span],
    body: impl Fn(usize) -> Result<String>,
    indices: &[usize],
    stored: &mut [bool],
) -> Result<()> {
    let (mut rest, mut recorded) = (indices, Recorded::default());
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(rows_of_insert(rest.len()));
        let rows: Vec<_> = chunk.iter().map(|index| Ok((&spans[*index], body(*index)?))).collect::<Result<_>>()?;
        let digests = rows_digests(&rows)?;
        for ((index, digest), new) in chunk.iter().zip(digests).zip(insert_rows(write.connection(), rows).await?) {
            stored[*index] = new;
            recorded = if new { recorded.and(digest) } else { recorded };
        }
        rest = later;
    }
    if let Some(new) = indices.iter().find(|index| stored[**index]).map(|index| &spans[*index]) {
        record_activity(write, &new.rollout_id, &new.attempt_id, recorded).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{AttemptedRollout, Page, SortOrder, SpanFilter};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::TestStore;

    fn span(attempted: &AttemptedRollout, id: usize, sequence_id: u64) -> Span {
        serde_json::from_value(json!({
            "rollout_id": attempted.rollout.rollout_id, "attempt_id": attempted.attempt.attempt_id,
            "sequence_id": sequence_id, "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": format!("{id:016x}"),
            "parent_id": null, "name": "work", "status": {"status_code": "OK"},
            "attributes": {"whole": 2, "real": 2.0, "ids": [1, 2]}, "events": [], "links": [], "start_time": null,
            "end_time": 1795256016.667009, "context": null, "parent": null,
            "resource": {"attributes": {}, "schema_url": ""}, "kind": "SpanKind.INTERNAL",
        }))
        .unwrap()
    }

    fn of(attempted: &AttemptedRollout) -> SpanFilter {
        SpanFilter { rollout_id: attempted.rollout.rollout_id.clone(), ..SpanFilter::default() }
    }

    #[tokio::test]
    async fn every_incoming_span_has_its_own_fate() {
        let store = TestStore::new().await;
        let (one, two) = (store.start().await, store.start().await);
        let incoming = |span: Span, sequence_id| IncomingSpan { span, sequence_id };
        let unknown = Span { attempt_id: "at-no".into(), ..span(&one, 9, 0) };
        let given_back = Ingested::UnknownAttempt(Box::new(unknown.clone()));
        let fates = store
            .spans()
            .ingest(vec![
                incoming(span(&one, 1, 77), None),
                incoming(span(&two, 1, 0), Some(0)),
                incoming(unknown, None),
                incoming(span(&one, 2, 0), Some(9)),
                incoming(span(&one, 1, 0), Some(4)),
                incoming(span(&one, 3, 0), None),
            ])
            .await
            .unwrap();
        let stored = |sequence_id| Ingested::Stored { sequence_id };
        assert_eq!(fates, [stored(1), stored(0), given_back, stored(9), Ingested::Duplicate, stored(2)]);
        assert_eq!(store.spans().query(&of(&one)).await.unwrap().total, 3);
        // What came from outside is not given again, and what was not stored has taken nothing.
        assert_eq!(store.spans().next_sequence_id(&one.rollout.rollout_id).await.unwrap(), 10);
        assert_eq!(store.spans().next_sequence_id(&two.rollout.rollout_id).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn many_spans_are_stored_once_each_whatever_their_number() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let mut stored = 0;
        for number in [1, 2, 63, 64, 65, 200] {
            let spans: Vec<_> = (0..number).map(|id| span(&attempted, id, id as u64)).collect();
            let new = store.spans().add(spans).await.unwrap().into_iter().flatten().count();
            assert_eq!(new, number - stored);
            stored = number;
        }
        let spans = store.spans().query(&of(&attempted)).await.unwrap();
        assert_eq!(spans.items, (0..200).map(|id| span(&attempted, id, id as u64)).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn all_spans_are_stored_or_none() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let unknown = Span { attempt_id: "at-no".into(), ..span(&attempted, 2, 2) };
        let error = store.spans().add(vec![span(&attempted, 1, 1), unknown]).await.unwrap_err();
        assert_eq!(error.to_string(), "attempt not found: at-no");
        assert_eq!(store.spans().query(&of(&attempted)).await.unwrap().total, 0);
    }

    #[tokio::test]
    async fn json_text_of_a_page_says_the_same_as_the_page() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        store.spans().add((1..=20).map(|id| span(&attempted, id, 21 - id as u64)).collect()).await.unwrap();
        let pages = [
            Page::default(),
            Page {
                limit: Some(3),
                offset: 4,
                sort_by: Some("span_id".into()),
                sort_order: Some(SortOrder::Descending),
            },
            Page { limit: Some(5), offset: 100, ..Page::default() },
        ];
        for page in &pages {
            let filter = SpanFilter { page: page.clone(), ..of(&attempted) };
            let text = store.spans().query_as_json(&filter).await.unwrap();
            let expected = serde_json::to_value(store.spans().query(&filter).await.unwrap()).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        }
        let nobody = SpanFilter { rollout_id: "ro-no".into(), ..SpanFilter::default() };
        let text = store.spans().query_as_json(&nobody).await.unwrap();
        assert_eq!(text, r#"{"items":[],"limit":-1,"offset":0,"total":0}"#);
    }
}
