use std::borrow::Cow;

use fulgurite_backends::SampledToken;
use fulgurite_renderers::Tokenizer;
use fulgurite_types::{Content, Message};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::dialects::json_text::{ObjectText, write_array, write_json};
use crate::dialects::openai::token_logprobs::{PartSpelling, TextOffset, TokenLogprobs, entries, token_text};
use crate::reply::assistant_message::Delta;
use crate::requests::model_request::{CallIds, Endpoint};

/// How an endpoint's replies are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/completions`.
    Text,
}

impl Shape {
    /// Agent-lightning's tracer calls the spans of the same endpoints by these names.
    pub(crate) fn endpoint(self) -> &'static Endpoint {
        const CHAT: Endpoint = Endpoint {
            span_name: "openai.chat.completion",
            operation_name: "chat",
            id_prefix: "chatcmpl-",
            prompt_field: "messages",
            call_ids: CallIds::Seeded,
        };
        const TEXT: Endpoint = Endpoint {
            span_name: "openai.completion",
            operation_name: "text_completion",
            id_prefix: "cmpl-",
            prompt_field: "prompt",
            call_ids: CallIds::Seeded,
        };
        match self {
            Shape::Chat => &CHAT,
            Shape::Text => &TEXT,
        }
    }

    pub(crate) fn object(self) -> &'static str {
        match self {
            Shape::Chat => "chat.completion",
            Shape::Text => "text_completion",
        }
    }

    pub(crate) fn chunk_object(self) -> &'static str {
        match self {
            Shape::Chat => "chat.completion.chunk",
            Shape::Text => "text_completion",
        }
    }

    /// The content of a choice in a whole answer.
    pub(crate) fn whole(self, message: &Message) -> ChoiceContent<'_> {
        match self {
            Shape::Chat => ChoiceContent::Message(WholeMessage { message, refusal: () }),
            Shape::Text => ChoiceContent::Text(text_of(message)),
        }
    }

    /// The content of a choice in the first chunk: only that an answer has started.
    pub(crate) fn beginning(self) -> ChoiceContent<'static> {
        match self {
            Shape::Chat => ChoiceContent::Delta(ChatDelta::Begins { role: "assistant", content: "", refusal: () }),
            Shape::Text => ChoiceContent::Text(""),
        }
    }

    /// The content of a choice in a later chunk.
    pub(crate) fn delta(self, delta: &Delta) -> ChoiceContent<'_> {
        match (self, delta) {
            (Shape::Chat, delta) => ChoiceContent::Delta(ChatDelta::of(delta)),
            (Shape::Text, Delta::Text(text)) => ChoiceContent::Text(text),
            // A completion is read as text and nothing else.
            (Shape::Text, _) => ChoiceContent::Text(""),
        }
    }

    /// The content of a choice in the last chunk: only its finish reason.
    pub(crate) fn end(self) -> ChoiceContent<'static> {
        match self {
            Shape::Chat => ChoiceContent::Delta(ChatDelta::Ends {}),
            Shape::Text => ChoiceContent::Text(""),
        }
    }

    /// `logprobs` of a choice, for tokens whose text begins `text_offset` characters into the answer.
    pub(crate) fn logprobs<'t>(
        self,
        tokens: &[&'t SampledToken],
        tokenizer: &'t Tokenizer,
        text_offset: &mut TextOffset,
    ) -> Logprobs<'t> {
        match self {
            Shape::Chat => Logprobs::Chat(entries(tokens.iter().copied(), tokenizer)),
            Shape::Text => Logprobs::Text(TextLogprobs::of(tokens, tokenizer, text_offset)),
        }
    }
}

fn text_of(message: &Message) -> &str {
    match &message.content {
        Some(Content::Text(text)) => text,
        _ => "",
    }
}

/// A choice's content, under its field's name.
#[derive(Debug)]
pub(crate) enum ChoiceContent<'s> {
    /// A chat's whole answer.
    Message(WholeMessage<'s>),
    /// More of a chat's answer.
    Delta(ChatDelta<'s>),
    /// A completion's answer, or more of it.
    Text(&'s str),
}

impl ChoiceContent<'_> {
    pub(crate) fn add_to(&self, choice: &mut ObjectText<'_>) {
        match self {
            ChoiceContent::Message(message) => choice.field("message", message),
            ChoiceContent::Delta(delta) => choice.field("delta", delta),
            ChoiceContent::Text(text) => choice.field("text", *text),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct WholeMessage<'s> {
    #[serde(flatten)]
    message: &'s Message,
    refusal: (),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum ChatDelta<'s> {
    Begins { role: &'static str, content: &'static str, refusal: () },
    Reasoning { reasoning_content: &'s str },
    Text { content: &'s str },
    ToolCall { tool_calls: [CallDelta<'s>; 1] },
    Ends {},
}

/// A call's first delta has all but its arguments.
#[derive(Debug, Serialize)]
pub(crate) struct CallDelta<'s> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'s str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    call_type: Option<&'static str>,
    function: FunctionDelta<'s>,
}

#[derive(Debug, Serialize)]
struct FunctionDelta<'s> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'s str>,
    arguments: &'s str,
}

impl<'s> ChatDelta<'s> {
    fn of(delta: &'s Delta) -> Self {
        match delta {
            Delta::Reasoning(text) => ChatDelta::Reasoning { reasoning_content: text },
            Delta::Text(text) => ChatDelta::Text { content: text },
            Delta::ToolCall { index, id, name } => {
                let function = FunctionDelta { name: Some(name), arguments: "" };
                let call = CallDelta { index: *index, id: Some(id), call_type: Some("function"), function };
                ChatDelta::ToolCall { tool_calls: [call] }
            }
            Delta::Arguments { index, text } | Delta::Void { index, end: text } => {
                let function = FunctionDelta { name: None, arguments: text };
                ChatDelta::ToolCall { tool_calls: [CallDelta { index: *index, id: None, call_type: None, function }] }
            }
        }
    }
}

/// `logprobs` of a choice.
#[derive(Debug)]
pub(crate) enum Logprobs<'t> {
    Chat(Vec<TokenLogprobs<'t>>),
    Text(TextLogprobs<'t>),
}

/// A completion's: lists side by side.
#[derive(Debug, Serialize)]
pub(crate) struct TextLogprobs<'t> {
    tokens: Vec<Cow<'t, str>>,
    token_logprobs: Vec<f64>,
    top_logprobs: Option<Vec<Map<String, Value>>>,
    text_offset: Vec<usize>,
}

impl Logprobs<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Logprobs::Chat(content) => {
                let mut logprobs = ObjectText::new(out);
                write_array(logprobs.named("content"), content, TokenLogprobs::write);
                logprobs.field("refusal", &());
                logprobs.end();
            }
            Logprobs::Text(logprobs) => write_json(out, logprobs),
        }
    }
}

impl<'t> TextLogprobs<'t> {
    /// The sampled token is always among its alternatives.
    fn of(sampled: &[&'t SampledToken], tokenizer: &'t Tokenizer, offset: &mut TextOffset) -> Self {
        let (mut tokens, mut token_logprobs, mut tops, mut text_offset) = (vec![], vec![], vec![], vec![]);
        let with_tops = sampled.iter().any(|token| !token.top_logprobs.is_empty());
        for token in sampled {
            let text = |id: u32| token_text(id, tokenizer, PartSpelling::Completion);
            if with_tops {
                let top = token.top_logprobs.iter().copied().chain([(token.id, token.logprob)]);
                tops.push(top.map(|(id, logprob)| (text(id).into_owned(), json!(logprob))).collect());
            }
            text_offset.push(offset.characters());
            offset.take(tokenizer.id_to_bytes(token.id).unwrap_or_default());
            tokens.push(text(token.id));
            token_logprobs.push(f64::from(token.logprob));
        }
        Self { tokens, token_logprobs, top_logprobs: with_tops.then_some(tops), text_offset }
    }
}
