//! Conversations as they are trained, wherever they come from.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use fulgurite_renderers::WeightedTokens;
use fulgurite_types::GenerationUse;

use crate::{ConversationForm, TrainError};

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

/// A row that has been made sequences.
pub(crate) trait Rendered {
    /// Its sequences; of comparisons each with the name of its answer.
    fn named(&self) -> Vec<(Option<&'static str>, &WeightedTokens)>;

    /// Changes with the tokens before the first trained one; of a row that trains all, with these.
    fn prompt_digest(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        if let Some((_, sequence)) = self.named().first() {
            let begin = sequence.weights.iter().position(|weight| *weight > 0.0).filter(|begin| *begin > 1);
            sequence.tokens[..begin.unwrap_or(sequence.tokens.len())].hash(&mut digest);
        }
        digest.finish()
    }
}

impl Rendered for Example {
    fn named(&self) -> Vec<(Option<&'static str>, &WeightedTokens)> {
        self.sequences.iter().map(|sequence| (None, sequence)).collect()
    }
}

impl Rendered for ComparedExample {
    fn named(&self) -> Vec<(Option<&'static str>, &WeightedTokens)> {
        let chosen = self.chosen.iter().flatten().map(|sequence| (Some("chosen"), sequence));
        chosen.chain(self.rejected.iter().flatten().map(|sequence| (Some("rejected"), sequence))).collect()
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

    /// Of each cause the first row that was left out.
    fn first_skipped(&self) -> &[FirstSkipped] {
        &[]
    }

    /// Of each row what it has in common with those that are to stay together, if rows are to be divided so.
    fn groups(&self) -> Option<&[u64]> {
        None
    }

    /// What was cut off because it was too long.
    fn cut(&self) -> CutOff {
        CutOff::default()
    }

    /// Tokens of all sequences, where they were counted.
    fn tokens(&self) -> u64 {
        0
    }

    /// The forms that the rows of files were found to have, where the config leaves them open.
    fn found(&self) -> Vec<FoundForm> {
        Vec::new()
    }
}

/// The first row that was left out for a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstSkipped {
    /// As people know its file.
    pub(crate) file: PathBuf,
    pub(crate) cause: Unusable,
    /// From 1.
    pub(crate) number: u64,
    pub(crate) message: String,
    /// How many there are in the file.
    pub(crate) rows: u64,
}

/// What was cut off of sequences that were too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CutOff {
    pub(crate) sequences: u64,
    pub(crate) tokens: u64,
}

/// Counts what is cut off, of clones of a reader together.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutCount(Arc<[AtomicU64; 2]>);

impl CutCount {
    /// Counts a sequence that lost so many tokens.
    pub(crate) fn add(&self, tokens: usize) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
        self.0[1].fetch_add(tokens as u64, Ordering::Relaxed);
    }

    pub(crate) fn so_far(&self) -> CutOff {
        let [sequences, tokens] = [&self.0[0], &self.0[1]].map(|count| count.load(Ordering::Relaxed));
        CutOff { sequences, tokens }
    }
}

/// What the rows of a file were found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundForm {
    /// As people know the file.
    pub(crate) file: PathBuf,
    pub(crate) form: ConversationForm,
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
