use fulgurite_types::{
    AttemptStatus, BranchReason, Defect, NewGeneration, NewRollout, RolloutStatus, Span, StopReason, pack_logprobs,
    pack_tokens,
};

use crate::Result;
use crate::call_records::call_span::call_span;
use crate::call_records::conversations::{MessagesHash, RecordedConversation, WrittenConversation};
use crate::call_records::new_call::{ConversationHash, NewCall};
use crate::call_records::tokens::{ContextHash, PrefixHasher, TOKEN_BYTES};
use crate::call_records::validation::validate;
use crate::checksums::{GenerationColumns, Recorded, around_sequence_id, span_digest};
use crate::database::sql::{to_integer, to_json};
use crate::row_checksums::{AttemptColumns, RolloutColumns, heartbeat_ids};

/// A call that is to be recorded, in the form that its rows take.
#[derive(Clone)]
pub(crate) struct CallRecord {
    /// Its attributes are in the span's body and in the conversation.
    pub generation: NewGeneration,
    pub body: SpanBody,
    pub conversation: Option<WrittenConversation>,
    pub conversation_digest: Option<ConversationHash>,
    pub sampling: String,
    pub weights_versions: String,
    /// Prompt and answer.
    packed_tokens: Vec<u8>,
    pub packed_logprobs: Option<Vec<u8>>,
    /// The call that it is supposed to continue.
    pub context_parent: Option<(usize, ContextHash)>,
    /// The call whose messages its own are supposed to begin with.
    pub messages_parent: Option<(usize, MessagesHash)>,
    known: KnownCall,
    /// The checksum of its row where it continues that call.
    expected_checksum: i64,
    /// The digest of its span but for its place.
    pub span_digest: i64,
    /// What its attempt counts in the checksum of a heartbeat.
    pub heartbeat_ids: i64,
    /// The session that begins and ends with it.
    pub session: Option<Session>,
    /// The server that records it; none of a call from an archive.
    pub server_id: Option<i64>,
}

/// A session's rollout, which nobody enqueued, as JSON.
#[derive(Clone)]
pub(crate) struct Session {
    pub config: String,
    pub metadata: String,
    /// The checksums of its rollout, without resources, and of its attempt, as if it were of time 0.
    pub rollout_checksum: i64,
    pub attempt_checksum: i64,
}

/// What a later call of the same attempt is compared with: numbers of tokens and of messages, and their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownCall {
    /// Prompt and answer.
    pub context: Option<(usize, ContextHash)>,
    /// The prompt's.
    pub messages: Option<(usize, MessagesHash)>,
}

impl CallRecord {
    /// Prepares a call, given earlier ones of its attempt, of which it is supposed to continue the longest that it can.
    pub(crate) fn new(call: impl Into<NewCall>, earlier: &[KnownCall]) -> Result<Self> {
        let NewCall { mut generation, conversation, conversation_digest } = call.into();
        validate(&generation)?;
        let conversation = conversation.or_else(|| RecordedConversation::take(&mut generation.attributes));
        let attributes = std::mem::take(&mut generation.attributes);
        let body = SpanBody::new(&call_span(&generation, attributes, 0))?;
        let mut packed_tokens = pack_tokens(&generation.prompt_tokens);
        packed_tokens.extend(pack_tokens(&generation.sampled_tokens));
        let conversation = conversation.as_ref().map(RecordedConversation::written).transpose()?;
        let mut hasher = PrefixHasher::new(&packed_tokens);
        let context_parent = longest_context(earlier, generation.prompt_tokens.len(), &mut hasher);
        let messages_parent = conversation.as_ref().and_then(|written| longest_beginning(earlier, written));
        let length = generation.prompt_tokens.len() + generation.sampled_tokens.len();
        let hash = hasher.prefix(length).unwrap_or_default();
        let known = KnownCall {
            context: Some((length, hash)),
            messages: conversation.as_ref().map(|written| (written.length(), written.hash())),
        };
        let finite = generation.logprobs.iter().flatten().all(|logprob| logprob.is_finite());
        if !finite {
            generation.defect = Some(Defect::NonFiniteLogprobs);
        }
        let mut call = Self {
            sampling: to_json("sampling", &generation.sampling)?,
            weights_versions: to_json("weights_versions", &generation.weights_versions)?,
            packed_logprobs: generation.logprobs.as_deref().filter(|_| finite).map(pack_logprobs),
            heartbeat_ids: heartbeat_ids(&generation.rollout_id, &generation.attempt_id),
            generation,
            span_digest: span_digest(&body.before, &body.after),
            body,
            conversation,
            conversation_digest,
            packed_tokens,
            context_parent,
            messages_parent,
            known,
            expected_checksum: 0,
            session: None,
            server_id: None,
        };
        // Here, and not where one job at a time is done.
        call.expected_checksum = call.columns(call.expected_to_be_held())?.checksum();
        Ok(call)
    }

    /// Prepares the only call of a session, whose rollout and attempt it names.
    pub(crate) fn alone(call: impl Into<NewCall>) -> Result<Self> {
        let rollout = NewRollout::session();
        let config = to_json("config", &rollout.config.unwrap_or_default())?;
        let metadata = to_json("metadata", &rollout.metadata.unwrap_or_default())?;
        let call = Self::new(call, &[])?;
        let rollout = RolloutColumns {
            rollout_id: &call.generation.rollout_id,
            input: "null",
            start_time: 0.0,
            end_time: Some(0.0),
            mode: None,
            resources_id: None,
            status: RolloutStatus::Succeeded.as_str(),
            config: &config,
            metadata: Some(&metadata),
        };
        let attempt = AttemptColumns {
            rollout_id: &call.generation.rollout_id,
            attempt_id: &call.generation.attempt_id,
            sequence_id: 1,
            start_time: 0.0,
            end_time: Some(0.0),
            status: AttemptStatus::Succeeded.as_str(),
            worker_id: None,
            metadata: None,
            grader: None,
            lease_end: None,
            revision: 0,
        };
        let (rollout_checksum, attempt_checksum) = (rollout.checksum(), attempt.checksum());
        let session = Session { config, metadata, rollout_checksum, attempt_checksum };
        Ok(Self { session: Some(session), ..call })
    }

    /// The call, as this server records it.
    pub(crate) fn by_server(self, server_id: i64) -> Self {
        Self { server_id: Some(server_id), ..self }
    }

    /// Tokens of its prompt that the call holds which it is supposed to continue.
    pub(crate) fn expected_to_be_held(&self) -> usize {
        self.context_parent.map_or(0, |(length, _)| length)
    }

    /// Messages of it that the call has whose messages its own are supposed to begin with.
    pub(crate) fn messages_expected_to_be_held(&self) -> usize {
        self.messages_parent.map_or(0, |(length, _)| length)
    }

    /// The checksum of its row, if its parent holds so many tokens of its prompt.
    pub(crate) fn checksum(&self, held_tokens: usize) -> Result<i64> {
        match held_tokens == self.expected_to_be_held() {
            true => Ok(self.expected_checksum),
            false => Ok(self.columns(held_tokens)?.checksum()),
        }
    }

    /// What it adds to its attempt.
    pub(crate) fn recorded(&self, sequence_id: u64, held_tokens: usize) -> Result<Recorded> {
        let generation = Recorded::generation(Some(self.checksum(held_tokens)?));
        Ok(Recorded::span_with(self.span_digest, sequence_id)?.and(generation))
    }

    fn columns(&self, held_tokens: usize) -> Result<GenerationColumns<'_>> {
        let generation = &self.generation;
        let KnownCall { context, messages } = &self.known;
        let messages_length = messages.map(|(length, _)| to_integer("messages", length)).transpose()?;
        Ok(GenerationColumns {
            texts: [
                &generation.generation_id,
                &generation.rollout_id,
                &generation.attempt_id,
                &generation.span_id,
                &generation.model,
                generation.stop_reason.as_str(),
                &self.weights_versions,
                &self.sampling,
                &generation.renderer,
                &generation.tokenizer,
                &generation.request_digest,
            ],
            optional_texts: [
                generation.branch_reason.as_ref().map(BranchReason::as_str),
                generation.defect.as_ref().map(Defect::as_str),
                self.conversation.as_ref().map(|written| written.answer.as_str()),
            ],
            prompt_tokens: self.prompt_from(held_tokens),
            sampled_tokens: self.sampled(),
            logprobs: self.packed_logprobs.as_deref(),
            context_length: to_integer("prompt_tokens", self.context().0)?,
            context_hash: context.as_ref().map_or(&[], |(_, hash)| &hash[..]),
            messages_length,
            messages_hash: messages.as_ref().map(|(_, hash)| &hash[..]),
            seed: generation.seed.cast_signed(),
            client_disconnected: generation.client_disconnected,
        })
    }

    /// The packed prompt.
    pub(crate) fn prompt(&self) -> &[u8] {
        self.packed_tokens.get(..TOKEN_BYTES * self.generation.prompt_tokens.len()).unwrap_or_default()
    }

    /// The packed prompt from this token on.
    pub(crate) fn prompt_from(&self, token: usize) -> &[u8] {
        self.prompt().get(TOKEN_BYTES * token..).unwrap_or_default()
    }

    /// The packed answer.
    pub(crate) fn sampled(&self) -> &[u8] {
        self.packed_tokens.get(TOKEN_BYTES * self.generation.prompt_tokens.len()..).unwrap_or_default()
    }

    /// Tokens of prompt and answer, and their hash.
    pub(crate) fn context(&self) -> (usize, ContextHash) {
        self.known.context.unwrap_or_default()
    }

    /// What later calls are compared with, unless the call cannot be continued.
    pub(crate) fn continuable(&self) -> Option<KnownCall> {
        (self.generation.stop_reason != StopReason::ClientDisconnected).then_some(self.known)
    }
}

/// The longest of the earlier calls whose prompt and answer this prompt begins with.
fn longest_context(
    earlier: &[KnownCall],
    prompt_length: usize,
    hasher: &mut PrefixHasher<'_>,
) -> Option<(usize, ContextHash)> {
    let mut contexts: Vec<_> = earlier.iter().filter_map(|call| call.context).collect();
    contexts.retain(|(length, _)| (1..=prompt_length).contains(length));
    contexts.sort_unstable();
    let mut longest = None;
    // The hasher goes forwards only.
    for (length, hash) in contexts {
        if hasher.prefix(length) == Some(hash) {
            longest = Some((length, hash));
        }
    }
    longest
}

/// The longest of the earlier calls whose messages these begin with.
fn longest_beginning(earlier: &[KnownCall], written: &WrittenConversation) -> Option<(usize, MessagesHash)> {
    let beginnings = earlier.iter().filter_map(|call| call.messages);
    let begins = |(length, hash): &(usize, MessagesHash)| written.hash_of_first(*length).as_ref() == Some(hash);
    beginnings.filter(begins).max()
}

/// A span as its row holds it, in JSON, up to its place in its rollout and from there on.
#[derive(Clone)]
pub(crate) struct SpanBody {
    pub before: String,
    pub after: String,
}

impl SpanBody {
    fn new(span: &Span) -> Result<Self> {
        let mut before = to_json("span", span)?;
        let (kept, after) = around_sequence_id(&before);
        let (end, after) = (kept.len(), after.to_owned());
        before.truncate(end);
        Ok(Self { before, after })
    }

    /// The whole text.
    pub(crate) fn at(&self, sequence_id: u64) -> String {
        format!("{}{sequence_id}{}", self.before, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_continues_the_longest_context_that_it_begins_with() {
        let packed = pack_tokens(&[1, 2, 3, 4]);
        let known = |tokens: &[u32]| {
            let packed = pack_tokens(tokens);
            let hash = PrefixHasher::new(&packed).prefix(tokens.len()).unwrap();
            KnownCall { context: Some((tokens.len(), hash)), messages: None }
        };
        let longest = |earlier: &[KnownCall]| {
            longest_context(earlier, 4, &mut PrefixHasher::new(&packed)).map(|(length, _)| length)
        };
        let other = known(&[1, 2, 9]);
        assert_eq!(longest(&[known(&[1]), known(&[1, 2]), other, known(&[1, 2, 3, 4, 5])]), Some(2));
        assert_eq!(longest(&[known(&[1, 2, 3, 4]), known(&[1])]), Some(4));
        assert_eq!(longest(&[other, known(&[])]), None);
    }
}
