//! A cache of the rollouts that take calls: nearly every call is of an attempt that started here or has made a call before,
//! and its rollout need not be read from the database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulgurite_types::{Attempt, AttemptStatus, Rollout, RolloutStatus};

use crate::lifecycle::ROLLOUTS_THAT_WAIT;
use fulgurite_types::time::now;

/// Rollouts that are kept in each of two halves.
const ROLLOUTS: usize = 2048;

/// Maximum age of an entry: another program may have the same file open, whose writes are not seen here.
const MAX_AGE: Duration = Duration::from_secs(5);

/// A rollout without its input, and its latest attempt.
pub type CachedRollout = Arc<(Rollout, Option<Attempt>)>;

/// What a transaction does to what is known.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// The rollout has a new attempt, which is its latest.
    Started(CachedRollout),
    /// A span or a report of the attempt has arrived: rollout and attempt.
    Active(String, String),
    /// Something about the rollout or about an attempt of it is different, or it is gone.
    Other(String),
}

/// A cache of the rollouts whose latest attempts take calls. All changes pass through it, in the order in which they are
/// committed.
pub(crate) struct RolloutCache {
    /// `None` where other servers write to the database, whose writes are not seen here.
    halves: Option<Mutex<Halves>>,
}

/// Rollouts move to the young half when they become known; when it is full it takes the old one's place, whose rollouts
/// are forgotten.
#[derive(Default)]
struct Halves {
    young: HashMap<String, Entry>,
    old: HashMap<String, Entry>,
    readings: u64,
}

enum Entry {
    Cached(CachedRollout, Instant),
    /// A read under this number is running; its result is out of date if this entry has changed.
    Reading(u64),
}

impl RolloutCache {
    /// None at first, and none ever where others write too.
    pub(crate) fn new(others_write: bool) -> Self {
        Self { halves: (!others_write).then(Mutex::default) }
    }

    /// Whether others write to the same database.
    pub(crate) fn others_write(&self) -> bool {
        self.halves.is_none()
    }

    fn halves(&self) -> Option<MutexGuard<'_, Halves>> {
        // Each change is a single one, to one map.
        self.halves.as_ref().map(|halves| halves.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is known of a rollout.
    pub(crate) fn of(&self, rollout_id: &str) -> Option<CachedRollout> {
        match self.halves()?.get_mut(rollout_id)? {
            Entry::Cached(found, since) if since.elapsed() < MAX_AGE => Some(Arc::clone(found)),
            _ => None,
        }
    }

    /// To be called before reading.
    pub(crate) fn start_read(&self, rollout_id: &str) -> u64 {
        let Some(mut halves) = self.halves() else { return 0 };
        halves.readings += 1;
        let reading = halves.readings;
        halves.put(rollout_id, Entry::Reading(reading));
        reading
    }

    /// Takes note of what was read, unless it has changed since.
    pub(crate) fn finish_read(&self, found: &CachedRollout, reading: u64) {
        let Some(mut halves) = self.halves() else { return };
        let (rollout, attempt) = &**found;
        let takes_calls = attempt.as_ref().is_some_and(|attempt| !attempt.status.is_ended());
        if let Some(entry) = halves.get_mut(&rollout.rollout_id)
            && takes_calls
            && matches!(*entry, Entry::Reading(number) if number == reading)
        {
            *entry = Entry::Cached(Arc::clone(found), Instant::now());
        }
    }

    /// Takes note of what was committed.
    pub(crate) fn apply(&self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let Some(mut halves) = self.halves() else { return };
        for change in changes {
            match change {
                Change::Started(started) => {
                    let rollout_id = started.0.rollout_id.clone();
                    halves.put(&rollout_id, Entry::Cached(started, Instant::now()));
                }
                Change::Active(rollout_id, attempt_id) => halves.was_active(&rollout_id, &attempt_id),
                Change::Other(rollout_id) => drop(halves.remove(&rollout_id)),
            }
        }
    }
}

impl Halves {
    fn put(&mut self, rollout_id: &str, entry: Entry) {
        if self.young.len() >= ROLLOUTS {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(rollout_id);
        self.young.insert(rollout_id.to_owned(), entry);
    }

    fn get_mut(&mut self, rollout_id: &str) -> Option<&mut Entry> {
        self.young.get_mut(rollout_id).or_else(|| self.old.get_mut(rollout_id))
    }

    fn remove(&mut self, rollout_id: &str) -> Option<Entry> {
        let young = self.young.remove(rollout_id);
        young.or(self.old.remove(rollout_id))
    }

    fn was_active(&mut self, rollout_id: &str, attempt_id: &str) {
        match self.get_mut(rollout_id) {
            Some(Entry::Cached(known, _)) if is_news(known, attempt_id) => {
                let (rollout, latest) = Arc::make_mut(known);
                if let Some(attempt) = latest {
                    attempt.status = AttemptStatus::Running;
                    attempt.last_heartbeat_time = attempt.last_heartbeat_time.or_else(|| Some(now()));
                }
                if ROLLOUTS_THAT_WAIT.contains(&rollout.status) {
                    rollout.status = RolloutStatus::Running;
                }
            }
            Some(Entry::Reading(_)) => drop(self.remove(rollout_id)),
            _ => {}
        }
    }
}

/// Whether activity of this attempt changes the entry.
fn is_news((rollout, latest): &(Rollout, Option<Attempt>), attempt_id: &str) -> bool {
    latest.as_ref().is_some_and(|latest| {
        let is_running = latest.status == AttemptStatus::Running && rollout.status == RolloutStatus::Running;
        latest.attempt_id == attempt_id && !(is_running && latest.last_heartbeat_time.is_some())
    })
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{AttemptUpdate, RolloutUpdate};

    use super::*;
    use crate::testing::{TestStore, generation};

    #[tokio::test]
    async fn what_this_program_started_or_read_is_not_read_again_and_what_it_changed_is() {
        let store = TestStore::new().await;
        let known = |id: &str| store.database().rollout_cache().of(id);
        let started = store.start().await;
        let id = started.rollout.rollout_id.as_str();
        let is_sqlite = store.database().rollout_cache().halves.is_some();
        assert_eq!(known(id).is_some(), is_sqlite, "it began here");
        let (rollout, attempt) = &*store.rollouts().cached(id).await.unwrap().unwrap();
        assert_eq!((&rollout.rollout_id, attempt.as_ref()), (&started.rollout.rollout_id, Some(&started.attempt)));
        assert!(rollout.input.is_null());

        store.recording().record(generation("a", &started, &[1], &[2])).await.unwrap();
        let active = store.rollouts().cached(id).await.unwrap().unwrap();
        assert_eq!(active.0.status, RolloutStatus::Running);
        let attempt = active.1.as_ref().unwrap();
        assert!(attempt.status == AttemptStatus::Running && attempt.last_heartbeat_time.is_some());

        let metadata = serde_json::json!({ "seed": 7 }).as_object().cloned();
        let update = RolloutUpdate { metadata: Some(metadata.clone()), ..RolloutUpdate::default() };
        store.rollouts().update(id, update).await.unwrap();
        assert!(known(id).is_none());
        assert_eq!(store.rollouts().cached(id).await.unwrap().unwrap().0.metadata, metadata);
        assert_eq!(known(id).is_some(), is_sqlite, "it was read");

        let ended = AttemptUpdate::status(AttemptStatus::Succeeded);
        store.attempts().update(id, started.attempt.attempt_id.as_str(), ended).await.unwrap();
        assert!(store.rollouts().cached(id).await.unwrap().unwrap().1.as_ref().unwrap().status.is_ended());
        assert!(known(id).is_none(), "it takes no calls");
    }

    #[test]
    fn what_changes_while_it_is_read_is_read_again() {
        let rollouts = RolloutCache::new(false);
        let found = |status| {
            let rollout = Rollout { rollout_id: "ro".into(), ..rollout(RolloutStatus::Preparing) };
            Arc::new((rollout, Some(attempt(status))))
        };
        let changes = || [Change::Other("ro".into()), Change::Active("ro".into(), "at".into())];
        for change in changes() {
            let reading = rollouts.start_read("ro");
            rollouts.apply(vec![change]);
            rollouts.finish_read(&found(AttemptStatus::Preparing), reading);
            assert!(rollouts.of("ro").is_none());
        }
        let (_, later) = (rollouts.start_read("ro"), rollouts.start_read("ro"));
        rollouts.finish_read(&found(AttemptStatus::Preparing), later);
        assert!(rollouts.of("ro").is_some());
        for change in changes() {
            rollouts.apply(vec![Change::Started(found(AttemptStatus::Preparing)), change]);
        }
        assert_eq!(rollouts.of("ro").unwrap().1.as_ref().unwrap().status, AttemptStatus::Running);
        rollouts.apply(vec![Change::Other("ro".into())]);
        assert!(rollouts.of("ro").is_none());
    }

    #[test]
    fn no_more_rollouts_are_kept_than_there_is_room_for() {
        let rollouts = RolloutCache::new(false);
        for number in 0..5 * ROLLOUTS {
            let rollout = Rollout { rollout_id: number.to_string(), ..rollout(RolloutStatus::Running) };
            rollouts.apply(vec![Change::Started(Arc::new((rollout, Some(attempt(AttemptStatus::Running)))))]);
        }
        let halves = rollouts.halves().unwrap();
        assert!(halves.young.len() + halves.old.len() <= 2 * ROLLOUTS);
        assert!(halves.young.contains_key(&(5 * ROLLOUTS - 1).to_string()));
    }

    fn rollout(status: RolloutStatus) -> Rollout {
        serde_json::from_value(serde_json::json!({
            "rollout_id": "ro", "input": null, "start_time": 1.0, "end_time": null, "mode": null, "resources_id": null,
            "status": status, "config": {}, "metadata": null,
        }))
        .unwrap()
    }

    fn attempt(status: AttemptStatus) -> Attempt {
        serde_json::from_value(serde_json::json!({
            "rollout_id": "ro", "attempt_id": "at", "sequence_id": 1, "start_time": 1.0, "end_time": null,
            "status": status, "worker_id": null, "last_heartbeat_time": null, "metadata": null,
        }))
        .unwrap()
    }
}
