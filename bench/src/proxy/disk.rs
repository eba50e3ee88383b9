//! What the disk alone takes for the commits of calls: the part of a call's time that nobody's record can be without.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::figures::{median, quantile, sorted};

/// Pages that the record of an attempt's call writes into SQLite's log, and a page there with its head, in bytes.
const PAGES: usize = 13;
const FRAME: usize = 4096 + 24;
/// Commits after which the log is written from its beginning again.
const COMMITS: u64 = 8;

/// Milliseconds of each round: half of its commits took no longer, and 99 of 100.
#[derive(Debug, Default)]
pub struct Disk {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Disk {
    /// Makes a round of so many commits at a rate, in the directory in which the stores are.
    pub fn round(&mut self, directory: &Path, commits: usize, rate: f64) -> io::Result<()> {
        let times = sorted(commit(directory, commits, rate)?.into_iter());
        self.p50.push(quantile(&times, 0.5));
        self.p99.push(quantile(&times, 0.99));
        Ok(())
    }

    /// The medians over the rounds.
    pub fn milliseconds(&self) -> (f64, f64) {
        (median(self.p50.clone()), median(self.p99.clone()))
    }
}

/// Writes over what was written before and waits until the disk has it, one time after the other.
fn commit(directory: &Path, commits: usize, rate: f64) -> io::Result<Vec<Duration>> {
    let log = tempfile::tempfile_in(directory)?;
    let pages = vec![7; PAGES * FRAME];
    let write = |log: &File, number: u64| {
        log.write_all_at(&pages, number % COMMITS * pages.len() as u64)?;
        log.sync_data()
    };
    (0..COMMITS).try_for_each(|number| write(&log, number))?;
    let begin = Instant::now();
    let mut times = Vec::with_capacity(commits);
    for number in 0..commits {
        let due = begin + Duration::from_secs_f64(number as f64 / rate);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        write(&log, number as u64)?;
        times.push(began.elapsed());
    }
    Ok(times)
}
