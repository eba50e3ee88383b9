use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulgurite_renderers::{
    ContinuationPolicy, NextPrompt, RecordedTurn, RecordedTurns, RenderError, Renderer, VolatileRules,
};
use fulgurite_types::Message;
use serde_json::Value;

use crate::attempt::budget::Spending;
use crate::placed_prompt::{PlacedDeparture, PlacedPrompt};
use crate::record::recorded_call::is_answer_of;
use crate::retries::logged_requests::Identity;
use crate::retries::request_log::RequestLog;

/// Requests of an attempt that are kept once they are over.
const REQUESTS_KEPT: usize = 10_000;

/// What is remembered of an attempt's calls while it runs; all of it is in the store as well.
pub(crate) struct AttemptMemory {
    pub(crate) requests: Arc<RequestLog>,
    pub(crate) spending: Arc<Spending>,
    state: Mutex<MemoryState>,
    /// Tokens and bytes of text that are held, about.
    size: AtomicUsize,
    /// Where other servers record calls of the attempt too: the place of the latest that is known here.
    pub(crate) known_up_to: tokio::sync::Mutex<i64>,
}

#[derive(Default)]
struct MemoryState {
    /// Requests so far.
    requests: u64,
    /// Of the requests that were read from the store.
    recorded_seeds: HashSet<u64>,
    /// Generations that are known, and which of them this server records; none where no other records any.
    known: HashMap<String, bool>,
    /// Whether an answered call showed the model tools.
    has_shown_tools: bool,
    /// The last request that was read from the store, until it is known that its client has the answer.
    last_recorded: Option<RecordedRequest>,
    /// By the renderer's fingerprint: tokens of one format and tokenizer mean nothing to another.
    turns: HashMap<String, Turns>,
}

/// An answered request in the store.
#[derive(Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) digest: String,
    pub(crate) reply_id: String,
}

struct Turns {
    /// What renders holds the turns that there were when it began, and no lock: a template may take long.
    recorded: Arc<RecordedTurns>,
    /// The generation of each turn, by its number.
    generations: Vec<String>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { recorded: Arc::new(RecordedTurns::new(VolatileRules::built_in())), generations: Vec::new() }
    }
}

/// A call that was answered, as its continuation needs it.
#[derive(Clone, Copy)]
pub(crate) struct AnsweredCall<'c> {
    pub(crate) generation_id: &'c str,
    pub(crate) messages: &'c [Message],
    pub(crate) tools: &'c [Value],
    pub(crate) reply: &'c Message,
    pub(crate) prompt: &'c [u32],
    pub(crate) sampled: &'c [u32],
}

impl AttemptMemory {
    /// A memory of an attempt without calls.
    pub(crate) fn new() -> Self {
        Self {
            requests: RequestLog::new(REQUESTS_KEPT),
            spending: Arc::default(),
            state: Mutex::default(),
            size: AtomicUsize::new(0),
            known_up_to: tokio::sync::Mutex::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        // A panic while rendering leaves what was recorded as it was.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request in that was read from the store.
    pub(crate) fn note_seed(&self, seed: u64) {
        let mut state = self.state();
        state.requests += 1;
        state.recorded_seeds.insert(seed);
    }

    /// Notes that a generation is known: one that this server records, before it does.
    pub(crate) fn note(&self, generation_id: &str, is_own: bool) {
        self.state().known.insert(generation_id.to_owned(), is_own);
    }

    /// Whether a generation is of this server; none if it is not known.
    pub(crate) fn is_own(&self, generation_id: &str) -> Option<bool> {
        self.state().known.get(generation_id).copied()
    }

    /// The seed of a new request, which follows from its place in its attempt, counted from 0. A place whose seed is
    /// recorded is passed over: requests that left no record are not counted after a restart.
    pub(crate) fn next_seed(&self, of_place: impl Fn(u64) -> u64) -> u64 {
        let mut state = self.state();
        loop {
            let seed = of_place(state.requests);
            state.requests += 1;
            if !state.recorded_seeds.contains(&seed) {
                return seed;
            }
        }
    }

    /// Whether there was no request yet.
    pub(crate) fn is_unused(&self) -> bool {
        self.state().requests == 0
    }

    /// Notes the last request that was read from the store, if its client may have the answer or not.
    pub(crate) fn note_last_recorded(&self, last: Option<RecordedRequest>) {
        self.state().last_recorded = last;
    }

    /// The last request that was read from the store, for one that repeats it as far as its body shows: the first one.
    pub(crate) fn take_last_recorded(&self, repeated_by: &Identity) -> Option<RecordedRequest> {
        let is_unmarked = repeated_by.retries == 0 && repeated_by.idempotency_key.is_none();
        let is_it = |last: &mut RecordedRequest| is_unmarked && last.digest == repeated_by.digest;
        self.state().last_recorded.take_if(is_it)
    }

    /// Notes that an answer is given again; whether it is that of the last request that was read from the store.
    pub(crate) fn is_given_again(&self, reply_id: &str) -> bool {
        self.state().last_recorded.take_if(|last| last.reply_id == reply_id).is_some()
    }

    /// Notes that a call continues this generation, so that its client has the answer.
    pub(crate) fn is_continued(&self, generation_id: &str) {
        let is_it = |last: &mut RecordedRequest| is_answer_of(&last.reply_id, generation_id);
        self.state().last_recorded.take_if(is_it);
    }

    /// Whether a call that was answered showed the model tools.
    pub(crate) fn has_shown_tools(&self) -> bool {
        self.state().has_shown_tools
    }

    /// The next prompt of a conversation.
    pub(crate) fn next_prompt(
        &self,
        renderer: &dyn Renderer,
        messages: &[Message],
        tools: &[Value],
        policy: ContinuationPolicy,
    ) -> Result<PlacedPrompt, RenderError> {
        let format = renderer.fingerprint();
        let recorded = Arc::clone(&self.state().turns.entry(format.to_owned()).or_default().recorded);
        let next = recorded.next_prompt(renderer, messages, tools, policy)?;
        let tokens = recorded.prompt_tokens(&next);
        drop(recorded);
        let (turn, tokens_kept, departure) = match next {
            NextPrompt::Continued(continued) => (Some(continued.turn), continued.tokens_kept, continued.departure),
            NextPrompt::Fresh(fresh) => (None, 0, Some(fresh.departure)),
        };
        let state = self.state();
        let generation = |turn: usize| state.turns.get(format)?.generations.get(turn).cloned();
        let departure =
            departure.map(|departure| PlacedDeparture { generation: departure.turn.and_then(generation), departure });
        Ok(PlacedPrompt { tokens, tokens_kept, continues: turn.and_then(generation), departure })
    }

    /// Remembers a call that was answered and is in the store; gives by how much the memory grew.
    pub(crate) fn remember(&self, renderer: &str, call: &AnsweredCall<'_>) -> usize {
        let mut state = self.state();
        state.has_shown_tools |= !call.tools.is_empty();
        let turns = state.turns.entry(renderer.to_owned()).or_default();
        let before = turns.recorded.token_count();
        Arc::make_mut(&mut turns.recorded).record(&RecordedTurn {
            messages: call.messages,
            tools: call.tools,
            reply: call.reply,
            prompt_tokens: call.prompt,
            sampled_tokens: call.sampled,
        });
        turns.generations.push(call.generation_id.to_owned());
        // A reply is kept as text too, about four bytes to a token.
        let grown = size_of::<u32>() * (turns.recorded.token_count() - before + call.sampled.len()) + BYTES_PER_TURN;
        self.size.fetch_add(grown, Ordering::Relaxed);
        grown
    }

    /// Bytes that are held, about.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }
}

/// What a turn takes besides its tokens: ids, digests, places in maps.
const BYTES_PER_TURN: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_gets_the_seed_of_one_that_is_recorded() {
        // The request at place 1 left no record.
        let memory = AttemptMemory::new();
        memory.note_seed(100);
        memory.note_seed(102);
        assert_eq!([memory.next_seed(|place| 100 + place), memory.next_seed(|place| 100 + place)], [103, 104]);
        assert_eq!(memory.next_seed(|place| 200 + place), 205, "another client's seeds are others");
    }
}
