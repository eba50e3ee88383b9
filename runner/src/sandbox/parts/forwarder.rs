//! The forwarder: runs inside a sandbox, in front of the agent, and makes an address of the sandbox's loopback of a socket in
//! its file system.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, UnixStream};
use tokio::process::Command;
use tokio::task::JoinSet;

use super::words::SandboxPartError;
use crate::sandbox::listening::next_connection;

/// Runs a program as `SOCKET PORT PROGRAM [ARGUMENT...]` says, and hands every connection to that port of the loopback on to
/// the socket; gives the program's exit status, as a shell would.
///
/// # Errors
/// If the port or the program is not to be had.
pub(super) fn forward(words: &[OsString]) -> Result<u8, SandboxPartError> {
    let [socket, port, program, arguments @ ..] = words else { return Err(SandboxPartError::Usage) };
    let port = port.to_str().and_then(|port| port.parse().ok()).ok_or(SandboxPartError::Usage)?;
    forward_from(Path::new(socket), port, program, arguments)
}

/// The same, of words that have been read.
pub(super) fn forward_from(
    socket: &Path,
    port: u16,
    program: &OsStr,
    arguments: &[OsString],
) -> Result<u8, SandboxPartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(async {
        let listener =
            TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| SandboxPartError::Listen { port, error })?;
        let started = Command::new(program).args(arguments).spawn();
        let mut child = started.map_err(|error| SandboxPartError::Start { program: program.into(), error })?;
        tokio::select! {
            ended = child.wait() => ended.map_err(SandboxPartError::from),
            never = hand_on(&listener, socket) => match never {},
        }
    })?;
    // What still runs inside ends with this process.
    runtime.shutdown_background();
    Ok(shell_code(status))
}

/// Hands connections on, for as long as it is waited for.
async fn hand_on(listener: &TcpListener, socket: &Path) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            inside = next_connection(|| listener.accept()) => {
                let socket = socket.to_owned();
                connections.spawn(async move { join(inside, UnixStream::connect(socket).await?).await });
            }
            // Of a connection that breaks, both sides know.
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Copies both ways until both sides have ended.
///
/// The ways are apart: a server that answers before it has read everything, and hangs up, is still heard.
async fn join(inside: impl AsyncRead + AsyncWrite, outside: impl AsyncRead + AsyncWrite) -> io::Result<()> {
    let (mut from_inside, mut to_inside) = split(inside);
    let (mut from_outside, mut to_outside) = split(outside);
    let asking = async {
        // What cannot be sent any more is no reason not to hear the answer.
        let _sent = copy(&mut from_inside, &mut to_outside).await;
        let _closed = to_outside.shutdown().await;
    };
    let answering = async {
        let heard = copy(&mut from_outside, &mut to_inside).await;
        to_inside.shutdown().await?;
        heard
    };
    let ((), answered) = tokio::join!(asking, answering);
    answered.map(drop)
}

/// The exit status, or 128 and the signal.
fn shell_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    #[tokio::test]
    async fn the_answer_of_a_server_that_hung_up_before_it_was_asked_everything_is_heard() {
        let (mut client, inside) = duplex(64);
        let (outside, mut server) = duplex(64);
        client.write_all(b"a question").await.unwrap();
        server.write_all(b"no").await.unwrap();
        drop(server);
        let hear = async move {
            let mut heard = String::new();
            client.read_to_string(&mut heard).await.unwrap();
            heard
        };
        let (joined, heard) = tokio::join!(join(inside, outside), hear);
        joined.unwrap();
        assert_eq!(heard, "no");
    }
}
