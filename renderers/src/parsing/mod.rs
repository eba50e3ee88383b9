//! Reading what a model says, whole or as it is sampled.
//!
//! [`StreamParser`] takes tokens. [`MarkLexer`] tells the format's own tokens (marks) from text,
//! a dialect per family says what text and marks mean, and the [`Draft`](draft::Draft) keeps what came of it: the parts
//! of the message and the events that may leave already.

mod calls;
mod cookbook;
mod dialect;
mod dialects;
mod doubt;
mod draft;
mod mark_lexer;
mod parse_event;
mod parsed_message;
mod stream_parser;

#[cfg(test)]
mod cookbook_tests;
#[cfg(test)]
mod family_tests;
#[cfg(test)]
mod law_tests;

pub(crate) use calls::parameter_types::ParameterTypes;
pub use cookbook::{CookbookMessage, parse_as_cookbook};
#[cfg(any(test, fuzzing))]
pub(crate) use mark_lexer::mark_texts;
pub(crate) use mark_lexer::{Lexeme, Mark, MarkLexer};
pub use parse_event::ParseEvent;
pub use parsed_message::{ParsedMessage, ParsedPart, PartContent, Termination};
pub use stream_parser::StreamParser;
pub(crate) use stream_parser::TurnEnds;
