//! The messages of calls: each generation keeps those that no earlier generation of its attempt holds, so that a
//! conversation's bytes grow with its length, and readers get them all.

use std::collections::HashMap;

use fulgurite_types::{Object, StopReason};
use sha2::{Digest, Sha256};
use sqlx::AnyConnection;

use crate::database::sql::{HASHES_PER_QUERY, Sql, column, count, optional_json, to_json};
use crate::{Result, StoreError};

const PROMPT: &str = "gen_ai.prompt.";
const ANSWER: &str = "gen_ai.completion.0.";
/// Prefix of the attributes of the tools that a request declares. Descriptions and parameters of tools are the client's
/// content.
pub(crate) const TOOLS: &str = "gen_ai.request.functions.";
/// Attribute of tools that the model is not shown.
const IGNORED_TOOLS: &str = "fulgurite.request.ignored_tools";
/// Said of an answer, but no part of it as a message.
const FINISH_REASON: &str = "gen_ai.completion.0.finish_reason";
/// Ids in one `IN (..)`.
const IDS_PER_QUERY: usize = 10_000;

/// The messages, tools and answer of a model call, as attributes of its span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedConversation {
    /// Each by the ends of its attributes' names: `role`, `content` and others. The first has the attributes of the tools
    /// too, under their whole names: other tools begin another conversation, because tools are at the beginning of the
    /// model's prompt.
    messages: Vec<Object>,
    answer: Object,
}

impl RecordedConversation {
    /// Takes a conversation and its tools out of a span's attributes. `None`, and nothing taken, if it has no messages,
    /// they are not numbered from 0 on, or a part of one is named as an attribute of tools.
    pub(crate) fn take(attributes: &mut Object) -> Option<Self> {
        if !is_conversation(attributes) {
            return None;
        }
        let mut messages: Vec<Object> = Vec::new();
        let mut tools = Object::new();
        let mut answer = Object::new();
        let mut rest = Object::new();
        for (key, value) in std::mem::take(attributes) {
            if let Some((index, part)) = prompt_key(&key) {
                if index >= messages.len() {
                    messages.resize_with(index + 1, Object::new);
                }
                messages[index].insert(part.to_owned(), value);
            } else if let Some(part) = key.strip_prefix(ANSWER).filter(|_| key != FINISH_REASON) {
                answer.insert(part.to_owned(), value);
            } else if is_of_tools(&key) {
                tools.insert(key, value);
            } else {
                rest.insert(key, value);
            }
        }
        *attributes = rest;
        Some(Self::new(messages, tools)?.with_answer(answer))
    }

    /// A conversation that has no answer yet; `None` without messages. Each message is given by what follows
    /// `gen_ai.prompt.N.` in the names of its attributes, the tools (`gen_ai.request.functions.N.*`,
    /// `fulgurite.request.ignored_tools`) by whole names.
    pub fn new(mut messages: Vec<Object>, mut tools: Object) -> Option<Self> {
        messages.first_mut()?.append(&mut tools);
        Some(Self { messages, answer: Object::new() })
    }

    /// The same with an answer, by what follows `gen_ai.completion.0.` in the names of its attributes. Its
    /// `finish_reason` is no part of it: that is an attribute of the generation.
    #[must_use]
    pub fn with_answer(self, answer: Object) -> Self {
        Self { answer, ..self }
    }

    /// Undoes [`RecordedConversation::take`].
    pub(crate) fn put_back(&self, attributes: &mut Object) {
        for (index, message) in self.messages.iter().enumerate() {
            for (part, value) in message {
                let is_attribute = index == 0 && is_of_tools(part);
                let key = if is_attribute { part.clone() } else { format!("{PROMPT}{index}.{part}") };
                attributes.insert(key, value.clone());
            }
        }
        for (part, value) in &self.answer {
            attributes.insert(format!("{ANSWER}{part}"), value.clone());
        }
    }

    /// Whether its messages are so many, with this hash.
    pub(crate) fn has(&self, length: i64, hash: &[u8]) -> Result<bool> {
        let written = self.written()?;
        Ok(usize::try_from(length) == Ok(self.messages.len()) && written.hash() == hash)
    }

    /// Its text.
    pub(crate) fn written(&self) -> Result<WrittenConversation> {
        let messages: Vec<String> =
            self.messages.iter().map(|message| to_json("messages", message)).collect::<Result<_>>()?;
        Ok(WrittenConversation { hashes: hashes(&messages), messages, answer: to_json("answer", &self.answer)? })
    }
}

/// A conversation as JSON text.
#[derive(Clone, Debug)]
pub(crate) struct WrittenConversation {
    /// Each by itself.
    messages: Vec<String>,
    /// The hash of each beginning of the messages, the shortest first: of one message, of two, and so on.
    hashes: Vec<MessagesHash>,
    pub answer: String,
}

impl WrittenConversation {
    /// Number of its messages.
    pub(crate) fn length(&self) -> usize {
        self.messages.len()
    }

    /// Of all its messages.
    pub(crate) fn hash(&self) -> MessagesHash {
        self.hashes.last().copied().unwrap_or_default()
    }

    /// The hash of its first so many messages; `None` if it has fewer, or of none.
    pub(crate) fn hash_of_first(&self, length: usize) -> Option<MessagesHash> {
        self.hashes.get(length.checked_sub(1)?).copied()
    }

    /// The message after the first so many.
    pub(crate) fn message(&self, index: usize) -> Option<&str> {
        self.messages.get(index).map(String::as_str)
    }

    /// The hashes of its beginnings that are longer than so many messages.
    pub(crate) fn hashes_beyond(&self, length: usize) -> Vec<u8> {
        self.hashes.get(length..).unwrap_or_default().concat()
    }

    /// Those from this one on as elements of a longer JSON list, each with a comma before it.
    pub(crate) fn listed_from(&self, index: usize) -> String {
        self.messages.iter().skip(index).flat_map(|message| [",", message]).collect()
    }

    /// What the store keeps of it where there are no earlier calls.
    pub(crate) fn whole(&self) -> StoredConversation {
        self.behind(None)
    }

    /// What the store keeps of it, given the earlier calls of the same attempt.
    pub(crate) async fn without_known(
        &self,
        connection: &mut AnyConnection,
        rollout_id: &str,
        attempt_id: &str,
    ) -> Result<StoredConversation> {
        let parent = find_parent(connection, rollout_id, attempt_id, &self.hashes).await?;
        Ok(self.behind(parent))
    }

    fn behind(&self, parent: Option<Parent>) -> StoredConversation {
        let held = parent.as_ref().map_or(0, |parent| parent.length);
        let answered = parent.as_ref().and_then(|parent| parent.answer.as_deref());
        let first = self.message(held).map(|first| if answered == Some(first) { "null" } else { first });
        StoredConversation {
            messages: format!("[{}{}]", first.unwrap_or_default(), self.listed_from(held + 1)),
            parent_id: parent.map(|parent| parent.generation_id),
        }
    }
}

/// Whether there are messages, none is missing between them, and no part of one is named as an attribute of tools.
fn is_conversation(attributes: &Object) -> bool {
    let mut seen: Vec<bool> = Vec::new();
    for (index, part) in attributes.keys().filter_map(|key| prompt_key(key)) {
        if index >= attributes.len() || is_of_tools(part) {
            return false;
        }
        if index >= seen.len() {
            seen.resize(index + 1, false);
        }
        seen[index] = true;
    }
    !seen.is_empty() && seen.iter().all(|seen| *seen)
}

fn is_of_tools(attribute: &str) -> bool {
    attribute.starts_with(TOOLS) || attribute == IGNORED_TOOLS
}

/// Number and attribute of a message, from the key of an attribute.
fn prompt_key(key: &str) -> Option<(usize, &str)> {
    let (number, part) = key.strip_prefix(PROMPT)?.split_once('.')?;
    let index: usize = number.parse().ok()?;
    (index.to_string() == number).then_some((index, part))
}

/// The columns of a generation that hold its conversation and depend on earlier calls.
#[derive(Debug, PartialEq)]
pub(crate) struct StoredConversation {
    pub parent_id: Option<String>,
    pub messages: String,
}

/// Stands for a list of messages.
pub(crate) type MessagesHash = [u8; 32];

fn hashes(messages: &[String]) -> Vec<MessagesHash> {
    let mut hash = MessagesHash::default();
    messages
        .iter()
        .map(|message| {
            hash = Sha256::new().chain_update(hash).chain_update(message).finalize().into();
            hash
        })
        .collect()
}

/// A generation whose prompt's messages begin a later prompt.
struct Parent {
    generation_id: String,
    length: usize,
    /// As JSON text.
    answer: Option<String>,
}

/// The generation of the same attempt whose messages are the longest beginning of these; of equal ones, the latest.
async fn find_parent(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt_id: &str,
    hashes: &[MessagesHash],
) -> Result<Option<Parent>> {
    // The longest beginnings first.
    for hashes in hashes.rchunks(HASHES_PER_QUERY) {
        // An attempt may have very many calls, of which no more is read than these.
        let mut sql = Sql::new("SELECT generation_id, messages_length, answer FROM generations WHERE rollout_id = ");
        sql.text(rollout_id).push(" AND attempt_id = ").text(attempt_id);
        sql.push(" AND messages_length > 0 AND messages_hash IN ").hashes(hashes);
        sql.push(" AND stop_reason <> ").text(StopReason::CLIENT_DISCONNECTED);
        sql.push(" ORDER BY messages_length DESC, position DESC LIMIT 1");
        if let [row] = &sql.all(connection).await?[..] {
            let (generation_id, answer) = (column(row, "generation_id")?, column(row, "answer")?);
            return Ok(Some(Parent { generation_id, length: count(row, "messages_length")?, answer }));
        }
    }
    Ok(None)
}

/// The conversations of those of these generations that keep one.
pub(crate) async fn conversations(
    connection: &mut AnyConnection,
    generation_ids: &[&str],
) -> Result<HashMap<String, RecordedConversation>> {
    let mut found: HashMap<String, RecordedConversation> = HashMap::new();
    for ids in generation_ids.chunks(IDS_PER_QUERY) {
        let mut sql = Sql::new(
            "WITH RECURSIVE needed (generation_id) AS (
                 SELECT generation_id FROM generations WHERE generation_id IN ",
        );
        sql.list(ids.iter().copied()).push(
            "    UNION
                 SELECT g.messages_parent_id FROM generations g JOIN needed USING (generation_id)
                 WHERE g.messages_parent_id IS NOT NULL
             )
             SELECT generation_id, messages_parent_id, messages, answer
             FROM generations JOIN needed USING (generation_id) WHERE messages IS NOT NULL ORDER BY position",
        );
        for row in sql.all(connection).await? {
            let parent_id: Option<&str> = column(&row, "messages_parent_id")?;
            let parent = parent_id.map(|id| found.get(id).ok_or_else(|| missing_parent(id))).transpose()?;
            let new: Vec<Option<Object>> = optional_json(&row, "messages")?.unwrap_or_default();
            let mut messages = parent.map(|parent| parent.messages.clone()).unwrap_or_default();
            let answer_of_parent = || parent.map(|parent| parent.answer.clone()).unwrap_or_default();
            messages.extend(new.into_iter().map(|message| message.unwrap_or_else(answer_of_parent)));
            let answer = optional_json(&row, "answer")?.unwrap_or_default();
            found.insert(column(&row, "generation_id")?, RecordedConversation { messages, answer });
        }
    }
    Ok(found)
}

fn missing_parent(parent_id: &str) -> StoreError {
    StoreError::Corrupt { column: "messages_parent_id".into(), message: format!("{parent_id} was not recorded before") }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{AttemptedRollout, NewGeneration, SpanFilter};
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use sqlx::Row;

    use super::*;
    use crate::Store;
    use crate::testing::{TestStore, generation};

    fn message(role: &str, content: &str) -> Object {
        json!({ "role": role, "content": content }).as_object().cloned().unwrap()
    }

    fn attributes(messages: &[Object], answer: &str) -> Object {
        let mut attributes =
            json!({ "gen_ai.request.model": "m", FINISH_REASON: "stop" }).as_object().cloned().unwrap();
        let answer = message("assistant", answer);
        RecordedConversation { messages: messages.to_vec(), answer }.put_back(&mut attributes);
        attributes
    }

    async fn record(store: &Store, attempted: &AttemptedRollout, id: usize, attributes: Object) {
        // Tokens do not matter here; each call has its own, which no other call continues.
        let tokens = generation(&format!("{id:016}"), attempted, &[id as u32], &[1]);
        store.recording().record(NewGeneration { attributes, ..tokens }).await.unwrap();
    }

    async fn read(store: &Store, attempted: &AttemptedRollout) -> Vec<Object> {
        let filter = SpanFilter { rollout_id: attempted.rollout.rollout_id.clone(), ..SpanFilter::default() };
        let spans = store.spans().query(&filter).await.unwrap().items;
        let tokens = ["prompt_token_ids", "response_token_ids", "logprobs.content"];
        spans
            .into_iter()
            .map(|span| span.attributes.into_iter().filter(|(key, _)| !tokens.contains(&key.as_str())).collect())
            .collect()
    }

    /// Bytes of everything that is kept of model calls.
    async fn stored_bytes(store: &Store) -> i64 {
        let rows = sqlx::query(
            "SELECT SUM(LENGTH(s.body) + LENGTH(g.messages) + LENGTH(g.answer) + LENGTH(g.messages_hash)
                 + LENGTH(g.prompt_tokens) + LENGTH(g.sampled_tokens) + LENGTH(g.logprobs) + LENGTH(g.sampling)
                 + LENGTH(g.weights_versions)) AS bytes
             FROM generations g JOIN spans s USING (rollout_id, attempt_id, span_id)",
        );
        rows.fetch_one(&mut *store.database().reader().await.unwrap()).await.unwrap().get("bytes")
    }

    async fn bytes_of_a_conversation(turns: usize) -> i64 {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let mut messages = vec![message("system", "You are careful.")];
        let mut prompt: Vec<u32> = vec![7; 20];
        for turn in 0..turns {
            messages.push(message("user", &"What is next? ".repeat(10)));
            prompt.extend([turn as u32; 30]);
            let answer = "Something else. ".repeat(10);
            let new = generation(&format!("{turn:016}"), &attempted, &prompt, &[turn as u32; 30]);
            let new = NewGeneration { attributes: attributes(&messages, &answer), ..new };
            store.recording().record(new).await.unwrap();
            messages.push(message("assistant", &answer));
            prompt.extend([turn as u32; 30]);
        }
        assert_eq!(read(&store, &attempted).await.last().unwrap().len(), 2 * messages.len() + 2);
        stored_bytes(&store).await
    }

    #[tokio::test]
    async fn the_bytes_of_a_conversation_grow_with_its_length() {
        let (half, whole) = (bytes_of_a_conversation(32).await, bytes_of_a_conversation(64).await);
        assert!(whole <= half * 21 / 10, "{half} bytes for 32 turns, {whole} for 64");
        // A turn has 300 bytes of text and 30 sampled tokens of 8 bytes; the rest is the call's own attributes.
        assert!(whole / 64 < 2_000, "{} bytes a turn", whole / 64);
    }

    #[tokio::test]
    async fn only_what_is_new_is_stored_and_an_answer_only_once() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let question = vec![message("user", "2 + 2?")];
        record(&store, &attempted, 0, attributes(&question, "4")).await;
        let next = [question.clone(), vec![message("assistant", "4"), message("user", "sure?")]].concat();
        record(&store, &attempted, 1, attributes(&next, "yes")).await;
        let corrected = [question, vec![message("assistant", "four"), message("user", "sure?")]].concat();
        record(&store, &attempted, 2, attributes(&corrected, "yes")).await;
        let rows = sqlx::query("SELECT messages, messages_parent_id FROM generations ORDER BY position")
            .fetch_all(&mut *store.database().reader().await.unwrap())
            .await
            .unwrap();
        let stored: Vec<(String, Option<String>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let first = Some(format!("{:016}", 0));
        assert_eq!(
            stored,
            [
                (r#"[{"role":"user","content":"2 + 2?"}]"#.into(), None),
                (r#"[null,{"role":"user","content":"sure?"}]"#.into(), first.clone()),
                (r#"[{"role":"assistant","content":"four"},{"role":"user","content":"sure?"}]"#.into(), first),
            ]
        );
        assert_eq!(read(&store, &attempted).await[1], attributes(&next, "yes"));
        assert_eq!(read(&store, &attempted).await[2], attributes(&corrected, "yes"));
    }

    #[tokio::test]
    async fn tools_are_stored_once_for_a_conversation() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let with_tool = |messages: &[Object], description: &str| {
            let mut attributes = attributes(messages, "4");
            attributes.insert("gen_ai.request.functions.0.name".to_owned(), json!("sum"));
            attributes.insert("gen_ai.request.functions.0.description".to_owned(), json!(description));
            attributes.insert(IGNORED_TOOLS.to_owned(), json!("[{\"type\":\"web_search\"}]"));
            attributes
        };
        let question = vec![message("system", "Add."), message("user", "2 + 2?")];
        let next = [question.clone(), vec![message("assistant", "4"), message("user", "sure?")]].concat();
        let calls = [
            with_tool(&question, "Adds numbers."),
            with_tool(&next, "Adds numbers."),
            with_tool(&next, "Adds two numbers."),
            attributes(&next, "yes"),
        ];
        for (id, attributes) in calls.iter().enumerate() {
            record(&store, &attempted, id, attributes.clone()).await;
        }
        assert_eq!(read(&store, &attempted).await, calls);
        let rows = sqlx::query(
            "SELECT g.messages, g.messages_parent_id, s.body FROM generations g
             JOIN spans s USING (rollout_id, attempt_id, span_id) ORDER BY g.position",
        )
        .fetch_all(&mut *store.database().reader().await.unwrap())
        .await
        .unwrap();
        let stored: Vec<(String, Option<String>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(stored[1], (r#"[null,{"role":"user","content":"sure?"}]"#.into(), Some(format!("{:016}", 0))));
        assert!(stored[2].1.is_none() && stored[3].1.is_none(), "{stored:?}");
        let bodies = rows.iter().map(|row| row.get::<String, _>(2));
        assert!(bodies.into_iter().all(|body| !body.contains("functions") && !body.contains("ignored_tools")));
    }

    #[tokio::test]
    async fn attributes_that_are_no_conversation_stay_as_they_are() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let odd = [
            json!({}),
            json!({ "gen_ai.prompt.1.role": "user" }),
            json!({ "gen_ai.prompt.00.role": "user" }),
            json!({ "gen_ai.prompt.4000000000.role": "user" }),
            json!({ "gen_ai.prompt.0": "user", "gen_ai.completion.0.content": "x" }),
            json!({ "gen_ai.request.functions.0.name": "f" }),
            json!({ "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.gen_ai.request.functions.0.name": "f" }),
        ];
        for (id, attributes) in odd.iter().enumerate() {
            record(&store, &attempted, id, attributes.as_object().cloned().unwrap()).await;
        }
        let read: Vec<Value> = read(&store, &attempted).await.into_iter().map(Value::Object).collect();
        assert_eq!(read, odd);
    }

    /// A turn continues an earlier call (by its index), keeping some of its messages, with or without its answer, or starts
    /// a new conversation; then it adds messages.
    fn turns() -> impl Strategy<Value = Vec<Turn>> {
        let from = any::<Option<(prop::sample::Index, prop::sample::Index, bool)>>();
        // Few different texts, so that unrelated conversations share beginnings by chance.
        prop::collection::vec((from, prop::collection::vec("[ab]", 0..3), "[ab]"), 1..12)
    }

    type Turn = (Option<(prop::sample::Index, prop::sample::Index, bool)>, Vec<String>, String);

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_conversation_is_read_as_it_was_recorded(turns in turns()) {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let store = TestStore::new().await;
                let attempted = store.start().await;
                let mut recorded: Vec<(Vec<Object>, String)> = Vec::new();
                let mut given = Vec::new();
                for (id, (from, new, answer)) in turns.into_iter().enumerate() {
                    let mut messages = Vec::new();
                    if let Some((earlier, kept, with_answer)) = from && !recorded.is_empty() {
                        let (known, answered) = earlier.get(&recorded);
                        messages.extend_from_slice(&known[..=kept.index(known.len())]);
                        if with_answer {
                            messages.push(message("assistant", answered));
                        }
                    }
                    messages.extend(new.iter().map(|content| message("user", content)));
                    if messages.is_empty() {
                        messages.push(message("system", ""));
                    }
                    given.push(attributes(&messages, &answer));
                    record(&store, &attempted, id, attributes(&messages, &answer)).await;
                    recorded.push((messages, answer));
                }
                assert_eq!(read(&store, &attempted).await, given);
            });
        }
    }
}
