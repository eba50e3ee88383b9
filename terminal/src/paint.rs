//! Colours, for terminals only.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{IsTerminal, stderr, stdout};
use std::sync::LazyLock;

use fulgurite_lab::visible::visible;

/// Marks text for a terminal's codes, or leaves it as it is. [`output`](crate::output) makes codes of the marks: codes that
/// are in a text are none of ours, and are shown.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

/// Begins a mark. Another one each time that the program runs, so that no text can have it.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{fdd0}{:016x}", RandomState::new().build_hasher().finish()));
/// Ends a mark.
const MARK_END: char = '\u{fdd1}';

impl Paint {
    /// Colours if standard output is a terminal and `NO_COLOR` does not speak against it.
    pub fn for_stdout() -> Self {
        Self { on: stdout().is_terminal() && !is_refused() }
    }

    /// No colours.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { on: false }
    }

    /// Bold.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Less bright than the rest.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Red.
    pub fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Green.
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Cyan.
    pub fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        let mark = &*MARK;
        if self.on { format!("{mark}{code}{MARK_END}{text}{mark}0{MARK_END}") } else { text.to_owned() }
    }
}

/// Text as a terminal gets it: codes in the place of our own marks, and nothing else that steers it.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(MARK.as_str());
    let first = visible(parts.next().unwrap_or_default());
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return first;
    }
    let mut shown = first.into_owned();
    for part in parts {
        let (code, rest) = part.split_once(MARK_END).unwrap_or(("0", part));
        shown.push_str("\x1b[");
        shown.push_str(code);
        shown.push('m');
        shown.push_str(&visible(rest));
    }
    Cow::Owned(shown)
}

/// Whether the log, on standard error, has colours.
pub fn log_has_colours() -> bool {
    stderr().is_terminal() && !is_refused()
}

fn is_refused() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_gets_codes() {
        assert_eq!(for_terminal(&Paint { on: true }.red("x")), "\x1b[31mx\x1b[0m");
        assert_eq!(for_terminal(&Paint { on: false }.bold("x")), "x");
    }

    #[test]
    fn codes_in_a_text_are_none_of_ours() {
        let text = "\x1b[8mhidden\u{fdd0}31\u{fdd1}";
        assert_eq!(for_terminal(text), "\\u001b[8mhidden\u{fdd0}31\u{fdd1}");
        let painted = for_terminal(&format!("a{}b", Paint { on: true }.dim(text))).into_owned();
        assert_eq!(painted, "a\x1b[2m\\u001b[8mhidden\u{fdd0}31\u{fdd1}\x1b[0mb");
    }
}
