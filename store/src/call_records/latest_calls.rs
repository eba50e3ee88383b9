use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::call_records::call_record::KnownCall;

/// Attempts that are kept in each of two halves.
const ATTEMPTS: usize = 1024;
/// Calls that are kept of an attempt.
const CALLS: usize = 32;

/// Rollout and attempt.
type AttemptKey = (String, String);

/// The latest calls of the attempts that recorded some lately: a guess at what their next calls continue. Writes check it,
/// so that it does no harm where it is out of date or incomplete.
#[derive(Default)]
pub(crate) struct LatestCalls {
    halves: Mutex<Halves>,
}

/// Attempts move to the young half when they are noted; when it is full it takes the old one's place, whose attempts are
/// forgotten.
#[derive(Default)]
struct Halves {
    young: HashMap<AttemptKey, Vec<KnownCall>>,
    old: HashMap<AttemptKey, Vec<KnownCall>>,
}

impl LatestCalls {
    fn halves(&self) -> MutexGuard<'_, Halves> {
        // Whatever is in there is only a guess.
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of an attempt.
    pub(crate) fn of(&self, attempt: &AttemptKey) -> Vec<KnownCall> {
        let halves = self.halves();
        halves.young.get(attempt).or_else(|| halves.old.get(attempt)).cloned().unwrap_or_default()
    }

    /// Notes one that was recorded.
    pub(crate) fn note(&self, attempt: AttemptKey, call: KnownCall) {
        let mut halves = self.halves();
        let Halves { young, old } = &mut *halves;
        if young.len() >= ATTEMPTS {
            *old = std::mem::take(young);
        }
        let earlier = old.remove(&attempt);
        let calls = young.entry(attempt).or_insert_with(|| earlier.unwrap_or_default());
        if calls.len() == CALLS {
            calls.remove(0);
        }
        calls.push(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(length: usize) -> KnownCall {
        KnownCall { context: Some((length, [0; 16])), messages: None }
    }

    fn attempt(number: usize) -> AttemptKey {
        ("ro".to_owned(), format!("at-{number}"))
    }

    #[test]
    fn the_latest_calls_of_the_latest_attempts_are_kept() {
        let latest = LatestCalls::default();
        (0..CALLS + 3).for_each(|length| latest.note(attempt(0), call(length)));
        assert_eq!(latest.of(&attempt(0)), (3..CALLS + 3).map(call).collect::<Vec<_>>());
        (1..=ATTEMPTS).for_each(|number| latest.note(attempt(number), call(1)));
        assert_eq!(latest.of(&attempt(0)).len(), CALLS, "it is in the old half");
        latest.note(attempt(0), call(99));
        assert_eq!(latest.of(&attempt(0)).last(), Some(&call(99)));
        (0..3 * ATTEMPTS).for_each(|number| latest.note(attempt(number + 10_000), call(1)));
        assert_eq!(latest.of(&attempt(0)), []);
        let halves = latest.halves();
        assert!(halves.young.len() + halves.old.len() <= 2 * ATTEMPTS);
    }
}
