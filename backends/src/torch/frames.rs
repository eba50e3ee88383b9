//! Frames over the socket: lengths of header and body, the header in JSON, the body in the format of safetensors.

use std::io::{self, ErrorKind, Read, Write};

use serde_json::Value;

/// Version of the protocol, which both sides must have.
pub(super) const PROTOCOL: u64 = 1;

/// Bytes of a header at most: it holds no lists of numbers.
const LONGEST_HEADER: u32 = 1 << 20;
/// Bytes of a body at most: the logprobs of more tokens than fit into a step.
const LONGEST_BODY: u64 = 1 << 36;

/// A message of either side.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) header: Value,
    pub(super) body: Vec<u8>,
}

pub(super) fn write_frame(to: &mut impl Write, header: &Value, body: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let length = u32::try_from(header.len()).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    let mut start = Vec::with_capacity(12 + header.len());
    start.extend_from_slice(&length.to_le_bytes());
    start.extend_from_slice(&(body.len() as u64).to_le_bytes());
    start.extend_from_slice(&header);
    to.write_all(&start)?;
    to.write_all(body)
}

/// The next frame; an end before it is [`ErrorKind::UnexpectedEof`].
pub(super) fn read_frame(from: &mut impl Read) -> io::Result<Frame> {
    let (mut header, mut body) = ([0; 4], [0; 8]);
    from.read_exact(&mut header)?;
    from.read_exact(&mut body)?;
    let (header, body) = (u32::from_le_bytes(header), u64::from_le_bytes(body));
    if header > LONGEST_HEADER || body > LONGEST_BODY {
        let message = format!("a frame of {header} and {body} bytes is too long");
        return Err(io::Error::new(ErrorKind::InvalidData, message));
    }
    let header = serde_json::from_slice(&read_bytes(from, u64::from(header))?)?;
    Ok(Frame { header, body: read_bytes(from, body)? })
}

/// So many bytes, for which memory is taken as they come.
fn read_bytes(from: &mut impl Read, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(count).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < count {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The bytes that `python/tests/torch/test_protocol.py` reads and writes, too.
    const KNOWN: &[u8] = b"\x10\0\0\0\x03\0\0\0\0\0\0\0{\"call\":\"known\"}\x01\x02\x03";

    #[test]
    fn a_frame_has_the_bytes_that_the_package_knows() {
        let mut written = Vec::new();
        write_frame(&mut written, &json!({ "call": "known" }), &[1, 2, 3]).unwrap();
        assert_eq!(written, KNOWN);
        let frame = read_frame(&mut &written[..]).unwrap();
        assert_eq!((frame.header, frame.body), (json!({ "call": "known" }), vec![1, 2, 3]));
    }

    #[test]
    fn a_frame_that_is_cut_off_or_too_long_is_an_error() {
        for end in 0..KNOWN.len() {
            assert_eq!(read_frame(&mut &KNOWN[..end]).unwrap_err().kind(), ErrorKind::UnexpectedEof, "{end}");
        }
        let mut long = KNOWN.to_vec();
        long[11] = 0xff;
        assert!(read_frame(&mut &long[..]).unwrap_err().to_string().contains("too long"));
    }
}
