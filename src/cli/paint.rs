//! Colours, for terminals only.

use std::io::{IsTerminal, stderr, stdout};

/// Wraps text in the codes of a terminal, or leaves it as it is.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Colours if standard output is a terminal and `NO_COLOR` does not speak against it.
    pub fn for_stdout() -> Self {
        Self { on: stdout().is_terminal() && !is_refused() }
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
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
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
        assert_eq!(Paint { on: true }.red("x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint { on: false }.bold("x"), "x");
    }
}
