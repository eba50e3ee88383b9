//! The terminal that a picture is drawn on.

use std::io::{self, Stdout};

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen};

use super::grid::Grid;

/// The terminal, which is as it was before once this is dropped.
pub struct Screen {
    stdout: Stdout,
    shown: Option<Grid>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    ///
    /// What the terminal refuses.
    pub fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let mut screen = Self { stdout: std::io::stdout(), shown: None };
        execute!(screen.stdout, EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Draws on an empty screen and shows it.
    ///
    /// # Errors
    ///
    /// What the terminal does not take.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Grid)) -> io::Result<()> {
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
