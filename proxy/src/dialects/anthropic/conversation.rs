use fulgurite_backends::{Notation, plain_words};
use fulgurite_renderers::{arguments_text, respelled_json};
use fulgurite_types::{Content, ContentPart, FunctionCall, Message, ToolCall};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::document::document_text;
use crate::dialects::field_checks::refuse;
use crate::error::ProxyError;
use crate::reply::assistant_message::{assistant_message, drop_void_calls, is_void};
use crate::requests::exact_json::{ExactValues, Step};

/// A message as it comes.
#[derive(Debug, Deserialize)]
pub(super) struct WireMessage {
    role: String,
    content: WireContent,
}

/// The content of a message, the system prompt or a tool's result.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or an array of content blocks")]
pub(super) enum WireContent {
    Text(String),
    Blocks(Vec<Map<String, Value>>),
}

/// Where the inputs of calls stand in a request.
pub(crate) const CALL_INPUTS: &[Step] =
    &[Step::Field(&["messages"]), Step::Items, Step::Field(&["content"]), Step::Items, Step::Field(&["input"])];

/// A request's conversation as Chat Completions would have it: the same conversation has the same tokens. `exact` has the
/// inputs of calls whose integers were rounded.
pub(super) fn conversation(
    system: Option<WireContent>,
    messages: Vec<WireMessage>,
    exact: &ExactValues,
) -> Result<Vec<Message>, ProxyError> {
    if messages.is_empty() {
        refuse("messages", "must hold at least one message")?;
    }
    let mut conversation = Vec::new();
    if let Some(system) = system.filter(|system| !system.is_empty()) {
        conversation.push(text_message("system", texts(system, "system")?));
    }
    let mut assistant: Option<AssistantTurn> = None;
    for (index, WireMessage { role, content }) in messages.into_iter().enumerate() {
        let field = format!("messages[{index}]");
        if role == "assistant" {
            // Messages that follow each other are one turn.
            assistant.get_or_insert_default().add(content, &field, exact)?;
            continue;
        }
        conversation.extend(assistant.take().map(AssistantTurn::into_message));
        match role.as_str() {
            "user" => add_user_turn(&mut conversation, content, &field)?,
            "system" => conversation.push(text_message("system", texts(content, &format!("{field}.content"))?)),
            _ => refuse(&format!("{field}.role"), &format!("is `{role}`; expected user, assistant or system"))?,
        }
    }
    conversation.extend(assistant.map(AssistantTurn::into_message));
    drop_void_calls(&mut conversation);
    Ok(conversation)
}

impl WireContent {
    fn is_empty(&self) -> bool {
        match self {
            WireContent::Text(text) => text.is_empty(),
            WireContent::Blocks(blocks) => blocks.is_empty(),
        }
    }
}

/// A message of texts, of which a single one is plain content.
fn text_message(role: &str, mut texts: Vec<String>) -> Message {
    let content = match texts.len() {
        0 | 1 => Content::Text(texts.pop().unwrap_or_default()),
        _ => Content::Parts(texts.into_iter().map(ContentPart::from_text).collect()),
    };
    Message { role: role.to_owned(), content: Some(content), ..Message::default() }
}

/// Content that may be nothing but text and documents of text.
fn texts_and_documents(content: WireContent, field: &str) -> Result<Vec<String>, ProxyError> {
    let blocks = match content {
        WireContent::Text(text) => return Ok(vec![text]),
        WireContent::Blocks(blocks) => blocks,
    };
    let text = |(index, fields): (usize, Map<String, Value>)| {
        let block = Block { field: format!("{field}[{index}]"), fields };
        match block.kind() {
            "text" => block.string("text"),
            "document" => document_text(&block.field, &block.fields),
            _ => Err(block.refused()),
        }
    };
    blocks.into_iter().enumerate().map(text).collect()
}

/// Content that may be nothing but text.
fn texts(content: WireContent, field: &str) -> Result<Vec<String>, ProxyError> {
    let blocks = match content {
        WireContent::Text(text) => return Ok(vec![text]),
        WireContent::Blocks(blocks) => blocks,
    };
    let text = |(index, block): (usize, Map<String, Value>)| {
        let block = Block { field: format!("{field}[{index}]"), fields: block };
        match block.kind() {
            "text" => block.string("text"),
            _ => Err(block.refused()),
        }
    };
    blocks.into_iter().enumerate().map(text).collect()
}

/// Results of tools are messages of their own; the text between them is the user's.
fn add_user_turn(conversation: &mut Vec<Message>, content: WireContent, field: &str) -> Result<(), ProxyError> {
    let blocks = match content {
        WireContent::Text(text) => {
            conversation.push(text_message("user", vec![text]));
            return Ok(());
        }
        WireContent::Blocks(blocks) => blocks,
    };
    if blocks.is_empty() {
        refuse(&format!("{field}.content"), "must hold at least one block")?;
    }
    let mut texts = Vec::new();
    for block in Block::all(blocks, field) {
        match block.kind() {
            "text" => texts.push(block.string("text")?),
            "document" => texts.push(document_text(&block.field, &block.fields)?),
            "tool_result" => {
                let before = std::mem::take(&mut texts);
                conversation.extend((!before.is_empty()).then(|| text_message("user", before)));
                conversation.push(tool_result(block)?);
            }
            _ => return Err(block.refused()),
        }
    }
    conversation.extend((!texts.is_empty()).then(|| text_message("user", texts)));
    Ok(())
}

fn tool_result(mut block: Block) -> Result<Message, ProxyError> {
    let tool_call_id = Some(block.string("tool_use_id")?);
    let texts = match block.fields.remove("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(content) => {
            let field = format!("{}.content", block.field);
            let content = serde_json::from_value(content).map_err(|error| {
                ProxyError::invalid(&field, plain_words(&error.to_string(), &field, Notation::Json))
            })?;
            texts_and_documents(content, &field)?
        }
    };
    let mut message = Message { tool_call_id, ..text_message("tool", texts) };
    if let Some(is_error) = block.fields.remove("is_error").filter(|is_error| is_error == &Value::Bool(true)) {
        message.extra.insert("is_error".to_owned(), is_error);
    }
    Ok(message)
}

/// The assistant's blocks of a turn, as one message, the same as when it was sampled.
#[derive(Default)]
struct AssistantTurn {
    reasoning: String,
    text: String,
    tool_calls: Vec<ToolCall>,
}

impl AssistantTurn {
    fn add(&mut self, content: WireContent, field: &str, exact: &ExactValues) -> Result<(), ProxyError> {
        let blocks = match content {
            WireContent::Text(text) => {
                self.text.push_str(&text);
                return Ok(());
            }
            WireContent::Blocks(blocks) => blocks,
        };
        for block in Block::all(blocks, field) {
            match block.kind() {
                "text" => self.text.push_str(&block.string("text")?),
                "thinking" => self.reasoning.push_str(&block.string("thinking")?),
                // Encrypted by another model, and unreadable here.
                "redacted_thinking" => {}
                "tool_use" => self.tool_calls.push(tool_call(block, exact)?),
                _ => return Err(block.refused()),
            }
        }
        Ok(())
    }

    fn into_message(self) -> Message {
        assistant_message(self.reasoning, self.text, self.tool_calls)
    }
}

fn tool_call(mut block: Block, exact: &ExactValues) -> Result<ToolCall, ProxyError> {
    let (id, name) = (block.string("id")?, block.string("name")?);
    let input = block.fields.remove("input").unwrap_or_else(|| Value::Object(Map::new()));
    let (is_text, is_object) = (input.is_string(), input.is_object());
    let function = FunctionCall { name, arguments: input, extra: Map::new() };
    let mut call = ToolCall { id: Some(id), call_type: "function".to_owned(), function, extra: Map::new() };
    match is_object {
        // As most models spell it, so that the call is recorded as it was when it was answered.
        true => {
            let exact = exact.get(&format!("{}.input", block.field)).and_then(respelled_json);
            let text = exact.unwrap_or_else(|| arguments_text(&call.function).into_owned());
            call.function.arguments = Value::String(text);
        }
        // Some clients keep what they could not parse.
        false if is_text && is_void(&call) => {}
        false => refuse(&format!("{}.input", block.field), "must be an object")?,
    }
    Ok(call)
}

/// A content block and its path.
struct Block {
    field: String,
    fields: Map<String, Value>,
}

impl Block {
    /// The blocks of a message.
    fn all(blocks: Vec<Map<String, Value>>, field: &str) -> impl Iterator<Item = Block> {
        let block = move |(index, fields)| Block { field: format!("{field}.content[{index}]"), fields };
        blocks.into_iter().enumerate().map(block)
    }

    fn kind(&self) -> &str {
        self.fields.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    fn string(&self, name: &str) -> Result<String, ProxyError> {
        let field = format!("{}.{name}", self.field);
        let string = self.fields.get(name).and_then(Value::as_str);
        string.map(str::to_owned).ok_or_else(|| ProxyError::invalid(&field, format!("{field} must be a string")))
    }

    /// The error for a block that is not allowed here.
    fn refused(&self) -> ProxyError {
        let field = format!("{}.type", self.field);
        let message = match self.kind() {
            "" => format!("{field} must be the block's type"),
            kind @ ("image" | "document") => format!("{field} is `{kind}`, but this model reads text alone"),
            kind => format!("{field} is `{kind}`, which cannot stand here or is not supported"),
        };
        ProxyError::invalid(&field, message)
    }
}
