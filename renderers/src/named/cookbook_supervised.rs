//! Sequences to train on as tinker-cookbook makes them, whether or not the model would sample what they train.

use fulgurite_types::Message;
use serde_json::Value;

use crate::formats::format::{Conversation, CookbookSplit};
use crate::named::prompt_writer::PromptWriter;
use crate::named::trained_messages::{trained_when_written, weight};
use crate::{RenderError, TrainOnWhat, WeightedTokens};

/// The sequences of a conversation, cut as the cookbook holds it for the format.
pub(crate) fn cookbook_examples(
    writer: &PromptWriter,
    messages: &[Message],
    tools: &[Value],
    train_on: &TrainOnWhat,
) -> Result<Vec<WeightedTokens>, RenderError> {
    let example = |end: usize, train_on: &TrainOnWhat| cookbook_example(writer, &messages[..end], tools, train_on);
    let cuts_messages = match (writer.format.cookbook_split(), train_on) {
        (CookbookSplit::Whole, _) => return Ok(vec![example(messages.len(), train_on)?]),
        (CookbookSplit::ByUserTurn, TrainOnWhat::LastAssistantMessage | TrainOnWhat::LastAssistantTurn) => {
            return Ok(vec![example(messages.len(), train_on)?]);
        }
        (CookbookSplit::ByUserTurn, _) => false,
        (CookbookSplit::ByMessage, _) => true,
    };
    if cuts_messages {
        let first = first_trained(writer, messages, train_on)
            .ok_or_else(|| RenderError::TrainsMoreThanAssistant { renderer: writer.name().to_owned() })?;
        let trained = (first..messages.len()).filter(|index| messages[*index].is_assistant());
        return trained.map(|index| example(index + 1, &TrainOnWhat::LastAssistantMessage)).collect();
    }
    let of_each_turn = match train_on {
        TrainOnWhat::AllAssistantMessages => &TrainOnWhat::LastAssistantTurn,
        train_on => train_on,
    };
    let users = (0..messages.len()).filter(|index| messages[*index].role == "user");
    users.skip(1).chain([messages.len()]).map(|end| example(end, of_each_turn)).collect()
}

/// From which message on those of the assistant are trained, each in a sequence of its own. None for ways to train that
/// cannot be cut.
fn first_trained(writer: &PromptWriter, messages: &[Message], train_on: &TrainOnWhat) -> Option<usize> {
    match train_on {
        TrainOnWhat::LastAssistantMessage => Some(messages.len().saturating_sub(1)),
        TrainOnWhat::LastAssistantTurn => {
            let mut roles = messages.iter().map(|message| message.role.as_str()).enumerate();
            let before = roles.rfind(|(index, role)| ends_turn(writer, *index, role));
            Some(before.map_or(0, |(before, _)| before + 1))
        }
        TrainOnWhat::AllAssistantMessages => Some(0),
        _ => None,
    }
}

/// One sequence that holds the whole conversation, the cookbook's `build_supervised_example`: the tokens of every
/// message, of which some are trained. What the prompt gives is not, if the sequence begins with it.
pub(crate) fn cookbook_example(
    writer: &PromptWriter,
    messages: &[Message],
    tools: &[Value],
    train_on: &TrainOnWhat,
) -> Result<WeightedTokens, RenderError> {
    let written = writer.written(messages, tools)?;
    let conversation = Conversation::read_sampled(&written)?.with_tools(tools)?;
    let trained = match train_on {
        TrainOnWhat::LastAssistantMessage | TrainOnWhat::LastAssistantTurn => {
            let first = match train_on {
                TrainOnWhat::LastAssistantTurn => turn_start(writer, &conversation),
                _ => written.len().saturating_sub(1),
            };
            written.iter().enumerate().map(|(index, message)| index >= first && message.is_assistant()).collect()
        }
        TrainOnWhat::Customized(_) => trained_when_written(train_on, messages, &written)?,
        train_on => match trained_when_written(train_on, messages, &written) {
            Err(RenderError::NothingToTrain) => vec![false; written.len()],
            trained => trained?,
        },
    };

    let mut example = WeightedTokens::default();
    example.extend(&writer.encode(&writer.format.beginning())?, 0.0);
    for (index, trained) in trained.into_iter().enumerate() {
        let rendered = writer.format.message(&conversation, index)?;
        example.extend(&writer.encode(&rendered.header)?, weight(train_on.trains_headers()));
        for chunk in &rendered.output {
            example.extend(&writer.encode(chunk)?, weight(trained));
        }
        if conversation.is_last(index) {
            example.extend(&writer.encode(&rendered.stop_overlap)?, weight(trained));
        }
    }
    if let Some(answer) = first_answer(&conversation, train_on) {
        // What is put in or taken out when written stands at the beginning.
        let given = answer + messages.len() - written.len();
        withhold_prompt(writer, &messages[..given], tools, &mut example)?;
    }
    Ok(example)
}

/// Whether the cookbook holds that a message ends the turn of the assistant before it.
fn ends_turn(writer: &PromptWriter, index: usize, role: &str) -> bool {
    role == "user" || (role == "system" && index > 0 && writer.format.cookbook_system_ends_turn())
}

/// Where the turn begins that a conversation ends with: after the last message of the user, in Kimi's formats after the
/// last answer before the last message.
fn turn_start(writer: &PromptWriter, conversation: &Conversation<'_>) -> usize {
    let messages = conversation.messages();
    let before = match writer.format.cookbook_split() {
        CookbookSplit::ByUserTurn => conversation.last_answer(),
        _ => {
            let mut roles =
                messages.iter().map(|message| message.role).enumerate().take(messages.len().saturating_sub(1));
            roles.rfind(|(index, role)| ends_turn(writer, *index, role)).map(|(before, _)| before)
        }
    };
    before.map_or(0, |before| before + 1)
}

/// The message of the assistant that answers the prompt before what is trained.
fn first_answer(conversation: &Conversation<'_>, train_on: &TrainOnWhat) -> Option<usize> {
    let messages = conversation.messages();
    let answer = match train_on {
        TrainOnWhat::LastAssistantMessage => messages.len().checked_sub(1)?,
        TrainOnWhat::LastAssistantTurn => conversation.last_user().map_or(0, |last_user| last_user + 1),
        _ => return None,
    };
    messages.get(answer)?.is_assistant().then_some(answer)
}

/// Trains nothing of the prompt that `prompt_messages` makes.
fn withhold_prompt(
    writer: &PromptWriter,
    prompt_messages: &[Message],
    tools: &[Value],
    example: &mut WeightedTokens,
) -> Result<(), RenderError> {
    let prompt = writer.prompt_tokens(prompt_messages, tools)?;
    if example.tokens.starts_with(&prompt) {
        example.weights[..prompt.len()].fill(0.0);
    } else if writer.format.disables_thinking() {
        let message_index = prompt_messages.len();
        return Err(RenderError::ReasoningDisabled { renderer: writer.name().to_owned(), message_index });
    }
    Ok(())
}
