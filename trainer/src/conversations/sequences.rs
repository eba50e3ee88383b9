//! Conversations as they are trained, wherever they come from.

use std::collections::BTreeMap;

use async_trait::async_trait;
use fulgurite_renderers::WeightedTokens;
use fulgurite_types::GenerationUse;

use crate::TrainError;

/// The likeliest tokens of a place, each with its logprob.
pub(crate) type Likeliest = Vec<(u32, f32)>;

/// A conversation as sequences of tokens with weights; several where its format rewrites earlier turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Example {
    pub(crate) sequences: Vec<WeightedTokens>,
    /// Of each sequence, what a teacher would say in the place of each token after the first, of data that have it.
    pub(crate) targets: Vec<Vec<Likeliest>>,
    /// What becomes of the tokens that were sampled for it.
    pub(crate) uses: Vec<GenerationUse>,
}

/// Answers to one prompt as sequences of tokens with weights: a better and a worse one, or one of them alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ComparedExample {
    pub(crate) chosen: Option<Vec<WeightedTokens>>,
    pub(crate) rejected: Option<Vec<WeightedTokens>>,
    /// What becomes of the tokens that were sampled for it.
    pub(crate) uses: Vec<GenerationUse>,
}

impl ComparedExample {
    /// How many answers there are.
    pub(crate) fn answers(&self) -> usize {
        usize::from(self.chosen.is_some()) + usize::from(self.rejected.is_some())
    }
}

/// What is learnt from, that can be read in any order: conversations, or comparisons of answers.
#[async_trait]
pub(crate) trait Sequences<Item = Example>: Send + Sync {
    /// How many there are.
    fn count(&self) -> u64;

    /// Those with these numbers, in this order.
    async fn read(&self, numbers: &[u64]) -> Result<Vec<Item>, TrainError>;

    /// Changes with what there is.
    fn fingerprint(&self) -> &str;

    /// What was left out.
    fn skipped(&self) -> &SkippedRows;

    /// Trained words that spell control tokens.
    fn marks_as_text(&self) -> MarksAsText {
        MarksAsText::default()
    }
}

/// Trained words that spell control tokens of the model, and are trained as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MarksAsText {
    /// Rows that have any.
    pub(crate) rows: u64,
    /// How many they have.
    pub(crate) marks: u64,
}

impl MarksAsText {
    /// Counts a row with so many.
    pub(crate) fn add(&mut self, marks: u64) {
        self.rows += u64::from(marks > 0);
        self.marks += marks;
    }
}

/// Rows that are not trained, by cause.
pub(crate) type SkippedRows = BTreeMap<Unusable, u64>;

/// Why a row that is a conversation is not trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unusable {
    /// A sequence of it has more tokens than it may have.
    TooLong,
    /// No token of it would be trained.
    NothingToTrain,
    /// The model's format cannot write it.
    NotRenderable,
    /// Answers that are compared are the same, or earned the same.
    NoDifference,
    /// Of two answers none is better.
    Tie,
    /// Nobody rewarded it.
    NotRewarded,
    /// Of a log: no call, or one that was not answered.
    NoAnswer,
}

impl Unusable {
    /// Whether such rows are no mistake in a file, so that they are passed over without being told to: logs hold calls that
    /// failed, and people find answers equally good.
    pub(crate) fn is_expected(self) -> bool {
        matches!(self, Self::NoAnswer | Self::Tie)
    }

    /// As metrics have it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::NothingToTrain => "nothing_to_train",
            Self::NotRenderable => "not_renderable",
            Self::NoDifference => "no_difference",
            Self::Tie => "tie",
            Self::NotRewarded => "not_rewarded",
            Self::NoAnswer => "no_answer",
        }
    }
}
