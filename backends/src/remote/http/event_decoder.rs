use std::borrow::Cow;

use memchr::memchr2;

use crate::AnswerFault;

/// More than any host's event can need; what goes on without an end is no stream of events.
const EVENT_LIMIT: usize = 64 * 1024 * 1024;

/// Bytes of a stream of server-sent events, as they come, to the data of its events.
///
/// Lines end in LF, CRLF or CR, wherever the stream is cut. Comments and fields other than `data` are left out.
#[derive(Debug, Default)]
pub struct EventDecoder {
    /// The beginning of a line.
    line: Vec<u8>,
    /// Data of the event that is under way; `None` before its first line.
    data: Option<Vec<u8>>,
    after_carriage_return: bool,
}

impl EventDecoder {
    /// Takes the next bytes, and hands on the data of each event that they make whole.
    ///
    /// # Errors
    ///
    /// Data that is not UTF-8, an event without an end, and what `event` fails with.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut event: impl FnMut(&str) -> Result<(), AnswerFault>,
    ) -> Result<(), AnswerFault> {
        // Nothing is copied of an event that came in one piece.
        let mut data = self.data.take().map(Cow::Owned);
        let mut rest = bytes;
        if self.after_carriage_return {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        if let Some(last) = bytes.last() {
            self.after_carriage_return = *last == b'\r';
        }
        while let Some(end) = memchr2(b'\r', b'\n', rest) {
            let (line, behind) = rest.split_at(end);
            let line = match self.line.is_empty() {
                true => Cow::Borrowed(line),
                false => Cow::Owned([std::mem::take(&mut self.line).as_slice(), line].concat()),
            };
            rest = behind.strip_prefix(b"\r\n").unwrap_or(&behind[1..]);
            if line.is_empty() {
                if let Some(data) = data.take() {
                    event(std::str::from_utf8(&data).map_err(|_| AnswerFault::NotUtf8)?)?;
                }
            } else if let Some(value) = data_of(line) {
                data = Some(match data {
                    None => value,
                    Some(before) => Cow::Owned([&*before, b"\n", &*value].concat()),
                });
            }
        }
        self.line.extend_from_slice(rest);
        self.data = data.map(Cow::into_owned);
        match self.line.len() + self.data.as_ref().map_or(0, Vec::len) > EVENT_LIMIT {
            true => Err(AnswerFault::EventTooLong { limit: EVENT_LIMIT }),
            false => Ok(()),
        }
    }
}

/// What a line says, if its field is `data`.
fn data_of(line: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    let value = |line: &[u8]| {
        let value = line.strip_prefix(b"data:")?;
        Some(line.len() - value.strip_prefix(b" ").unwrap_or(value).len())
    };
    let start = value(&line)?;
    Some(match line {
        Cow::Borrowed(line) => Cow::Borrowed(&line[start..]),
        Cow::Owned(line) => Cow::Owned(line[start..].to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = EventDecoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            let mut take = |event: &str| {
                events.push(event.to_owned());
                Ok(())
            };
            decoder.feed(piece, &mut take).unwrap();
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
        let read = EventDecoder::default().feed(b"data: \xff\n\n", |_| Ok(()));
        assert_eq!(read, Err(AnswerFault::NotUtf8));
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
