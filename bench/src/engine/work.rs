use serde::{Deserialize, Serialize};

/// What is done over and over while the clock runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum Work {
    /// Streams that each read a prompt and sample tokens at temperature 1.
    Sample {
        /// Streams at once.
        batch: usize,
        /// Tokens of each prompt.
        prompt: usize,
        /// Tokens that each stream samples.
        new: usize,
    },
    /// Forward pass, backward pass and an AdamW step over sequences.
    Train {
        /// How many.
        sequences: usize,
        /// Positions of each.
        length: usize,
    },
    /// The same over the members of a group, who answer one prompt; the answers alone are trained.
    Group {
        /// How many.
        members: usize,
        /// Positions of the prompt that all of them have.
        prompt: usize,
        /// Positions of each answer.
        answer: usize,
    },
    /// A product of two square matrices.
    Multiply {
        /// Their rows.
        size: usize,
    },
}

impl Work {
    /// How much one piece is: tokens that are sampled or trained, or floating-point operations.
    pub fn amount(self) -> usize {
        match self {
            Self::Sample { batch, new, .. } => batch * new,
            Self::Train { sequences, length } => sequences * length,
            Self::Group { members, answer, .. } => members * answer,
            Self::Multiply { size } => 2 * size.pow(3),
        }
    }
}

/// What a measured process is asked for: work, once and again until so many seconds are over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The work.
    #[serde(flatten)]
    pub work: Work,
    /// The seconds.
    pub seconds: f64,
}
