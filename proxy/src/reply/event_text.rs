//! Server-sent events, as they are written.

use std::fmt::Display;

/// The event that ends a stream of OpenAI's.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";
/// A comment that keeps a connection open.
pub(crate) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Writes an event whose data `write` writes, on one line.
pub(crate) fn write_event(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"data: ");
    write(out);
    out.extend_from_slice(b"\n\n");
}

/// Writes an event with a name.
pub(crate) fn write_named_event(out: &mut Vec<u8>, name: &str, data: impl Display) {
    out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
}
