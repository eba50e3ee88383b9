//! `fulgurite watch`: a run on a terminal, while it goes on or after.

pub mod arguments;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::runs::registry;
use fulgurite_lab::watched::Watched;
use fulgurite_terminal::watch::{Key, Screen, draw, pressed};

use self::arguments::WatchArguments;

/// How often the run is read.
const READ_INTERVAL: Duration = Duration::from_secs(2);
/// How often keys are looked for.
const KEY_INTERVAL: Duration = Duration::from_millis(50);

/// Draws the run until a key ends it.
pub async fn watch(arguments: WatchArguments) -> Result<()> {
    let directory = registry::directory(&arguments.run)?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail!(
            "this is no terminal to draw on: `fulgurite runs show {}` prints the run once, and `fulgurite doctor` what is amiss",
            arguments.run.display()
        );
    }
    let mut watched = Watched::read(&directory).await?;
    let mut interruptions = Interruptions::listen()?;
    let mut screen = Screen::open().context("cannot draw on the terminal")?;
    let (mut chosen, mut read) = (0_usize, Instant::now());
    loop {
        screen.draw(|grid| draw(grid, &watched, chosen)).context("cannot draw on the terminal")?;
        let metrics = watched.metrics().len().max(1);
        match pressed().context("cannot read the terminal")? {
            Some(Key::Quit) => return Ok(()),
            Some(Key::Next) => chosen = (chosen + 1) % metrics,
            Some(Key::Before) => chosen = (chosen + metrics - 1) % metrics,
            None => {}
        }
        if read.elapsed() >= READ_INTERVAL {
            watched = Watched::read(&directory).await?;
            read = Instant::now();
        }
        tokio::select! {
            () = tokio::time::sleep(KEY_INTERVAL) => {}
            () = interruptions.next() => return Ok(()),
        }
    }
}
