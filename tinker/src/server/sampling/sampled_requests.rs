use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long sampled sequences may be trained on after their last use, as the API documents it.
const USABLE: Duration = Duration::from_secs(24 * 60 * 60);

/// Requests that are remembered; when there are more, the half that was used last is.
const REMEMBERED: usize = 1 << 18;

/// When the sequences of each request for samples were last used: sampled, or trained on. A request that is not remembered is of
/// unknown age: it is from before a restart, or many others came after it.
#[derive(Debug)]
pub(crate) struct SampledRequests {
    /// By the hash of a request's id.
    last_uses: Mutex<HashMap<u64, Instant>>,
    limit: usize,
}

impl Default for SampledRequests {
    fn default() -> Self {
        Self::new(REMEMBERED)
    }
}

impl SampledRequests {
    /// Remembers at most this many requests.
    fn new(limit: usize) -> Self {
        Self { last_uses: Mutex::default(), limit }
    }

    /// Notes that a request's sequences are sampled.
    pub(crate) fn note(&self, request_id: &str, now: Instant) {
        let mut last_uses = self.last_uses.lock().unwrap_or_else(PoisonError::into_inner);
        if last_uses.len() >= self.limit {
            let mut times: Vec<Instant> = last_uses.values().copied().collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            last_uses.retain(|_, last_use| *last_use > median);
        }
        last_uses.insert(key(request_id), now);
    }

    /// Notes that sequences are used, all or none. Fails with the first that was not for longer than it may be.
    pub(crate) fn renew<'a>(&self, sequence_ids: &[&'a str], now: Instant) -> Result<(), &'a str> {
        let mut last_uses = self.last_uses.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_old = |sequence_id: &&&str| {
            let last_use = last_uses.get(&key(request_of(sequence_id)));
            last_use.is_some_and(|last_use| now.saturating_duration_since(*last_use) > USABLE)
        };
        if let Some(&sequence_id) = sequence_ids.iter().find(is_too_old) {
            return Err(sequence_id);
        }
        for sequence_id in sequence_ids {
            if let Some(last_use) = last_uses.get_mut(&key(request_of(sequence_id))) {
                *last_use = now;
            }
        }
        Ok(())
    }
}

/// The request that a sequence is of, which is `REQUEST/INDEX`.
fn request_of(sequence_id: &str) -> &str {
    sequence_id.rsplit_once('/').map_or(sequence_id, |(request_id, _)| request_id)
}

fn key(request_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    request_id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn sequences_are_usable_for_a_day_and_each_use_renews_it() {
        let (requests, start) = (SampledRequests::default(), Instant::now());
        requests.note("s:sample:0/3", start);
        requests.note("s:sample:0/4", start);
        assert_eq!(requests.renew(&["s:sample:0/3/0", "s:sample:0/3/7"], start + 24 * HOUR), Ok(()));
        let later = start + 25 * HOUR;
        assert_eq!(requests.renew(&["s:sample:0/3/1", "s:sample:0/4/0"], later), Err("s:sample:0/4/0"));
        // Nothing of a refused use is renewed.
        assert_eq!(requests.renew(&["s:sample:0/3/1"], start + 48 * HOUR), Ok(()));
        assert_eq!(requests.renew(&["s:sample:0/3/1"], start + 73 * HOUR), Err("s:sample:0/3/1"));
        assert_eq!(requests.renew(&["s:sample:0/5/0"], later), Ok(()), "of unknown age");
        assert_eq!(requests.last_uses.lock().unwrap().len(), 2, "what a client makes up is not remembered");
    }

    #[test]
    fn those_used_last_are_remembered_where_there_are_too_many() {
        let (requests, start) = (SampledRequests::new(4), Instant::now());
        for hour in 0..5 {
            requests.note(&hour.to_string(), start + hour * HOUR);
        }
        let last_uses = requests.last_uses.lock().unwrap();
        let known: Vec<u32> = (0..5_u32).filter(|hour| last_uses.contains_key(&key(&hour.to_string()))).collect();
        assert_eq!(known, [3, 4]);
    }
}
