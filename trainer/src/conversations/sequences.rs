//! Conversations as they are trained, wherever they come from.

use std::collections::BTreeMap;

use async_trait::async_trait;
use fulgurite_renderers::WeightedTokens;
use fulgurite_types::GenerationUse;

use crate::TrainError;

/// A conversation as sequences of tokens with weights; several where its format rewrites earlier turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Example {
    pub(crate) sequences: Vec<WeightedTokens>,
    /// What becomes of the tokens that were sampled for it.
    pub(crate) uses: Vec<GenerationUse>,
}

/// Conversations that can be read in any order.
#[async_trait]
pub(crate) trait Sequences: Send + Sync {
    /// How many there are.
    fn count(&self) -> u64;

    /// Those with these numbers, in this order.
    async fn read(&self, numbers: &[u64]) -> Result<Vec<Example>, TrainError>;

    /// Changes with what there is.
    fn fingerprint(&self) -> &str;

    /// What was left out.
    fn skipped(&self) -> &SkippedRows;
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
}

impl Unusable {
    /// As metrics have it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::NothingToTrain => "nothing_to_train",
            Self::NotRenderable => "not_renderable",
        }
    }
}
