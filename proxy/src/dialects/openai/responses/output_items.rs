use fulgurite_types::Message;
use serde_json::{Map, Value, json};

use super::item_id::{ItemId, ItemKind};
use super::tool_forms::{ToolForm, ToolForms, custom_input};
use crate::reply::assistant_message::Delta;

/// Prefix of the reasoning in an item's `encrypted_content`, which clients send back unchanged. It is no secret from the
/// operator of the model.
pub(super) const ENCRYPTED_PREFIX: &str = "fulgurite-reasoning:";

/// In which form a client gets an answer's reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReasoningForm {
    /// As the summary, if requested, which contains all of it, and otherwise as content.
    pub(super) summary: bool,
    /// Once more as text that it cannot read and sends back.
    pub(super) encrypted: bool,
}

impl ReasoningForm {
    /// The form that a request's fields require.
    pub(super) fn requested_in(request: &Map<String, Value>) -> Self {
        let reasoning = request.get("reasoning");
        // The older name still counts.
        let is_given = |name: &str| reasoning.and_then(|fields| fields.get(name)).is_some_and(|form| !form.is_null());
        Self {
            summary: is_given("summary") || is_given("generate_summary"),
            encrypted: is_included(request, "reasoning.encrypted_content"),
        }
    }
}

/// Whether a request's `include` names something.
pub(super) fn is_included(request: &Map<String, Value>, what: &str) -> bool {
    let include = request.get("include").and_then(Value::as_array);
    include.is_some_and(|include| include.iter().any(|name| name == what))
}

/// An answer as a list of items, while it is sampled.
pub(super) struct OutputItems {
    response_id: String,
    form: ReasoningForm,
    tools: ToolForms,
    items: Vec<OutputItem>,
}

struct OutputItem {
    id: ItemId,
    text: String,
    /// Of a message: entries for its tokens.
    logprobs: Vec<Value>,
    call: Option<CalledTool>,
    status: Status,
}

#[derive(Clone)]
struct CalledTool {
    call_id: String,
    /// As the model knows it.
    name: String,
    form: ToolForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    InProgress,
    Completed,
    /// The answer reached its limit in it, or it is a call that broke.
    Incomplete,
}

/// What happened to an item, by its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Added(usize),
    Grown { item: usize, text: String, logprobs: Vec<Value> },
    Done(usize),
}

impl OutputItems {
    /// An empty answer, to a request that declared those tools.
    pub(super) fn new(response_id: &str, form: ReasoningForm, tools: ToolForms) -> Self {
        Self { response_id: response_id.to_owned(), form, tools, items: Vec::new() }
    }

    /// The items of a whole answer, as if it had been sampled in this order.
    pub(super) fn of_message(
        response_id: &str,
        form: ReasoningForm,
        tools: ToolForms,
        message: &Message,
        is_whole: bool,
    ) -> Self {
        let mut items = Self::new(response_id, form, tools);
        items.take_message(message, is_whole);
        items
    }

    /// Takes a whole answer, each of its texts in one piece.
    pub(super) fn take_message(&mut self, message: &Message, is_whole: bool) -> Vec<Change> {
        let mut deltas = Vec::new();
        if let Some(reasoning) = message.extra.get("reasoning_content").and_then(Value::as_str) {
            deltas.push(Delta::Reasoning(reasoning.to_owned()));
        }
        if let Ok(text) = message.plain_text(0) {
            deltas.push(Delta::Text(text));
        }
        for (index, call) in message.tool_calls.iter().enumerate() {
            let (id, name) = (call.id.clone().unwrap_or_default(), call.function.name.clone());
            deltas.push(Delta::ToolCall { index, id, name });
            let text = call.function.arguments.as_str().unwrap_or_default().to_owned();
            deltas.push(Delta::Arguments { index, text });
        }
        let mut changes: Vec<Change> = deltas.iter().flat_map(|delta| self.take(delta, Vec::new())).collect();
        changes.extend(self.finish(message, is_whole));
        changes
    }

    /// Takes the next deltas, with the entries of their tokens.
    pub(super) fn take(&mut self, delta: &Delta, logprobs: Vec<Value>) -> Vec<Change> {
        let mut changes = Vec::new();
        let (item, text) = match delta {
            Delta::Reasoning(text) | Delta::Text(text) if text.is_empty() => return changes,
            Delta::Reasoning(text) => (self.open(ItemKind::Reasoning, &mut changes), text.clone()),
            Delta::Text(text) => (self.open(ItemKind::Message, &mut changes), text.clone()),
            Delta::ToolCall { id, name, .. } => {
                let called = CalledTool { call_id: id.clone(), name: name.clone(), form: self.tools.of(name) };
                self.add(ItemKind::Call, Some(called), &mut changes);
                return changes;
            }
            Delta::Arguments { index, text } | Delta::Void { index, end: text } => {
                match self.places(ItemKind::Call).nth(*index) {
                    Some(item) => (item, text.clone()),
                    None => return changes,
                }
            }
        };
        self.items[item].text.push_str(&text);
        self.items[item].logprobs.extend(logprobs.iter().cloned());
        changes.push(Change::Grown { item, text, logprobs });
        changes
    }

    /// Ends the answer, which `message` is and whose last item is whole or not. There is always an item.
    pub(super) fn finish(&mut self, message: &Message, is_whole: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.items.is_empty() {
            self.add(ItemKind::Message, None, &mut changes);
        }
        let last = self.items.len() - 1;
        for (place, item) in self.items.iter_mut().enumerate().filter(|(_, item)| item.status == Status::InProgress) {
            let was_called = |id: &str| message.tool_calls.iter().any(|call| call.id.as_deref() == Some(id));
            let breaks_off = match &item.call {
                // A whole call stays one where the answer reached its limit behind it.
                Some(call) => !was_called(&call.call_id),
                None => place == last && !is_whole,
            };
            item.status = if breaks_off { Status::Incomplete } else { Status::Completed };
            changes.push(Change::Done(place));
        }
        changes
    }

    /// All items, in the order in which a stream announces them: calls that broke or were cut are among them.
    pub(super) fn values(&self) -> Vec<Value> {
        self.items.iter().map(|item| item.value(self.form)).collect()
    }

    /// The events of a stream for a change.
    pub(super) fn events(&self, change: &Change) -> Vec<Value> {
        match change {
            Change::Added(place) => self.added(*place),
            Change::Grown { item, text, logprobs } => self.grown(*item, text, logprobs).into_iter().collect(),
            Change::Done(place) => self.done(*place),
        }
    }

    /// The open item of that kind, or a new one.
    fn open(&mut self, kind: ItemKind, changes: &mut Vec<Change>) -> usize {
        match self.items.last() {
            Some(last) if last.id.kind == kind => self.items.len() - 1,
            _ => self.add(kind, None, changes),
        }
    }

    /// Adds an item, before which the last one ends. A call ends once its arguments can be read; where they cannot, it
    /// may be broken, which is known at the answer's end.
    fn add(&mut self, kind: ItemKind, call: Option<CalledTool>, changes: &mut Vec<Change>) -> usize {
        if let Some(last) = self.items.last_mut()
            && (last.call.is_none() || serde_json::from_str::<Value>(&last.text).is_ok())
        {
            last.status = Status::Completed;
            changes.push(Change::Done(self.items.len() - 1));
        }
        let key = match &call {
            Some(called) => called.call_id.clone(),
            None => self.places(kind).count().to_string(),
        };
        let id = ItemId { response_id: self.response_id.clone(), kind, key };
        let item = OutputItem { id, text: String::new(), logprobs: Vec::new(), call, status: Status::InProgress };
        self.items.push(item);
        let place = self.items.len() - 1;
        changes.push(Change::Added(place));
        place
    }

    fn places(&self, kind: ItemKind) -> impl Iterator<Item = usize> {
        self.items.iter().enumerate().filter(move |(_, item)| item.id.kind == kind).map(|(place, _)| place)
    }

    fn added(&self, place: usize) -> Vec<Value> {
        let item = &self.items[place];
        let emptied = item.emptied();
        let mut events =
            vec![json!({ "type": "response.output_item.added", "output_index": place, "item": emptied.bare() })];
        events.extend(emptied.part_event("added", place, self.form));
        events
    }

    /// The event of what came; `None` where only the whole call is told.
    fn grown(&self, place: usize, text: &str, logprobs: &[Value]) -> Option<Value> {
        let item = &self.items[place];
        if item.call.as_ref().is_some_and(|call| call.form == ToolForm::Custom) {
            return None;
        }
        let mut event = item.event("delta", place, self.form)?;
        event["delta"] = json!(text);
        if item.id.kind == ItemKind::Message {
            event["logprobs"] = json!(logprobs);
        }
        Some(event)
    }

    fn done(&self, place: usize) -> Vec<Value> {
        let item = &self.items[place];
        let mut events = Vec::new();
        if let Some(mut done_event) = item.event("done", place, self.form) {
            match &item.call {
                // Its text is a part of the arguments, which can be read only now.
                Some(call) if call.form == ToolForm::Custom => {
                    let input = custom_input(&item.text);
                    let mut delta = item.event("delta", place, self.form).unwrap_or_default();
                    delta["delta"] = json!(input);
                    events.push(delta);
                    done_event["input"] = json!(input);
                }
                Some(call) => {
                    let name = match &call.form {
                        ToolForm::InNamespace { name, .. } => name,
                        _ => &call.name,
                    };
                    done_event["name"] = json!(name);
                    done_event["arguments"] = json!(item.text);
                }
                None => done_event["text"] = json!(item.text),
            }
            if item.id.kind == ItemKind::Message {
                done_event["logprobs"] = json!(item.logprobs);
            }
            events.push(done_event);
        }
        events.extend(item.part_event("done", place, self.form));
        let value = item.value(self.form);
        events.push(json!({ "type": "response.output_item.done", "output_index": place, "item": value }));
        events
    }
}

impl OutputItem {
    /// The item while it is empty.
    fn emptied(&self) -> Self {
        let (id, call) = (self.id.clone(), self.call.clone());
        Self { id, text: String::new(), logprobs: Vec::new(), call, status: Status::InProgress }
    }

    /// The item without parts.
    fn bare(&self) -> Value {
        let id = self.id.text();
        let status = match self.status {
            Status::InProgress => "in_progress",
            Status::Completed => "completed",
            Status::Incomplete => "incomplete",
        };
        match (&self.call, self.id.kind) {
            (Some(CalledTool { call_id, name, form }), _) => {
                let mut item = form.item(call_id, name, &self.text, status);
                item.insert("id".to_owned(), json!(id));
                item.into()
            }
            (None, ItemKind::Reasoning) => json!({ "id": id, "type": "reasoning", "status": status, "summary": [] }),
            (None, _) => json!({
                "id": id, "type": "message", "status": status, "role": "assistant", "content": [],
            }),
        }
    }

    fn value(&self, form: ReasoningForm) -> Value {
        let mut value = self.bare();
        match self.id.kind {
            ItemKind::Call | ItemKind::Compaction => {}
            ItemKind::Message => value["content"] = json!([self.part(form)]),
            ItemKind::Reasoning => {
                value[if form.summary { "summary" } else { "content" }] = json!([self.part(form)]);
                if form.encrypted {
                    value["encrypted_content"] = json!(format!("{ENCRYPTED_PREFIX}{}", self.text));
                }
            }
        }
        value
    }

    /// The one part of a message or of reasoning.
    fn part(&self, form: ReasoningForm) -> Value {
        match self.id.kind {
            ItemKind::Reasoning if form.summary => json!({ "type": "summary_text", "text": self.text }),
            ItemKind::Reasoning => json!({ "type": "reasoning_text", "text": self.text }),
            _ => json!({
                "type": "output_text", "text": self.text, "annotations": [], "logprobs": self.logprobs,
            }),
        }
    }

    /// An event about the item's text, if there are such events.
    fn event(&self, what: &str, place: usize, form: ReasoningForm) -> Option<Value> {
        let (name, index) = match self.id.kind {
            ItemKind::Call => (self.call.as_ref()?.form.delta_event()?, None),
            ItemKind::Compaction => return None,
            ItemKind::Message => ("output_text", Some("content_index")),
            ItemKind::Reasoning if form.summary => ("reasoning_summary_text", Some("summary_index")),
            ItemKind::Reasoning => ("reasoning_text", Some("content_index")),
        };
        let id = self.id.text();
        let mut event = json!({ "type": format!("response.{name}.{what}"), "item_id": id, "output_index": place });
        if let Some(index) = index {
            event[index] = json!(0);
        }
        Some(event)
    }

    /// An event about the item's part, if it has one.
    fn part_event(&self, what: &str, place: usize, form: ReasoningForm) -> Option<Value> {
        let (name, index) = match self.id.kind {
            ItemKind::Call | ItemKind::Compaction => return None,
            ItemKind::Reasoning if form.summary => ("reasoning_summary_part", "summary_index"),
            ItemKind::Message | ItemKind::Reasoning => ("content_part", "content_index"),
        };
        let (id, part) = (self.id.text(), self.part(form));
        let mut event = json!({ "type": format!("response.{name}.{what}"), "item_id": id, "output_index": place });
        event[index] = json!(0);
        event["part"] = part;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{FunctionCall, ToolCall};

    use super::*;

    const RESPONSE: &str = "resp_0a";

    fn call(id: &str, arguments: &str) -> ToolCall {
        let function = FunctionCall { name: "f".to_owned(), arguments: arguments.into(), extra: Map::new() };
        ToolCall { id: Some(id.to_owned()), call_type: "function".to_owned(), function, extra: Map::new() }
    }

    fn begins(index: usize, id: &str) -> Delta {
        Delta::ToolCall { index, id: id.to_owned(), name: "f".to_owned() }
    }

    fn arguments(index: usize, text: &str) -> Delta {
        Delta::Arguments { index, text: text.to_owned() }
    }

    fn text(text: &str) -> Delta {
        Delta::Text(text.to_owned())
    }

    fn items_of(deltas: &[Delta], message: &Message, is_whole: bool) -> (OutputItems, Vec<Value>) {
        let mut items = OutputItems::new(RESPONSE, ReasoningForm::default(), ToolForms::default());
        let mut events = Vec::new();
        for delta in deltas {
            for change in items.take(delta, Vec::new()) {
                events.extend(items.events(&change));
            }
        }
        for change in items.finish(message, is_whole) {
            events.extend(items.events(&change));
        }
        (items, events)
    }

    fn kinds(events: &[Value]) -> Vec<(&str, u64)> {
        let named =
            events.iter().map(|event| (event["type"].as_str().unwrap(), event["output_index"].as_u64().unwrap()));
        named.map(|(kind, place)| (kind.strip_prefix("response.").unwrap(), place)).collect()
    }

    #[test]
    fn a_stream_tells_each_item_from_its_beginning_to_its_end() {
        let message =
            Message { tool_calls: vec![call("c1", "{}"), call("c2", "")], ..Message::text("assistant", "ab") };
        let reasoning = Delta::Reasoning("hm".to_owned());
        let deltas = [reasoning, text("a"), text("b"), begins(0, "c1"), arguments(0, "{}"), begins(1, "c2")];
        let (items, events) = items_of(&deltas, &message, true);
        assert_eq!(
            kinds(&events),
            [
                ("output_item.added", 0),
                ("content_part.added", 0),
                ("reasoning_text.delta", 0),
                ("reasoning_text.done", 0),
                ("content_part.done", 0),
                ("output_item.done", 0),
                ("output_item.added", 1),
                ("content_part.added", 1),
                ("output_text.delta", 1),
                ("output_text.delta", 1),
                ("output_text.done", 1),
                ("content_part.done", 1),
                ("output_item.done", 1),
                ("output_item.added", 2),
                ("function_call_arguments.delta", 2),
                ("function_call_arguments.done", 2),
                ("output_item.done", 2),
                ("output_item.added", 3),
                ("function_call_arguments.done", 3),
                ("output_item.done", 3),
            ]
        );
        let done: Vec<&Value> = events
            .iter()
            .filter(|event| event["type"] == "response.output_item.done")
            .map(|event| &event["item"])
            .collect();
        assert_eq!(json!(done), json!(items.values()));
        assert_eq!(
            done[1],
            &json!({
                "id": "msg_0a_0", "type": "message", "status": "completed", "role": "assistant",
                "content": [{ "type": "output_text", "text": "ab", "annotations": [], "logprobs": [] }],
            })
        );
    }

    #[test]
    fn calls_of_tools_that_are_no_functions_are_items_of_their_own_types() {
        let mut tools = ToolForms::default();
        tools.insert("edit".to_owned(), ToolForm::Custom);
        tools.insert("shell".to_owned(), ToolForm::Shell);
        let in_namespace = ToolForm::InNamespace { namespace: "mcp__demo".to_owned(), name: "lookup".to_owned() };
        tools.insert("mcp__demo__lookup".to_owned(), in_namespace);
        let called = [
            ("c1", "edit", "{\"input\": \"a\"}", "custom_tool_call"),
            ("c2", "shell", "{\"commands\": [\"ls\"]}", "shell_call"),
            ("c3", "mcp__demo__lookup", "{}", "function_call"),
        ];
        let calls = called.map(|(id, name, arguments, _)| {
            let mut call = call(id, arguments);
            call.function.name = name.to_owned();
            call
        });
        let message = Message { tool_calls: calls.to_vec(), ..Message::text("assistant", "") };
        let mut items = OutputItems::new(RESPONSE, ReasoningForm::default(), tools.clone());
        let mut events = Vec::new();
        for (index, (id, name, text, _)) in called.iter().enumerate() {
            let begins = Delta::ToolCall { index, id: (*id).to_owned(), name: (*name).to_owned() };
            for delta in [begins, arguments(index, text)] {
                let changes = items.take(&delta, Vec::new());
                events.extend(changes.iter().flat_map(|change| items.events(change)).collect::<Vec<_>>());
            }
        }
        let changes = items.finish(&message, true);
        events.extend(changes.iter().flat_map(|change| items.events(change)));
        assert_eq!(
            kinds(&events),
            [
                ("output_item.added", 0),
                ("custom_tool_call_input.delta", 0),
                ("custom_tool_call_input.done", 0),
                ("output_item.done", 0),
                ("output_item.added", 1),
                ("output_item.done", 1),
                ("output_item.added", 2),
                ("function_call_arguments.delta", 2),
                ("function_call_arguments.done", 2),
                ("output_item.done", 2),
            ]
        );
        let values = items.values();
        let types: Vec<&str> = values.iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(types, called.map(|(.., kind)| kind));
        assert_eq!((&values[0]["input"], &values[1]["action"]), (&json!("a"), &json!({ "commands": ["ls"] })));
        assert_eq!((&values[2]["namespace"], &values[2]["name"]), (&json!("mcp__demo"), &json!("lookup")));
        let again = OutputItems::of_message(RESPONSE, ReasoningForm::default(), tools, &message, true);
        assert_eq!(again.values(), values);
    }

    #[test]
    fn a_whole_call_is_an_item_of_an_answer_that_reached_its_limit_behind_it() {
        let message = Message { tool_calls: vec![call("c1", "{}")], ..Message::text("assistant", "") };
        let (items, _) = items_of(&[begins(0, "c1"), arguments(0, "{}")], &message, false);
        assert_eq!((items.values().len(), &items.values()[0]["status"]), (1, &json!("completed")));
    }

    #[test]
    fn a_call_that_broke_is_an_incomplete_item_of_the_answer() {
        let deltas = [begins(0, "c1"), arguments(0, "{\"a\": "), text("<call>"), begins(1, "c2"), arguments(1, "{}")];
        let message = Message { tool_calls: vec![call("c2", "{}")], ..Message::text("assistant", "<call>") };
        let (items, events) = items_of(&deltas, &message, true);
        let done: Vec<(&Value, &Value)> = events
            .iter()
            .filter(|event| event["type"] == "response.output_item.done")
            .map(|event| (&event["item"]["id"], &event["item"]["status"]))
            .collect();
        let (completed, incomplete) = (json!("completed"), json!("incomplete"));
        assert_eq!(
            done,
            [(&json!("msg_0a_0"), &completed), (&json!("fc_0a_c1"), &incomplete), (&json!("fc_0a_c2"), &completed),]
        );
        let listed: Vec<(Value, Value)> =
            items.values().iter().map(|item| (item["id"].clone(), item["status"].clone())).collect();
        let expected = [("fc_0a_c1", &incomplete), ("msg_0a_0", &completed), ("fc_0a_c2", &completed)];
        assert_eq!(listed, expected.map(|(id, status)| (json!(id), status.clone())));
    }

    #[test]
    fn an_answer_that_says_nothing_is_a_message_and_a_limit_breaks_off_the_last_item() {
        let nothing = Delta::Reasoning(String::new());
        let (items, events) = items_of(&[nothing], &Message::text("assistant", ""), true);
        assert_eq!(kinds(&events).len(), 5);
        assert_eq!(items.values()[0]["content"][0]["text"], "");
        let (items, _) =
            items_of(&[Delta::Reasoning("hm".to_owned()), text("a")], &Message::text("assistant", "a"), false);
        assert_eq!(
            (&items.values()[0]["status"], &items.values()[1]["status"]),
            (&json!("completed"), &json!("incomplete"))
        );
    }

    #[test]
    fn a_recorded_message_has_the_items_that_it_had_when_it_was_said() {
        let mut message = Message { tool_calls: vec![call("c1", "{}")], ..Message::text("assistant", "a") };
        message.extra.insert("reasoning_content".to_owned(), "hm".into());
        let deltas = [Delta::Reasoning("hm".to_owned()), text("a"), begins(0, "c1"), arguments(0, "{}")];
        let (items, _) = items_of(&deltas, &message, true);
        let form = ReasoningForm::default();
        assert_eq!(
            OutputItems::of_message(RESPONSE, form, ToolForms::default(), &message, true).values(),
            items.values()
        );
        let form = ReasoningForm { summary: true, encrypted: true };
        let reasoning = &OutputItems::of_message(RESPONSE, form, ToolForms::default(), &message, true).values()[0];
        assert_eq!(reasoning["summary"], json!([{ "type": "summary_text", "text": "hm" }]));
        assert_eq!(
            (reasoning.get("content"), &reasoning["encrypted_content"]),
            (None, &json!("fulgurite-reasoning:hm"))
        );
    }
}
