//! How far something long has come: a bar on a terminal, now and then a plain line elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use fulgurite_engine::bytes_text;
use fulgurite_lab::visible::visible_line;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// How often those who have no terminal get a line.
const PLAIN_LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Goes to standard error, so that it never mixes with results.
pub struct Progress {
    quiet: bool,
    bar: Option<ProgressBar>,
    last_plain_line: Instant,
}

impl Progress {
    /// `quiet` says nothing at all.
    pub fn new(quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(ProgressBar::no_length);
        Self { quiet, bar, last_plain_line: Instant::now() }
    }

    /// So many of `what` are done, of so many if that is known.
    pub fn set(&mut self, what: &str, done: u64, total: Option<u64>) {
        if let Some(bar) = &self.bar {
            let template = if total.is_some() { "{bar:30} {pos}/{len} {msg}" } else { "{spinner} {pos} {msg}" };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_message(visible_line(what));
            bar.set_position(done);
        } else if !self.quiet && self.last_plain_line.elapsed() >= PLAIN_LINE_INTERVAL {
            self.last_plain_line = Instant::now();
            let of = total.map_or(String::new(), |total| format!(" of {total}"));
            output::note(format_args!("{done}{of} {what}"));
        }
    }

    /// So many of a file's bytes are there.
    pub fn set_bytes(&mut self, file: &str, there: u64, total: u64) {
        if let Some(bar) = &self.bar {
            let template = "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_length(total);
            bar.set_message(visible_line(file));
            bar.set_position(there);
        } else if !self.quiet && self.last_plain_line.elapsed() >= PLAIN_LINE_INTERVAL {
            self.last_plain_line = Instant::now();
            output::note(format_args!("{} of {} of {file}", bytes_text(there), bytes_text(total)));
        }
    }

    /// Prints a line that stays, above the bar if there is one.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::line(text)),
            None => output::line(text),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
