//! What a config says of data that are there.

use std::fmt;
use std::path::PathBuf;

use fulgurite_types::RolloutExpression;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::refusal::wrong;
use crate::TrainError;

/// Where conversations come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataSource {
    /// A file of JSON lines, or a Parquet file.
    pub conversations: Option<PathBuf>,
    /// How the rows of conversations are written: `messages`, calls that LiteLLM or Langfuse logged, or, of
    /// `off_policy_distillation`, soft targets that were written before.
    pub form: ConversationForm,
    /// Of objectives that compare answers: a file of JSON lines, or a Parquet file (docs/how-to/preferences.md).
    pub comparisons: Option<PathBuf>,
    /// In their place, which rollouts of the store are learnt from, token by token as they were sampled:
    /// `"reward >= 1 and mode = train"`. Where answers are compared, the best of each group against the worst.
    pub rollouts: Option<RolloutExpression>,
    /// Conversations that are scored and not trained: another such file, or a share of this one between 0 and 1.
    pub validation: Option<Validation>,
}

/// Conversations that are not trained.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Validation {
    /// A share of the others, chosen by the run's seed.
    Share(f64),
    /// A file of their own.
    File(PathBuf),
}

impl<'de> Deserialize<'de> for Validation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

/// Reads the two forms of a [`Validation`].
struct Written;

impl Visitor<'_> for Written {
    type Value = Validation;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a file, or a share between 0 and 1")
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
}

/// How a row of conversations is written. What others logged is text: it is tokenized anew, and nothing says that these
/// are the tokens that were sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationForm {
    /// `messages`, and perhaps `tools`, as OpenAI's fine-tuning takes them.
    #[default]
    Messages,
    /// A call in LiteLLM's `StandardLoggingPayload`; its answer is trained.
    Litellm,
    /// An observation of Langfuse's; the answer of each generation is trained.
    Langfuse,
    /// Tokens, with what a teacher would say in each place: a line of `fulgurite export --what soft-targets`.
    SoftTargets,
}

impl ConversationForm {
    /// What is trained of such conversations: of a log each call's own answer, because the answers before it have
    /// rows of their own.
    pub(crate) fn train_on(self, given: TrainOn) -> TrainOn {
        match self {
            Self::Messages | Self::SoftTargets => given,
            Self::Litellm | Self::Langfuse => TrainOn::LastAssistantMessage,
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
    if form == ConversationForm::Messages || train_on == TrainOn::default() {
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
