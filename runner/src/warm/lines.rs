//! Lines of a stream whose writer is not trusted: one that is too long is passed over, never held.

use std::io;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// The beginning of one that is longer than lines may be, and its length.
    TooLong {
        /// As much of it as lines may be long.
        beginning: Vec<u8>,
        /// How long it was.
        length: u64,
    },
}

/// The next line, or `None` at the stream's end. What follows the last line's end counts as a line unless it is empty.
pub(super) async fn next_line(stream: &mut (impl AsyncBufRead + Unpin), longest: usize) -> io::Result<Option<Line>> {
    let (mut kept, mut length) = (Vec::new(), 0_u64);
    loop {
        let buffer = stream.fill_buf().await?;
        if buffer.is_empty() {
            return Ok((length > 0).then(|| finished(kept, length)));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        kept.extend_from_slice(&part[..part.len().min(longest - kept.len())]);
        length += part.len() as u64;
        let read = part.len() + usize::from(end.is_some());
        stream.consume(read);
        if end.is_some() {
            return Ok(Some(finished(kept, length)));
        }
    }
}

fn finished(kept: Vec<u8>, length: u64) -> Line {
    if kept.len() as u64 == length { Line::Whole(kept) } else { Line::TooLong { beginning: kept, length } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::BufReader;

    fn lines(text: &[u8], longest: usize, buffered: usize) -> Vec<Line> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut stream, mut lines) = (BufReader::with_capacity(buffered, text), Vec::new());
            while let Some(line) = next_line(&mut stream, longest).await.unwrap() {
                lines.push(line);
            }
            lines
        })
    }

    #[test]
    fn a_line_that_is_too_long_does_not_harm_the_next() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        let too_long = Line::TooLong { beginning: b"abcde".to_vec(), length: 7 };
        assert_eq!(lines(b"ab\nabcdefg\n\ncd", 5, 3), [whole("ab"), too_long, whole(""), whole("cd")]);
        assert_eq!(lines(b"abcde\n", 5, 3), [whole("abcde")]);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_arrive(
            text in prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..60), buffered in 1..20_usize,
        ) {
            prop_assert_eq!(lines(&text, 4, buffered), lines(&text, 4, 64));
        }
    }
}
