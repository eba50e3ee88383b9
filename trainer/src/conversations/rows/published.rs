//! Conversations in the shapes in which data sets are published.

use fulgurite_types::{Message, mended_json};
use serde_json::{Map, Value, json};

use super::conversation::{Conversation, read_tools};
use super::written_messages::{check_answer, messages_of, no_history, turn, with_system};
use crate::ConversationForm;

/// A row in one of these forms as a conversation.
pub(crate) fn conversation(form: ConversationForm, mut row: Map<String, Value>) -> Result<Conversation, String> {
    let tools = declared(read_tools(row.remove("tools"))?);
    match form {
        ConversationForm::Sharegpt => Conversation::of(sharegpt(&mut row)?, tools),
        ConversationForm::PromptCompletion => {
            no_history(&row)?;
            let mut messages = messages_of("prompt", field(&mut row, "prompt")?, "user")?;
            with_system(row.remove("system"), &mut messages)?;
            let answer = messages_of("completion", field(&mut row, "completion")?, "assistant")?;
            check_answer("completion", &answer)?;
            let prompt_length = messages.len();
            messages.extend(answer);
            Ok(Conversation { prompt_length, ..Conversation::of(messages, tools)? })
        }
        ConversationForm::Alpaca => Conversation::of(alpaca(&mut row)?, tools),
        form => Err(format!("is of form = \"{}\", which is no shape of a published conversation", form.as_str())),
    }
}

fn field(row: &mut Map<String, Value>, name: &str) -> Result<Value, String> {
    row.remove(name).filter(|value| !value.is_null()).ok_or_else(|| format!("`{name}` is missing"))
}

/// Declarations of tools in OpenAI's wrapper, which followers of ShareGPT leave away.
fn declared(tools: Vec<Value>) -> Vec<Value> {
    let wrapped = |tool: Value| match tool.get("function").is_none() && tool.get("name").is_some() {
        true => json!({ "type": "function", "function": tool }),
        false => tool,
    };
    tools.into_iter().map(wrapped).collect()
}

fn sharegpt(row: &mut Map<String, Value>) -> Result<Vec<Message>, String> {
    let name =
        if row.get("conversations").is_some_and(|value| !value.is_null()) { "conversations" } else { "conversation" };
    let list = match field(row, name)? {
        Value::String(text) => serde_json::from_str(&mended_json(&text))
            .map_err(|error| format!("`{name}` is text, and no JSON: {error}"))?,
        value => value,
    };
    let Value::Array(list) = list else { return Err(format!("`{name}` is no list of messages")) };
    let of_message =
        |(index, entry): (usize, Value)| turn(entry).map_err(|words| format!("message {index} of `{name}` {words}"));
    let mut messages = list.into_iter().enumerate().map(of_message).collect::<Result<Vec<_>, _>>()?;
    with_system(row.remove("system"), &mut messages)?;
    Ok(messages)
}

fn alpaca(row: &mut Map<String, Value>) -> Result<Vec<Message>, String> {
    let mut messages = Vec::new();
    with_system(row.remove("system"), &mut messages)?;
    for pair in history(row)? {
        let [question, answer] = pair;
        messages.extend([Message::text("user", question), Message::text("assistant", answer)]);
    }
    let instruction = text(row, &["instruction"])?.ok_or("has no `instruction`")?;
    let input = text(row, &["input", "context"])?.filter(|input| !input.trim().is_empty());
    let answer = text(row, &["output", "response"])?.ok_or("has no `output`")?;
    let question = input.map_or_else(|| instruction.clone(), |input| format!("{instruction}\n\n{input}"));
    messages.extend([Message::text("user", question), Message::text("assistant", answer)]);
    Ok(messages)
}

/// The first of these fields that there is, as text.
fn text(row: &mut Map<String, Value>, names: &[&str]) -> Result<Option<String>, String> {
    for name in names {
        match row.remove(*name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => return Ok(Some(text)),
            Some(_) => return Err(format!("`{name}` is no text")),
        }
    }
    Ok(None)
}

fn history(row: &mut Map<String, Value>) -> Result<Vec<[String; 2]>, String> {
    let history = row.remove("history").filter(|history| !history.is_null());
    serde_json::from_value(history.unwrap_or_else(|| json!([])))
        .map_err(|_| "`history` is no list of pairs of a question and its answer".to_owned())
}
