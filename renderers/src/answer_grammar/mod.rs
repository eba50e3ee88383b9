//! What keeps an answer to a shape while it is sampled: a grammar of what the model's format may say.
//!
//! A grammar holds from the first token on, so it has to allow what a format puts before the answer proper (reasoning,
//! channels), and to spell calls as the format's parser reads them. What it spells is written here, format by format;
//! grammars are in llguidance's dialect of Lark, in which `<[ID]>` is a token and `%json` stands before a JSON schema.
//!
//! - [`answer`]: the grammar of an answer, by the format; [`tagged`], [`harmony`]: with what the format puts before it.
//! - [`body`], [`calls`], [`xml_call`], [`dsml_call`], [`parameters`]: the answer proper.
//! - [`grammar_writer`], [`answer_shape`], [`lark`]: what they share; what is requested; the grammars' language.

mod answer;
mod answer_shape;
mod body;
mod calls;
mod dsml_call;
mod grammar_writer;
mod harmony;
mod lark;
mod parameters;
mod tagged;
#[cfg(test)]
mod tests;
mod xml_call;

pub use answer_shape::{AnswerGrammar, AnswerShape};
pub(crate) use grammar_writer::GrammarWriter;
