//! Lists that are larger than what may be held of them, for clients that read them and for clients that leave.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{NewRollout, Span};
use serde_json::json;

use crate::common::{Process, Server, client, fulgurite, peak_bytes};

const SPANS: usize = 30_000;
/// Of each span, so that all of them take some 35 MB of text.
const TEXT_BYTES: usize = 800;

/// A store with a rollout of many spans; its URL and the rollout's id.
fn filled_store(directory: &Path) -> (String, String) {
    let url = format!("sqlite://{}", directory.join("store.db").display());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rollout_id = runtime.block_on(async {
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let started = store.start_rollout(NewRollout::default(), None).await.unwrap();
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
            store.add_spans((first..first + 2000).map(span).collect()).await.unwrap();
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
    let leavers: Vec<_> = (0..20).map(|_| client().get(&url).send().unwrap()).collect();
    for mut leaver in leavers {
        assert!(read(&mut leaver, 1, || ()).0 > 0);
        drop(leaver);
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
