use fulgurite_backends::SampledToken;
use fulgurite_renderers::{Content, Message, Tokenizer};
use serde_json::{Map, Value, json};

use crate::model_request::Endpoint;
use crate::reply_message::Delta;
use crate::token_logprobs::{entries, token_text};

/// How an endpoint writes what all of them say.
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
        };
        const TEXT: Endpoint = Endpoint {
            span_name: "openai.completion",
            operation_name: "text_completion",
            id_prefix: "cmpl-",
            prompt_field: "prompt",
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

    /// A choice of a whole answer.
    pub(crate) fn choice(self, message: &Message) -> Value {
        match self {
            Shape::Chat => {
                let mut message = json!(message);
                message["refusal"] = Value::Null;
                json!({ "message": message })
            }
            Shape::Text => json!({ "text": text_of(message) }),
        }
    }

    /// A choice of the first chunk, which says no more than that an answer has begun.
    pub(crate) fn first_chunk_choice(self) -> Value {
        match self {
            Shape::Chat => json!({ "delta": { "role": "assistant", "content": "", "refusal": null } }),
            Shape::Text => json!({ "text": "" }),
        }
    }

    /// A choice of a later chunk.
    pub(crate) fn chunk_choice(self, delta: &Delta) -> Value {
        let text = match (self, delta) {
            (Shape::Chat, delta) => return json!({ "delta": chat_delta(delta) }),
            (Shape::Text, Delta::Text(text)) => text.as_str(),
            // A completion is read as text and nothing else.
            (Shape::Text, _) => "",
        };
        json!({ "text": text })
    }

    /// A choice of the last chunk, which says no more than how the answer ended.
    pub(crate) fn last_chunk_choice(self) -> Value {
        match self {
            Shape::Chat => json!({ "delta": {} }),
            Shape::Text => json!({ "text": "" }),
        }
    }

    /// Puts the prompt's tokens where vLLM has them: beside the choices of a chat, in each choice of a completion.
    pub(crate) fn set_prompt_token_ids(self, reply: &mut Value, prompt: &[u32]) {
        match self {
            Shape::Chat => reply["prompt_token_ids"] = json!(prompt),
            Shape::Text => {
                for choice in reply["choices"].as_array_mut().into_iter().flatten() {
                    choice["prompt_token_ids"] = json!(prompt);
                }
            }
        }
    }

    /// `logprobs` of a choice, for tokens whose text begins `text_offset` characters into the answer.
    pub(crate) fn logprobs(self, tokens: &[SampledToken], tokenizer: &Tokenizer, text_offset: &mut usize) -> Value {
        match self {
            Shape::Chat => json!({ "content": entries(tokens, tokenizer), "refusal": null }),
            Shape::Text => completion_logprobs(tokens, tokenizer, text_offset),
        }
    }
}

fn text_of(message: &Message) -> &str {
    match &message.content {
        Some(Content::Text(text)) => text,
        _ => "",
    }
}

/// A chat's `delta`. A call's first says all but its arguments.
fn chat_delta(delta: &Delta) -> Value {
    match delta {
        Delta::Reasoning(text) => json!({ "reasoning_content": text }),
        Delta::Text(text) => json!({ "content": text }),
        Delta::ToolCall { index, id, name } => {
            let function = json!({ "name": name, "arguments": "" });
            json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] })
        }
        Delta::Arguments { index, text } => {
            json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] })
        }
    }
}

/// A completion's `logprobs`: lists side by side. The sampled token is always among its alternatives.
fn completion_logprobs(tokens: &[SampledToken], tokenizer: &Tokenizer, text_offset: &mut usize) -> Value {
    let (mut texts, mut logprobs, mut tops, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let with_tops = tokens.iter().any(|token| !token.top_logprobs.is_empty());
    for token in tokens {
        let text = token_text(token.id, tokenizer);
        if with_tops {
            let sampled = (token.id, token.logprob);
            let top = token.top_logprobs.iter().chain([&sampled]);
            tops.push(top.map(|(id, logprob)| (token_text(*id, tokenizer), json!(logprob))).collect::<Map<_, _>>());
        }
        offsets.push(*text_offset);
        *text_offset += text.chars().count();
        texts.push(text);
        logprobs.push(token.logprob);
    }
    json!({
        "tokens": texts,
        "token_logprobs": logprobs,
        "top_logprobs": with_tops.then_some(tops),
        "text_offset": offsets,
    })
}
