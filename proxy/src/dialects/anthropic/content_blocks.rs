use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::reply::assistant_message::Delta;
use crate::requests::exact_json::exact_json;

/// An answer's content while it is sampled: blocks one after another, of which the last may be open. The events of a stream
/// are changes of it, so that a whole answer equals the sum of a stream.
///
/// A call is a block from when its name is known, and its arguments are sent as they are sampled; a stream cannot take
/// back what it sent of a call that breaks, but it ends its arguments so that they cannot be parsed. A call that is not to
/// be streamed is a block once it is whole.
pub(super) struct ContentBlocks {
    shows_thinking: bool,
    eager_calls: EagerCalls,
    blocks: Vec<Block>,
    is_open: bool,
    /// The call that has started and is not complete.
    call: Option<OpenToolUse>,
}

/// Which calls a stream sends as they are sampled, and not once they are whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EagerCalls {
    /// Those of tools that say nothing of it.
    pub(super) by_default: bool,
    /// What tools say of theirs (`eager_input_streaming`).
    pub(super) of_tools: Vec<(String, bool)>,
}

impl EagerCalls {
    fn contain(&self, tool: &str) -> bool {
        let own = self.of_tools.iter().find(|(name, _)| name == tool);
        own.map_or(self.by_default, |(_, is_eager)| *is_eager)
    }
}

struct OpenToolUse {
    id: String,
    name: String,
    arguments: String,
    /// Whether it is the open block already.
    is_block: bool,
}

#[derive(Debug)]
enum Block {
    Thinking(String),
    Text(String),
    /// `input` is none until the call is whole, and stays so if it breaks.
    ToolUse {
        id: String,
        name: String,
        input: Option<Box<RawValue>>,
    },
}

/// A block of a whole answer.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentBlock<'b> {
    Thinking { thinking: &'b str, signature: String },
    Text { text: Cow<'b, str> },
    ToolUse { id: &'b str, name: &'b str, input: &'b RawValue },
}

impl ContentBlocks {
    /// Empty content.
    pub(super) fn new(shows_thinking: bool, eager_calls: EagerCalls) -> Self {
        Self { shows_thinking, eager_calls, blocks: Vec::new(), is_open: false, call: None }
    }

    /// Takes deltas, and returns their events.
    pub(super) fn take(&mut self, delta: &Delta) -> Vec<Value> {
        let mut events = Vec::new();
        match delta {
            Delta::Reasoning(_) if !self.shows_thinking => {}
            Delta::Reasoning(text) => {
                if !self.is_open || !matches!(self.blocks.last(), Some(Block::Thinking(_))) {
                    self.start(Block::Thinking(String::new()), &mut events);
                }
                self.more(text, &mut events);
            }
            Delta::Text(text) => {
                // A malformed call continues as text.
                self.call = None;
                if !self.is_open || !matches!(self.blocks.last(), Some(Block::Text(_))) {
                    self.start(Block::Text(String::new()), &mut events);
                }
                self.more(text, &mut events);
            }
            Delta::ToolCall { id, name, .. } => self.call(id, name, &mut events),
            Delta::Arguments { text, .. } => self.argue(text, &mut events),
            Delta::Void { end, .. } => {
                if self.call.take().is_some_and(|call| call.is_block) {
                    events.push(self.json_delta(end));
                    self.stop(&mut events);
                }
            }
        }
        events
    }

    /// Ends the content. An answer of nothing is an empty text, for clients that take the first block without looking.
    pub(super) fn finish(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        if self.blocks.iter().all(Block::is_broken) {
            self.start(Block::Text(String::new()), &mut events);
        }
        self.stop(&mut events);
        events
    }

    /// All blocks but calls that broke. Text on both sides of one is one text, as it was sampled.
    pub(super) fn content(&self) -> Vec<ContentBlock<'_>> {
        let mut content: Vec<ContentBlock<'_>> = Vec::new();
        for block in self.blocks.iter().filter_map(Block::whole) {
            match (content.last_mut(), block) {
                (Some(ContentBlock::Text { text: before }), ContentBlock::Text { text }) => {
                    before.to_mut().push_str(&text);
                }
                (_, block) => content.push(block),
            }
        }
        content
    }

    fn call(&mut self, id: &str, name: &str, events: &mut Vec<Value>) {
        let is_block = self.eager_calls.contain(name);
        if is_block {
            self.start(Block::ToolUse { id: id.to_owned(), name: name.to_owned(), input: None }, events);
        }
        self.call = Some(OpenToolUse { id: id.to_owned(), name: name.to_owned(), arguments: String::new(), is_block });
    }

    /// Adds to the arguments of the call, which is whole as soon as they can be read.
    fn argue(&mut self, text: &str, events: &mut Vec<Value>) {
        let Some(call) = &mut self.call else { return };
        call.arguments.push_str(text);
        if call.is_block {
            events.push(self.json_delta(text));
        }
        let Some(call) = self.call.take_if(|call| call.arguments.trim_end().ends_with('}')) else { return };
        let Some(read) = exact_json(&call.arguments) else {
            self.call = Some(call);
            return;
        };
        let OpenToolUse { id, name, arguments, is_block } = call;
        if !is_block {
            self.start(Block::ToolUse { id, name, input: None }, events);
            events.push(self.json_delta(&arguments));
        }
        if let Some(Block::ToolUse { input, .. }) = self.blocks.last_mut() {
            *input = Some(read);
        }
        self.stop(events);
    }

    fn start(&mut self, block: Block, events: &mut Vec<Value>) {
        self.stop(events);
        let content_block = block.started();
        self.blocks.push(block);
        self.is_open = true;
        events.push(json!({ "type": "content_block_start", "index": self.index(), "content_block": content_block }));
    }

    /// Adds to the open block.
    fn more(&mut self, text: &str, events: &mut Vec<Value>) {
        let delta = match self.blocks.last_mut() {
            Some(Block::Thinking(thinking)) => {
                thinking.push_str(text);
                json!({ "type": "thinking_delta", "thinking": text })
            }
            Some(Block::Text(existing)) => {
                existing.push_str(text);
                json!({ "type": "text_delta", "text": text })
            }
            Some(Block::ToolUse { .. }) | None => return,
        };
        events.push(self.delta(delta));
    }

    /// Closes the open block, if there is one.
    fn stop(&mut self, events: &mut Vec<Value>) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        if let Some(Block::Thinking(thinking)) = self.blocks.last() {
            let delta = json!({ "type": "signature_delta", "signature": signature(thinking) });
            events.push(self.delta(delta));
        }
        events.push(json!({ "type": "content_block_stop", "index": self.index() }));
    }

    /// More of a call's arguments.
    fn json_delta(&self, text: &str) -> Value {
        self.delta(json!({ "type": "input_json_delta", "partial_json": text }))
    }

    fn delta(&self, delta: Value) -> Value {
        json!({ "type": "content_block_delta", "index": self.index(), "delta": delta })
    }

    /// The last block's.
    fn index(&self) -> usize {
        self.blocks.len().saturating_sub(1)
    }
}

impl Block {
    /// The block as a whole answer has it; `None` of a call that is not whole.
    fn whole(&self) -> Option<ContentBlock<'_>> {
        Some(match self {
            Block::Thinking(thinking) => ContentBlock::Thinking { thinking, signature: signature(thinking) },
            Block::Text(text) => ContentBlock::Text { text: text.into() },
            Block::ToolUse { id, name, input } => ContentBlock::ToolUse { id, name, input: input.as_deref()? },
        })
    }

    /// Whether it is a call that is not whole.
    fn is_broken(&self) -> bool {
        matches!(self, Block::ToolUse { input: None, .. })
    }

    /// The block as it begins, before its deltas.
    fn started(&self) -> Value {
        match self {
            Block::Thinking(_) => json!({ "type": "thinking", "thinking": "", "signature": "" }),
            Block::Text(_) => json!({ "type": "text", "text": "" }),
            Block::ToolUse { id, name, .. } => json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
        }
    }
}

/// Thinking is signed by its digest: clients drop thinking without a signature, and no server needs to verify it.
fn signature(thinking: &str) -> String {
    format!("{:x}", Sha256::digest(thinking))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> Delta {
        Delta::ToolCall { index: 0, id: "c".to_owned(), name: name.to_owned() }
    }

    fn arguments(text: &str) -> Delta {
        Delta::Arguments { index: 0, text: text.to_owned() }
    }

    fn text(text: &str) -> Delta {
        Delta::Text(text.to_owned())
    }

    /// The kinds of events, each with what it adds, and the whole content.
    fn events_and_content(deltas: &[Delta]) -> (Vec<(String, String)>, Value) {
        let eager = EagerCalls { by_default: true, of_tools: vec![("whole".to_owned(), false)] };
        let mut blocks = ContentBlocks::new(false, eager);
        let mut events: Vec<Value> = deltas.iter().flat_map(|delta| blocks.take(delta)).collect();
        events.extend(blocks.finish());
        let brief = |event: &Value| {
            let added = &event["delta"];
            let added = added.get("partial_json").or(added.get("text")).or(event["content_block"].get("type"));
            let kind = event["type"].as_str().unwrap().strip_prefix("content_block_").unwrap();
            (format!("{kind} {}", event["index"]), added.and_then(Value::as_str).unwrap_or_default().to_owned())
        };
        (events.iter().map(brief).collect(), json!(blocks.content()))
    }

    fn expected(events: &[(&str, &str)]) -> Vec<(String, String)> {
        events.iter().map(|(kind, added)| ((*kind).to_owned(), (*added).to_owned())).collect()
    }

    #[test]
    fn arguments_are_sent_as_they_come_and_their_sum_is_the_input() {
        let deltas = [text("Hm."), call("f"), arguments("{\"a\": "), arguments("{\"b\": 1"), arguments("}}")];
        let (events, content) = events_and_content(&deltas);
        let sent = [
            ("start 0", "text"),
            ("delta 0", "Hm."),
            ("stop 0", ""),
            ("start 1", "tool_use"),
            ("delta 1", "{\"a\": "),
            ("delta 1", "{\"b\": 1"),
            ("delta 1", "}}"),
            ("stop 1", ""),
        ];
        assert_eq!(events, expected(&sent));
        let called = json!({ "type": "tool_use", "id": "c", "name": "f", "input": { "a": { "b": 1 } } });
        assert_eq!(content, json!([{ "type": "text", "text": "Hm." }, called]));
    }

    #[test]
    fn integers_of_any_length_keep_their_digits() {
        let mut blocks = ContentBlocks::new(false, EagerCalls::default());
        let deltas = [call("f"), arguments("{\"n\":"), arguments("123456789012345678901234567890}")];
        deltas.iter().for_each(|delta| drop(blocks.take(delta)));
        blocks.finish();
        let content = serde_json::to_string(&blocks.content()).unwrap();
        let input = "{\"n\": 123456789012345678901234567890}";
        assert_eq!(content, format!("[{{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{input}}}]"));
    }

    #[test]
    fn a_call_that_broke_ends_so_that_nobody_can_read_it_and_is_no_block_of_the_answer() {
        let void = Delta::Void { index: 0, end: ",]".to_owned() };
        let deltas = [text("Hm."), call("f"), arguments("{\"a\": 1"), void.clone(), text(" f(1")];
        let (events, content) = events_and_content(&deltas);
        let sent = [
            ("start 0", "text"),
            ("delta 0", "Hm."),
            ("stop 0", ""),
            ("start 1", "tool_use"),
            ("delta 1", "{\"a\": 1"),
            ("delta 1", ",]"),
            ("stop 1", ""),
            ("start 2", "text"),
            ("delta 2", " f(1"),
            ("stop 2", ""),
        ];
        assert_eq!(events, expected(&sent));
        assert_eq!(content, json!([{ "type": "text", "text": "Hm. f(1" }]));
        assert_eq!(events_and_content(&[call("f"), void]).1, json!([{ "type": "text", "text": "" }]));
    }

    #[test]
    fn a_call_that_is_not_to_be_streamed_is_sent_whole_or_not_at_all() {
        let whole = [("start 0", "tool_use"), ("delta 0", "{\"a\": 1}"), ("stop 0", "")];
        let (events, _) = events_and_content(&[call("whole"), arguments("{\"a\": "), arguments("1}")]);
        assert_eq!(events, expected(&whole));
        let void = Delta::Void { index: 0, end: ",]".to_owned() };
        let (events, content) = events_and_content(&[text("Hm."), call("whole"), arguments("{"), void, text(" f(")]);
        let sent = [("start 0", "text"), ("delta 0", "Hm."), ("delta 0", " f("), ("stop 0", "")];
        assert_eq!(events, expected(&sent));
        assert_eq!(content, json!([{ "type": "text", "text": "Hm. f(" }]));
    }
}
