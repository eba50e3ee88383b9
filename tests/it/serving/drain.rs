//! Many runners drain a queue through real servers while some of them crash, fail, or are killed together with their
//! server. On SQLite one server has the database, on PostgreSQL three share it.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::common::{Server, text};
use crate::test_database::TestDatabase;
use futures::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;

const RUNNERS: usize = 32;
/// Rollouts to drain, where `FULGURITE_DRAIN_ROLLOUTS` does not say otherwise.
const ROLLOUTS: usize = 1000;
const MAX_ATTEMPTS: u64 = 3;
/// Seconds after which a silent or slow attempt is given up.
const LIMIT: f64 = 0.5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rollout_ends_once_whatever_its_runners_do() {
    let rollouts = std::env::var("FULGURITE_DRAIN_ROLLOUTS").map_or(ROLLOUTS, |count| count.parse().unwrap());
    let drain = Drain::start().await;
    let ids = drain.enqueue(rollouts).await;
    let started = Instant::now();
    drain.run_until_all_have_ended(&ids).await;
    eprintln!("{rollouts} rollouts on {} servers in {:.1} s", drain.servers, started.elapsed().as_secs_f64());
    drain.check(&ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_that_was_acknowledged() {
    let drain = Drain::start().await;
    let ids = drain.enqueue(200).await;
    let kill = async {
        for acknowledged in [50, 150] {
            while drain.record.lock().unwrap().spans.len() < acknowledged {
                tokio::task::yield_now().await;
            }
            drain.kill_and_restart_the_first_server();
        }
    };
    tokio::join!(drain.run_until_all_have_ended(&ids), kill);
    drain.check(&ids).await;
}

/// Servers on one database, and what they have said.
struct Drain {
    database: TestDatabase,
    directories: Vec<TempDir>,
    servers: usize,
    running: Mutex<Vec<Server>>,
    client: reqwest::Client,
    record: Mutex<Record>,
}

/// What was acknowledged.
#[derive(Default)]
struct Record {
    /// Attempts that were handed out, by rollout and attempt id.
    claimed: Vec<(String, String)>,
    /// Sequence ids that were given, by rollout.
    sequence_ids: HashMap<String, Vec<u64>>,
    /// Spans that were stored: rollout, attempt and span id.
    spans: HashSet<(String, String, String)>,
    /// Attempts whose success was noted.
    succeeded: Vec<(String, String)>,
}

/// How an attempt goes.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Succeeds,
    Fails,
    /// The runner stops without a word once the attempt has these many spans.
    Crashes(u64),
}

impl Fate {
    /// The same attempt of the same rollout has the same fate in every run.
    fn of(rollout: u64, attempt: u64) -> Self {
        match scrambled(rollout, attempt) % 100 {
            0..70 => Self::Succeeds,
            70..85 => Self::Fails,
            spans => Self::Crashes(spans % 3),
        }
    }
}

/// A number that looks random, by the finaliser of splitmix64.
fn scrambled(one: u64, two: u64) -> u64 {
    let mut bits = one.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(two.wrapping_mul(0xd1b5_4a32_d192_ed03));
    for shift in [30, 27, 31] {
        bits = (bits ^ (bits >> shift)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    bits ^ (bits >> 31)
}

/// Why a runner gives its attempt up.
enum Trouble {
    /// The server went away; it is not known whether it had done what it was asked.
    Disconnected,
    /// The database was held by others for too long.
    Busy,
}

impl Drain {
    async fn start() -> Self {
        let database = TestDatabase::new().await;
        let servers = if database.is_postgres() { 3 } else { 1 };
        let directories: Vec<TempDir> = (0..servers).map(|_| TempDir::new().unwrap()).collect();
        let running = directories.iter().map(|directory| serve(directory, &database)).collect();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(120)).build().unwrap();
        Self { database, directories, servers, running: Mutex::new(running), client, record: Mutex::default() }
    }

    fn kill_and_restart_the_first_server(&self) {
        // Held meanwhile, so that nobody asks for the address of a server that is gone.
        let mut running = self.running.lock().unwrap();
        running[0].process.kill();
        running[0] = serve(&self.directories[0], &self.database);
    }

    async fn enqueue(&self, rollouts: usize) -> Vec<String> {
        let queued: Vec<Value> = (0..rollouts)
            .map(|number| {
                // Either law lets a crashed attempt be tried again.
                let limit = if number % 2 == 0 { "unresponsive_seconds" } else { "timeout_seconds" };
                json!({
                    "rollout_id": format!("ro-{number}"), "input": number,
                    "config": {
                        limit: LIMIT, "max_attempts": MAX_ATTEMPTS,
                        "retry_condition": ["failed", "timeout", "unresponsive"],
                    },
                })
            })
            .collect();
        let body = json!({ "rollouts": queued });
        let queued = self.post(0, "/v1/agl/queues/rollouts/enqueue", &body).await.ok().unwrap();
        queued.as_array().unwrap().iter().map(|rollout| text(&rollout["rollout_id"])).collect()
    }

    async fn run_until_all_have_ended(&self, ids: &[String]) {
        let ended = async {
            let body = json!({ "rollout_ids": ids, "timeout": 60.0 });
            loop {
                let last = self.servers - 1;
                match self.post(last, "/v1/agl/waits/rollouts", &body).await {
                    Ok(finished) if finished.as_array().unwrap().len() == ids.len() => return,
                    Ok(_) | Err(_) => {}
                }
            }
        };
        tokio::select! {
            () = ended => {}
            _ = join_all((0..RUNNERS).map(|number| self.runner(number))) => {}
        }
    }

    /// Takes and runs attempts without end; a crash is followed by a new runner.
    async fn runner(&self, number: usize) {
        for life in 0.. {
            let server = (number + life) % self.servers;
            let worker_id = format!("runner-{number}-{life}");
            // Trouble ends this life as well as a crash does.
            while let Ok(Fate::Succeeds | Fate::Fails) = self.one_attempt(server, &worker_id).await {}
        }
    }

    async fn one_attempt(&self, server: usize, worker_id: &str) -> Result<Fate, Trouble> {
        let body = json!({ "worker_id": worker_id, "wait_seconds": 60.0 });
        let claimed = self.post(server, "/v1/agl/queues/rollouts/dequeue", &body).await?;
        let Some(claimed) = claimed.as_array().unwrap().first() else { return Ok(Fate::Succeeds) };
        let (rollout_id, attempt) = (text(&claimed["rollout_id"]), &claimed["attempt"]);
        let attempt_id = text(&attempt["attempt_id"]);
        self.record.lock().unwrap().claimed.push((rollout_id.clone(), attempt_id.clone()));
        let (input, sequence_id) = (claimed["input"].as_u64().unwrap(), attempt["sequence_id"].as_u64().unwrap());
        let fate = Fate::of(input, sequence_id);
        let spans = if let Fate::Crashes(spans) = fate { spans } else { 1 + scrambled(input, 0) % 3 };
        for number in 0..spans {
            // Whichever server is asked, they are one.
            self.add_span(server + number as usize, &rollout_id, &attempt_id).await?;
        }
        match fate {
            Fate::Succeeds => self.report(server, &rollout_id, &attempt_id, "succeeded").await?,
            Fate::Fails => self.report(server, &rollout_id, &attempt_id, "failed").await?,
            Fate::Crashes(_) => {}
        }
        Ok(fate)
    }

    async fn add_span(&self, server: usize, rollout_id: &str, attempt_id: &str) -> Result<(), Trouble> {
        let body = json!({ "rollout_id": rollout_id, "attempt_id": attempt_id });
        let next = self.post(server, "/v1/agl/spans/next", &body).await?;
        let sequence_id = next["sequence_id"].as_u64().or(next.as_u64()).unwrap();
        self.record.lock().unwrap().sequence_ids.entry(rollout_id.to_owned()).or_default().push(sequence_id);
        let span_id = format!("{sequence_id:016x}");
        let span = json!({
            "rollout_id": rollout_id, "attempt_id": attempt_id, "sequence_id": sequence_id, "span_id": span_id,
            "trace_id": "0af7651916cd43dd8448eb211c80319c", "parent_id": null, "name": "work",
            "status": { "status_code": "OK" }, "attributes": {}, "events": [], "links": [], "start_time": 1.0,
            "end_time": 2.0, "context": null, "parent": null, "resource": { "attributes": {}, "schema_url": "" },
        });
        self.post(server, "/v1/agl/spans", &span).await?;
        let key = (rollout_id.to_owned(), attempt_id.to_owned(), span_id);
        assert!(self.record.lock().unwrap().spans.insert(key), "a span was stored twice");
        Ok(())
    }

    /// Says how an attempt has ended, unless it has been ended from outside.
    async fn report(&self, server: usize, rollout_id: &str, attempt_id: &str, status: &str) -> Result<(), Trouble> {
        let path = format!("/v1/fulgurite/rollouts/{rollout_id}/attempts/{attempt_id}/report");
        let attempt = self.post(server, &path, &json!({ "status": status })).await?;
        if attempt["status"] == "succeeded" {
            self.record.lock().unwrap().succeeded.push((rollout_id.to_owned(), attempt_id.to_owned()));
        }
        Ok(())
    }

    async fn post(&self, server: usize, path: &str, body: &Value) -> Result<Value, Trouble> {
        let url = self.running.lock().unwrap()[server % self.servers].url.clone();
        let sent = self.client.post(format!("{url}{path}")).json(body).send().await;
        let response = sent.map_err(|_| Trouble::Disconnected)?;
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|_| Trouble::Disconnected)?;
        match status {
            200 | 201 => Ok(serde_json::from_str(&text).unwrap()),
            503 => Err(Trouble::Busy),
            _ => panic!("{path}: {status}: {text}"),
        }
    }

    async fn check(&self, ids: &[String]) {
        let record = std::mem::take(&mut *self.record.lock().unwrap());
        let mut claimed: HashMap<&str, Vec<&str>> = HashMap::new();
        for (rollout_id, attempt_id) in &record.claimed {
            claimed.entry(rollout_id).or_default().push(attempt_id);
        }
        let mut spans: HashMap<&str, HashSet<(&str, &str)>> = HashMap::new();
        for (rollout_id, attempt_id, span_id) in &record.spans {
            spans.entry(rollout_id).or_default().insert((attempt_id, span_id));
        }
        let mut succeeded: HashMap<&str, &str> = HashMap::new();
        for (rollout_id, attempt_id) in &record.succeeded {
            assert_eq!(succeeded.insert(rollout_id, attempt_id), None, "{rollout_id} succeeded twice");
        }
        let rollouts = self.post(0, "/v1/agl/rollouts/search", &json!({ "limit": -1 })).await.ok().unwrap();
        let rollouts = rollouts["items"].as_array().unwrap();
        assert_eq!(rollouts.len(), ids.len());
        for rollout in rollouts {
            let id = rollout["rollout_id"].as_str().unwrap();
            let attempts = self.list(&format!("/v1/agl/rollouts/{id}/attempts/search"), json!({})).await;
            check_attempts(rollout, &attempts, succeeded.get(id).copied());
            check_handed_out(&attempts, claimed.get(id).map_or(&[][..], Vec::as_slice));

            let stored = self.list("/v1/agl/spans/search", json!({ "rollout_id": id })).await;
            let stored: HashSet<_> =
                stored.iter().map(|span| (as_text(span, "attempt_id"), as_text(span, "span_id"))).collect();
            let acknowledged = spans.remove(id).unwrap_or_default();
            assert!(acknowledged.is_subset(&stored), "{id} lacks spans: {acknowledged:?} {stored:?}");

            let given = record.sequence_ids.get(id).map_or(&[][..], Vec::as_slice);
            let different: HashSet<_> = given.iter().collect();
            assert_eq!(different.len(), given.len(), "{id} was given a sequence id twice: {given:?}");
        }
    }

    async fn list(&self, path: &str, body: Value) -> Vec<Value> {
        match self.post(0, path, &body).await.ok().unwrap()["items"].take() {
            Value::Array(items) => items,
            other => panic!("{path}: {other}"),
        }
    }
}

fn serve(directory: &TempDir, database: &TestDatabase) -> Server {
    Server::start_on(&database.url, directory.path(), ["--watchdog-interval", "0.05"])
}

fn as_text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap()
}

/// A rollout has ended as its attempts say.
fn check_attempts(rollout: &Value, attempts: &[Value], acknowledged_success: Option<&str>) {
    let context = format!("{rollout} {attempts:?}");
    let numbers: Vec<_> = attempts.iter().map(|attempt| attempt["sequence_id"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=attempts.len() as u64).collect::<Vec<_>>(), "{context}");
    assert!(!attempts.is_empty() && attempts.len() as u64 <= MAX_ATTEMPTS, "{context}");
    assert!(rollout["end_time"].is_number(), "{context}");
    let succeeded: Vec<_> = attempts.iter().filter(|attempt| attempt["status"] == "succeeded").collect();
    let latest = &attempts[attempts.len() - 1];
    match as_text(rollout, "status") {
        "succeeded" => assert_eq!(succeeded, [latest], "{context}"),
        "failed" => assert!(succeeded.is_empty() && attempts.len() as u64 == MAX_ATTEMPTS, "{context}"),
        _ => panic!("not ended: {context}"),
    }
    if let Some(attempt_id) = acknowledged_success {
        assert_eq!(latest["attempt_id"], attempt_id, "{context}");
        assert_eq!(rollout["status"], "succeeded", "{context}");
    }
}

/// No attempt was handed to two runners, and none began before the one before it had ended.
fn check_handed_out(attempts: &[Value], claimed: &[&str]) {
    let stored: HashSet<_> = attempts.iter().map(|attempt| as_text(attempt, "attempt_id")).collect();
    let different: HashSet<_> = claimed.iter().copied().collect();
    assert_eq!(different.len(), claimed.len(), "an attempt was handed out twice: {claimed:?}");
    assert!(different.is_subset(&stored), "{claimed:?} {attempts:?}");
    for pair in attempts.windows(2) {
        // A word from an attempt that was given up revives it, and takes its end away.
        if let Some(end) = pair[0]["end_time"].as_f64() {
            assert!(end <= pair[1]["start_time"].as_f64().unwrap(), "{pair:?}");
        }
    }
}
