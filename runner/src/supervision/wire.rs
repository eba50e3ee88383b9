//! What is said over a supervisor's leash: requests with the program's standard streams, and replies of a fixed size.

use crate::order::Order;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::Pid;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use tokio::io::{AsyncWriteExt, Interest};

/// A program's ends of its standard input, output and error.
pub(super) type Ends = [OwnedFd; 3];

/// The byte that a request begins with, and its descriptors travel by.
const REQUEST: u8 = b'!';

/// How long a reply is.
pub(super) const REPLY_LENGTH: usize = 5;

/// An agent to be started.
#[derive(Debug)]
pub(super) struct Request {
    /// What is started.
    pub order: Order,
    /// Its streams.
    pub ends: Ends,
}

/// Sends a request: an [order](Order::to_bytes) and the program's streams, which stay open here.
///
/// # Errors
///
/// Fails if the other side is gone.
pub(super) async fn send(leash: &mut tokio::net::UnixStream, order: &[u8], ends: &Ends) -> io::Result<()> {
    leash.async_io(Interest::WRITABLE, || send_ends(leash, ends)).await?;
    leash.write_all(&order.len().to_ne_bytes()).await?;
    leash.write_all(order).await
}

fn send_ends(leash: &tokio::net::UnixStream, ends: &Ends) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let ends = ends.each_ref().map(AsFd::as_fd);
    control.push(SendAncillaryMessage::ScmRights(&ends));
    sendmsg(leash, &[IoSlice::new(&[REQUEST])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Waits for the next request; `None` when the leash has ended.
///
/// # Errors
///
/// Fails if the leash is no socket, or what comes over it no request.
pub(super) fn receive(mut leash: &UnixStream) -> io::Result<Option<Request>> {
    let ends = match receive_ends(leash) {
        Ok(Some(ends)) => ends,
        Ok(None) => return Ok(None),
        // The runner died with a reply unread.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut length = [0; size_of::<usize>()];
    leash.read_exact(&mut length)?;
    let mut order = vec![0; usize::from_ne_bytes(length)];
    leash.read_exact(&mut order)?;
    let order = Order::from_bytes(&order).ok_or(ErrorKind::InvalidData)?;
    Ok(Some(Request { order, ends }))
}

fn receive_ends(leash: &UnixStream) -> io::Result<Option<Ends>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut mark = [0];
    let received =
        rustix::io::retry_on_intr(|| recvmsg(leash, &mut [IoSliceMut::new(&mut mark)], &mut control, RECEIVE_FLAGS))?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let ends: Vec<OwnedFd> = rights.flatten().collect();
    keep_from_programs(&ends)?;
    let ends = ends.try_into().map_err(|_| ErrorKind::InvalidData)?;
    Ok((mark == [REQUEST]).then_some(ends))
}

/// Descriptors are received so that no program inherits them that is started later.
#[cfg(target_os = "linux")]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::empty();

/// As [`RECEIVE_FLAGS`], where there is no such flag.
fn keep_from_programs(ends: &[OwnedFd]) -> io::Result<()> {
    #[cfg(not(target_os = "linux"))]
    for end in ends {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
    }
    #[cfg(target_os = "linux")]
    let _ = ends;
    Ok(())
}

/// What a supervisor says of the program that it was to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// It runs, as the leader of this process group.
    Started(Pid),
    /// It cannot be started: the system's error number.
    Refused(i32),
    /// It has ended so, and nothing of it is left.
    Ended(ExitStatus),
}

impl Reply {
    /// The reply as it is sent.
    pub(super) fn to_bytes(self) -> [u8; REPLY_LENGTH] {
        let (mark, number) = match self {
            Self::Started(program) => (b's', program.as_raw_pid()),
            Self::Refused(number) => (b'r', number),
            Self::Ended(status) => (b'e', status.into_raw()),
        };
        let [a, b, c, d] = number.to_ne_bytes();
        [mark, a, b, c, d]
    }

    /// Reads what [`Reply::to_bytes`] gave; `None` if it is something else.
    pub(super) fn from_bytes([mark, number @ ..]: [u8; REPLY_LENGTH]) -> Option<Self> {
        let number = i32::from_ne_bytes(number);
        match mark {
            b's' => Some(Self::Started(Pid::from_raw(number)?)),
            b'r' => Some(Self::Refused(number)),
            b'e' => Some(Self::Ended(ExitStatus::from_raw(number))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Write, pipe};
    use std::thread;

    #[test]
    fn a_reply_is_read_as_it_was_written() {
        let ended = Reply::Ended(ExitStatus::from_raw(9));
        for reply in [Reply::Started(rustix::process::getpid()), Reply::Refused(2), ended] {
            assert_eq!(Reply::from_bytes(reply.to_bytes()), Some(reply));
        }
        assert_eq!(Reply::from_bytes([0; REPLY_LENGTH]), None);
    }

    #[tokio::test]
    async fn a_request_arrives_with_its_streams_however_long_it_is() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut ours = tokio::net::UnixStream::from_std(ours).unwrap();
        let long = Order { arguments: vec!["x".repeat(2 << 20).into()], ..Order::default() };
        let received =
            thread::spawn(move || [receive(&theirs), receive(&theirs), receive(&theirs)].map(Result::unwrap));
        let (mut read, write) = pipe().unwrap();
        let null = || File::open("/dev/null").unwrap().into();
        let ends = [null(), write.into(), null()];
        for order in [&Order::default(), &long] {
            send(&mut ours, &order.to_bytes().unwrap(), &ends).await.unwrap();
        }
        drop((ours, ends));
        let [first, second, third] = received.join().unwrap();
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!((first.order, second.order), (Order::default(), long));
        assert!(third.is_none());
        drop(first.ends);
        let [_, write, _] = second.ends;
        File::from(write).write_all(b"said").unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "said");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for wrong in [&b"?"[..], b"!", b"!\x01"] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(wrong).unwrap();
            drop(ours);
            assert!(receive(&theirs).is_err(), "{wrong:?}");
        }
    }
}
