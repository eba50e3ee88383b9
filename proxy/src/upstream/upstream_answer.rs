use fulgurite_types::{FunctionCall, MendedJson, Message, ToolCall};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::route::Route;
use crate::reply::assistant_message::assistant_message;
use crate::requests::exact_json::{ExactValues, Step, value_or_text};

/// An upstream's whole answer, in any dialect.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// The upstream's id of it.
    pub(super) id: Option<String>,
    /// The upstream's name of the model.
    pub(super) model: Option<String>,
    pub(super) choices: Vec<Choice>,
    pub(super) usage: Usage,
    /// Of the first choice, if the upstream sends them.
    pub(super) tokens: Option<Tokens>,
}

/// One of the answers to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) message: Message,
    /// Why it ended, as OpenAI's finish reason where there is one for it; `None` if it did not.
    pub(super) finish_reason: Option<String>,
}

/// Tokens as the upstream counts them; those that it does not count are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// All of the prompt.
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    /// Those of the prompt that a cache had.
    pub(super) cached: Option<u64>,
}

/// Tokens as vLLM sends them where token ids are requested.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tokens {
    pub(super) prompt: Vec<u32>,
    pub(super) sampled: Vec<u32>,
    /// One for each that was sampled.
    pub(super) logprobs: Option<Vec<f32>>,
}

/// Where the inputs of calls stand in an answer of Anthropic's.
const CALL_INPUTS: &[Step] = &[Step::Field(&["content"]), Step::Items, Step::Field(&["input"])];

impl Answer {
    /// Reads the bytes of a whole answer, whose calls keep the digits of their integers; `None` for what is none.
    pub(super) fn parse(route: Route, body: &[u8]) -> Option<Self> {
        let mended = MendedJson::of(body);
        let body = mended.as_ref().map_or(body, |mended| &mended.text);
        let mut reply: Value = serde_json::from_slice(body).ok()?;
        let exact = ExactValues::read(body, &[CALL_INPUTS]);
        let blocks = reply.get_mut("content").and_then(Value::as_array_mut);
        for (index, block) in blocks.into_iter().flatten().enumerate() {
            let input = exact.get(&format!("content[{index}].input")).map(value_or_text);
            if let (Some(input), Some(block)) = (input, block.as_object_mut()) {
                block.insert("input".to_owned(), input);
            }
        }
        Self::read(route, &reply)
    }

    /// Reads a whole answer; `None` for what is none. The input of a call may be its text.
    pub(super) fn read(route: Route, reply: &Value) -> Option<Self> {
        let choices = match route {
            Route::ChatCompletions => each(&reply["choices"], chat_choice)?,
            Route::Completions => each(&reply["choices"], text_choice)?,
            Route::Messages => vec![message(reply)?],
            Route::Responses => vec![response(reply)?],
            Route::Compaction => vec![compaction(reply)?],
            Route::Embeddings => reply["data"].as_array().map(|_| Vec::new())?,
            Route::CountTokens => Vec::new(),
        };
        Some(Self {
            id: text(&reply["id"]),
            model: text(&reply["model"]),
            choices,
            usage: Usage::read(&reply["usage"]),
            tokens: Tokens::read(reply),
        })
    }
}

fn each(choices: &Value, read: fn(&Value) -> Option<Choice>) -> Option<Vec<Choice>> {
    let choices: Vec<Choice> = choices.as_array()?.iter().map(read).collect::<Option<_>>()?;
    (!choices.is_empty()).then_some(choices)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A choice of a chat. Calls that name no function stay as they came, as does a message that no chat can have.
fn chat_choice(choice: &Value) -> Option<Choice> {
    let mut fields = choice["message"].as_object()?.clone();
    fields.entry("role").or_insert_with(|| json!("assistant"));
    let mut others = Vec::new();
    if let Some(Value::Array(calls)) = fields.get_mut("tool_calls") {
        others.extend(calls.extract_if(.., |call| ToolCall::deserialize(&*call).is_err()));
    }
    let message = match Message::deserialize(&Value::Object(fields)) {
        Ok(message) => with_others(message, others),
        Err(_) => Pieces { others: vec![choice["message"].clone()], ..Pieces::default() }.into_message(),
    };
    Some(Choice { message, finish_reason: text(&choice["finish_reason"]) })
}

fn text_choice(choice: &Value) -> Option<Choice> {
    let message = assistant_message(String::new(), choice["text"].as_str()?.to_owned(), Vec::new());
    Some(Choice { message, finish_reason: text(&choice["finish_reason"]) })
}

/// The pieces of an answer as one message of a chat.
#[derive(Default)]
struct Pieces {
    reasoning: String,
    text: String,
    calls: Vec<ToolCall>,
    /// Those that a chat has no place for, as they came.
    others: Vec<Value>,
}

impl Pieces {
    fn call(&mut self, id: &Value, name: &Value, arguments: Value) {
        let function =
            FunctionCall { name: name.as_str().unwrap_or_default().to_owned(), arguments, extra: Map::new() };
        self.calls.push(ToolCall { id: text(id), call_type: "function".to_owned(), function, extra: Map::new() });
    }

    fn into_message(self) -> Message {
        with_others(assistant_message(self.reasoning, self.text, self.calls), self.others)
    }
}

/// A message with what a chat has no place for.
fn with_others(mut message: Message, others: Vec<Value>) -> Message {
    if !others.is_empty() {
        message.extra.insert("other_parts".to_owned(), Value::Array(others));
    }
    message
}

/// A message of Anthropic's.
fn message(reply: &Value) -> Option<Choice> {
    let mut pieces = Pieces::default();
    for block in reply["content"].as_array()? {
        match block["type"].as_str() {
            Some("text") => pieces.text.push_str(block["text"].as_str().unwrap_or_default()),
            Some("thinking") => pieces.reasoning.push_str(block["thinking"].as_str().unwrap_or_default()),
            Some("tool_use") => {
                let input = block["input"].as_str().map_or_else(|| block["input"].to_string(), str::to_owned);
                pieces.call(&block["id"], &block["name"], input.into());
            }
            _ => pieces.others.push(block.clone()),
        }
    }
    let reason = reply["stop_reason"].as_str().map(|reason| match reason {
        "end_turn" | "stop_sequence" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" | "model_context_window_exceeded" => "length",
        other => other,
    });
    Some(Choice { message: pieces.into_message(), finish_reason: reason.map(str::to_owned) })
}

/// A response of the Responses API.
fn response(reply: &Value) -> Option<Choice> {
    let mut pieces = Pieces::default();
    for item in reply["output"].as_array()? {
        let parts = |field: &str| item[field].as_array().cloned().unwrap_or_default();
        match item["type"].as_str() {
            Some("message") => {
                for part in parts("content") {
                    let text = part["text"].as_str().or_else(|| part["refusal"].as_str());
                    pieces.text.push_str(text.unwrap_or_default());
                }
            }
            Some("reasoning") => {
                for part in parts("content").iter().chain(&parts("summary")) {
                    pieces.reasoning.push_str(part["text"].as_str().unwrap_or_default());
                }
            }
            Some("function_call") => pieces.call(&item["call_id"], &item["name"], item["arguments"].clone()),
            _ => pieces.others.push(item.clone()),
        }
    }
    let has_calls = !pieces.calls.is_empty();
    let reason = match reply["status"].as_str() {
        Some("completed") if has_calls => Some("tool_calls"),
        Some("completed") => Some("stop"),
        Some("incomplete") => match reply["incomplete_details"]["reason"].as_str() {
            Some("max_output_tokens") | None => Some("length"),
            other => other,
        },
        Some("in_progress") | None => None,
        other => other,
    };
    Some(Choice { message: pieces.into_message(), finish_reason: reason.map(str::to_owned) })
}

/// A compaction, but for what it keeps of the request. Nobody but its server can read it.
fn compaction(reply: &Value) -> Option<Choice> {
    let others = reply["output"].as_array()?.iter().filter(|item| item["type"] != "message").cloned().collect();
    let message = Pieces { others, ..Pieces::default() }.into_message();
    Some(Choice { message, finish_reason: Some("stop".to_owned()) })
}

impl Usage {
    /// Reads the token counts of any dialect. Anthropic's parts of a prompt add up to the prompt; in OpenAI's count they
    /// are contained.
    fn read(usage: &Value) -> Self {
        let count = |pointers: &[&str]| pointers.iter().find_map(|pointer| usage.pointer(pointer)?.as_u64());
        let parts = ["/cache_read_input_tokens", "/cache_creation_input_tokens"];
        let parts_sum = || parts.iter().filter_map(|part| usage.pointer(part)?.as_u64()).sum::<u64>();
        Self {
            input: count(&["/prompt_tokens"]).or_else(|| Some(count(&["/input_tokens"])? + parts_sum())),
            output: count(&["/completion_tokens", "/output_tokens"]),
            cached: count(&[
                "/cache_read_input_tokens",
                "/prompt_tokens_details/cached_tokens",
                "/input_tokens_details/cached_tokens",
            ]),
        }
    }
}

impl Tokens {
    fn read(reply: &Value) -> Option<Self> {
        let choice = &reply["choices"][0];
        let ids = |value: &Value| serde_json::from_value::<Vec<u32>>(value.clone()).ok().filter(|ids| !ids.is_empty());
        let sampled = ids(&choice["token_ids"])?;
        let logprobs = match (&choice["logprobs"]["content"], &choice["logprobs"]["token_logprobs"]) {
            (Value::Array(content), _) => content.iter().map(|token| token["logprob"].as_f64()).collect(),
            (_, Value::Array(values)) => values.iter().map(Value::as_f64).collect(),
            _ => None,
        };
        let logprobs: Option<Vec<f64>> = logprobs;
        Some(Self {
            prompt: ids(&reply["prompt_token_ids"]).or_else(|| ids(&choice["prompt_token_ids"]))?,
            logprobs: logprobs
                .filter(|logprobs| logprobs.len() == sampled.len())
                .map(|logprobs| logprobs.into_iter().map(|logprob| logprob as f32).collect()),
            sampled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(route: Route, reply: Value) -> Answer {
        Answer::read(route, &reply).unwrap()
    }

    #[test]
    fn a_chats_answers_keep_what_is_not_known_of_them() {
        let answer = read(
            Route::ChatCompletions,
            json!({ "id": "chatcmpl-1", "model": "gpt", "choices": [
                { "message": { "role": "assistant", "content": "hi", "refusal": null, "mood": "fine" }, "finish_reason": "stop" },
                { "message": { "content": null, "tool_calls": [
                    { "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } },
                ] }, "finish_reason": "tool_calls" },
            ], "usage": { "prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": { "cached_tokens": 4 } } }),
        );
        assert_eq!((answer.id.as_deref(), answer.model.as_deref()), (Some("chatcmpl-1"), Some("gpt")));
        assert_eq!(answer.choices[0].message.extra["mood"], "fine");
        assert_eq!(answer.choices[1].message.tool_calls[0].function.name, "f");
        assert_eq!(answer.choices[1].finish_reason.as_deref(), Some("tool_calls"));
        assert_eq!(answer.usage, Usage { input: Some(9), output: Some(2), cached: Some(4) });
        assert_eq!(answer.tokens, None);
        assert_eq!(Answer::read(Route::ChatCompletions, &json!({ "error": "no" })), None);
        assert_eq!(Answer::read(Route::ChatCompletions, &json!({ "choices": [] })), None);
    }

    #[test]
    fn a_message_and_a_response_are_told_as_a_chat_would_be() {
        let from_anthropic = read(
            Route::Messages,
            json!({ "id": "msg_1", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "s" },
                { "type": "text", "text": "a" }, { "type": "text", "text": "b" },
                { "type": "tool_use", "id": "t", "name": "f", "input": { "x": 1 } },
                { "type": "server_tool_use", "id": "s" },
            ], "stop_reason": "tool_use",
            "usage": { "input_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 1, "output_tokens": 2 } }),
        );
        let from_openai = read(
            Route::Responses,
            json!({ "id": "resp_1", "status": "completed", "output": [
                { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "hm" }] },
                { "type": "message", "content": [{ "type": "output_text", "text": "ab" }] },
                { "type": "function_call", "call_id": "t", "name": "f", "arguments": "{\"x\":1}" },
                { "type": "server_tool_use", "id": "s" },
            ], "usage": { "input_tokens": 9, "output_tokens": 2, "input_tokens_details": { "cached_tokens": 5 } } }),
        );
        assert_eq!(from_anthropic.choices, from_openai.choices);
        assert_eq!(from_anthropic.usage, from_openai.usage);
        let choice = &from_openai.choices[0];
        assert_eq!(choice.finish_reason.as_deref(), Some("tool_calls"));
        assert_eq!(choice.message.extra["reasoning_content"], "hm");
        assert_eq!(choice.message.extra["other_parts"], json!([{ "type": "server_tool_use", "id": "s" }]));
    }

    #[test]
    fn a_call_of_a_custom_tool_is_an_answer_and_kept_as_it_came() {
        let custom = json!({ "id": "c", "type": "custom", "custom": { "name": "f", "input": "x = 1" } });
        let function = json!({ "id": "d", "type": "function", "function": { "name": "g", "arguments": "{}" } });
        let answer = read(
            Route::ChatCompletions,
            json!({ "choices": [{ "message": { "role": "assistant", "content": "hm", "tool_calls": [custom, function] },
                "finish_reason": "tool_calls" }], "usage": { "prompt_tokens": 9, "completion_tokens": 2 } }),
        );
        let Choice { message, finish_reason } = &answer.choices[0];
        assert_eq!((message.plain_text(0).unwrap().as_str(), finish_reason.as_deref()), ("hm", Some("tool_calls")));
        assert_eq!(json!(message.tool_calls), json!([function]));
        assert_eq!(message.extra["other_parts"], json!([custom]));
        assert_eq!(answer.usage, Usage { input: Some(9), output: Some(2), cached: None });
    }

    #[test]
    fn a_message_that_no_chat_can_have_is_an_answer_and_kept_as_it_came() {
        let odd = json!({ "role": "assistant", "content": { "said": "hm" } });
        let answer = read(Route::ChatCompletions, json!({ "choices": [{ "message": odd, "finish_reason": "stop" }] }));
        let Choice { message, finish_reason } = &answer.choices[0];
        assert_eq!((message.role.as_str(), finish_reason.as_deref()), ("assistant", Some("stop")));
        assert_eq!(message.extra["other_parts"], json!([odd]));
    }

    #[test]
    fn a_prompt_is_counted_once_where_its_cached_parts_are_in_the_count() {
        let of_litellm = json!({ "prompt_tokens": 10000, "completion_tokens": 2, "cache_read_input_tokens": 9000,
            "cache_creation_input_tokens": 500, "prompt_tokens_details": { "cached_tokens": 9000 } });
        let expected = Usage { input: Some(10000), output: Some(2), cached: Some(9000) };
        assert_eq!(Usage::read(&of_litellm), expected);
        let of_anthropic = json!({ "input_tokens": 500, "output_tokens": 2, "cache_read_input_tokens": 9000,
            "cache_creation_input_tokens": 500 });
        assert_eq!(Usage::read(&of_anthropic), expected);
    }

    #[test]
    fn every_end_has_its_name() {
        let message = |reason: &str| {
            let reply = json!({ "content": [], "stop_reason": reason });
            read(Route::Messages, reply).choices[0].finish_reason.clone().unwrap()
        };
        let reasons = ["end_turn", "stop_sequence", "max_tokens", "tool_use", "refusal"].map(message);
        assert_eq!(reasons, ["stop", "stop", "length", "tool_calls", "refusal"]);
        let response = |status: &str, why: Value| {
            let reply = json!({ "output": [], "status": status, "incomplete_details": { "reason": why } });
            read(Route::Responses, reply).choices[0].finish_reason.clone()
        };
        assert_eq!(response("incomplete", json!("max_output_tokens")).as_deref(), Some("length"));
        assert_eq!(response("incomplete", json!("content_filter")).as_deref(), Some("content_filter"));
        assert_eq!(response("in_progress", Value::Null), None);
    }

    #[test]
    fn token_ids_are_taken_where_the_upstream_tells_them() {
        let reply = json!({ "prompt_token_ids": [1, 2], "choices": [{
            "message": { "role": "assistant", "content": "x" }, "finish_reason": "stop", "token_ids": [3, 4],
            "logprobs": { "content": [{ "logprob": -0.5 }, { "logprob": -0.25 }] },
        }] });
        let tokens = Tokens { prompt: vec![1, 2], sampled: vec![3, 4], logprobs: Some(vec![-0.5, -0.25]) };
        assert_eq!(read(Route::ChatCompletions, reply.clone()).tokens, Some(tokens.clone()));
        let mut short = reply;
        short["choices"][0]["logprobs"]["content"] = json!([{ "logprob": -0.5 }]);
        assert_eq!(read(Route::ChatCompletions, short).tokens, Some(Tokens { logprobs: None, ..tokens }));
    }
}
