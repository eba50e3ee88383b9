use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulgurite_store::{Store, StoreError};
use tokio::sync::OnceCell;

use crate::attempt::attempt_memory::AttemptMemory;
use crate::attempt::attribution::Attribution;
use crate::attempt::restored_memory::{catch_up, restore};
use crate::models::served_models::ServedModels;

/// Memories of attempts, the least recently used of which give way to others.
pub(crate) struct AttemptMemories {
    state: Mutex<AttemptsState>,
    /// Bytes that they may hold together, about.
    limit: usize,
}

#[derive(Default)]
struct AttemptsState {
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

/// Memory of an attempt without any messages, in bytes.
const BYTES_PER_ATTEMPT: usize = 2_000;

impl AttemptMemories {
    /// No memories, which may grow to this many bytes, about.
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), limit }
    }

    fn state(&self) -> MutexGuard<'_, AttemptsState> {
        // A count that is off by one memory after a panic does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory of an attempt: of one that is seen for the first time, as the store has it.
    pub(crate) async fn of(
        &self,
        store: &Store,
        models: &ServedModels,
        attribution: &Attribution,
    ) -> Result<Arc<AttemptMemory>, StoreError> {
        let Attribution { rollout_id, attempt_id, is_unheard, .. } = attribution;
        let cell = self.cell(rollout_id, attempt_id);
        let memory = cell
            .get_or_try_init(|| async {
                let memory = match is_unheard {
                    true => AttemptMemory::new(),
                    false => restore(store, models, rollout_id, attempt_id).await?,
                };
                self.grow(BYTES_PER_ATTEMPT + memory.size());
                Ok::<_, StoreError>(Arc::new(memory))
            })
            .await?;
        if store.others_write() {
            self.grow(catch_up(store, models, memory, rollout_id, attempt_id).await?);
        }
        Ok(Arc::clone(memory))
    }

    /// The memory of an attempt, if it is held.
    pub(crate) fn held(&self, rollout_id: &str, attempt_id: &str) -> Option<Arc<AttemptMemory>> {
        let ids = (rollout_id.to_owned(), attempt_id.to_owned());
        self.state().memories.get(&ids)?.memory.get().map(Arc::clone)
    }

    /// Notes that a memory has grown, and forgets others if there is no room.
    pub(crate) fn grow(&self, by: usize) {
        let mut state = self.state();
        state.size += by;
        if state.size > self.limit {
            state.make_room(self.limit / 10 * 9);
        }
    }

    /// Forgets an attempt that has ended, unless a call of it is under way. It takes no more calls; a client's session that
    /// continues is read from the store again.
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
        // A cell is held while its attempt is read from the store; an empty one that is not held belongs to an attempt that
        // could not be read.
        Arc::strong_count(&self.memory) > 1 || self.memory.get().is_some_and(|memory| Arc::strong_count(memory) > 1)
    }
}

impl AttemptsState {
    fn remove(&mut self, ids: &(String, String)) {
        if let Some(forgotten) = self.memories.remove(ids) {
            let size = forgotten.memory.get().map_or(0, |memory| BYTES_PER_ATTEMPT + memory.size());
            self.size = self.size.saturating_sub(size);
        }
    }

    /// Forgets the least recently used of those that are not in use, until they hold no more than `limit`.
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
