//! Clients that leave at any byte of a stream.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::common::{Server, eventually, in_flight, model_flag, printed, resident_bytes, text, tiny_model};

/// Streams in a suite of tests. `ATTACK_STREAMS` makes them more.
const STREAMS: u64 = 400;
const CLIENTS: u64 = 8;
/// Bytes of a whole stream are of this order.
const MOST_BYTES: u64 = 12_000;

/// The next of a sequence of numbers that look random.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Reads so many bytes of a stream, and leaves; what was read.
fn read_some(address: &str, number: u64, bytes: u64) -> String {
    let messages = [json!({ "role": "user", "content": format!("Say {number}") })];
    let body = json!({ "model": "tiny", "messages": messages, "max_tokens": 40, "stream": true }).to_string();
    let head =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json";
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut read = Vec::new();
    connection.take(bytes).read_to_end(&mut read).unwrap();
    String::from_utf8_lossy(&read).into_owned()
}

/// The id of the call that a stream is of, and whether its end was read.
fn call_of(read: &str) -> Option<(String, bool)> {
    let (_, id) = read.split_once("\"id\":\"chatcmpl-")?;
    let (id, _) = id.split_once('"')?;
    Some((format!("chatcmpl-{id}"), read.contains("[DONE]")))
}

#[test]
fn streams_that_are_cancelled_at_any_byte_leave_nothing_behind() {
    let streams = std::env::var("ATTACK_STREAMS").map_or(STREAMS, |number| number.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let model = model_flag("tiny", &tiny_model(directory.path(), 128));
    let server = Server::start(directory.path(), ["--model", &model]);
    let address = server.url.strip_prefix("http://").unwrap();
    let mut seen = HashMap::new();
    let mut held = Vec::new();
    // Twice, so that what grows with the number of streams shows.
    for half in 0..2 {
        let read = std::thread::scope(|scope| {
            let client = |client: u64| {
                let mut state = 0x9e37_79b9_7f4a_7c15 ^ (half * CLIENTS + client + 1);
                let numbers =
                    (0..streams / 2 / CLIENTS).map(move |number| (half * CLIENTS + client) * streams + number);
                let reads = numbers.map(move |number| {
                    // Every tenth reads to the end.
                    let whole = next(&mut state).is_multiple_of(10);
                    let bytes = if whole { u64::MAX } else { next(&mut state) % MOST_BYTES };
                    call_of(&read_some(address, number, bytes))
                });
                reads.flatten().collect::<Vec<_>>()
            };
            let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        seen.extend(read);
        eventually("no call to be under way", || (in_flight(&server) == 0.0).then_some(()));
        held.push(resident_bytes(server.process.id()));
    }
    assert!(held[1] < held[0] + held[0] / 4 + (16 << 20), "it held {} bytes, and then {}", held[0], held[1]);

    let generations = server.query("generations");
    let ids: HashSet<String> = generations.iter().map(|generation| text(&generation["generation_id"])).collect();
    assert_eq!(ids.len(), generations.len(), "each is recorded once");
    let mut left = 0;
    for generation in &generations {
        let (id, disconnected) = (text(&generation["generation_id"]), generation["client_gone"] == Value::Bool(true));
        let is_whole = ["stop", "length"].contains(&text(&generation["stop_reason"]).as_str());
        left += usize::from(disconnected);
        // What a client had not read is either marked, and never trained, or had been sent to its end.
        assert!(disconnected || is_whole, "{generation}");
        if seen.get(&id) == Some(&true) {
            assert!(is_whole && !disconnected, "a client had it to its end: {generation}");
        }
    }
    assert!(left > 0, "nobody left early");
    let missing: Vec<&String> = seen.keys().filter(|id| !ids.contains(*id)).collect();
    assert!(missing.is_empty(), "a client has read of {missing:?}");
    assert_eq!(printed(["store", "check", "--store", &server.store]), "the store is sound\n");
}
