use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulgurite_store::StoreError;
use fulgurite_types::{Defect, StopReason};
use tokio::sync::OnceCell;

use crate::attempt::attempt_memory::{AnsweredCall, AttemptMemory};
use crate::attempt::attribution::Attribution;
use crate::call::planning::reply_id;
use crate::record::recorded_call::{self, RecordedCall};
use crate::retries::logged_requests::Identity;
use crate::{Proxy, ServedModel};

/// Memories of attempts, the least recently used of which give way to others.
pub(crate) struct AttemptMemories {
    state: Mutex<State>,
    /// Bytes that they may hold together, about.
    limit: usize,
}

#[derive(Default)]
struct State {
    /// By rollout and attempt, whose ids are unique within a rollout only.
    memories: HashMap<(String, String), Remembered>,
    /// Counts up with every use.
    now: u64,
    size: usize,
}

struct Remembered {
    memory: Arc<OnceCell<Arc<AttemptMemory>>>,
    last_used: u64,
}

/// What an attempt takes even if nothing was said in it.
const BYTES_PER_ATTEMPT: usize = 2_000;

impl AttemptMemories {
    /// No memories, which may grow to this many bytes, about.
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), limit }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A count that is off by one memory after a panic does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory of an attempt: of one that is seen for the first time, as the store has it.
    pub(crate) async fn of(&self, proxy: &Proxy, attribution: &Attribution) -> Result<Arc<AttemptMemory>, StoreError> {
        let Attribution { rollout_id, attempt_id, is_unheard, .. } = attribution;
        let cell = self.cell(rollout_id, attempt_id);
        let memory = cell
            .get_or_try_init(|| async {
                let memory = match is_unheard {
                    true => AttemptMemory::new(),
                    false => restore(proxy, rollout_id, attempt_id).await?,
                };
                self.grow(BYTES_PER_ATTEMPT + memory.size());
                Ok::<_, StoreError>(Arc::new(memory))
            })
            .await?;
        if proxy.shared.store.others_write() {
            self.grow(catch_up(proxy, memory, rollout_id, attempt_id).await?);
        }
        Ok(Arc::clone(memory))
    }

    /// Notes that a memory has grown, and forgets others if there is no room.
    pub(crate) fn grow(&self, by: usize) {
        let mut state = self.state();
        state.size += by;
        if state.size > self.limit {
            state.make_room(self.limit / 10 * 9);
        }
    }

    /// Forgets an attempt that has ended, unless a call of it is under way. It takes no calls any more; a client's session
    /// that goes on is read from the store again.
    pub(crate) fn forget(&self, rollout_id: &str, attempt_id: &str) {
        let ids = (rollout_id.to_owned(), attempt_id.to_owned());
        let mut state = self.state();
        if state.memories.get(&ids).is_some_and(|remembered| !remembered.is_used()) {
            state.remove(&ids);
        }
    }

    fn cell(&self, rollout_id: &str, attempt_id: &str) -> Arc<OnceCell<Arc<AttemptMemory>>> {
        let mut state = self.state();
        state.now += 1;
        let now = state.now;
        let remembered = state
            .memories
            .entry((rollout_id.to_owned(), attempt_id.to_owned()))
            .or_insert_with(|| Remembered { memory: Arc::new(OnceCell::new()), last_used: now });
        remembered.last_used = now;
        Arc::clone(&remembered.memory)
    }
}

impl Remembered {
    fn is_used(&self) -> bool {
        // Whoever reads it from the store holds the cell; an empty one that nobody holds could not be read.
        Arc::strong_count(&self.memory) > 1 || self.memory.get().is_some_and(|memory| Arc::strong_count(memory) > 1)
    }
}

impl State {
    fn remove(&mut self, ids: &(String, String)) {
        if let Some(forgotten) = self.memories.remove(ids) {
            let size = forgotten.memory.get().map_or(0, |memory| BYTES_PER_ATTEMPT + memory.size());
            self.size = self.size.saturating_sub(size);
        }
    }

    /// Forgets the least recently used of those that nobody is using, until they hold no more than `limit`.
    fn make_room(&mut self, limit: usize) {
        let idle = self.memories.iter().filter(|(_, remembered)| !remembered.is_used());
        let mut idle: Vec<(u64, (String, String))> =
            idle.map(|(ids, remembered)| (remembered.last_used, ids.clone())).collect();
        idle.sort_unstable();
        for (_, ids) in idle {
            if self.size <= limit {
                break;
            }
            self.remove(&ids);
        }
    }
}

/// An attempt as the store has it.
async fn restore(proxy: &Proxy, rollout_id: &str, attempt_id: &str) -> Result<AttemptMemory, StoreError> {
    let store = &proxy.shared.store;
    let memory = AttemptMemory::new();
    let listed = match store.others_write() {
        true => Some(store.generations_behind(rollout_id, attempt_id, 0).await?),
        false => None,
    };
    let mut calls = recorded_call::turns(store, rollout_id, attempt_id).await?;
    if let Some(listed) = listed {
        listed.iter().for_each(|(_, generation_id)| memory.note(generation_id, false));
        *memory.known_up_to.lock().await = listed.last().map_or(0, |(place, _)| *place);
        // What has come since is caught up with.
        calls.retain(|call| memory.is_own(&call.generation.generation_id).is_some());
    }
    // Those that were passed on have taken from the budget, and have no place among what is sampled here.
    let (passed_on, calls): (Vec<_>, Vec<_>) = calls.into_iter().partition(is_passed_on);
    // The answers to one request share its reply's id.
    let failed: HashSet<&str> = calls.iter().filter(|call| has_failed(call)).map(reply_id).collect();
    for call in &calls {
        restore_call(proxy, &memory, call, failed.contains(reply_id(call)));
    }
    for RecordedCall { usage: (prompt_tokens, sampled_tokens), .. } in passed_on {
        memory.spending.call(prompt_tokens as usize);
        memory.spending.sampled(sampled_tokens as usize);
    }
    Ok(memory)
}

/// Reads what other servers have recorded of an attempt since it was last looked at; gives by how much the memory grew.
/// What they pass on counts at the server that does.
async fn catch_up(
    proxy: &Proxy,
    memory: &AttemptMemory,
    rollout_id: &str,
    attempt_id: &str,
) -> Result<usize, StoreError> {
    let store = &proxy.shared.store;
    let mut known_up_to = memory.known_up_to.lock().await;
    let mut grown = 0;
    for (place, generation_id) in store.generations_behind(rollout_id, attempt_id, *known_up_to).await? {
        let is_own = memory.is_own(&generation_id);
        if is_own != Some(true)
            && let Some(call) = recorded_call::turn(store, &generation_id).await?
            && !is_passed_on(&call)
        {
            memory.note(&generation_id, false);
            grown += match is_own {
                None => restore_call(proxy, memory, &call, has_failed(&call)),
                // Its answer has been gone on with since.
                Some(_) => restore_answer(proxy, memory, &call),
            };
        }
        *known_up_to = place;
    }
    Ok(grown)
}

/// `has_failed` tells that there is no answer to its request. Gives by how much the memory grew.
fn restore_call(proxy: &Proxy, memory: &AttemptMemory, call: &RecordedCall, has_failed: bool) -> usize {
    let generation = &call.generation;
    memory.spending.sampled(generation.sampled_tokens.len());
    if is_first_answer(call) {
        memory.was_asked(generation.seed);
        memory.spending.call(generation.prompt_tokens.len());
        let identity = Identity {
            digest: generation.request_digest.clone(),
            idempotency_key: call.idempotency_key.clone(),
            retries: 0,
        };
        let created = generation.start_time as u64;
        if !has_failed {
            memory.requests.restore(identity, generation.generation_id.clone(), created, generation.client_gone);
        }
    }
    restore_answer(proxy, memory, call)
}

/// Remembers an answer, if there is one that can be gone on with here. Gives by how much the memory grew.
fn restore_answer(proxy: &Proxy, memory: &AttemptMemory, call: &RecordedCall) -> usize {
    let RecordedCall { generation, messages, tools, reply, .. } = call;
    let model = proxy.shared.models.get(&generation.model).and_then(ServedModel::sampled).filter(|model| {
        // Tokens of another format or tokenizer cannot be continued.
        model.renderer.name() == generation.renderer && model.renderer.tokenizer().fingerprint() == generation.tokenizer
    });
    let model = model.map(|model| proxy.shared.argued_renderers.of(model, &call.request_extra)).transpose();
    let model = model.unwrap_or_else(|error| {
        tracing::warn!(generation_id = generation.generation_id, %error, "what was told to a model's template cannot be again");
        None
    });
    let is_answer = generation.stop_reason.is_whole();
    if let (Some(model), Some(reply), true, false) = (model, reply, is_answer, messages.is_empty()) {
        let call = AnsweredCall {
            generation_id: &generation.generation_id,
            messages,
            tools,
            reply,
            prompt: &generation.prompt_tokens,
            sampled: &generation.sampled_tokens,
        };
        return memory.remember(model.renderer.fingerprint(), &call);
    }
    0
}

/// Those that were passed on have taken from the budget, and have no place among what is sampled here.
fn is_passed_on(call: &RecordedCall) -> bool {
    call.generation.defect == Some(Defect::Upstream)
}

fn is_first_answer(call: &RecordedCall) -> bool {
    call.choice == 0
}

fn has_failed(call: &RecordedCall) -> bool {
    call.generation.stop_reason == StopReason::Error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_has_ended_is_forgotten_unless_a_call_of_it_is_under_way() {
        let memories = AttemptMemories::new(1 << 20);
        let cell = memories.cell("ro", "at");
        assert!(cell.set(Arc::new(AttemptMemory::new())).is_ok());
        memories.grow(BYTES_PER_ATTEMPT);
        let kept = || {
            let state = memories.state();
            (state.memories.len(), state.size)
        };
        memories.forget("ro", "at");
        assert_eq!(kept(), (1, BYTES_PER_ATTEMPT), "its cell is in use");
        drop(cell);
        memories.forget("ro", "other");
        assert_eq!(kept(), (1, BYTES_PER_ATTEMPT));
        memories.forget("ro", "at");
        assert_eq!(kept(), (0, 0));
    }

    #[test]
    fn an_attempt_that_could_not_be_read_from_the_store_is_forgotten_too() {
        let memories = AttemptMemories::new(0);
        let ids = || memories.state().memories.keys().map(|(_, attempt)| attempt.clone()).collect::<Vec<_>>();
        let under_way = memories.cell("ro", "under way");
        memories.forget("ro", "under way");
        assert_eq!(ids(), ["under way"]);
        drop(memories.cell("ro", "ended"));
        memories.forget("ro", "ended");
        assert_eq!(ids(), ["under way"]);
        drop(memories.cell("ro", "idle"));
        memories.grow(1);
        assert_eq!(ids(), ["under way"]);
        drop(under_way);
    }
}
