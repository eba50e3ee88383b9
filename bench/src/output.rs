//! The one way to standard output and standard error.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own prints")]

use std::fmt::Display;

/// Prints a line.
pub fn line(text: impl Display) {
    println!("{text}");
}

/// Prints a line for people who look for what went wrong.
pub fn error(text: &str) {
    eprintln!("{text}");
}
