//! Text for terminals: whatever an agent, a model, a tool or a file wrote is shown, and does nothing.

use std::borrow::Cow;
use std::fmt::Write;

use fulgurite_types::shortened;

/// The text with every character that would steer a terminal written as JSON escapes it, such as `\u001b`. Line ends and
/// tabs stay. In JSON the escapes mean the same characters, so that JSON stays what it is.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match steers(c) {
            // Text takes whatever is written to it. All of these are below U+10000, as a single escape must be.
            true => drop(write!(shown, "\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// The same in one line, for a cell or a title.
pub fn visible_line(text: &str) -> String {
    visible(text).replace(['\n', '\t'], " ")
}

/// Longest text that a cell of a table shows.
pub const CELL_CHARACTERS: usize = 60;

/// One line of at most as many characters as a cell shows.
pub fn cut(text: &str) -> String {
    shortened(&visible_line(text), CELL_CHARACTERS, "…")
}

/// Control characters of both sets, those that turn the direction of writing, and the line ends that are none to a terminal.
fn steers(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_written_out() {
        assert_eq!(visible("plain ä\n\ttext"), "plain ä\n\ttext");
        assert_eq!(visible("\x1b]0;x\x07\r\u{9b}31m\u{7f}"), "\\u001b]0;x\\u0007\\u000d\\u009b31m\\u007f");
        assert_eq!(visible("\u{202e}x\u{2066}"), "\\u202ex\\u2066");
        assert_eq!(visible_line("a\nb\tc\x1b"), "a b c\\u001b");
    }

    proptest! {
        #[test]
        fn json_says_the_same_as_before(text in ".*|[\u{0}-\u{a0}\u{2028}-\u{2069}]*") {
            let written = json!({ "text": text }).to_string();
            let shown = visible(&written);
            prop_assert!(!shown.contains(char::is_control));
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), json!({ "text": text }));
        }
    }
}
