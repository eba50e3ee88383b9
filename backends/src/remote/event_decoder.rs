use std::collections::VecDeque;

use crate::AnswerFault;

/// More than any host's event can need; what goes on without an end is no stream of events.
const EVENT_LIMIT: usize = 64 * 1024 * 1024;

/// Bytes of a stream of server-sent events, as they come, to the data of its events.
///
/// Lines end in LF, CRLF or CR, wherever the stream is cut. Comments and fields other than `data` are left out.
#[derive(Debug, Default)]
pub(crate) struct EventDecoder {
    line: Vec<u8>,
    /// Data of the event that is under way; `None` before its first line.
    data: Option<Vec<u8>>,
    after_carriage_return: bool,
    events: VecDeque<Vec<u8>>,
}

impl EventDecoder {
    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), AnswerFault> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let ends_pair = self.after_carriage_return && end == 0 && rest[end] == b'\n';
            self.after_carriage_return = rest[end] == b'\r';
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            if !ends_pair {
                self.end_line();
            }
        }
        self.after_carriage_return &= rest.is_empty();
        self.line.extend_from_slice(rest);
        if self.line.len() + self.data.as_ref().map_or(0, Vec::len) > EVENT_LIMIT {
            return Err(AnswerFault::EventTooLong { limit: EVENT_LIMIT });
        }
        Ok(())
    }

    /// The data of the next whole event.
    pub(crate) fn next_event(&mut self) -> Result<Option<String>, AnswerFault> {
        let data = self.events.pop_front();
        data.map(String::from_utf8).transpose().map_err(|_| AnswerFault::NotUtf8)
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.events.extend(self.data.take());
            return;
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = EventDecoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            decoder.feed(piece).unwrap();
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn comments_other_fields_and_an_unfinished_event_are_left_out() {
        let text = b": ping\n\nevent: x\ndata: {\"a\": 1}\nid: 7\n\ndata:two\ndata: lines\n\ndata: cut";
        assert_eq!(decode(&[text]), ["{\"a\": 1}", "two\nlines"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        let mut decoder = EventDecoder::default();
        decoder.feed(b"data: \xff\n\n").unwrap();
        assert_eq!(decoder.next_event(), Err(AnswerFault::NotUtf8));
    }

    proptest! {
        #[test]
        fn neither_cuts_nor_line_ends_change_the_events(
            events in prop::collection::vec("[a-zä€😀{}\": ]{1,12}", 0..5),
            line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
            cuts in prop::collection::vec(0usize..200, 0..6),
        ) {
            let text: String = events.iter().map(|event| format!("data: {event}{line_end}{line_end}")).collect();
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(decode(&pieces), events);
        }
    }
}
