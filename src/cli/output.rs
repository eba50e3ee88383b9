//! The one way to standard output.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Prints a line at once. A reader that has gone away, as `head` does, ends the command without a word; a full disk ends
/// it with one.
pub fn line(text: impl Display) {
    print(&format_args!("{text}\n"));
}

/// Prints a part of a line, as [`line`] does.
pub fn piece(text: impl Display) {
    print(&text);
}

fn print(text: &dyn Display) {
    let mut out = stdout().lock();
    let Err(error) = write!(out, "{text}").and_then(|()| out.flush()) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    eprintln!("error: cannot write to standard output: {error}");
    std::process::exit(1);
}

/// Whether whoever read standard output has gone away, which a command that waits would not notice by itself.
pub fn reader_has_gone() -> bool {
    let out = stdout();
    let mut watched = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
