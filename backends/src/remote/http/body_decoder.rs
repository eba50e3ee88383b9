use crate::remote::http::response_head::Framing;

/// More than any server sends in a chunk's extensions, or after the last chunk.
const ASIDE_LIMIT: usize = 16 * 1024;

/// The bytes of a response's body on a connection, as they come, to what they say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BodyDecoder(DecoderState);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    UntilClose,
    /// So many bytes are left of the body.
    Length(u64),
    /// In the line before a chunk.
    Size {
        size: u64,
        digits: usize,
    },
    /// Behind a chunk's size: what is said there has no meaning here.
    Extension {
        size: u64,
        length: usize,
    },
    /// Before the end of the line before a chunk.
    SizeEnd {
        size: u64,
    },
    /// So many bytes are left of the chunk.
    Chunk(u64),
    /// Behind a chunk, before these.
    ChunkEnd(&'static [u8]),
    /// Behind the last chunk, so many bytes into a line.
    Trailers {
        line: usize,
        length: usize,
    },
    Over,
}

impl BodyDecoder {
    pub(crate) fn new(framing: Framing) -> Self {
        Self(match framing {
            Framing::UntilClose => DecoderState::UntilClose,
            Framing::Length(0) => DecoderState::Over,
            Framing::Length(length) => DecoderState::Length(length),
            Framing::Chunked => SIZE,
        })
    }

    /// Whether all of the body has come.
    pub(crate) fn is_over(&self) -> bool {
        self.0 == DecoderState::Over
    }

    /// Whether the body is whole if the connection ends here.
    pub(crate) fn may_end(&self) -> bool {
        matches!(self.0, DecoderState::Over | DecoderState::UntilClose)
    }

    /// Adds what bytes say to `data`. How many of them belong to the body: all but those behind its end. What is wrong
    /// with them, in words.
    pub(crate) fn decode(&mut self, bytes: &[u8], data: &mut Vec<u8>) -> Result<usize, String> {
        let mut rest = bytes;
        while let (Some((&byte, behind)), false) = (rest.split_first(), self.is_over()) {
            (self.0, rest) = match self.0 {
                DecoderState::Length(left) => {
                    let (left, rest) = take(left, rest, data);
                    (if left == 0 { DecoderState::Over } else { DecoderState::Length(left) }, rest)
                }
                DecoderState::Chunk(left) => {
                    let (left, rest) = take(left, rest, data);
                    (if left == 0 { DecoderState::ChunkEnd(b"\r\n") } else { DecoderState::Chunk(left) }, rest)
                }
                DecoderState::UntilClose => {
                    data.extend_from_slice(rest);
                    (DecoderState::UntilClose, &[][..])
                }
                state => (state.step(byte)?, behind),
            };
        }
        Ok(bytes.len() - rest.len())
    }
}

const SIZE: DecoderState = DecoderState::Size { size: 0, digits: 0 };

impl DecoderState {
    /// What a byte between chunks leads to.
    fn step(self, byte: u8) -> Result<Self, String> {
        Ok(match (self, byte) {
            (DecoderState::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                let size = size.checked_mul(16).ok_or("a chunk of its answer has no end")? + u64::from(digit);
                DecoderState::Size { size, digits: digits + 1 }
            }
            (DecoderState::Size { size, digits: 1.. } | DecoderState::Extension { size, .. }, b'\r') => {
                DecoderState::SizeEnd { size }
            }
            (DecoderState::Size { size, digits: 1.. }, b';' | b' ' | b'\t') => {
                DecoderState::Extension { size, length: 0 }
            }
            (DecoderState::Extension { size, length }, _) if byte != b'\n' && length < ASIDE_LIMIT => {
                DecoderState::Extension { size, length: length + 1 }
            }
            (DecoderState::SizeEnd { size: 0 }, b'\n') => DecoderState::Trailers { line: 0, length: 0 },
            (DecoderState::SizeEnd { size }, b'\n') => DecoderState::Chunk(size),
            (DecoderState::ChunkEnd([expected, rest @ ..]), _) if byte == *expected => match rest {
                [] => SIZE,
                _ => DecoderState::ChunkEnd(rest),
            },
            (DecoderState::Trailers { line: 0, .. }, b'\n') => DecoderState::Over,
            (DecoderState::Trailers { length, .. }, b'\n') => DecoderState::Trailers { line: 0, length },
            (DecoderState::Trailers { line, length }, b'\r') => DecoderState::Trailers { line, length },
            (DecoderState::Trailers { line, length }, _) if length < ASIDE_LIMIT => {
                DecoderState::Trailers { line: line + 1, length: length + 1 }
            }
            _ => return Err("its answer is not cut into chunks as it says".to_owned()),
        })
    }
}

/// Adds bytes to `data`, no more than `left`; how many are left then, and the bytes behind them.
fn take<'b>(left: u64, bytes: &'b [u8], data: &mut Vec<u8>) -> (u64, &'b [u8]) {
    let here = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    data.extend_from_slice(&bytes[..here]);
    (left - here as u64, &bytes[here..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that is said, how many bytes were taken, and whether the body is over.
    fn decoded(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), String> {
        let mut decoder = BodyDecoder::new(framing);
        let (mut data, mut used) = (Vec::new(), 0);
        for piece in pieces {
            used += decoder.decode(piece, &mut data)?;
        }
        Ok((data, used, decoder.is_over()))
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        let decoded_as = |data: &str, used, is_over| Ok((data.as_bytes().to_vec(), used, is_over));
        for (framing, bytes, expected) in [
            (Framing::Length(3), "abcd", decoded_as("abc", 3, true)),
            (Framing::Length(3), "ab", decoded_as("ab", 2, false)),
            (Framing::Length(0), "a", decoded_as("", 0, true)),
            (Framing::UntilClose, "0\r\n\r\n", decoded_as("0\r\n\r\n", 5, false)),
            (Framing::Chunked, "3\r\nabc\r\n0\r\n\r\nx", decoded_as("abc", 13, true)),
            (
                Framing::Chunked,
                "3;a=\"b\"\r\nabc\r\nA \r\n0123456789\r\n00\r\nx: y\r\n\r\n",
                decoded_as("abc0123456789", 42, true),
            ),
            (Framing::Chunked, "3\r\nabc\r\n0\r\n", decoded_as("abc", 11, false)),
        ] {
            assert_eq!(decoded(framing, &[bytes.as_bytes()]), expected, "{bytes:?}");
        }
        let open = |framing| BodyDecoder::new(framing).may_end();
        assert_eq!([Framing::UntilClose, Framing::Length(1), Framing::Chunked].map(open), [true, false, false]);
    }

    #[test]
    fn what_is_not_cut_into_chunks_is_told() {
        let long = format!("1;{}", "x".repeat(ASIDE_LIMIT + 1));
        let trailers = format!("0\r\n{}", "x: y\r\n".repeat(ASIDE_LIMIT));
        for bytes in
            ["\r\n", ";", "x", "1\n", "1\r\nab", "1\r\na\n", "0\r\r", "12345678901234567\r\n", &long, &trailers]
        {
            assert!(decoded(Framing::Chunked, &[bytes.as_bytes()]).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn chunks_say_the_same_wherever_they_and_their_bytes_are_cut(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            let length = bytes.len();
            bytes.extend(b"HTTP/1.1 200 OK");
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).chain([0, bytes.len()]).collect();
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|places| &bytes[places[0]..places[1]]).collect();
            prop_assert_eq!(decoded(Framing::Chunked, &pieces), Ok((chunks.concat(), length, true)));
        }
    }
}
