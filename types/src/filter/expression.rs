//! Conditions that are put together.

use std::fmt;

use serde::{Serialize, Serializer};

use super::condition::Condition;

/// Which rollouts are meant. Written and read as text, such as `reward >= 1 and (mode = train or tag = "hand made")`.
#[derive(Clone, Debug, PartialEq)]
pub enum RolloutExpression {
    /// A single condition.
    Is(Condition),
    /// All of these; two at least.
    And(Vec<RolloutExpression>),
    /// One of these; two at least.
    Or(Vec<RolloutExpression>),
    /// Not this.
    Not(Box<RolloutExpression>),
}

impl fmt::Display for RolloutExpression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |formatter: &mut fmt::Formatter<'_>, parts: &[Self], word: &str| {
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    write!(formatter, " {word} ")?;
                }
                match part {
                    Self::And(_) | Self::Or(_) => write!(formatter, "({part})")?,
                    Self::Is(_) | Self::Not(_) => write!(formatter, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Is(condition) => write!(formatter, "{condition}"),
            Self::And(parts) => joined(formatter, parts, "and"),
            Self::Or(parts) => joined(formatter, parts, "or"),
            Self::Not(part) => match &**part {
                Self::And(_) | Self::Or(_) => write!(formatter, "not ({part})"),
                Self::Is(_) | Self::Not(_) => write!(formatter, "not {part}"),
            },
        }
    }
}

impl Serialize for RolloutExpression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
