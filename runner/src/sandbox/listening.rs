//! Connections that are accepted for as long as somebody listens.

use std::io;
use std::time::Duration;

/// For a file to be closed, where a process has as many open as it may.
const PAUSE: Duration = Duration::from_millis(200);

/// The next connection. What goes wrong with one, or because too many files are open for now, does not end the others.
pub(super) async fn next_connection<Stream, Address, Accepted>(mut accept: impl FnMut() -> Accepted) -> Stream
where
    Accepted: Future<Output = io::Result<(Stream, Address)>>,
{
    loop {
        match accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "a sandbox's connection cannot be accepted yet");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_outlives_a_moment_with_too_many_open_files() {
        const TOO_MANY_OPEN_FILES: i32 = 24;
        let mut refused = 0;
        let stream = next_connection(|| {
            refused += 1;
            std::future::ready(match refused {
                1 => Err(io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES)),
                2 => Err(io::ErrorKind::ConnectionAborted.into()),
                _ => Ok(("stream", ())),
            })
        });
        assert_eq!(stream.await, "stream");
    }
}
