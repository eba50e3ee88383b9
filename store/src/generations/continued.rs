//! Answers by the conversation that they end, and which of them were continued: how a call that names no rollout finds
//! the session that it belongs to.

use fulgurite_types::AttemptStatus;

use crate::Result;
use crate::call_records::new_call::ConversationHash;
use crate::database::sql::{Sql, column, to_integer};
use crate::generations::Generations;
use crate::reward_rules::annotations::REWARDS_A_WHOLE;

/// A recorded answer that ends a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// The call that it is of.
    pub generation_id: String,
    /// Its rollout.
    pub rollout_id: String,
    /// Its attempt.
    pub attempt_id: String,
    /// The digest of the first request that continued it; `None` where none did.
    pub continued_by: Option<String>,
}

/// Recorded answers that end a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedAnswers {
    /// The newest first.
    pub answers: Vec<RecordedAnswer>,
    /// Whether there may be older ones, which were not looked at.
    pub has_more: bool,
}

/// Answers to the same messages that are looked at.
const ANSWERS: usize = 200;

impl Generations {
    /// Delivered answers that end a conversation with this digest, of sessions whose latest call was recorded since
    /// `heard_since`, in seconds since the epoch, and that were not rewarded as a whole yet. Of many, the newest.
    pub async fn answers_of_conversation(
        &self,
        conversation: &ConversationHash,
        heard_since: f64,
    ) -> Result<RecordedAnswers> {
        let mut sql = Sql::new(
            "SELECT g.generation_id, g.rollout_id, g.attempt_id, c.request_digest AS continued_by, a.last_heartbeat_time,
                 CAST(CASE WHEN EXISTS (SELECT 1 FROM spans
                     WHERE rollout_id = g.rollout_id AND attempt_id = g.attempt_id AND ",
        );
        sql.push(REWARDS_A_WHOLE);
        sql.push(") OR a.status <> ").text(AttemptStatus::Succeeded.as_str());
        sql.push(
            " THEN 1 ELSE 0 END AS BIGINT) AS is_over
             FROM (SELECT generation_id, rollout_id, attempt_id, position FROM generations
                 WHERE client_gone = 0 AND conversation_digest = ",
        );
        sql.hashes(std::slice::from_ref(conversation));
        sql.push(" ORDER BY position DESC LIMIT ").integer(to_integer("answers", ANSWERS)?);
        sql.push(
            ") g
             JOIN attempts a ON a.rollout_id = g.rollout_id AND a.attempt_id = g.attempt_id
             LEFT JOIN continued_generations c ON c.generation_id = g.generation_id
             ORDER BY g.position DESC",
        );
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        let mut found = RecordedAnswers { answers: Vec::new(), has_more: rows.len() == ANSWERS };
        for row in &rows {
            let heard: Option<f64> = column(row, "last_heartbeat_time")?;
            if heard.is_none_or(|heard| heard < heard_since) {
                // What was answered before it was as long ago, or nearly so.
                found.has_more = false;
            } else if column::<i64>(row, "is_over")? == 0 {
                found.answers.push(RecordedAnswer {
                    generation_id: column(row, "generation_id")?,
                    rollout_id: column(row, "rollout_id")?,
                    attempt_id: column(row, "attempt_id")?,
                    continued_by: column(row, "continued_by")?,
                });
            }
        }
        Ok(found)
    }

    /// Notes that a request continues an answer. `false` if another request was first.
    pub async fn continue_answer(&self, generation_id: &str, request_digest: &str) -> Result<bool> {
        let (generation_id, request_digest) = (generation_id.to_owned(), request_digest.to_owned());
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let inserted = sqlx::query(
                        "INSERT INTO continued_generations (generation_id, request_digest)
                     SELECT generation_id, $2 FROM generations WHERE generation_id = $1
                     ON CONFLICT (generation_id) DO NOTHING",
                    )
                    .bind(generation_id)
                    .bind(request_digest)
                    .execute(write.connection())
                    .await?
                    .rows_affected();
                    Ok(inserted == 1)
                })
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{AttemptedRollout, NewGeneration, Reward, RolloutStatus, SessionIds};

    use super::*;
    use crate::testing::{TestStore, generation};
    use crate::{NewCall, PruneFilter};

    const HELLO: ConversationHash = [7; 32];

    async fn session(store: &TestStore, like: &AttemptedRollout, id: &str) -> SessionIds {
        let ids = SessionIds::new();
        let SessionIds { rollout_id, attempt_id } = ids.clone();
        let generation = NewGeneration { rollout_id, attempt_id, ..generation(id, like, &[1, 2], &[3]) };
        let call = NewCall { conversation_digest: Some(HELLO), ..NewCall::from(generation) };
        store.recording().record_session(call).await.unwrap();
        ids
    }

    async fn answers(store: &TestStore) -> Vec<(String, Option<String>)> {
        let found = store.generations().answers_of_conversation(&HELLO, 0.0).await.unwrap();
        assert!(!found.has_more);
        found.answers.into_iter().map(|answer| (answer.generation_id, answer.continued_by)).collect()
    }

    #[tokio::test]
    async fn an_answer_is_continued_by_one_request_alone_and_goes_with_its_rollout() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        store.recording().record(generation("other", &attempted, &[1, 2], &[3])).await.unwrap();
        for id in ["a", "b", "c"] {
            session(&store, &attempted, id).await;
        }
        assert_eq!(answers(&store).await, ["c", "b", "a"].map(|id| (id.to_owned(), None)));
        let claims =
            futures::future::join_all(["r", "s"].map(|request| store.generations().continue_answer("a", request)))
                .await;
        assert_eq!(claims.into_iter().filter(|claim| *claim.as_ref().unwrap()).count(), 1);
        assert!(store.generations().continue_answer("b", "t").await.unwrap());
        assert!(!store.generations().continue_answer("none", "t").await.unwrap());
        let by: Vec<bool> = answers(&store).await.into_iter().map(|(_, continued_by)| continued_by.is_some()).collect();
        assert_eq!(by, [false, true, true]);
        // An answer that its client did not get is none to go on with.
        store.recording().set_client_disconnected("c", true).await.unwrap();
        assert_eq!(answers(&store).await.len(), 2);
        // Who is rewarded has ended.
        let SessionIds { rollout_id, attempt_id } = session(&store, &attempted, "d").await;
        store.rewards().add(&rollout_id, &attempt_id, Some("d"), Reward::new(1.0)).await.unwrap();
        assert_eq!(answers(&store).await.len(), 3, "a call alone was rewarded");
        store.rewards().add(&rollout_id, &attempt_id, None, Reward::new(1.0)).await.unwrap();
        assert_eq!(answers(&store).await.len(), 2);
        let later = fulgurite_types::time::now() + 1.0;
        assert_eq!(
            store.generations().answers_of_conversation(&HELLO, later).await.unwrap(),
            RecordedAnswers::default()
        );
        assert_eq!(
            store.generations().answers_of_conversation(&[8; 32], 0.0).await.unwrap(),
            RecordedAnswers::default()
        );
        store
            .housekeeping()
            .prune(PruneFilter { ended_before: later, status_in: RolloutStatus::ALL.to_vec() })
            .await
            .unwrap();
        assert_eq!(answers(&store).await, []);
    }
}
