//! `fulgurite watch`: a run on a terminal, while it goes on or after.

pub mod arguments;
mod chart;
mod grid;
mod view;

use std::io::{IsTerminal, Stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen};
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::runs::registry;

use self::arguments::WatchArguments;
use self::grid::Grid;
use self::view::draw;
use fulgurite_lab::watched::Watched;

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
    let mut screen = Screen::open()?;
    let (mut chosen, mut read) = (0_usize, Instant::now());
    loop {
        screen.draw(|grid| draw(grid, &watched, chosen)).context("cannot draw on the terminal")?;
        let metrics = watched.metrics().len().max(1);
        match pressed()? {
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

/// The terminal, which is as it was before once this is dropped.
struct Screen {
    stdout: Stdout,
    shown: Option<Grid>,
}

impl Screen {
    fn open() -> Result<Self> {
        let cannot = "cannot draw on the terminal";
        terminal::enable_raw_mode().context(cannot)?;
        let mut screen = Self { stdout: std::io::stdout(), shown: None };
        execute!(screen.stdout, EnterAlternateScreen, Hide).context(cannot)?;
        Ok(screen)
    }

    /// Draws on an empty screen and shows it.
    fn draw(&mut self, draw: impl FnOnce(&mut Grid)) -> std::io::Result<()> {
        let (width, height) = terminal::size()?;
        let mut grid = Grid::new(width.into(), height.into());
        draw(&mut grid);
        grid.show(self.shown.as_ref(), &mut self.stdout)?;
        self.shown = Some(grid);
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone away needs nothing.
        let _ = execute!(self.stdout, LeaveAlternateScreen, Show);
        let _ = terminal::disable_raw_mode();
    }
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Quit,
    Next,
    Before,
}

/// The key that was pressed, if one was.
fn pressed() -> Result<Option<Key>> {
    let cannot = "cannot read the terminal";
    while event::poll(Duration::ZERO).context(cannot)? {
        let key = key_of(&event::read().context(cannot)?);
        if key.is_some() {
            return Ok(key);
        }
    }
    Ok(None)
}

fn key_of(event: &Event) -> Option<Key> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        // The terminal sends it as a key while this draws.
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Tab | KeyCode::Right | KeyCode::Char('n') => Some(Key::Next),
        KeyCode::BackTab | KeyCode::Left | KeyCode::Char('p') => Some(Key::Before),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn keys_mean_what_the_last_line_says() {
        let key = |code, modifiers| key_of(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Tab, KeyModifiers::NONE), Some(Key::Next));
        assert_eq!(key(KeyCode::BackTab, KeyModifiers::SHIFT), Some(Key::Before));
        assert_eq!(key_of(&Event::Resize(1, 1)), None);
    }
}
