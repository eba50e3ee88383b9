//! Reading what a model says, whole or as it is sampled.
//!
//! [`StreamParser`] takes tokens. [`MarkLexer`](mark_lexer::MarkLexer) tells the format's own tokens (marks) from text,
//! a dialect per family says what text and marks mean, and the [`Draft`](draft::Draft) keeps what came of it: the parts
//! of the message and the events that may leave already.

mod cookbook;
mod draft;
mod harmony;
mod json_call;
mod llama;
mod mark_lexer;
mod parameter_types;
mod parsed_message;
mod plain;
mod section_call;
mod stream_parser;
mod tagged;
mod xml_call;

#[cfg(test)]
mod cookbook_tests;
#[cfg(test)]
mod family_tests;
#[cfg(test)]
mod law_tests;

pub use cookbook::{CookbookMessage, parse_as_cookbook};
pub(crate) use mark_lexer::{Lexeme, Mark, MarkLexer};
pub(crate) use parameter_types::ParameterTypes;
pub use parsed_message::{ParsedMessage, ParsedPart, PartContent, Termination};
pub(crate) use stream_parser::TurnEnds;
pub use stream_parser::{ParseEvent, StreamParser};

use std::fmt::Debug;
use std::ops::Range;

use crate::ResponseFormat;
use draft::Draft;

/// The texts of a format's marks.
pub(crate) fn mark_texts(format: ResponseFormat) -> Vec<&'static str> {
    mark_lexer::marks(format).into_iter().map(|(_, text)| text).collect()
}

/// How one family's text and marks are read. All ranges are of the draft's text, which already holds them.
trait Dialect: Debug + Send {
    /// Takes text that follows what was taken before.
    fn text(&mut self, range: Range<usize>, draft: &mut Draft);

    /// Takes a mark.
    fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft);

    /// Closes what is open. `cut` says that no stop ended the message.
    fn finish(&mut self, cut: bool, draft: &mut Draft);
}
