//! The session of a call that names none, found by what the call's messages go on from.

use std::time::Duration;

use fulgurite_backends::derive_seed;
use fulgurite_renderers::ConversationDigest;
use fulgurite_store::{ConversationHash, RecordedAnswer, RecordedAnswers, Store, StoreError};
use fulgurite_types::Message;

use crate::attempt::attempt_memories::AttemptMemories;
use crate::attempt::attribution::Attribution;
use crate::models::served_models::ServedModels;
use crate::retries::logged_requests::Identity;
use fulgurite_types::time::now;

/// A conversation that names no rollout.
#[derive(Clone, Debug)]
pub(crate) struct UnnamedConversation {
    digest: ConversationDigest,
    /// The digests up to each message of an assistant, the longest first.
    answers: Vec<ConversationHash>,
}

/// Answers of a conversation that are looked for: the latest, and earlier ones for a client that has rewritten what
/// followed them.
const ANSWERS: usize = 8;

/// The parts of a proxy by which a session is found.
pub(crate) struct SessionSearch<'s> {
    pub(crate) store: &'s Store,
    pub(crate) logs: SessionLogs<'s>,
    /// Seed from which those of rollouts follow.
    pub(crate) seed: u64,
    /// For how long a session may be silent.
    pub(crate) gap: Duration,
}

/// Where the requests of sessions are logged.
pub(crate) enum SessionLogs<'s> {
    /// Those of each attempt in its memory.
    OfAttempts { models: &'s ServedModels, memories: &'s AttemptMemories },
    /// Those of all in one log, which does not know the request.
    OfAll,
}

/// What the answers that end a conversation say of the call that continues it.
#[derive(Debug, PartialEq, Eq)]
enum Found<'a> {
    /// No other call has continued this one yet.
    Next(&'a RecordedAnswer),
    /// Others have, all of one session: the call is a branch of it.
    Branch(&'a RecordedAnswer),
    /// There is none, or there are several that cannot be told apart.
    Nothing,
}

impl UnnamedConversation {
    /// A request's messages to a model, by the client that sends this key.
    pub(crate) fn new(messages: &[Message], model: &str, key: Option<&str>) -> Self {
        let has_key = if key.is_some() { "key" } else { "no key" };
        let mut digest = ConversationDigest::new(&[model, has_key, key.unwrap_or_default()]);
        let mut answers = Vec::new();
        for message in messages {
            digest.push(message);
            if message.is_assistant() {
                answers.push(digest.value());
            }
        }
        answers.reverse();
        answers.truncate(ANSWERS);
        Self { digest, answers }
    }

    /// The digest that the next call's messages begin with, if this is the answer.
    pub(crate) fn with_answer(mut self, answer: &Message) -> ConversationHash {
        self.digest.push(answer);
        self.digest.value()
    }
}

impl SessionSearch<'_> {
    /// The session that a call goes on with, if it is known which.
    pub(crate) async fn find(
        &self,
        conversation: &UnnamedConversation,
        identity: &Identity,
    ) -> Result<Option<Attribution>, StoreError> {
        let heard_since = now() - self.gap.as_secs_f64();
        for hash in &conversation.answers {
            // An answer that is lost to another call is found again, as continued.
            loop {
                let RecordedAnswers { answers, has_more } =
                    self.store.generations().answers_of_conversation(hash, heard_since).await?;
                if answers.is_empty() && !has_more {
                    break;
                }
                if let Some(retried) = self.retried(&answers, identity).await? {
                    return Ok(Some(retried));
                }
                match found(&answers) {
                    _ if has_more => return Ok(None),
                    Found::Nothing => return Ok(None),
                    Found::Branch(answer) => return Ok(Some(self.session_of(answer))),
                    Found::Next(answer) => {
                        if self.store.generations().continue_answer(&answer.generation_id, &identity.digest).await? {
                            return Ok(Some(self.session_of(answer)));
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    /// The session of the same request, if it came before and this is a retry of it.
    async fn retried(
        &self,
        answers: &[RecordedAnswer],
        identity: &Identity,
    ) -> Result<Option<Attribution>, StoreError> {
        let is_marked = identity.retries > 0 || identity.idempotency_key.is_some();
        for answer in answers.iter().filter(|answer| answer.continued_by.as_ref() == Some(&identity.digest)) {
            let session = self.session_of(answer);
            let is_of_it = match self.logs {
                SessionLogs::OfAttempts { models, memories } => {
                    let memory = match is_marked {
                        true => Some(memories.of(self.store, models, &session).await?),
                        false => memories.held(&answer.rollout_id, &answer.attempt_id),
                    };
                    memory.is_some_and(|memory| memory.requests.knows(identity))
                }
                // It was logged before this process, or its log gave way.
                SessionLogs::OfAll => is_marked,
            };
            if is_of_it {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    fn session_of(&self, answer: &RecordedAnswer) -> Attribution {
        self.session(&answer.rollout_id, &answer.attempt_id)
    }

    /// The session of a call whose rollout and attempt are known.
    pub(crate) fn session(&self, rollout_id: &str, attempt_id: &str) -> Attribution {
        let rollout_seed = derive_seed(self.seed, &[rollout_id]);
        let (rollout_id, attempt_id) = (rollout_id.to_owned(), attempt_id.to_owned());
        // It lasts as long as its client.
        Attribution { rollout_id, attempt_id, rollout_seed, allowance: None, sampling: None, is_unheard: false }
    }
}

fn found(answers: &[RecordedAnswer]) -> Found<'_> {
    let (open, continued): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.continued_by.is_none());
    match (one_session(&open), one_session(&continued)) {
        (Some(next), _) => Found::Next(next),
        (None, Some(branch)) if open.is_empty() => Found::Branch(branch),
        (None, _) => Found::Nothing,
    }
}

/// The newest of answers that are all of one session.
fn one_session<'a>(answers: &[&'a RecordedAnswer]) -> Option<&'a RecordedAnswer> {
    let first = answers.first()?;
    let is_of_it =
        |answer: &&RecordedAnswer| (&answer.rollout_id, &answer.attempt_id) == (&first.rollout_id, &first.attempt_id);
    answers.iter().all(is_of_it).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rollout: &str, continued_by: Option<&str>) -> RecordedAnswer {
        RecordedAnswer {
            generation_id: format!("generation of {rollout}"),
            rollout_id: rollout.to_owned(),
            attempt_id: "at".to_owned(),
            continued_by: continued_by.map(str::to_owned),
        }
    }

    #[test]
    fn a_call_goes_on_with_the_only_answer_that_nobody_has_continued() {
        let (open, other, continued, another) =
            (answer("a", None), answer("b", None), answer("c", Some("r")), answer("d", Some("s")));
        let of = |answers: &[&RecordedAnswer]| answers.iter().map(|answer| (*answer).clone()).collect::<Vec<_>>();
        assert_eq!(found(&of(&[&open])), Found::Next(&open));
        assert_eq!(found(&of(&[&open, &open])), Found::Next(&open), "two answers to one request");
        assert_eq!(found(&of(&[&open, &continued, &another])), Found::Next(&open));
        assert_eq!(found(&of(&[&open, &other])), Found::Nothing);
        assert_eq!(found(&of(&[&open, &other, &continued])), Found::Nothing);
        assert_eq!(found(&of(&[&continued])), Found::Branch(&continued));
        assert_eq!(found(&of(&[&continued, &another])), Found::Nothing);
    }

    #[test]
    fn a_key_is_part_of_a_conversation_and_so_is_that_there_is_none() {
        let messages = [Message::text("user", "go")];
        let digest = |model, key| {
            UnnamedConversation::new(&messages, model, key).with_answer(&Message::text("assistant", "yes"))
        };
        let all = [digest("m", None), digest("m", Some("")), digest("m", Some("k")), digest("n", None)];
        assert!(all.iter().enumerate().all(|(index, one)| !all[..index].contains(one)));
        assert_eq!(digest("m", Some("k")), digest("m", Some("k")));
    }
}
