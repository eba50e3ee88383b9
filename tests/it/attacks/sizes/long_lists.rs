//! Lists that are larger than what may be held of them, for clients that read them and for clients that leave.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{NewRollout, RolloutMode, Span};
use serde_json::{Value, json};

use crate::common::{Process, Ran, Server, client, fulgurite, peak_bytes};

const SPANS: usize = 30_000;
/// Of each span, so that all of them take some 35 MB of text.
const TEXT_BYTES: usize = 800;

/// A store with a rollout of many spans; its URL and the rollout's id.
fn filled_store(directory: &Path) -> (String, String) {
    let url = format!("sqlite://{}", directory.join("store.db").display());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rollout_id = runtime.block_on(async {
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let started = store.rollouts().start(NewRollout::default(), None).await.unwrap();
        let span = |number: usize| -> Span {
            serde_json::from_value(json!({
                "rollout_id": started.rollout.rollout_id, "attempt_id": started.attempt.attempt_id,
                "sequence_id": number, "trace_id": "0af7651916cd43dd8448eb211c80319c",
                "span_id": format!("{number:016x}"), "parent_id": null, "name": "work",
                "status": { "status_code": "OK" }, "attributes": { "text": "x".repeat(TEXT_BYTES) }, "events": [],
                "links": [], "start_time": 1.0, "end_time": 2.0, "context": null, "parent": null,
                "resource": { "attributes": {}, "schema_url": "" },
            }))
            .unwrap()
        };
        for first in (0..SPANS).step_by(2000) {
            store.spans().add((first..first + 2000).map(span).collect()).await.unwrap();
        }
        store.close().await;
        started.rollout.rollout_id
    });
    (url, rollout_id)
}

/// Reads until the end, or the given number of bytes.
fn read(source: &mut impl Read, at_most: usize, mut look: impl FnMut()) -> (usize, usize) {
    const NAME: &[u8] = b"\"name\":\"work\"";
    let (mut bytes, mut names, mut rest) = (0, 0, Vec::new());
    let mut buffer = vec![0; 1 << 20];
    while bytes < at_most {
        let length = source.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        bytes += length;
        rest.extend_from_slice(&buffer[..length]);
        names += rest.windows(NAME.len()).filter(|window| *window == NAME).count();
        rest.drain(..rest.len().saturating_sub(NAME.len() - 1));
        look();
    }
    (bytes, names)
}

#[test]
fn a_list_of_all_spans_and_a_transcript_of_them_take_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let (store, rollout_id) = filled_store(directory.path());
    let server = Server::start::<&str>(directory.path(), []);
    let url = format!("{}/v1/agl/spans?rollout_id={rollout_id}&limit=-1", server.url);
    let before = peak_bytes(server.process.id());
    let mut response = client().get(&url).send().unwrap();
    let (bytes, spans) = read(&mut response, usize::MAX, || ());
    assert_eq!(spans, SPANS);
    let grown = peak_bytes(server.process.id()) - before;
    assert!(grown < bytes as u64 / 2, "{grown} bytes more for a list of {bytes}");

    // Those who leave in its middle leave nothing behind, and whoever stays is served.
    for _ in 0..5 {
        // Each has a page of the list in memory while it is there.
        let leavers: Vec<_> = (0..4).map(|_| client().get(&url).send().unwrap()).collect();
        for mut leaver in leavers {
            assert!(read(&mut leaver, 1, || ()).0 > 0);
        }
    }
    assert_eq!(server.get(&format!("/v1/agl/spans?rollout_id={rollout_id}&limit=1")).expect(200)["total"], SPANS);
    let grown = peak_bytes(server.process.id()) - before;
    assert!(grown < bytes as u64, "{grown} bytes more for twenty clients that left");

    for flag in [None, Some("--json")] {
        let mut command = fulgurite(["show", &rollout_id, "--store", &store]);
        command.args(flag).stdout(Stdio::piped());
        let mut show = Process::spawn(command);
        let (id, mut stdout) = (show.id(), show.stdout());
        let mut peak = 0;
        let (shown, spans) = read(&mut stdout, usize::MAX, || peak = peak_bytes(id).max(peak));
        assert_eq!(show.exit_code(), Some(0));
        assert!(peak > 0 && peak < 100_000_000, "{flag:?}: {peak} bytes for {shown} of a transcript");
        match flag {
            Some(_) => assert_eq!(spans, SPANS),
            None => assert!(shown > 20 * SPANS, "a line for each"),
        }
    }
}

/// Rollouts of the longest store: more of them are meant than a statement of SQLite takes arguments.
const ROLLOUTS: usize = 36_000;

/// Of a hundred rollouts the last one is held out, and every tenth is not what is asked for.
fn is_wanted(number: usize) -> bool {
    number % 100 != 99 && number % 10 != 3
}

#[test]
fn a_filter_gives_exactly_what_it_means_of_more_rollouts_than_a_statement_takes_arguments() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", directory.path().join("store.db").display());
    let id = |number: usize| format!("ro-{number:05}");
    let rollout = |number: usize| NewRollout {
        rollout_id: Some(id(number)),
        input: json!(number),
        mode: Some(if number % 100 == 99 { RolloutMode::Val } else { RolloutMode::Train }),
        metadata: Some(
            [("tag".to_owned(), json!(if number % 10 == 3 { "broken" } else { "whole" }))].into_iter().collect(),
        ),
        ..NewRollout::default()
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        for first in (0..ROLLOUTS).step_by(4000) {
            store.rollouts().enqueue((first..first + 4000).map(rollout).collect()).await.unwrap();
        }
        store.close().await;
    });
    let wanted: BTreeSet<String> = (0..ROLLOUTS).filter(|number| is_wanted(*number)).map(id).collect();
    assert_eq!(wanted.len(), 32_040);
    let filter = ["--where", "mode = train and not tag = broken", "--store", &url];
    let ids = |lines: &[Value], at: &str| -> BTreeSet<String> {
        let ids = lines.iter().map(|line| line.pointer(at).unwrap().as_str().unwrap().to_owned()).collect::<Vec<_>>();
        let distinct: BTreeSet<String> = ids.iter().cloned().collect();
        assert_eq!(distinct.len(), ids.len(), "each once");
        distinct
    };

    let listed = fulgurite([&["rollouts", "--json", "--all"], &filter[..]].concat()).output().unwrap();
    assert!(ids(&Ran::from(listed).json_lines(), "/rollout_id") == wanted);
    let newest = fulgurite([&["rollouts", "--json", "--limit", "3"], &filter[..]].concat()).output().unwrap();
    let newest = ids(&Ran::from(newest).json_lines(), "/rollout_id");
    assert!(newest.iter().eq(["ro-35996", "ro-35997", "ro-35998"]), "{newest:?}");

    let file = directory.path().join("chosen.jsonl");
    let mut export = fulgurite([&["export", "--what", "rollouts"], &filter[..]].concat());
    assert_eq!(Ran::from(export.arg("--to").arg(&file).output().unwrap()).code, Some(0));
    let records = std::fs::read_to_string(file).unwrap();
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rollouts: Vec<Value> = records.into_iter().filter(|record| record["record"] == "rollout").collect();
    assert!(ids(&rollouts, "/data/rollout_id") == wanted);
}
