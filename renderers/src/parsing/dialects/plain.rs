use std::ops::Range;

use crate::parsing::dialect::Dialect;
use crate::parsing::draft::{Draft, Ending, Prose, Space};
use crate::parsing::mark_lexer::Mark;

/// Reads text and nothing else.
#[derive(Debug)]
pub(crate) struct Plain {
    /// What stands before the text that is not part of it, until the text has begun.
    prefix: Option<char>,
    /// White space at the end that is held back, and what becomes of it.
    held: Space,
    ending: Ending,
}

impl Plain {
    /// All text is content.
    pub(crate) fn new() -> Self {
        Self { prefix: None, held: Space::None, ending: Ending::Kept }
    }

    /// Base models: a space before the text and the blank line behind it belong to the format.
    pub(crate) fn role_colon() -> Self {
        Self { prefix: Some(' '), held: Space::Newlines, ending: Ending::Without("\n\n") }
    }
}

impl Dialect for Plain {
    fn text(&mut self, mut range: Range<usize>, draft: &mut Draft) {
        if let Some(prefix) = self.prefix.take()
            && draft.text()[range.clone()].starts_with(prefix)
        {
            range.start += prefix.len_utf8();
        }
        if !range.is_empty() {
            draft.prose(Prose::Text, range, Space::None, self.held);
        }
    }

    fn mark(&mut self, _: Mark, range: Range<usize>, draft: &mut Draft) {
        self.text(range, draft);
    }

    fn finish(&mut self, _: bool, draft: &mut Draft) {
        draft.close_prose(self.ending);
    }
}
