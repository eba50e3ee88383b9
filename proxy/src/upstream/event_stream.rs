use std::borrow::Cow;

use fulgurite_backends::AnswerFault;

/// More than any event can need; a longer one is no event.
const EVENT_LIMIT: usize = 64 * 1024 * 1024;

/// Cuts a stream of server-sent events into its events, and leaves every byte in its place.
///
/// Clients act on an event when it has ended, so that sending whole events delays nothing, and nothing is sent of an event
/// in which the stream breaks. Comments between events are pieces of their own.
#[derive(Debug)]
pub(super) struct Events {
    pending: Vec<u8>,
    /// How much of it has been looked at: it ends with a line.
    seen: usize,
    /// Bytes that all of them may have together.
    limit: usize,
    /// Of those, what is left.
    left: usize,
}

impl Events {
    pub(super) fn new(limit: usize) -> Self {
        Self { pending: Vec::new(), seen: 0, limit, left: limit }
    }

    /// Takes the next bytes, and gives the events that have ended, each with the blank line that ends it; or comments.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, AnswerFault> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(AnswerFault::TooLong { limit: self.limit })?;
        self.pending.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(length) = self.pending[self.seen..].iter().position(|byte| *byte == b'\n') {
            let line = self.pending[self.seen..self.seen + length].strip_suffix(b"\r");
            let line = line.unwrap_or(&self.pending[self.seen..self.seen + length]);
            let is_alone = self.seen == 0 && line.starts_with(b":");
            let ends = line.is_empty() || is_alone;
            self.seen += length + 1;
            if ends {
                let rest = self.pending.split_off(self.seen);
                events.push(std::mem::replace(&mut self.pending, rest));
                self.seen = 0;
            }
        }
        match self.pending.len() > EVENT_LIMIT {
            true => Err(AnswerFault::EventTooLong { limit: EVENT_LIMIT }),
            false => Ok(events),
        }
    }

    /// The beginning of an event that has not ended.
    pub(super) fn finish(self) -> Vec<u8> {
        self.pending
    }
}

/// The data of an event's lines; empty where it has none.
pub(super) fn data(event: &[u8]) -> String {
    let lines = event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    let values: Vec<Cow<'_, str>> = lines
        .map(|value| value.strip_prefix(b" ").unwrap_or(value))
        .map(|value| String::from_utf8_lossy(value.strip_suffix(b"\r").unwrap_or(value)))
        .collect();
    values.join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut events = Events::new(usize::MAX);
        let found = pieces.iter().flat_map(|piece| events.feed(piece).unwrap()).collect();
        (found, events.finish())
    }

    #[test]
    fn events_end_with_a_blank_line_and_comments_with_their_own() {
        let text = b": ping\n\nevent: x\r\ndata: {\"a\": 1}\r\n\r\n: still here\ndata:two\ndata: lines\n\ndata: cut";
        let (events, rest) = cut(&[text]);
        let texts: Vec<String> = events.iter().map(|event| data(event)).collect();
        assert_eq!(texts, ["", "", "{\"a\": 1}", "", "two\nlines"]);
        assert_eq!(events[3], b": still here\n");
        assert_eq!(rest, b"data: cut");
    }

    #[test]
    fn a_stream_that_talks_without_end_is_too_long() {
        let event: &[u8] = b"data: a\n\n";
        let mut events = Events::new(2 * event.len());
        assert_eq!(events.feed(event), Ok(vec![event.to_vec()]));
        assert_eq!(events.feed(event), Ok(vec![event.to_vec()]));
        assert_eq!(events.feed(event), Err(AnswerFault::TooLong { limit: 2 * event.len() }));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_wherever_the_stream_is_cut(
            text in "(data: [a-z]{0,3}|: ping|event: x|id: 7|ä)?(\n|\r\n|\n\n|){1,2}(data: b\n\n)?",
            cuts in prop::collection::vec(0usize..40, 0..5),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let (events, rest) = cut(&pieces);
            let (whole, _) = cut(&[bytes]);
            let all: Vec<u8> = events.concat().into_iter().chain(rest).collect();
            prop_assert_eq!(&all[..], bytes);
            prop_assert_eq!(events, whole);
        }
    }
}
