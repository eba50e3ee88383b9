//! What is new, told to all open pages at once: the store is looked at once a second, however many watch, and not at all while
//! nobody does.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::response::sse::{Event, KeepAlive, Sse};
use fulgurite_api::conventions::error::RestError;
use fulgurite_store::{Result, RunProgress, Store};
use futures::Stream;
use futures::stream::unfold;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::runs::row;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Looks from one that tells that something may have changed to the next, at a store that others write to.
const LOOKS: u64 = 5;
/// News that are kept for pages that are slow to take them.
const KEPT: usize = 4096;

/// What kind of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A run began, or a step of it was recorded: its row.
    Run,
    /// A step was recorded.
    Step,
    /// There are newer rollouts.
    Rollouts,
    /// Something else was written, or may have been.
    Changed,
    /// What was told of a run holds no more: steps were taken back, or the run is gone. Of all runs where none is named.
    Rewound,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Step => "step",
            Self::Rollouts => "rollouts",
            Self::Changed => "changed",
            Self::Rewound => "rewound",
        }
    }
}

#[derive(Clone, Debug)]
struct News {
    kind: Kind,
    data: Arc<str>,
}

impl News {
    fn event(&self) -> Event {
        Event::default().event(self.kind.name()).data(&*self.data)
    }
}

/// A store that is watched.
pub(super) struct Watched {
    store: Store,
    seen: Mutex<Seen>,
}

/// What was seen at the last look.
#[derive(Default)]
struct Seen {
    looked: Option<Instant>,
    /// Looks at a store that others write to.
    looks: u64,
    commits: u64,
    /// `None` before the first look, which tells no news.
    runs: Option<HashMap<String, RunProgress>>,
    last_rollout: i64,
    news: VecDeque<News>,
    /// News that were told before those that are kept.
    dropped: u64,
}

impl Watched {
    pub(super) fn new(store: Store) -> Arc<Self> {
        Arc::new(Self { store, seen: Mutex::default() })
    }

    /// Looks, unless that was done within the last second. Gives the place behind all news.
    async fn look(&self) -> Result<u64> {
        let mut seen = self.seen.lock().await;
        if seen.looked.is_none_or(|looked| looked.elapsed() >= EVERY) {
            seen.look(&self.store).await?;
            seen.looked = Some(Instant::now());
        }
        Ok(seen.end())
    }

    /// The news from a place on.
    async fn since(&self, place: u64) -> (VecDeque<News>, u64) {
        let seen = self.seen.lock().await;
        let Some(skipped) = place.checked_sub(seen.dropped) else {
            let missed = News { kind: Kind::Rewound, data: json!({ "run_id": Value::Null }).to_string().into() };
            return (VecDeque::from([missed]), seen.end());
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        (seen.news.iter().skip(skipped).cloned().collect(), seen.end())
    }
}

impl Seen {
    fn end(&self) -> u64 {
        self.dropped + self.news.len() as u64
    }

    fn tell(&mut self, kind: Kind, data: &Value) {
        self.news.push_back(News { kind, data: data.to_string().into() });
        if self.news.len() > KEPT {
            self.news.pop_front();
            self.dropped += 1;
        }
    }

    async fn look(&mut self, store: &Store) -> Result<()> {
        let commits = store.commits();
        // Who alone writes knows that nothing was written.
        let is_alone = commits > 0 && !store.others_write();
        if is_alone && commits == self.commits && self.runs.is_some() {
            return Ok(());
        }
        let progress = store.queries().run_progress().await?;
        let last_rollout = store.queries().last_rollout_position().await?;
        if let Some(known) = self.runs.take() {
            self.tell_runs(store, &progress, known).await?;
            if last_rollout > self.last_rollout {
                self.tell(Kind::Rollouts, &json!({ "next": last_rollout }));
            }
            self.looks += 1;
            if is_alone || self.looks.is_multiple_of(LOOKS) {
                self.tell(Kind::Changed, &json!({}));
            }
        }
        self.runs = Some(progress.into_iter().map(|run| (run.run_id.clone(), run)).collect());
        (self.last_rollout, self.commits) = (last_rollout, commits);
        Ok(())
    }

    async fn tell_runs(
        &mut self,
        store: &Store,
        progress: &[RunProgress],
        mut known: HashMap<String, RunProgress>,
    ) -> Result<()> {
        for now in progress {
            let before = known.remove(&now.run_id);
            if before.as_ref() == Some(now) {
                continue;
            }
            let Some(run) = store.runs().get(&now.run_id).await? else { continue };
            let steps = store.runs().steps(&now.run_id).await?;
            let announced = before.map_or(0, |before| before.last_step);
            if now.last_step < announced {
                self.tell(Kind::Rewound, &json!({ "run_id": now.run_id }));
            }
            for step in steps.iter().filter(|step| step.step > announced) {
                self.tell(Kind::Step, &json!({ "run_id": now.run_id, "step": step }));
            }
            self.tell(Kind::Run, &json!(row(run, &steps)));
        }
        for run_id in known.into_keys() {
            self.tell(Kind::Rewound, &json!({ "run_id": run_id }));
        }
        Ok(())
    }
}

/// `GET /ui/data/events`: what is new from now on, as server-sent events. It ends when the server does.
pub(super) async fn events(
    Extension(watched): Extension<Arc<Watched>>,
) -> std::result::Result<Sse<impl Stream<Item = std::result::Result<Event, Infallible>>>, RestError> {
    let place = watched.look().await.map_err(RestError::Store)?;
    let stream = unfold((watched, place, VecDeque::new()), |(watched, mut place, mut waiting)| async move {
        loop {
            if let Some(news) = waiting.pop_front() {
                let news: News = news;
                return Some((Ok(news.event()), (watched, place, waiting)));
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = watched.store.queries().waiting_ended() => return None,
            }
            if let Err(error) = watched.look().await {
                // The page asks again by itself, and is told then.
                tracing::warn!(%error, "the store cannot be watched");
                return None;
            }
            (waiting, place) = watched.since(place).await;
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

#[cfg(test)]
mod tests {
    use fulgurite_store::StoreOptions;
    use fulgurite_types::{NewRollout, NewRun, StepRecord};

    use super::*;

    async fn record(store: &Store, number: u64) {
        let step = json!({
            "run_id": "r", "step": number, "metrics": { "step": number - 1 }, "weights_version": number, "uses": [],
            "checkpoint": null,
        });
        let step: StepRecord = serde_json::from_value(step).unwrap();
        store.runs().record_step(step).await.unwrap();
    }

    #[tokio::test]
    async fn of_a_store_that_others_write_it_is_told_now_and_then_that_it_may_have_changed() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("store.db").display());
        Store::open(&url, StoreOptions::default()).await.unwrap().close().await;
        let store = Store::open_read_only(&url).await.unwrap();
        let mut seen = Seen::default();
        for _ in 0..=2 * LOOKS {
            seen.look(&store).await.unwrap();
        }
        let kinds: Vec<Kind> = seen.news.iter().map(|news| news.kind).collect();
        assert_eq!(kinds, [Kind::Changed, Kind::Changed]);
    }

    #[tokio::test]
    async fn news_are_told_once_and_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("store.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let new = NewRun { run_id: "r".into(), name: "r".into(), config: json!({}), seed: 1 };
        store.runs().create(new).await.unwrap();
        record(&store, 1).await;
        let mut seen = Seen::default();
        seen.look(&store).await.unwrap();
        assert_eq!(seen.end(), 0, "what was there before is no news");
        record(&store, 2).await;
        record(&store, 3).await;
        store.rollouts().start(NewRollout::default(), None).await.unwrap();
        seen.look(&store).await.unwrap();
        seen.look(&store).await.unwrap();
        let kinds: Vec<Kind> = seen.news.iter().map(|news| news.kind).collect();
        assert_eq!(kinds, [Kind::Step, Kind::Step, Kind::Run, Kind::Rollouts, Kind::Changed]);
        assert!(seen.news[1].data.contains("\"step\":3") && seen.news[2].data.contains("\"run_id\":\"r\""));
        store.runs().rewind("r", 1).await.unwrap();
        seen.look(&store).await.unwrap();
        let kinds: Vec<Kind> = seen.news.iter().skip(5).map(|news| news.kind).collect();
        assert_eq!(kinds, [Kind::Rewound, Kind::Run, Kind::Changed]);
        // A page that was too slow is told to ask for everything.
        let watched = Watched { store, seen: Mutex::new(Seen { dropped: 10, ..seen }) };
        let (news, place) = watched.since(3).await;
        assert_eq!((news[0].kind, news.len(), place), (Kind::Rewound, 1, 18));
    }
}
