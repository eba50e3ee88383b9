//! One condition: a field, how it is compared, and with what.

use std::fmt;

/// What is known of a rollout that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// What its last attempt earned as a whole.
    Reward,
    /// A named component of that.
    Component(String),
    /// What it is for: `train`, `val`, `test`.
    Mode,
    /// One of the tags in its metadata: `tag`, a text, or `tags`, a list of texts.
    Tag,
    /// One of the models that its last attempt called.
    Model,
    /// The training run that it belongs to.
    Run,
    /// The step of that run.
    Step,
    /// Where it stands: `succeeded`, say.
    Status,
    /// When it was made: a date, or seconds since 1970.
    Since,
    /// Its id, or the name of the session that it records.
    Rollout,
    /// The name of the session that it records.
    Session,
}

impl Field {
    /// Names of fields, as they are written.
    pub const NAMES: [&str; 11] =
        ["reward", "reward.NAME", "mode", "tag", "model", "run", "step", "status", "since", "rollout", "session"];

    /// The field of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "reward" => Self::Reward,
            "mode" => Self::Mode,
            "tag" => Self::Tag,
            "model" => Self::Model,
            "run" => Self::Run,
            "step" => Self::Step,
            "status" => Self::Status,
            "since" => Self::Since,
            "rollout" => Self::Rollout,
            "session" => Self::Session,
            _ => {
                return name
                    .strip_prefix("reward.")
                    .filter(|name| !name.is_empty())
                    .map(|name| Self::Component(name.to_owned()));
            }
        })
    }

    /// Whether it is compared with numbers.
    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Reward | Self::Component(_) | Self::Step | Self::Since)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Component(name) => return write!(formatter, "reward.{name}"),
            Self::Reward => "reward",
            Self::Mode => "mode",
            Self::Tag => "tag",
            Self::Model => "model",
            Self::Run => "run",
            Self::Step => "step",
            Self::Status => "status",
            Self::Since => "since",
            Self::Rollout => "rollout",
            Self::Session => "session",
        })
    }
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Comparison {
    pub(super) fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
        }
    }

    /// Whether it is for numbers alone.
    pub(super) fn is_ordered(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        })
    }
}

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A finite number.
    Number(f64),
    /// A text.
    Text(String),
}

impl fmt::Display for Operand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number:?}"),
            Self::Text(text) => write!(formatter, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        }
    }
}

/// A field compared with a value of its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// What is compared.
    pub field: Field,
    /// How.
    pub comparison: Comparison,
    /// With what: a number for `reward`, `reward.NAME`, `step` and `since`, a text for the others.
    pub operand: Operand,
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.field, self.comparison, self.operand)
    }
}
