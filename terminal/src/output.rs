//! The one way to standard output and standard error. Text that agents, models, tools or files wrote does nothing to a terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::paint::for_terminal;

/// Prints a line at once. A reader that has gone away, as `head` does, ends the command without a word; a full disk ends
/// it with one.
pub fn line(text: impl Display) {
    print(&format_args!("{text}\n"));
}

/// Prints lines, as [`line`] does.
pub fn lines(texts: impl IntoIterator<Item = impl Display>) {
    texts.into_iter().for_each(line);
}

/// Prints a part of a line, as [`line`] does.
pub fn piece(text: impl Display) {
    print(&text);
}

/// Prints a line that a program reads, to the byte, unless a terminal gets it.
pub fn data(text: &str) {
    match stdout().is_terminal() {
        true => line(text),
        false => write(&format!("{text}\n")),
    }
}

/// Prints a line to standard error.
pub fn note(text: impl Display) {
    note_piece(format_args!("{text}\n"));
}

/// Prints a part of a line to standard error.
pub fn note_piece(text: impl Display) {
    // Where nobody reads what went wrong, nothing more can be done.
    let _ = stderr().lock().write_all(for_terminal(&text.to_string()).as_bytes());
}

/// Where the log goes: standard error. The log writes out what its fields have of codes itself, but for what returns to the
/// beginning of a line.
pub struct LogLines;

impl Write for LogLines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let shown = if line.contains(&b'\r') { Cow::Owned(bytes_without_returns(line)) } else { Cow::Borrowed(line) };
        stderr().lock().write_all(&shown).map(|()| line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        stderr().flush()
    }
}

fn bytes_without_returns(line: &[u8]) -> Vec<u8> {
    line.split(|byte| *byte == b'\r').collect::<Vec<_>>().join(&b"\\u000d"[..])
}

fn print(text: &dyn Display) {
    write(&for_terminal(&text.to_string()));
}

fn write(text: &str) {
    let mut out = stdout().lock();
    let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    note(format_args!("error: cannot write to standard output: {error}"));
    std::process::exit(1);
}

/// Whether whoever read standard output has gone away, which a command that waits would not notice by itself.
pub fn reader_has_left() -> bool {
    let out = stdout();
    let mut watched = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
