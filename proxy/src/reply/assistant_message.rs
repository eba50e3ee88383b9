use std::collections::HashSet;

use fulgurite_backends::derive_seed;
use fulgurite_renderers::{ParseEvent, ResponseFormat, StopStrings};
use fulgurite_types::{Content, FunctionCall, Message, ToolCall};
use serde_json::{Map, Value};

use crate::reply::numbered_calls::CallNumbers;

/// More of an answer's message, as a client may see it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Delta {
    /// More reasoning.
    Reasoning(String),
    /// More of the content.
    Text(String),
    /// A call begins; calls count from 0.
    ToolCall { index: usize, id: String, name: String },
    /// More of the JSON text of a call's arguments.
    Arguments { index: usize, text: String },
    /// A call is malformed; after `end` the arguments that were sent of it cannot be parsed.
    Void { index: usize, end: String },
}

/// An answer's message while it is sampled. All deltas together are the message, except that malformed calls become text of
/// the message in the end. A stream cannot take back what it sent of them, but it can end their arguments so that they
/// cannot be parsed, and no client runs them.
///
/// The client's stop strings are looked for in the content alone: neither reasoning nor calls end an answer.
pub(crate) struct AssistantMessage {
    stop_strings: StopStrings,
    ids: ToolCallIds,
    reasoning: String,
    text: String,
    /// The calls in the order in which they began; none where one turned out to be broken.
    calls: Vec<Option<ParsedCall>>,
    /// Ids under which broken calls began.
    broken_ids: HashSet<String>,
    /// Whether one of them is whole.
    has_called: bool,
}

struct ParsedCall {
    id: String,
    name: String,
    arguments: String,
    /// How much of the arguments has left.
    given: usize,
}

impl ParsedCall {
    /// What may leave of the arguments. Brackets at the end stay until the call is whole: without them no JSON object
    /// can be read.
    fn release(&mut self, is_whole: bool) -> Option<String> {
        let held = |character: char| character == '}' || character.is_whitespace();
        let end = if is_whole { self.arguments.len() } else { self.arguments.trim_end_matches(held).len() };
        let leaving = self.arguments.get(self.given..end).filter(|leaving| !leaving.is_empty())?.to_owned();
        self.given = end;
        Some(leaving)
    }

    /// What leaves last of the arguments of a call that broke.
    fn void(&self) -> String {
        void_end(self.arguments.get(..self.given).unwrap_or_default())
    }
}

/// No arguments that can be parsed end in this, whatever has been sent of them: a bracket that closes nothing. Clients that
/// complete truncated JSON, or read empty text as no arguments, would run the call otherwise; the comma is for parsers that
/// stop at the first bracket that does not fit.
pub(crate) fn void_end(sent: &str) -> String {
    let (mut open, mut in_string, mut is_escaped) = (Vec::new(), false, false);
    for character in sent.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            '{' | '[' if !in_string => open.push(character),
            '}' | ']' if !in_string => drop(open.pop()),
            _ => {}
        }
    }
    let quotes = match (in_string, is_escaped) {
        (true, true) => "\"\"",
        (true, false) => "\"",
        (false, _) => "",
    };
    let bracket = if open.last() == Some(&'[') { '}' } else { ']' };
    format!("{quotes},{bracket}")
}

/// Removes calls from a conversation that a stream had sent before they turned out malformed, and that a client has kept:
/// their text is in the answer too. Their results become messages of the user, because there is no call that they could
/// answer.
pub(crate) fn drop_void_calls(messages: &mut [Message]) {
    let mut void = HashSet::new();
    for message in messages {
        void.extend(message.tool_calls.extract_if(.., |call| is_void(call)).map(|call| call.id));
        if message.role == "tool" && void.contains(&message.tool_call_id) {
            (message.role, message.tool_call_id, message.name) = ("user".to_owned(), None, None);
        }
    }
}

/// Whether a call's arguments are those that a stream sent of a malformed call.
pub(crate) fn is_void(call: &ToolCall) -> bool {
    let Some(arguments) = call.function.arguments.as_str() else { return false };
    let sent = [",]", ",}"].iter().find_map(|end| arguments.strip_suffix(end));
    sent.is_some_and(|sent| arguments.strip_prefix(sent) == Some(&void_end(sent)))
}

impl AssistantMessage {
    /// An empty message.
    pub(crate) fn new(stop_strings: Vec<String>, ids: ToolCallIds) -> Self {
        Self {
            stop_strings: StopStrings::new(stop_strings),
            ids,
            reasoning: String::new(),
            text: String::new(),
            calls: Vec::new(),
            broken_ids: HashSet::new(),
            has_called: false,
        }
    }

    /// Adds what became certain, and gives what may leave. Behind a stop string nothing counts.
    pub(crate) fn take(&mut self, event: ParseEvent) -> impl Iterator<Item = Delta> + use<> {
        let void = match event {
            ParseEvent::BrokenToolCall { index: Some(index), .. } => self.void(index),
            _ => None,
        };
        void.into_iter().chain(self.add(event))
    }

    /// Removes a malformed call; returns the text that makes the arguments that were sent unparsable.
    fn void(&mut self, index: usize) -> Option<Delta> {
        let broken = self.calls.get_mut(index)?.take()?;
        let end = broken.void();
        self.broken_ids.insert(broken.id);
        Some(Delta::Void { index, end })
    }

    fn add(&mut self, event: ParseEvent) -> Option<Delta> {
        if self.has_stopped() {
            return None;
        }
        match event {
            ParseEvent::Reasoning(text) => {
                self.reasoning.push_str(&text);
                Some(Delta::Reasoning(text))
            }
            ParseEvent::Text(text) => {
                let text = self.stop_strings.feed(text).text;
                self.text_delta(text)
            }
            ParseEvent::ToolCall { index, id, name } => {
                let id = self.ids.choose(index, id, &self.calls, &self.broken_ids);
                let call = ParsedCall { id: id.clone(), name: name.clone(), arguments: String::new(), given: 0 };
                self.calls.push(Some(call));
                Some(Delta::ToolCall { index, id, name })
            }
            ParseEvent::Arguments { index, delta } => {
                let call = self.call(index)?;
                call.arguments.push_str(&delta);
                call.release(false).map(|text| Delta::Arguments { index, text })
            }
            ParseEvent::ToolCallEnd { index } => {
                let rest = self.call(index)?.release(true);
                self.has_called = true;
                rest.map(|text| Delta::Arguments { index, text })
            }
            ParseEvent::BrokenToolCall { text, .. } => self.add(ParseEvent::Text(text)),
        }
    }

    /// Releases text that was held back because a stop string might have started with it.
    pub(crate) fn finish(&mut self) -> Option<Delta> {
        let held = self.stop_strings.finish();
        self.text_delta(held)
    }

    /// Whether a call is whole.
    pub(crate) fn has_called(&self) -> bool {
        self.has_called
    }

    /// Whether a stop string has been found.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stop_string().is_some()
    }

    /// The stop string that has been found.
    pub(crate) fn stop_string(&self) -> Option<&str> {
        self.stop_strings.matched()
    }

    /// The assistant's message in OpenAI's shape.
    pub(crate) fn into_message(self) -> Message {
        let tool_calls = self.calls.into_iter().flatten().map(tool_call).collect();
        assistant_message(self.reasoning, self.text, tool_calls)
    }

    fn text_delta(&mut self, text: String) -> Option<Delta> {
        self.text.push_str(&text);
        (!text.is_empty()).then_some(Delta::Text(text))
    }

    fn call(&mut self, index: usize) -> Option<&mut ParsedCall> {
        self.calls.get_mut(index)?.as_mut()
    }
}

/// A message of the assistant. One of nothing but calls or reasoning has no content.
pub(crate) fn assistant_message(reasoning: String, text: String, tool_calls: Vec<ToolCall>) -> Message {
    let is_silent = text.is_empty() && !(reasoning.is_empty() && tool_calls.is_empty());
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

fn tool_call(call: ParsedCall) -> ToolCall {
    let function = FunctionCall { name: call.name, arguments: Value::String(call.arguments), extra: Map::new() };
    ToolCall { id: Some(call.id), call_type: "function".to_owned(), function, extra: Map::new() }
}

/// What the ids of an answer's calls are made of. A rollout that is run again gives its calls the same ids, so that
/// prompts in which they are written are the same again.
pub(crate) struct ToolCallIds {
    /// The model call's seed.
    pub(crate) seed: u64,
    /// Tells calls of the same seed apart, which clients that bring their own make.
    pub(crate) request_digest: String,
    pub(crate) format: ResponseFormat,
    /// The calls of the conversation before, where ids are places in it.
    pub(crate) numbers: Option<CallNumbers>,
}

impl ToolCallIds {
    /// The id of a call: the model's own in the format that is built on them, unless an earlier call has it, be it one
    /// that broke.
    fn choose(
        &self,
        index: usize,
        sampled: Option<String>,
        earlier: &[Option<ParsedCall>],
        broken_ids: &HashSet<String>,
    ) -> String {
        let is_free = |id: &String| !broken_ids.contains(id) && !earlier.iter().flatten().any(|call| call.id == *id);
        let own = sampled.filter(|id| self.format == ResponseFormat::Kimi && is_free(id));
        own.unwrap_or_else(|| match &self.numbers {
            Some(numbers) => numbers.id_after(earlier.iter().flatten().count()),
            None => {
                let parts = ["tool call", &self.request_digest, &index.to_string()];
                format!("call_{:016x}", derive_seed(self.seed, &parts))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(format: ResponseFormat, stop_strings: &[&str]) -> AssistantMessage {
        let ids = ToolCallIds { seed: 1, request_digest: "d".to_owned(), format, numbers: None };
        AssistantMessage::new(stop_strings.iter().map(|stop| (*stop).to_owned()).collect(), ids)
    }

    /// What leaves at an event, which is one delta at most.
    fn take(reply: &mut AssistantMessage, event: ParseEvent) -> Option<Delta> {
        let mut leaving = reply.take(event);
        let first = leaving.next();
        assert_eq!(leaving.next(), None);
        first
    }

    fn begins(index: usize, id: Option<&str>) -> ParseEvent {
        ParseEvent::ToolCall { index, id: id.map(str::to_owned), name: "f".to_owned() }
    }

    fn arguments(index: usize, delta: &str) -> ParseEvent {
        ParseEvent::Arguments { index, delta: delta.to_owned() }
    }

    fn broken(index: Option<usize>, text: &str) -> ParseEvent {
        ParseEvent::BrokenToolCall { index, text: text.to_owned(), error: "it is".to_owned() }
    }

    #[test]
    fn arguments_of_a_call_that_broke_end_in_what_closes_nothing() {
        for (sent, end) in [
            ("", ",]"),
            ("{", ",]"),
            ("{\"a\": [1", ",}"),
            ("{\"a\": \"[", "\",]"),
            ("{\"a\": \"b\\", "\"\",]"),
            ("{\"a\": \"\\\"[{\", \"b\": [[]", ",}"),
        ] {
            assert_eq!(void_end(sent), end, "{sent}");
            let call = |arguments: String| -> ToolCall {
                serde_json::from_value(json!({ "id": "c", "function": { "name": "f", "arguments": arguments } }))
                    .unwrap()
            };
            assert!(is_void(&call(format!("{sent}{end}"))) && !is_void(&call(sent.to_owned())), "{sent}");
        }
        let mut reply = reply(ResponseFormat::QwenJson, &[]);
        let events = [begins(0, None), arguments(0, "{\"a\": 2}"), broken(Some(0), "text")];
        let deltas: Vec<Delta> = events.into_iter().flat_map(|event| reply.take(event)).collect();
        assert_eq!(deltas[2..], [Delta::Void { index: 0, end: ",]".to_owned() }, Delta::Text("text".to_owned()),]);
    }

    #[test]
    fn calls_that_broke_are_taken_out_of_a_history_and_what_came_of_them_is_said() {
        let conversation = json!([
            { "role": "assistant", "content": "a", "tool_calls": [
                { "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{}" } },
                { "id": "c2", "type": "function", "function": { "name": "f", "arguments": "{\"b\": 1,]" } },
            ] },
            { "role": "tool", "tool_call_id": "c2", "content": "no JSON" },
            { "role": "tool", "tool_call_id": "c1", "content": "yes" },
        ]);
        let mut messages: Vec<Message> = serde_json::from_value(conversation.clone()).unwrap();
        drop_void_calls(&mut messages);
        let mut expected = conversation;
        expected[0]["tool_calls"].as_array_mut().unwrap().pop();
        expected[1] = json!({ "role": "user", "content": "no JSON" });
        let expected: Vec<Message> = serde_json::from_value(expected).unwrap();
        assert_eq!(messages, expected);
    }

    fn given_arguments(deltas: &[Delta]) -> String {
        let text = |delta: &Delta| match delta {
            Delta::Arguments { text, .. } => Some(text.clone()),
            _ => None,
        };
        deltas.iter().filter_map(text).collect()
    }

    #[test]
    fn arguments_leave_as_they_come_but_for_the_end_that_makes_them_whole() {
        let mut reply = reply(ResponseFormat::QwenJson, &[]);
        take(&mut reply, begins(0, None));
        let mut given = |event| match take(&mut reply, event) {
            Some(Delta::Arguments { index: 0, text }) => Some(text),
            None => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(given(arguments(0, "{\"a\": {\"b\"")).as_deref(), Some("{\"a\": {\"b\""));
        assert_eq!(given(arguments(0, ": 1}")).as_deref(), Some(": 1"));
        assert_eq!(given(arguments(0, "} ")), None);
        assert_eq!(given(ParseEvent::ToolCallEnd { index: 0 }).as_deref(), Some("}} "));
        assert_eq!(reply.into_message().tool_calls[0].function.arguments, "{\"a\": {\"b\": 1}} ");
    }

    #[test]
    fn what_was_told_of_a_broken_call_cannot_be_run_and_its_text_is_content() {
        for sent in ["{}", "{\"a\": {}}", "{\"a\": 1}}", "{} {\"b\": 2}", "{\"a\": 1}\n}\n"] {
            let mut reply = reply(ResponseFormat::QwenJson, &[]);
            let pieces = sent.char_indices().map(|(at, character)| arguments(0, &sent[at..at + character.len_utf8()]));
            let events = [begins(0, None)].into_iter().chain(pieces).chain([broken(Some(0), "<call>")]);
            let deltas: Vec<Delta> = events.flat_map(|event| reply.take(event)).collect();
            assert!(serde_json::from_str::<Value>(&given_arguments(&deltas)).is_err(), "{sent}");
            assert_eq!(deltas.last(), Some(&Delta::Text("<call>".to_owned())));
            // The next call keeps its place in the stream.
            take(&mut reply, begins(1, None));
            take(&mut reply, arguments(1, "{}"));
            assert_eq!(
                take(&mut reply, ParseEvent::ToolCallEnd { index: 1 }),
                Some(Delta::Arguments { index: 1, text: "}".into() })
            );
            let message = reply.into_message();
            assert_eq!((message.tool_calls.len(), message.plain_text(0).unwrap().as_str()), (1, "<call>"));
        }
    }

    #[test]
    fn ids_are_the_models_own_where_the_format_has_them_and_never_twice() {
        let ids = |format: ResponseFormat| {
            let mut reply = reply(format, &[]);
            for (index, id) in [Some("functions.f:0"), Some("functions.f:0"), None].into_iter().enumerate() {
                take(&mut reply, begins(index, id));
            }
            reply.into_message().tool_calls.into_iter().filter_map(|call| call.id).collect::<Vec<_>>()
        };
        let (kimi, qwen) = (ids(ResponseFormat::Kimi), ids(ResponseFormat::QwenJson));
        assert_eq!(kimi[0], "functions.f:0");
        assert_eq!(kimi[1..], qwen[1..]);
        let mut all = [&kimi[..1], &qwen[..]].concat();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 4, "{all:?}");
    }

    #[test]
    fn a_call_behind_a_broken_one_has_an_id_of_its_own() {
        let mut reply = reply(ResponseFormat::Kimi, &[]);
        for event in [begins(0, Some("functions.f:0")), broken(Some(0), "<call>"), begins(1, Some("functions.f:0"))] {
            reply.take(event).for_each(drop);
        }
        let call = reply.into_message().tool_calls.remove(0);
        assert!(call.id.is_some_and(|id| id != "functions.f:0"));
    }

    #[test]
    fn a_stop_string_is_looked_for_in_the_content_alone_and_ends_it() {
        let mut reply = reply(ResponseFormat::QwenJson, &["END"]);
        let text = |text: &str| ParseEvent::Text(text.to_owned());
        assert!(take(&mut reply, ParseEvent::Reasoning("END".to_owned())).is_some());
        assert_eq!(take(&mut reply, text("aE")), Some(Delta::Text("a".to_owned())));
        take(&mut reply, begins(0, None));
        take(&mut reply, arguments(0, "{\"x\": \"END\"}"));
        take(&mut reply, ParseEvent::ToolCallEnd { index: 0 });
        assert!(!reply.has_stopped());
        // Text before and after a call is one text.
        assert_eq!(take(&mut reply, text("ND b")), None);
        assert!(reply.has_stopped());
        assert_eq!(take(&mut reply, begins(1, None)), None);
        assert_eq!(reply.finish(), None);
        let message = reply.into_message();
        assert_eq!((message.tool_calls.len(), message.plain_text(0).unwrap().as_str()), (1, "a"));
    }

    #[test]
    fn a_message_of_calls_or_reasoning_has_no_content_and_an_empty_one_has() {
        let message = |event: Option<ParseEvent>| {
            let mut reply = reply(ResponseFormat::QwenJson, &[]);
            event.map(|event| take(&mut reply, event));
            reply.into_message()
        };
        assert_eq!(message(None).content, Some(Content::Text(String::new())));
        assert_eq!(message(Some(begins(0, None))).content, None);
        assert_eq!(message(Some(ParseEvent::Reasoning("r".to_owned()))).content, None);
    }
}
