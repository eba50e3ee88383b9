use fulgurite_types::mended_json;
use serde_json::{Map, Value, json};

use super::route::Route;
use super::upstream_answer::Answer;
use crate::requests::exact_json::value_or_text;

/// Assembles the events of a stream into the answer that would have come in one piece.
#[derive(Debug)]
pub(super) struct Assembly {
    route: Route,
    reply: Map<String, Value>,
    /// JSON text of the inputs of Anthropic's blocks, by index.
    inputs: Vec<String>,
    has_started: bool,
    has_ended: bool,
    error: Option<String>,
}

/// Strings that chunks repeat, and that are not continued.
const REPEATED_FIELDS: [&str; 6] = ["id", "type", "role", "name", "object", "finish_reason"];

impl Assembly {
    pub(super) fn new(route: Route) -> Self {
        Self { route, reply: Map::new(), inputs: Vec::new(), has_started: false, has_ended: false, error: None }
    }

    /// Takes the data of the next event.
    pub(super) fn take(&mut self, data: &str) {
        if data == "[DONE]" {
            self.has_ended = true;
            return;
        }
        // What cannot be parsed is forwarded all the same.
        let Ok(event) = serde_json::from_str::<Value>(&mended_json(data)) else { return };
        match self.route {
            Route::Messages => self.take_message_event(&event),
            Route::Responses => self.take_response_event(event),
            _ => self.take_chunk(event),
        }
    }

    /// Whether something of the answer itself has come.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Whether the event that ends every stream of the dialect has come.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the answer has ended, as far as it shows that, or failed.
    pub(super) fn is_answered(&self) -> bool {
        let answer = Answer::read(self.route, &Value::Object(self.reply.clone()));
        let has_finished = answer.is_some_and(|answer| answer.choices.iter().all(|one| one.finish_reason.is_some()));
        has_finished || self.error.is_some()
    }

    /// The upstream's error, if there is one.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The answer, as far as it has come.
    pub(super) fn into_reply(mut self) -> Value {
        for (index, input) in std::mem::take(&mut self.inputs).iter().enumerate().filter(|(_, input)| !input.is_empty())
        {
            if let Some(block) = self.block(index) {
                block.insert("input".to_owned(), value_or_text(input));
            }
        }
        Value::Object(self.reply)
    }

    fn fail(&mut self, error: &Value) {
        let words = error["message"].as_str().or_else(|| error.as_str());
        self.error = Some(words.map_or_else(|| error.to_string(), str::to_owned));
    }

    /// A chunk of a chat or a completion.
    fn take_chunk(&mut self, chunk: Value) {
        let Value::Object(mut chunk) = chunk else { return };
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return self.fail(error);
        }
        let choices = chunk.shift_remove("choices");
        for (key, value) in chunk.into_iter().filter(|(_, value)| !value.is_null()) {
            self.reply.insert(key, value);
        }
        for choice in choices.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let Value::Object(mut choice) = choice.clone() else { continue };
            self.has_started |= has_content(&choice);
            if let Some(delta) = choice.shift_remove("delta") {
                choice.insert("message".to_owned(), delta);
            }
            append(self.reply.entry("choices").or_insert(Value::Null), json!([choice]));
        }
    }

    /// An event of Anthropic's.
    fn take_message_event(&mut self, event: &Value) {
        let index = event["index"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or_default();
        match event["type"].as_str() {
            Some("message_start") => self.begin(&event["message"]),
            Some("content_block_start") => {
                put(self.reply.entry("content").or_insert(Value::Null), Some(index), event["content_block"].clone());
                self.inputs.push(String::new());
            }
            Some("content_block_delta") => {
                self.has_started = true;
                self.take_block_delta(index, &event["delta"]);
            }
            Some("message_delta") => {
                set_all(&mut self.reply, &event["delta"]);
                if let Some(usage) = self.reply.entry("usage").or_insert_with(|| json!({})).as_object_mut() {
                    set_all(usage, &event["usage"]);
                }
            }
            Some("message_stop") => self.has_ended = true,
            Some("error") => self.fail(&event["error"]),
            _ => {}
        }
    }

    fn begin(&mut self, reply: &Value) {
        if let Some(reply) = reply.as_object() {
            self.reply = reply.clone();
        }
    }

    fn block(&mut self, index: usize) -> Option<&mut Map<String, Value>> {
        self.reply.get_mut("content")?.get_mut(index)?.as_object_mut()
    }

    fn take_block_delta(&mut self, index: usize, delta: &Value) {
        if let (Some(json), Some(input)) = (delta["partial_json"].as_str(), self.inputs.get_mut(index)) {
            input.push_str(json);
        }
        let given = ["text", "thinking", "signature"].map(|field| (field.to_owned(), delta[field].clone()));
        if let Some(block) = self.block(index) {
            append_fields(block, given.into_iter().filter(|(_, value)| !value.is_null()).collect());
        }
    }

    /// An event of the Responses API.
    fn take_response_event(&mut self, mut event: Value) {
        let index = |field: &str| event[field].as_u64().and_then(|index| usize::try_from(index).ok());
        let (item, part) = (index("output_index"), index("content_index"));
        self.has_started |= event["type"].as_str().is_some_and(|kind| kind.ends_with(".delta"));
        match event["type"].as_str() {
            Some("response.created" | "response.in_progress") => self.begin(&event["response"]),
            Some("response.output_item.added" | "response.output_item.done") => {
                put(self.reply.entry("output").or_insert(Value::Null), item, event["item"].take());
            }
            Some("response.content_part.added") => {
                let content = self.item(item).map(|item| item.entry("content").or_insert(Value::Null));
                if let Some(content) = content {
                    put(content, part, event["part"].take());
                }
            }
            Some("response.output_text.delta") => {
                let text = self.item(item).and_then(|item| item.get_mut("content")?.get_mut(part?)?.get_mut("text"));
                if let Some(text) = text {
                    append(text, event["delta"].take());
                }
            }
            Some("response.function_call_arguments.delta") => {
                let arguments = self.item(item).and_then(|item| item.get_mut("arguments"));
                if let Some(arguments) = arguments {
                    append(arguments, event["delta"].take());
                }
            }
            Some("response.completed" | "response.incomplete" | "response.failed") => {
                self.begin(&event["response"]);
                self.has_ended = true;
                if let Some(error) = event["response"].get("error").filter(|error| !error.is_null()) {
                    self.fail(error);
                }
            }
            Some("error") => self.fail(&event),
            _ => {}
        }
    }

    fn item(&mut self, index: Option<usize>) -> Option<&mut Map<String, Value>> {
        self.reply.get_mut("output")?.get_mut(index?)?.as_object_mut()
    }
}

/// Whether a choice of a chunk has some of an answer: text, reasoning, or a call.
fn has_content(choice: &Map<String, Value>) -> bool {
    let is_present = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(calls) => !calls.is_empty(),
        _ => false,
    };
    let delta = choice.get("delta").and_then(Value::as_object).into_iter().flatten();
    let mut fields = delta.filter(|(name, _)| *name != "role").map(|(_, value)| value).chain(choice.get("text"));
    fields.any(is_present)
}

/// Puts an element in its place of a list, or at its end.
fn put(list: &mut Value, index: Option<usize>, element: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    match index.and_then(|index| list.get_mut(index)) {
        Some(place) => *place = element,
        None => list.push(element),
    }
}

/// Sets all fields that are given.
fn set_all(target: &mut Map<String, Value>, given: &Value) {
    let given = given.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    target.extend(given.map(|(key, value)| (key.clone(), value.clone())));
}

/// Appends to what came before: texts and lists grow, objects field by field, elements with an index each for itself, and
/// anything else is replaced. Null changes nothing.
fn append(existing: &mut Value, more: Value) {
    match (existing, more) {
        (_, Value::Null) => {}
        (Value::String(existing), Value::String(more)) => existing.push_str(&more),
        (Value::Object(existing), Value::Object(more)) => append_fields(existing, more),
        (Value::Array(existing), Value::Array(more)) => more.into_iter().for_each(|element| add(existing, element)),
        (existing @ Value::Null, Value::Array(more)) => {
            let mut list = Vec::new();
            more.into_iter().for_each(|element| add(&mut list, element));
            *existing = Value::Array(list);
        }
        (existing, more) => *existing = more,
    }
}

fn append_fields(existing: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        let is_repeated =
            REPEATED_FIELDS.contains(&key.as_str()) && value.as_str().is_some_and(|text| !text.is_empty());
        match existing.get_mut(&key) {
            Some(existing) if is_repeated => *existing = value,
            Some(existing) => append(existing, value),
            None => {
                existing.insert(key, value);
            }
        }
    }
}

fn add(list: &mut Vec<Value>, element: Value) {
    let index = element.get("index").filter(|index| index.is_u64());
    match index.and_then(|index| list.iter_mut().find(|known| known.get("index") == Some(index))) {
        Some(known) => append(known, element),
        None => list.push(element),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(route: Route, events: &[Value]) -> Assembly {
        let mut assembly = Assembly::new(route);
        events.iter().for_each(|event| assembly.take(&event.to_string()));
        assembly
    }

    #[test]
    fn chunks_make_up_the_chat_that_would_have_come_whole() {
        let chunk = |choices: Value| json!({ "id": "c1", "model": "gpt", "choices": choices, "usage": null });
        let delta = |delta: Value| chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]));
        let mut assembly = assembled(
            Route::ChatCompletions,
            &[
                delta(json!({ "role": "assistant", "content": "" })),
                delta(json!({ "reasoning_content": "h" })),
                delta(json!({ "reasoning_content": "m" })),
                delta(json!({ "content": "a" })),
                delta(json!({ "content": "b" })),
                delta(
                    json!({ "tool_calls": [{ "index": 0, "id": "t", "type": "function", "function": { "name": "f", "arguments": "" } }] }),
                ),
                delta(
                    json!({ "tool_calls": [{ "index": 1, "id": "u", "type": "function", "function": { "name": "g", "arguments": "{" } }] }),
                ),
                delta(json!({ "tool_calls": [{ "index": 0, "id": "t", "function": { "arguments": "{\"x\"" } }] })),
                delta(
                    json!({ "tool_calls": [{ "index": 0, "function": { "arguments": ":1}" } }, { "index": 1, "function": { "arguments": "}" } }] }),
                ),
                chunk(json!([{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }])),
                json!({ "id": "c1", "choices": [], "usage": { "prompt_tokens": 3, "completion_tokens": 4 } }),
            ],
        );
        assert!(!assembly.has_ended());
        assembly.take("[DONE]");
        assert!(assembly.has_ended());
        let reply = assembly.into_reply();
        let whole = json!({ "id": "c1", "model": "gpt", "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": "ab", "reasoning_content": "hm", "tool_calls": [
                { "index": 0, "id": "t", "type": "function", "function": { "name": "f", "arguments": "{\"x\":1}" } },
                { "index": 1, "id": "u", "type": "function", "function": { "name": "g", "arguments": "{}" } },
            ] },
            "finish_reason": "tool_calls",
        }], "usage": { "prompt_tokens": 3, "completion_tokens": 4 } });
        assert_eq!(Answer::read(Route::ChatCompletions, &reply), Answer::read(Route::ChatCompletions, &whole));
    }

    #[test]
    fn several_choices_and_their_tokens_stay_apart() {
        let chunk = |index: u64, text: &str, id: u32| {
            json!({ "prompt_token_ids": [7], "choices": [{ "index": index, "text": text, "token_ids": [id],
                "logprobs": { "token_logprobs": [-0.5] }, "finish_reason": null }] })
        };
        let mut last = chunk(0, "", 9);
        last["choices"][0]["finish_reason"] = json!("length");
        let events = [chunk(0, "a", 1), chunk(1, "x", 2), chunk(0, "b", 3), last];
        let reply = assembled(Route::Completions, &events).into_reply();
        let answer = Answer::read(Route::Completions, &reply).unwrap();
        let existing: Vec<_> = answer.choices.iter().map(|choice| choice.message.plain_text(0).unwrap()).collect();
        assert_eq!(existing, ["ab", "x"]);
        let tokens = answer.tokens.unwrap();
        assert_eq!((tokens.prompt, tokens.sampled, tokens.logprobs), (vec![7], vec![1, 3, 9], Some(vec![-0.5; 3])));
        assert_eq!(answer.choices[0].finish_reason.as_deref(), Some("length"));
        assert_eq!(answer.choices[1].finish_reason, None);
    }

    #[test]
    fn events_of_a_message_make_up_the_message() {
        let delta = |index: u64, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        let begins =
            |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
        let assembly = assembled(
            Route::Messages,
            &[
                json!({ "type": "message_start", "message": { "id": "msg_1", "model": "claude", "content": [],
                    "stop_reason": null, "usage": { "input_tokens": 5, "output_tokens": 1 } } }),
                json!({ "type": "ping" }),
                begins(0, json!({ "type": "thinking", "thinking": "" })),
                delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
                delta(0, json!({ "type": "signature_delta", "signature": "s" })),
                begins(1, json!({ "type": "text", "text": "" })),
                delta(1, json!({ "type": "text_delta", "text": "a" })),
                delta(1, json!({ "type": "text_delta", "text": "b" })),
                begins(2, json!({ "type": "tool_use", "id": "t", "name": "f", "input": {} })),
                delta(2, json!({ "type": "input_json_delta", "partial_json": "{\"x\":" })),
                delta(2, json!({ "type": "input_json_delta", "partial_json": " 1}" })),
                json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 9 } }),
                json!({ "type": "message_stop" }),
            ],
        );
        assert!(assembly.has_ended());
        let whole = json!({ "id": "msg_1", "model": "claude", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s" },
            { "type": "text", "text": "ab" },
            { "type": "tool_use", "id": "t", "name": "f", "input": { "x": 1 } },
        ], "stop_reason": "tool_use", "usage": { "input_tokens": 5, "output_tokens": 9 } });
        assert_eq!(assembly.into_reply(), whole);
    }

    #[test]
    fn a_response_is_known_while_it_comes_and_whole_at_its_end() {
        let created =
            json!({ "type": "response.created", "response": { "id": "r", "status": "in_progress", "output": [] } });
        let item = json!({ "type": "message", "content": [] });
        let call = json!({ "type": "function_call", "call_id": "t", "name": "f", "arguments": "" });
        let mut assembly = assembled(
            Route::Responses,
            &[
                created,
                json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
                json!({ "type": "response.content_part.added", "output_index": 0, "content_index": 0,
                    "part": { "type": "output_text", "text": "" } }),
                json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "a" }),
                json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "b" }),
                json!({ "type": "response.output_item.added", "output_index": 1, "item": call }),
                json!({ "type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{}" }),
            ],
        );
        let partly = Answer::read(Route::Responses, &json!(assembly.reply)).unwrap();
        let message = &partly.choices[0].message;
        assert_eq!((message.plain_text(0).unwrap().as_str(), partly.choices[0].finish_reason.as_deref()), ("ab", None));
        assert_eq!(message.tool_calls[0].function.arguments, "{}");
        let whole = json!({ "id": "r", "status": "completed", "output": [] });
        assembly.take(&json!({ "type": "response.completed", "response": whole.clone() }).to_string());
        assert!(assembly.has_ended() && assembly.error().is_none());
        assert_eq!(assembly.into_reply(), whole);
    }

    #[test]
    fn an_answer_begins_with_the_first_that_is_said_and_not_with_its_head() {
        let chat = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
        let text = |text: &str| json!({ "choices": [{ "index": 0, "text": text }] });
        for (route, head, first) in [
            (
                Route::ChatCompletions,
                chat(json!({ "role": "assistant", "content": "" })),
                chat(json!({ "content": "a" })),
            ),
            (
                Route::ChatCompletions,
                chat(json!({ "role": "assistant" })),
                chat(json!({ "tool_calls": [{ "index": 0 }] })),
            ),
            (Route::Completions, text(""), text("a")),
            (
                Route::Messages,
                json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
                json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "a" } }),
            ),
            (
                Route::Responses,
                json!({ "type": "response.created", "response": {} }),
                json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "a" }),
            ),
        ] {
            assert!(!assembled(route, std::slice::from_ref(&head)).has_started(), "{head}");
            assert!(assembled(route, &[head, first.clone()]).has_started(), "{first}");
        }
    }

    #[test]
    fn errors_in_a_stream_are_found_in_every_dialect() {
        let words = json!({ "message": "overloaded" });
        for (route, event) in [
            (Route::ChatCompletions, json!({ "error": words })),
            (Route::Messages, json!({ "type": "error", "error": words })),
            (Route::Responses, json!({ "type": "error", "message": "overloaded" })),
            (Route::Responses, json!({ "type": "response.failed", "response": { "error": words } })),
        ] {
            assert_eq!(assembled(route, &[event]).error(), Some("overloaded"), "{route:?}");
        }
        let mut assembly = Assembly::new(Route::ChatCompletions);
        assembly.take("no JSON");
        assert_eq!((assembly.error(), assembly.has_ended()), (None, false));
    }
}
