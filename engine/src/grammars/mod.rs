//! Grammars that answers are kept to: compiled under limits, on threads of their own.
//!
//! - [`compiler`]: constraints to grammars, of which the last are kept.
//! - [`answer_state`]: how far an answer has got in its grammar.
//! - [`vocabulary`]: the tokens that it is made of, as text.
//! - [`limits`], [`schema_cost`]: what a grammar may take, and what a schema will.

mod answer_state;
mod compiler;
mod limits;
mod schema_cost;
pub(crate) mod vocabulary;

pub(crate) use answer_state::Grammar;
pub(crate) use compiler::Grammars;
pub use limits::GrammarLimits;
