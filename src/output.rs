//! The one way to standard output.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

/// Prints a line at once. A reader that has gone away, as `head` does, ends the command without a word; a full disk ends
/// it with one.
pub fn line(text: impl Display) {
    let mut out = stdout().lock();
    let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    eprintln!("error: cannot write to standard output: {error}");
    std::process::exit(1);
}
