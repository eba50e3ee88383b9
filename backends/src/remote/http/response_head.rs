use reqwest::StatusCode;

/// More header fields than any host sends.
const FIELDS: usize = 128;

/// The beginning of an HTTP/1 response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<String>,
    pub(crate) framing: Framing,
    /// Whether the connection can be used again after the body.
    pub(crate) keeps_open: bool,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length in bytes.
    Length(u64),
    /// By an empty chunk.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

impl ResponseHead {
    /// Reads a head at the beginning of `bytes`, with its length; `None` while it is not there as a whole. What is wrong
    /// with it, in words.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(format!("its answer is no HTTP: {error}")),
        };
        let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or("its answer has no status")?;
        let fields = &*response.headers;
        let values = |name: &'static str| {
            let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
            named.map(|field| String::from_utf8_lossy(field.value))
        };
        let framing = framing(status, values("transfer-encoding").next_back().as_deref(), values("content-length"))?;
        let closes = values("connection").any(|value| lists(&value, "close"));
        let keeps_open = response.version == Some(1) && !closes && framing != Framing::UntilClose;
        let content_type = values("content-type").next().map(|value| value.into_owned());
        Ok(Some((Self { status, content_type, framing, keeps_open }, length)))
    }
}

/// As RFC 9112 has it, section 6.3.
fn framing<T: AsRef<str>>(
    status: StatusCode,
    transfer_encoding: Option<&str>,
    lengths: impl Iterator<Item = T>,
) -> Result<Framing, String> {
    if status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(Framing::Length(0));
    }
    if let Some(codings) = transfer_encoding {
        let last = codings.rsplit(',').next().map(str::trim);
        let is_chunked = last.is_some_and(|last| last.eq_ignore_ascii_case("chunked"));
        return Ok(if is_chunked { Framing::Chunked } else { Framing::UntilClose });
    }
    let mut framing = Framing::UntilClose;
    for stated in lengths {
        let stated = stated.as_ref().trim();
        let length = stated.bytes().all(|byte| byte.is_ascii_digit()).then(|| stated.parse().ok()).flatten();
        let length = length.ok_or_else(|| format!("its answer has the content-length `{stated}`"))?;
        if matches!(framing, Framing::Length(other) if other != length) {
            return Err("its answer has two lengths".to_owned());
        }
        framing = Framing::Length(length);
    }
    Ok(framing)
}

fn lists(values: &str, name: &str) -> bool {
    values.split(',').any(|value| value.trim().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &str) -> Result<ResponseHead, String> {
        let bytes = format!("{fields}\r\n\r\nbody");
        let (head, length) = ResponseHead::read(bytes.as_bytes())?.unwrap();
        assert_eq!(&bytes[length..], "body");
        assert_eq!(ResponseHead::read(&bytes.as_bytes()[..length - 1]), Ok(None));
        Ok(head)
    }

    #[test]
    fn the_end_of_a_body_is_known_by_its_head() {
        for (fields, framing, keeps_open) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 12", Framing::Length(12), true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 12\r\ncontent-length:12", Framing::Length(12), true),
            ("HTTP/1.1 200\r\ntransfer-encoding: chunked", Framing::Chunked, true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\ncontent-length: 9", Framing::Chunked, true),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip", Framing::UntilClose, false),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: x, Close", Framing::Chunked, false),
            ("HTTP/1.0 200 OK\r\ncontent-length: 3", Framing::Length(3), false),
            ("HTTP/1.1 200 OK", Framing::UntilClose, false),
            ("HTTP/1.1 204 No Content", Framing::Length(0), true),
            ("HTTP/1.1 100 Continue\r\nx: y", Framing::Length(0), true),
        ] {
            let head = read(fields).unwrap();
            assert_eq!((head.framing, head.keeps_open), (framing, keeps_open), "{fields}");
        }
        let head = read("HTTP/1.1 404 Not Found\r\nContent-Type:  text/plain ").unwrap();
        assert_eq!((head.status, head.content_type.as_deref()), (StatusCode::NOT_FOUND, Some("text/plain")));
    }

    #[test]
    fn what_is_no_head_is_told() {
        for (fields, message) in [
            ("SSH-2.0-OpenSSH_9.6", "its answer is no HTTP: invalid HTTP version"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2", "its answer has two lengths"),
            ("HTTP/1.1 200 OK\r\ncontent-length: +1", "its answer has the content-length `+1`"),
            ("HTTP/1.1 200 OK\r\ncontent-length: ", "its answer has the content-length ``"),
        ] {
            assert_eq!(read(fields).unwrap_err(), message, "{fields}");
        }
    }
}
