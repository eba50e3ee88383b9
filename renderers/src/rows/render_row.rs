//! A conversation as a line of JSON, and its tokens as another.

use fulgurite_types::{Message, with_long_numbers};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::RowError;
use crate::renderer::Renderer;
use crate::supervised::train_on_what::TrainOnWhat;
use crate::supervised::weighted_tokens::WeightedTokens;

/// So deep in a row stand values that are written as they are: schemas, and fields of messages. Their long numbers keep their
/// digits.
const OF_VALUES: usize = 3;

/// A conversation as OpenAI's clients send it, or with its tools bare and the system prompt apart.
#[derive(Debug, Deserialize)]
struct RenderRow {
    messages: Vec<Message>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    /// Stands before the messages as the system's where tools are declared.
    #[serde(default)]
    system_prompt_for_tools: Option<String>,
    /// Render for training, not for sampling.
    #[serde(default)]
    train_on: Option<String>,
}

/// The tokens of one row, and their text.
///
/// # Errors
/// If the line holds no conversation, or one that cannot be rendered.
pub fn render_row(renderer: &dyn Renderer, line: &[u8]) -> Result<Value, RowError> {
    let spelled = with_long_numbers(line, OF_VALUES).and_then(|spelled| serde_json::from_slice(&spelled).ok());
    let row: RenderRow = match spelled {
        Some(row) => row,
        None => serde_json::from_slice(line).map_err(RowError::NotAConversation)?,
    };
    let tools = row.tools.unwrap_or_default();
    let mut messages = row.messages;
    if let Some(system) = row.system_prompt_for_tools.filter(|_| !tools.is_empty()) {
        messages.insert(0, Message::text("system", system));
    }
    let stop = stop(renderer);
    let Some(train_on) = row.train_on else {
        let tokens = renderer.render_prompt(&messages, &tools)?.tokens;
        return Ok(json!({"text": renderer.tokenizer().decode(&tokens), "tokens": tokens, "stop": stop}));
    };
    let train_on = read_train_on(&train_on, &messages)?;
    let examples: Vec<Value> = renderer
        .render_supervised(&messages, &tools, &train_on)?
        .iter()
        .map(|example| supervised(renderer, example))
        .collect();
    // The last sequence is the whole conversation; where it is the only one, nobody has to look into the list.
    let mut out = examples.last().cloned().unwrap_or_default();
    out["stop"] = stop;
    out["examples"] = examples.into();
    Ok(out)
}

fn supervised(renderer: &dyn Renderer, example: &WeightedTokens) -> Value {
    let segments: Vec<Value> =
        example.runs().map(|(weight, tokens)| json!([weight, renderer.tokenizer().decode(tokens)])).collect();
    json!({"tokens": example.tokens, "text": renderer.tokenizer().decode(&example.tokens), "segments": segments})
}

fn stop(renderer: &dyn Renderer) -> Value {
    match renderer.stop_string() {
        Some(text) => json!([text]),
        None => json!(renderer.stop_tokens()),
    }
}

fn read_train_on(name: &str, messages: &[Message]) -> Result<TrainOnWhat, RowError> {
    Ok(match name {
        "last_assistant_message" => TrainOnWhat::LastAssistantMessage,
        "last_assistant_turn" => TrainOnWhat::LastAssistantTurn,
        "all_assistant_messages" => TrainOnWhat::AllAssistantMessages,
        "all_messages" => TrainOnWhat::AllMessages,
        "all_tokens" => TrainOnWhat::AllTokens,
        "all_user_and_system_messages" => TrainOnWhat::AllUserAndSystemMessages,
        "customized" => TrainOnWhat::Customized(messages.iter().enumerate().map(trainable).collect::<Result<_, _>>()?),
        name => return Err(RowError::UnknownTrainOn { name: name.to_owned() }),
    })
}

fn trainable((index, message): (usize, &Message)) -> Result<bool, RowError> {
    let mark = message.extra.get("trainable").and_then(Value::as_bool);
    mark.ok_or(RowError::NoMark { index })
}
