use std::fmt::Debug;
use std::ops::Range;

use crate::parsing::draft::Draft;
use crate::parsing::mark_lexer::Mark;

/// How one family's text and marks are read. All ranges are of the draft's text, which already holds them.
pub(crate) trait Dialect: Debug + Send {
    /// Takes text that follows what was taken before.
    fn text(&mut self, range: Range<usize>, draft: &mut Draft);

    /// Takes a mark.
    fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft);

    /// Closes what is open. `cut` says that no stop ended the message.
    fn finish(&mut self, cut: bool, draft: &mut Draft);
}
