//! What is typed while a run is watched.

use std::io;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// To leave.
    Quit,
    /// The next metric.
    Next,
    /// The metric before.
    Before,
}

/// The key that was pressed, if one was.
///
/// # Errors
///
/// A terminal that cannot be read.
pub fn pressed() -> io::Result<Option<Key>> {
    while event::poll(Duration::ZERO)? {
        let key = key_of(&event::read()?);
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
