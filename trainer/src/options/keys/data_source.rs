//! What a config says of data that are there.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use fulgurite_types::RolloutExpression;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::refusal::wrong;
use crate::TrainError;

/// Where conversations come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataSource {
    /// A file of JSON lines, a list in JSON, or a Parquet file; the first two may be compressed with gzip or zstd.
    pub conversations: Option<PathBuf>,
    /// How the rows are written: `auto` is by the fields of the first row, one of `messages`, `sharegpt`, `prompt_completion`
    /// and `alpaca`, or of comparisons one of `pairs`, `judged` and `labels`. `litellm` and `langfuse` are calls that these
    /// logged; `soft_targets`, of `off_policy_distillation`, were written before.
    pub form: ConversationForm,
    /// Of objectives that compare answers: such a file of comparisons (docs/how-to/preferences.md).
    pub comparisons: Option<PathBuf>,
    /// In the place of one file, several, each read so often as it says.
    pub mixture: Vec<MixedFile>,
    /// What the weights of a mixture are shares of.
    pub mixture_unit: MixtureUnit,
    /// In their place, which rollouts of the store are learnt from, token by token as they were sampled:
    /// `"reward >= 1 and mode = train"`. Where answers are compared, the best of each group against the worst.
    pub rollouts: Option<RolloutExpression>,
    /// Conversations that are scored and not trained: another such file, a share of this one between 0 and 1, or several files
    /// by name, `{ math = "math.jsonl", code = "code.jsonl" }`, each of which has metrics of its own.
    pub validation: Option<Validation>,
    /// Where `validation` is a share: the field whose rows of one value are all trained or all scored. Without it, rows of one
    /// prompt are.
    pub validation_group: Option<String>,
    /// Rows that are read at most: the first of the file that can be trained.
    pub max_rows: Option<u64>,
}

/// A file of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixedFile {
    /// Such a file as `conversations` or `comparisons` is.
    pub file: PathBuf,
    /// How its rows are written.
    #[serde(default)]
    pub form: ConversationForm,
    /// How much of an epoch is of it, beside the weights of the others: an epoch has as many rows or tokens as all files have
    /// together. A small file is then read more than once an epoch, a large one in several.
    #[serde(default)]
    pub weight: Option<f64>,
    /// In its place, how often each row of it is read in an epoch; 1 unless told otherwise.
    #[serde(default)]
    pub epochs: Option<f64>,
}

impl MixedFile {
    /// How often it is read.
    pub fn portion(&self) -> Portion {
        match self.weight {
            Some(weight) => Portion::Weight(weight),
            None => Portion::Epochs(self.epochs.unwrap_or(1.0)),
        }
    }
}

/// How often a file of a mixture is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Portion {
    /// By its weight beside those of the others.
    Weight(f64),
    /// So often in an epoch.
    Epochs(f64),
}

/// What the weights of a mixture are shares of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixtureUnit {
    /// Of rows.
    #[default]
    Rows,
    /// Of tokens that the model reads.
    Tokens,
}

/// Conversations that are not trained.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Validation {
    /// A share of the others, chosen by the run's seed.
    Share(f64),
    /// A file of their own.
    File(PathBuf),
    /// Several, each with a name that its scores have.
    Named(BTreeMap<String, PathBuf>),
}

impl<'de> Deserialize<'de> for Validation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

/// Reads the two forms of a [`Validation`].
struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Validation;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a file, a share between 0 and 1, or a table of files by name")
    }

    fn visit_f64<E: Error>(self, share: f64) -> Result<Validation, E> {
        Ok(Validation::Share(share))
    }

    fn visit_i64<E: Error>(self, share: i64) -> Result<Validation, E> {
        Ok(Validation::Share(share as f64))
    }

    fn visit_u64<E: Error>(self, share: u64) -> Result<Validation, E> {
        Ok(Validation::Share(share as f64))
    }

    fn visit_str<E: Error>(self, path: &str) -> Result<Validation, E> {
        Ok(Validation::File(path.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Validation, A::Error> {
        let mut files = BTreeMap::new();
        while let Some((name, file)) = map.next_entry()? {
            files.insert(name, file);
        }
        Ok(Validation::Named(files))
    }
}

/// How a row of conversations or comparisons is written. What others logged is text: it is tokenized anew, and nothing says
/// that these are the tokens that were sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationForm {
    /// As the fields of the first row show: one of the shapes in which data sets are published.
    #[default]
    Auto,
    /// `messages`, and perhaps `tools`, as OpenAI's fine-tuning takes them.
    Messages,
    /// ShareGPT's `conversations` of `from` and `value`.
    Sharegpt,
    /// `prompt` and `completion`, each a text or messages; the completion is trained.
    PromptCompletion,
    /// Alpaca's `instruction`, `input` and `output`.
    Alpaca,
    /// A call in LiteLLM's `StandardLoggingPayload`; its answer is trained.
    Litellm,
    /// An observation of Langfuse's; the answer of each generation is trained.
    Langfuse,
    /// Tokens, with what a teacher would say in each place: a line of `fulgurite export --what soft-targets`.
    SoftTargets,
    /// Of comparisons: `chosen` and `rejected`.
    Pairs,
    /// Of comparisons: `completion_A`, `completion_B`, and a `label` that says which is better.
    Judged,
    /// Of comparisons: `completion`, and a `label` that says whether it is good.
    Labels,
}

impl ConversationForm {
    /// As a config names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Messages => "messages",
            Self::Sharegpt => "sharegpt",
            Self::PromptCompletion => "prompt_completion",
            Self::Alpaca => "alpaca",
            Self::Litellm => "litellm",
            Self::Langfuse => "langfuse",
            Self::SoftTargets => "soft_targets",
            Self::Pairs => "pairs",
            Self::Judged => "judged",
            Self::Labels => "labels",
        }
    }

    /// The fields that its rows are known by, for people.
    pub fn fields(self) -> &'static str {
        match self {
            Self::Auto => "whatever the first row has",
            Self::Messages => "`messages`",
            Self::Sharegpt => "ShareGPT's `conversations`",
            Self::PromptCompletion => "`prompt` and `completion`",
            Self::Alpaca => "Alpaca's `instruction` and `output`",
            Self::Litellm => "LiteLLM's `messages` and `response`",
            Self::Langfuse => "Langfuse's `input` and `output`",
            Self::SoftTargets => "`sequences`",
            Self::Pairs => "`chosen` and `rejected`",
            Self::Judged => "`completion_A`, `completion_B` and `label`",
            Self::Labels => "`completion` and `label`",
        }
    }

    /// What its rows are, and how they are read, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Auto => "rows of one shape",
            Self::Messages => "conversations: `messages` of `role` and `content`",
            Self::Sharegpt => "ShareGPT conversations: `conversations` of `from` and `value`",
            Self::PromptCompletion => "prompts with completions: `completion` is trained, `prompt` is read",
            Self::Alpaca => "Alpaca instructions: `instruction` and `input` are the user's, `output` the assistant's",
            Self::Litellm => "calls that LiteLLM logged: `response` is trained",
            Self::Langfuse => "calls that Langfuse logged: `output` is trained",
            Self::SoftTargets => "soft targets: `sequences` of tokens with what a teacher would say",
            Self::Pairs => "comparisons: `chosen` is better than `rejected`",
            Self::Judged => "comparisons: `label` says which of `completion_A` and `completion_B` is better",
            Self::Labels => "single answers: `label` says whether `completion` is good",
        }
    }

    /// Whether its rows compare or judge answers.
    pub(crate) fn is_of_comparisons(self) -> bool {
        matches!(self, Self::Pairs | Self::Judged | Self::Labels)
    }

    /// Whether its rows are such that [`TrainOn`] chooses among their messages.
    fn has_messages_to_choose(self) -> bool {
        matches!(self, Self::Auto | Self::Messages | Self::Sharegpt | Self::PromptCompletion | Self::Alpaca)
    }

    /// What is trained of such conversations: of a log each call's own answer, because the answers before it have
    /// rows of their own.
    pub(crate) fn train_on(self, given: TrainOn) -> TrainOn {
        match self {
            Self::Litellm | Self::Langfuse => TrainOn::LastAssistantMessage,
            _ => given,
        }
    }
}

/// Which messages of a conversation are trained; the names are tinker-cookbook's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainOn {
    /// The last one of the assistant; what follows it is left out.
    LastAssistantMessage,
    /// Those of the assistant after the last one of the user.
    LastAssistantTurn,
    /// Every one of the assistant's.
    #[default]
    AllAssistantMessages,
    /// Every one, without what stands before its content.
    AllMessages,
    /// Everything after the beginning of the sequence.
    AllTokens,
    /// Every one of the user and of the system.
    AllUserAndSystemMessages,
    /// Those that say so.
    Customized,
}

impl TrainOn {
    /// As a config names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LastAssistantMessage => "last_assistant_message",
            Self::LastAssistantTurn => "last_assistant_turn",
            Self::AllAssistantMessages => "all_assistant_messages",
            Self::AllMessages => "all_messages",
            Self::AllTokens => "all_tokens",
            Self::AllUserAndSystemMessages => "all_user_and_system_messages",
            Self::Customized => "customized",
        }
    }
}

/// What becomes of the assistant's reasoning: of `<think>...</think>` at the beginning of a message, or of a field of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningUse {
    /// It is written as the model's template writes it, and trained with the answer.
    #[default]
    Keep,
    /// It is left out: the answer is trained alone.
    Drop,
    /// It is trained, and the answer is left to be read.
    Only,
}

/// What a batch's loss is a mean of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReduction {
    /// Of conversations: each counts the same, however long it is.
    #[default]
    PerConversation,
    /// Of tokens: each counts the same.
    PerToken,
}

/// What becomes of sequences that are longer than they may be. Written as a truth, too: `true` is `right`, `false` is `refuse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Truncation {
    /// They are rows that cannot be trained.
    #[default]
    Refuse,
    /// They lose their end.
    Right,
    /// They lose their beginning.
    Left,
}

impl Truncation {
    const NAMES: [(&'static str, Self); 3] = [("refuse", Self::Refuse), ("right", Self::Right), ("left", Self::Left)];
}

impl Serialize for Truncation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Refuse => serializer.serialize_bool(false),
            Self::Right => serializer.serialize_bool(true),
            Self::Left => serializer.serialize_str("left"),
        }
    }
}

impl<'de> Deserialize<'de> for Truncation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenTruncation)
    }
}

/// Reads the forms of a [`Truncation`].
struct WrittenTruncation;

impl Visitor<'_> for WrittenTruncation {
    type Value = Truncation;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("true, false, \"right\", \"left\" or \"refuse\"")
    }

    fn visit_bool<E: Error>(self, is_cut: bool) -> Result<Truncation, E> {
        Ok(if is_cut { Truncation::Right } else { Truncation::Refuse })
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Truncation, E> {
        let known = Truncation::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, truncation)| *truncation).ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
    }
}

/// How conversations of a batch share sequences. Written as a truth, too: `true` is `documents`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Each has sequences of its own.
    #[default]
    Off,
    /// They are computed one behind the other, and none sees another.
    Documents,
    /// They are put into sequences, in which each sees those before it.
    Concatenate,
}

impl Serialize for Packing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::Documents => serializer.serialize_bool(true),
            Self::Concatenate => serializer.serialize_str("concatenate"),
        }
    }
}

impl<'de> Deserialize<'de> for Packing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenPacking)
    }
}

/// Reads the forms of a [`Packing`].
struct WrittenPacking;

impl Visitor<'_> for WrittenPacking {
    type Value = Packing;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("true, false, \"documents\" or \"concatenate\"")
    }

    fn visit_bool<E: Error>(self, is_packed: bool) -> Result<Packing, E> {
        Ok(if is_packed { Packing::Documents } else { Packing::Off })
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Packing, E> {
        match name {
            "documents" => Ok(Packing::Documents),
            "concatenate" => Ok(Packing::Concatenate),
            _ => Err(E::invalid_value(Unexpected::Str(name), &self)),
        }
    }
}

/// What becomes of rows that cannot be trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnusableRows {
    /// The first one ends the run before it begins.
    #[default]
    Refuse,
    /// They are left out, and counted by cause.
    Skip,
}

/// Refuses to train other messages of a log than the answers that it is of.
pub(crate) fn check_form(key: &str, form: ConversationForm, train_on: TrainOn) -> Result<(), TrainError> {
    if form.has_messages_to_choose() || train_on == TrainOn::default() {
        return Ok(());
    }
    let message = match form {
        ConversationForm::SoftTargets => {
            "is of form = \"messages\": soft targets say themselves what each place counts"
        }
        _ => "is of form = \"messages\": of a log the answer of each call is trained",
    };
    wrong(key, message)
}
