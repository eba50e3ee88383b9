use std::ops::Range;

use serde::Serialize;
use serde_json::{Map, Value};

use fulgurite_types::{Content, FunctionCall, Message, ToolCall};

/// The model's message, parsed from its tokens. Nothing is lost: what no part covers is the format's own markup and
/// white space beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedMessage {
    /// All that was decoded up to the stop, which is not part of it. Begins with what was sampled: what the prompt
    /// ended with does not stand here.
    pub text: String,
    /// Its parts, in the order in which they were sampled; they do not overlap.
    pub parts: Vec<ParsedPart>,
    /// How the message ended.
    pub termination: Termination,
    /// How many tokens were sampled after the stop; they are not read.
    pub tokens_after_stop: usize,
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedPart {
    /// The bytes of [`ParsedMessage::text`] that it was read from. Of reasoning and text this is the content itself.
    pub range: Range<usize>,
    /// What it is.
    pub content: PartContent,
}

/// What a part of a message is.
#[derive(Clone, Debug, PartialEq)]
pub enum PartContent {
    /// What the model thought.
    Reasoning,
    /// Its message.
    Text,
    /// A call that it makes.
    ToolCall {
        /// Names the call, in formats that do.
        id: Option<String>,
        /// What is called.
        name: String,
        /// The arguments; always an object.
        arguments: Value,
        /// The arguments as JSON text: as sampled, or where the format does not write JSON, written from it.
        raw_arguments: String,
    },
    /// What was meant to be a call and cannot be read as one.
    BrokenToolCall {
        /// What is wrong with it.
        error: String,
    },
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// By the format's own token or text.
    StopSequence,
    /// By the tokenizer's end of text, in a format that has a stop text of its own.
    Eos,
    /// Not at all, as when it was cut off.
    Malformed,
}

impl ParsedMessage {
    /// The text that a part was read from.
    pub fn text_of(&self, part: &ParsedPart) -> &str {
        &self.text[part.range.clone()]
    }

    /// Whether the model ended the message itself.
    pub fn ended(&self) -> bool {
        self.termination != Termination::Malformed
    }

    /// The assistant's message in OpenAI's shape. Arguments are the JSON text of [`PartContent::ToolCall`]; reasoning
    /// stands in `reasoning_content`. The text of a broken call stays in the content, where the agent sees what went
    /// wrong; a message of nothing but calls or reasoning has no content.
    pub fn message(&self) -> Message {
        let (mut text, mut reasoning, mut tool_calls) = (String::new(), String::new(), Vec::new());
        for part in &self.parts {
            match &part.content {
                PartContent::Reasoning => reasoning.push_str(self.text_of(part)),
                PartContent::Text | PartContent::BrokenToolCall { .. } => text.push_str(self.text_of(part)),
                PartContent::ToolCall { id, name, raw_arguments, .. } => {
                    tool_calls.push(tool_call(id.clone(), name.clone(), raw_arguments.clone()));
                }
            }
        }
        let is_silent = text.is_empty() && !self.parts.is_empty();
        let mut extra = Map::new();
        if !reasoning.is_empty() {
            extra.insert("reasoning_content".to_owned(), reasoning.into());
        }
        Message {
            role: "assistant".to_owned(),
            content: (!is_silent).then_some(Content::Text(text)),
            tool_calls,
            extra,
            ..Message::default()
        }
    }
}

fn tool_call(id: Option<String>, name: String, arguments: String) -> ToolCall {
    let function = FunctionCall { name, arguments: arguments.into(), extra: Map::new() };
    ToolCall { id, call_type: "function".to_owned(), function, extra: Map::new() }
}
