use std::borrow::Borrow;

use fulgurite_types::Message;

use crate::{RenderError, WeightedTokens};

/// Which tokens of a conversation a supervised sequence teaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrainOnWhat {
    /// The last assistant message; what follows it is left out.
    LastAssistantMessage,
    /// Every assistant message after the last one of the user.
    LastAssistantTurn,
    /// Every assistant message.
    AllAssistantMessages,
    /// Every message of every role, without what stands before its content.
    AllMessages,
    /// Everything after the beginning of the sequence.
    AllTokens,
    /// Every message of the user and of the system.
    AllUserAndSystemMessages,
    /// The messages marked true; one mark per message.
    Customized(Vec<bool>),
}

impl TrainOnWhat {
    /// For each message, whether its content and its end are to be trained.
    ///
    /// # Errors
    /// [`RenderError::NothingToTrain`] where none is, [`RenderError::WrongNumberOfMarks`] for too few or many marks.
    pub fn trained_messages<M: Borrow<Message>>(&self, messages: &[M]) -> Result<Vec<bool>, RenderError> {
        let messages: Vec<&Message> = messages.iter().map(Borrow::borrow).collect();
        let last_assistant = messages.iter().rposition(|message| message.is_assistant());
        let last_user = messages.iter().rposition(|message| message.role == "user");
        let trained: Vec<bool> = match self {
            Self::Customized(marks) if marks.len() != messages.len() => {
                return Err(RenderError::WrongNumberOfMarks { marks: marks.len(), messages: messages.len() });
            }
            Self::Customized(marks) => marks.clone(),
            _ => {
                let is_trained = |(index, message): (usize, &&Message)| match self {
                    Self::LastAssistantMessage => Some(index) == last_assistant,
                    Self::LastAssistantTurn => message.is_assistant() && Some(index) > last_user,
                    Self::AllAssistantMessages => message.is_assistant(),
                    Self::AllUserAndSystemMessages => matches!(message.role.as_str(), "user" | "system"),
                    Self::AllMessages | Self::AllTokens | Self::Customized(_) => true,
                };
                messages.iter().enumerate().map(is_trained).collect()
            }
        };
        if trained.contains(&true) { Ok(trained) } else { Err(RenderError::NothingToTrain) }
    }

    /// Whether what stands before a message's content is trained too.
    pub(crate) fn trains_headers(&self) -> bool {
        *self == Self::AllTokens
    }
}

/// Where the trained messages stand, if the assistant wrote them all.
pub(crate) fn sampled_messages(messages: &[Message], trained: &[bool]) -> Option<Vec<usize>> {
    let indices: Vec<usize> = (0..messages.len()).filter(|index| trained[*index]).collect();
    indices.iter().all(|index| messages[*index].is_assistant()).then_some(indices)
}

/// Sequences that train `trained`, assistant messages in rising order: each in the context in which the model would
/// sample it. A sequence takes the one before it up where it begins with all of it.
///
/// `sample` gives the prompt that a message answers, and what the model would have sampled after it.
pub(crate) fn examples_as_sampled(
    trained: &[usize],
    sample: impl Fn(usize) -> Result<(Vec<u32>, Vec<u32>), RenderError>,
) -> Result<Vec<WeightedTokens>, RenderError> {
    let mut examples: Vec<WeightedTokens> = Vec::new();
    for message_index in trained.iter().copied() {
        let (prompt, sampled) = sample(message_index)?;
        let mut example = examples.pop_if(|before| prompt.starts_with(&before.tokens)).unwrap_or_default();
        let new = &prompt[example.tokens.len()..];
        example.extend(new, 0.0);
        example.extend(&sampled, 1.0);
        examples.push(example);
    }
    Ok(examples)
}
