//! Which rollouts are meant, in one closed language for command line, config and export:
//! `reward >= 1 and mode = train and not tag = broken`.

mod condition;
mod expression;
mod facts;
mod parser;

pub use self::condition::{Comparison, Condition, Field, Operand};
pub use self::expression::RolloutExpression;
pub use self::facts::RolloutFacts;
pub use self::parser::ExpressionError;
