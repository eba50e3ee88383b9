use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::reply::assistant_message::Delta;

/// An answer's content while it is sampled: blocks one after another, of which the last may be open. The events of a stream
/// are changes of it, so that a whole answer equals the sum of a stream.
///
/// A call is a block once it is whole: clients read the arguments of one that is cut off as if they were.
pub(super) struct ContentBlocks {
    shows_thinking: bool,
    blocks: Vec<Block>,
    is_open: bool,
    /// The call that has started and is not complete.
    call: Option<Call>,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Debug)]
enum Block {
    Thinking(String),
    Text(String),
    ToolUse { id: String, name: String, input: Value },
}

impl ContentBlocks {
    /// Empty content.
    pub(super) fn new(shows_thinking: bool) -> Self {
        Self { shows_thinking, blocks: Vec::new(), is_open: false, call: None }
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
            Delta::ToolCall { id, name, .. } => {
                self.call = Some(Call { id: id.clone(), name: name.clone(), arguments: String::new() });
            }
            Delta::Arguments { text, .. } => self.argue(text, &mut events),
            // A call is sent once it is complete.
            Delta::Void { .. } => self.call = None,
        }
        events
    }

    /// Ends the content. An answer of nothing is an empty text, for clients that take the first block without looking.
    pub(super) fn finish(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        if self.blocks.is_empty() {
            self.start(Block::Text(String::new()), &mut events);
        }
        self.stop(&mut events);
        events
    }

    /// All blocks.
    pub(super) fn content(&self) -> Value {
        self.blocks.iter().map(Block::json).collect()
    }

    /// Adds to the arguments of the call, which is whole as soon as they can be read.
    fn argue(&mut self, text: &str, events: &mut Vec<Value>) {
        let Some(call) = &mut self.call else { return };
        call.arguments.push_str(text);
        if !call.arguments.trim_end().ends_with('}') {
            return;
        }
        let Ok(input) = serde_json::from_str::<Value>(&call.arguments) else { return };
        if let Some(Call { id, name, arguments }) = self.call.take() {
            self.start(Block::ToolUse { id, name, input }, events);
            events.push(self.delta(json!({ "type": "input_json_delta", "partial_json": arguments })));
            self.stop(events);
        }
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

    fn delta(&self, delta: Value) -> Value {
        json!({ "type": "content_block_delta", "index": self.index(), "delta": delta })
    }

    /// The last block's.
    fn index(&self) -> usize {
        self.blocks.len().saturating_sub(1)
    }
}

impl Block {
    fn json(&self) -> Value {
        match self {
            Block::Thinking(thinking) => {
                json!({ "type": "thinking", "thinking": thinking, "signature": signature(thinking) })
            }
            Block::Text(text) => json!({ "type": "text", "text": text }),
            Block::ToolUse { id, name, input } => json!({ "type": "tool_use", "id": id, "name": name, "input": input }),
        }
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
