use fulgurite_types::{Content, ContentPart, FunctionCall, Message, ToolCall};
use serde_json::{Map, Value};

use super::assistant_turn::AssistantTurn;
use super::compaction::{summary_in, summary_message};
use super::earlier_responses::EarlierResponses;
use super::item_id::{ItemId, ItemKind, response_of_item};
use super::output_items::ENCRYPTED_PREFIX;
use super::tool_forms::{CUSTOM_INPUT, ToolForm, name_in_namespace};
use crate::error::ProxyError;
use crate::reply::assistant_message::{drop_void_calls, is_void, void_end};

/// The messages that a request's `input` is, which may refer to items of earlier responses.
///
/// The assistant's items (reasoning, text, calls) one after another are one message, as they were sampled. Text directly
/// after text is a message of its own unless both name the same response, and so are items of another response: a client
/// may keep what it got of one that failed, before those of its replacement.
///
/// A call that broke or was cut is no call: its text is in the response's text, and the output that a client made up for
/// it follows the response as the user's message.
pub(super) fn messages_of(input: &Value, earlier: &EarlierResponses) -> Result<Vec<Message>, ProxyError> {
    let items = match input {
        Value::Null => return Ok(Vec::new()),
        Value::String(text) => return Ok(vec![Message::text("user", text)]),
        Value::Array(items) => items,
        _ => return Err(ProxyError::invalid("input", "input must be a string or a list of items")),
    };
    let mut conversation = Conversation::default();
    for (index, item) in items.iter().enumerate() {
        conversation.add(&Item { index, fields: item }, earlier)?;
    }
    Ok(conversation.finish())
}

#[derive(Default)]
struct Conversation {
    messages: Vec<Message>,
    /// The assistant's message, while its items come.
    assistant: Option<AssistantTurn>,
}

impl Conversation {
    fn add(&mut self, item: &Item<'_>, earlier: &EarlierResponses) -> Result<(), ProxyError> {
        match item.kind()? {
            "message" if item.role()? == "assistant" => self.add_text(item.response_id(), item.text("content")?),
            "message" => self.turn(Message {
                role: item.role()?.to_owned(),
                content: Some(item.content("content")?),
                ..Message::default()
            }),
            "reasoning" => self.answer(item.response_id()).reason(&item.reasoning()),
            "function_call" => self.answer(item.response_id()).call(item.call()?),
            "custom_tool_call" => self.answer(item.response_id()).call(item.custom_call()?),
            "local_shell_call" | "shell_call" | "apply_patch_call" | "tool_search_call" => {
                self.answer(item.response_id()).call(item.client_call()?);
            }
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "shell_call_output"
            | "apply_patch_call_output"
            | "tool_search_output" => self.add_output(Message {
                role: "tool".to_owned(),
                tool_call_id: Some(item.answered_call()?.to_owned()),
                content: Some(item.output()?),
                ..Message::default()
            }),
            "item_reference" => self.refer(item, earlier)?,
            "compaction" | "compaction_summary" => self.turn(summary_message(item.summary()?)),
            "compaction_trigger" => item.refuse(
                "type",
                "is `compaction_trigger`, which nothing here follows; POST the conversation to /v1/responses/compact",
            )?,
            other => {
                item.refuse("type", &format!("is `{other}`, which the model here can neither say nor be given"))?
            }
        }
        Ok(())
    }

    /// Adds a whole message of another role.
    fn turn(&mut self, message: Message) {
        self.end_assistant_turn();
        self.messages.push(message);
    }

    /// Adds what a call returned.
    fn add_output(&mut self, message: Message) {
        let id = message.tool_call_id.as_deref();
        match &mut self.assistant {
            Some(turn) if turn.has_broken(id) => turn.outputs_of_broken.push(message),
            _ => self.turn(message),
        }
    }

    /// The assistant's message that an item of a response continues: a new one where another response starts.
    fn answer(&mut self, response_id: Option<String>) -> &mut AssistantTurn {
        if self.assistant.as_ref().is_some_and(|turn| !turn.may_go_on_with(response_id.as_deref())) {
            self.end_assistant_turn();
        }
        let turn = self.assistant.get_or_insert_default();
        turn.response_id = response_id.or(turn.response_id.take());
        turn
    }

    fn add_text(&mut self, response_id: Option<String>, text: String) {
        let is_next =
            |turn: &AssistantTurn| turn.ends_in_text && (response_id.is_none() || turn.response_id != response_id);
        if self.assistant.as_ref().is_some_and(is_next) {
            self.end_assistant_turn();
        }
        self.answer(response_id).add_text(&text);
    }

    /// Adds an item of an earlier response. All of a response's text is in its first message, and all of its reasoning in
    /// its first reasoning item.
    fn refer(&mut self, item: &Item<'_>, earlier: &EarlierResponses) -> Result<(), ProxyError> {
        let id = item.needed_text("id")?;
        let found = ItemId::read(id).and_then(|id| Some((earlier.reply(&id.response_id)?, id)));
        let Some((reply, id)) = found else {
            return item.refuse("id", &format!("refers to `{id}`, but there is no such item"));
        };
        let ItemId { response_id, kind, key } = id;
        match (kind, key.as_str()) {
            (ItemKind::Reasoning, "0") => {
                self.answer(Some(response_id))
                    .reason(reply.extra.get("reasoning_content").and_then(Value::as_str).unwrap_or_default());
            }
            (ItemKind::Message, "0") => self.add_text(Some(response_id), reply.plain_text(item.index)?),
            (ItemKind::Compaction, _) => self.turn(summary_message(&reply.plain_text(item.index)?)),
            (ItemKind::Reasoning | ItemKind::Message, _) => {}
            (ItemKind::Call, call_id) => match reply.tool_calls.iter().find(|call| call.id.as_deref() == Some(call_id))
            {
                Some(call) => self.answer(Some(response_id)).call(call.clone()),
                // A call that broke is text of its response.
                None if reply.content.is_some() => {
                    let call = void_call(String::new(), call_id.to_owned());
                    self.answer(Some(response_id)).call(call);
                }
                None => item.refuse("id", "refers to a call that was not made")?,
            },
        }
        Ok(())
    }

    fn end_assistant_turn(&mut self) {
        let Some(mut turn) = self.assistant.take() else { return };
        let outputs = std::mem::take(&mut turn.outputs_of_broken);
        self.messages.push(turn.into_message());
        self.messages.extend(outputs);
    }

    fn finish(mut self) -> Vec<Message> {
        self.end_assistant_turn();
        drop_void_calls(&mut self.messages);
        self.messages
    }
}

/// An item of the input, and its place.
struct Item<'i> {
    index: usize,
    fields: &'i Value,
}

impl Item<'_> {
    fn refuse<T>(&self, field: &str, why: &str) -> Result<T, ProxyError> {
        let field = format!("input[{}].{field}", self.index);
        Err(ProxyError::invalid(&field, format!("{field} {why}")))
    }

    /// The item's type; one that has a role and no type is a message.
    fn kind(&self) -> Result<&str, ProxyError> {
        match (self.fields.get("type"), self.fields.get("role")) {
            (Some(Value::String(kind)), _) => Ok(kind),
            (None | Some(Value::Null), Some(_)) => Ok("message"),
            _ => self.refuse("type", "must be the item's type"),
        }
    }

    /// The response that it is of, if it has been given its id here.
    fn response_id(&self) -> Option<String> {
        response_of_item(self.fields.get("id")?.as_str()?)
    }

    fn role(&self) -> Result<&str, ProxyError> {
        let role = self.fields.get("role").and_then(Value::as_str);
        match role.filter(|role| ["system", "developer", "user", "assistant"].contains(role)) {
            Some(role) => Ok(role),
            None => self.refuse("role", "must be one of system, developer, user, assistant"),
        }
    }

    fn needed_text(&self, field: &str) -> Result<&str, ProxyError> {
        match self.fields.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()) {
            Some(text) => Ok(text),
            None => self.refuse(field, "must be a text that is not empty"),
        }
    }

    /// The text parts of a field that is text or a list of parts.
    fn parts(&self, field: &str) -> Result<Vec<&str>, ProxyError> {
        match self.fields.get(field) {
            Some(Value::String(text)) => Ok(vec![text]),
            Some(Value::Array(parts)) => {
                parts.iter().enumerate().map(|(place, part)| self.part(&format!("{field}[{place}]"), part)).collect()
            }
            _ => self.refuse(field, "must be a string or a list of parts"),
        }
    }

    fn part<'p>(&self, field: &str, part: &'p Value) -> Result<&'p str, ProxyError> {
        let name = match part.get("type").and_then(Value::as_str) {
            Some("input_text" | "output_text" | "text") => "text",
            Some("refusal") => "refusal",
            Some(other) => {
                let why = format!("is `{other}`, but the model here takes text only");
                return self.refuse(&format!("{field}.type"), &why);
            }
            None => return self.refuse(&format!("{field}.type"), "must be the part's type"),
        };
        match part.get(name).and_then(Value::as_str) {
            Some(text) => Ok(text),
            None => self.refuse(&format!("{field}.{name}"), "must be a string"),
        }
    }

    /// Content of a message: a single part is the same as its text.
    fn content(&self, field: &str) -> Result<Content, ProxyError> {
        Ok(match self.parts(field)?.as_slice() {
            [] => Content::Text(String::new()),
            [text] => Content::Text((*text).to_owned()),
            parts => Content::Parts(parts.iter().map(|text| ContentPart::from_text(*text)).collect()),
        })
    }

    fn text(&self, field: &str) -> Result<String, ProxyError> {
        Ok(self.parts(field)?.concat())
    }

    /// What was thought: in the form in which it came, of those that a client kept. What another server encrypted cannot
    /// be read.
    fn reasoning(&self) -> String {
        let encrypted = self.fields.get("encrypted_content").and_then(Value::as_str);
        if let Some(text) = encrypted.and_then(|text| text.strip_prefix(ENCRYPTED_PREFIX)) {
            return text.to_owned();
        }
        let texts = |field: &str| -> String {
            let parts = self.fields.get(field).and_then(Value::as_array).into_iter().flatten();
            parts.filter_map(|part| part.get("text")?.as_str()).collect()
        };
        let content = texts("content");
        if content.is_empty() { texts("summary") } else { content }
    }

    /// The summary that a compaction carries.
    fn summary(&self) -> Result<&str, ProxyError> {
        match summary_in(self.needed_text("encrypted_content")?) {
            Some(summary) => Ok(summary),
            None => self.refuse(
                "encrypted_content",
                "is no compaction of this server, and nobody here can read it; put a summary into a message",
            ),
        }
    }

    fn call(&self) -> Result<ToolCall, ProxyError> {
        let Some(arguments) = self.fields.get("arguments").filter(|arguments| arguments.is_string()) else {
            return self.refuse("arguments", "must be the JSON text of the arguments");
        };
        let name = self.needed_text("name")?;
        if self.is_broken() {
            return self.broken_call(name);
        }
        let name = match self.fields.get("namespace").and_then(Value::as_str) {
            Some(namespace) => name_in_namespace(namespace, name),
            None => name.to_owned(),
        };
        self.call_of(name, arguments.clone())
    }

    fn custom_call(&self) -> Result<ToolCall, ProxyError> {
        let Some(input) = self.fields.get("input").and_then(Value::as_str) else {
            return self.refuse("input", "must be the text that the tool was called with");
        };
        // What was sent of a call that broke is its arguments as they are.
        let name = self.needed_text("name")?;
        if self.is_broken() {
            return self.broken_call(name);
        }
        let broken = self.call_of(name.to_owned(), input.into())?;
        if is_void(&broken) {
            return Ok(broken);
        }
        let arguments = Map::from_iter([(CUSTOM_INPUT.to_owned(), Value::from(input))]);
        self.call_of(broken.function.name, Value::from(arguments).to_string().into())
    }

    /// A call of a tool that the client's own program knows.
    fn client_call(&self) -> Result<ToolCall, ProxyError> {
        let Some((form, name)) = ToolForm::of_item(self.kind()?) else {
            return self.refuse("type", "is no call");
        };
        match form.arguments(self.fields) {
            _ if self.is_broken() => self.broken_call(name),
            Some(arguments) => self.call_of(name.to_owned(), arguments.to_string().into()),
            None => self.refuse("action", "must be what the tool was called with"),
        }
    }

    fn broken_call(&self, name: &str) -> Result<ToolCall, ProxyError> {
        Ok(void_call(name.to_owned(), self.needed_text("call_id")?.to_owned()))
    }

    /// Whether it is a call of a response of ours that broke or was cut: no other is incomplete.
    fn is_broken(&self) -> bool {
        self.response_id().is_some() && self.fields.get("status").is_some_and(|status| status == "incomplete")
    }

    fn call_of(&self, name: String, arguments: Value) -> Result<ToolCall, ProxyError> {
        Ok(function_call(name, arguments, self.needed_text("call_id")?.to_owned()))
    }

    /// The call that an output answers, which that of a local shell names by its `id`.
    fn answered_call(&self) -> Result<&str, ProxyError> {
        match self.kind()? {
            "local_shell_call_output" if self.fields.get("call_id").is_none() => self.needed_text("id"),
            _ => self.needed_text("call_id"),
        }
    }

    /// What a call returned, in the words of the client: text or parts, or else JSON.
    fn output(&self) -> Result<Content, ProxyError> {
        match (self.kind()?, self.fields.get("output")) {
            ("shell_call_output", Some(Value::Array(outputs))) => {
                Ok(Content::Text(Value::from(outputs.clone()).to_string()))
            }
            ("apply_patch_call_output", None | Some(Value::Null)) => {
                Ok(Content::Text(self.needed_text("status")?.to_owned()))
            }
            ("tool_search_output", _) => Ok(Content::Text(self.found_tools()?)),
            _ => self.content("output"),
        }
    }

    /// Names and descriptions of the tools that a search found; the tools themselves are declared beside the others.
    fn found_tools(&self) -> Result<String, ProxyError> {
        let Some(tools) = self.fields.get("tools").and_then(Value::as_array) else {
            return self.refuse("tools", "must be the tools that were found");
        };
        let brief = |tool: &Value| {
            let inner = tool.get("tools").and_then(Value::as_array);
            let names: Vec<&str> =
                inner.into_iter().flatten().filter_map(|inner| inner.get("name")?.as_str()).collect();
            let mut brief = Map::new();
            for field in ["name", "description"] {
                brief.extend(tool.get(field).map(|value| (field.to_owned(), value.clone())));
            }
            if !names.is_empty() {
                brief.insert("tools".to_owned(), names.into());
            }
            Value::from(brief)
        };
        Ok(tools.iter().map(brief).collect::<Value>().to_string())
    }
}

fn function_call(name: String, arguments: Value, call_id: String) -> ToolCall {
    let function = FunctionCall { name, arguments, extra: Map::new() };
    ToolCall { id: Some(call_id), call_type: "function".to_owned(), function, extra: Map::new() }
}

/// A call that broke, of which nothing is needed but its id.
fn void_call(name: String, call_id: String) -> ToolCall {
    function_call(name, void_end("").into(), call_id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(input: Value) -> Result<Value, String> {
        let fault = |error| match error {
            ProxyError::InvalidRequest { parameter, message, .. } => {
                let parameter = parameter.unwrap();
                assert!(message.starts_with(&parameter), "{message}");
                parameter
            }
            other => panic!("{other:?}"),
        };
        messages_of(&input, &EarlierResponses::default()).map(|messages| json!(messages)).map_err(fault)
    }

    #[test]
    fn what_the_assistant_says_in_a_row_is_one_message() {
        let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": "{\"a\": 1}" });
        let output_text =
            |text: &str| json!({ "role": "assistant", "content": [{ "type": "output_text", "text": text }] });
        let called =
            |id: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{\"a\": 1}" } });
        let input = json!([
            { "role": "user", "content": "hi" },
            { "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": "hm" }] },
            output_text("Looking."), call("c1"), call("c2"),
            { "type": "function_call_output", "call_id": "c1", "output": "7" },
            { "type": "function_call_output", "call_id": "c2", "output": [{ "type": "input_text", "text": "8" }] },
            call("c3"), output_text("behind it"),
            { "type": "message", "role": "user", "content": [] },
            output_text("one"), output_text("another"),
        ]);
        let expected = json!([
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": "Looking.", "reasoning_content": "hm", "tool_calls": [called("c1"), called("c2")] },
            { "role": "tool", "content": "7", "tool_call_id": "c1" },
            { "role": "tool", "content": "8", "tool_call_id": "c2" },
            { "role": "assistant", "content": "behind it", "tool_calls": [called("c3")] },
            { "role": "user", "content": "" },
            { "role": "assistant", "content": "one" },
            { "role": "assistant", "content": "another" },
        ]);
        assert_eq!(read(input).unwrap(), expected);
    }

    #[test]
    fn what_another_response_said_is_another_message() {
        let reasoning =
            |id: &str| json!({ "type": "reasoning", "id": id, "summary": [{ "type": "summary_text", "text": "hm" }] });
        let call =
            |id: &str| json!({ "type": "function_call", "id": id, "call_id": "c", "name": "f", "arguments": "{}" });
        let reasoned = json!({ "role": "assistant", "content": null, "reasoning_content": "hm" });
        let mut called = reasoned.clone();
        called["tool_calls"] =
            json!([{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }]);
        let input = json!([reasoning("rs_a_0"), reasoning("rs_b_0"), call("fc_b_c")]);
        assert_eq!(read(input).unwrap(), json!([reasoned, called]));
        // Ids of other servers have no meaning here, as if they were missing.
        let without_id = json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
        for last in [call("call-7"), without_id] {
            assert_eq!(read(json!([reasoning("rs_a_0"), last])).unwrap(), json!([called]));
        }
    }

    #[test]
    fn a_call_that_broke_is_the_text_of_its_response_and_its_output_is_the_users() {
        let message_of =
            |id: &str, text: &str| json!({ "type": "message", "id": id, "role": "assistant", "content": text });
        let broken = [
            json!({ "type": "function_call", "id": "fc_a_c", "call_id": "c", "name": "f", "arguments": "{\"a\": 1,]" }),
            json!({ "type": "function_call", "id": "fc_a_c", "call_id": "c", "name": "f", "arguments": "{\"a\": 1",
                    "status": "incomplete" }),
            json!({ "type": "custom_tool_call", "id": "fc_a_c", "call_id": "c", "name": "f", "input": "a",
                    "status": "incomplete" }),
            json!({ "type": "custom_tool_call", "id": "fc_a_c", "call_id": "c", "name": "f", "input": "{\"input\": \"a\",]" }),
            json!({ "type": "shell_call", "id": "fc_a_c", "call_id": "c", "action": null, "status": "incomplete" }),
            json!({ "type": "local_shell_call", "id": "fc_a_c", "call_id": "c", "action": { "type": "exec", "env": {} },
                    "status": "incomplete" }),
        ];
        let output = json!({ "type": "function_call_output", "call_id": "c", "output": "no JSON" });
        let expected = json!([
            { "role": "assistant", "content": "Looking.<call>" },
            { "role": "user", "content": "no JSON" },
            { "role": "assistant", "content": "Sorry." },
        ]);
        let (before, behind, next) =
            (message_of("msg_a_0", "Looking."), message_of("msg_a_1", "<call>"), message_of("msg_b_0", "Sorry."));
        for call in &broken {
            // The output stands where the client answers calls: behind the response, or behind the call itself.
            for input in [json!([before, call, behind, output, next]), json!([before, call, output, behind, next])] {
                assert_eq!(read(input).unwrap(), expected, "{call}");
            }
        }
        // A client may keep whole items alone.
        let expected =
            json!([{ "role": "assistant", "content": "Looking.<call>" }, { "role": "assistant", "content": "Sorry." }]);
        assert_eq!(read(json!([before, behind, next])).unwrap(), expected);
        // Without ids nothing says that what follows an output is of the same response.
        let without_id = |text: &str| json!({ "role": "assistant", "content": text });
        let input = json!([without_id("Looking."), broken[0], output, without_id("Sorry.")]);
        let expected = json!([
            { "role": "assistant", "content": "Looking." },
            { "role": "user", "content": "no JSON" },
            { "role": "assistant", "content": "Sorry." },
        ]);
        assert_eq!(read(input).unwrap(), expected);
    }

    #[test]
    fn reasoning_comes_back_in_whatever_form_the_client_kept() {
        let ours = format!("{ENCRYPTED_PREFIX}hm");
        for fields in [
            json!({ "summary": [{ "type": "summary_text", "text": "h" }, { "type": "summary_text", "text": "m" }] }),
            json!({ "summary": [{ "type": "summary_text", "text": "short" }], "encrypted_content": ours }),
            json!({ "summary": [], "content": [{ "type": "reasoning_text", "text": "hm" }], "encrypted_content": "gAAA" }),
        ] {
            let mut item = fields.clone();
            item["type"] = json!("reasoning");
            let expected = json!([{ "role": "assistant", "content": null, "reasoning_content": "hm" }]);
            assert_eq!(read(json!([item])).unwrap(), expected, "{fields}");
        }
        let foreign = json!([{ "type": "reasoning", "summary": [], "encrypted_content": "gAAA" }, { "role": "assistant", "content": "x" }]);
        assert_eq!(read(foreign).unwrap(), json!([{ "role": "assistant", "content": "x" }]));
    }

    #[test]
    fn calls_of_every_kind_of_tool_are_calls_of_functions() {
        let input = json!([
            { "type": "function_call", "call_id": "c1", "namespace": "mcp__demo", "name": "lookup", "arguments": "{}" },
            { "type": "custom_tool_call", "call_id": "c2", "name": "edit", "input": "a \"b\"" },
            { "type": "local_shell_call", "call_id": "c3", "status": "completed",
              "action": { "type": "exec", "command": ["ls"], "env": {}, "user": null } },
            { "type": "tool_search_call", "call_id": "c4", "execution": "client", "arguments": { "query": "mail" } },
            { "type": "function_call_output", "call_id": "c1", "output": "1" },
            { "type": "custom_tool_call_output", "call_id": "c2", "output": "2" },
            { "type": "local_shell_call_output", "id": "c3", "output": "3" },
            { "type": "tool_search_output", "call_id": "c4", "execution": "client",
              "tools": [{ "type": "namespace", "name": "mail", "description": "Mail.", "tools": [{ "name": "send" }] }] },
            { "type": "shell_call_output", "call_id": "c5", "output": [{ "stdout": "x" }] },
            { "type": "apply_patch_call_output", "call_id": "c6", "status": "completed" },
        ]);
        let call = |id: &str, name: &str, arguments: Value| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() } });
        let result = |id: &str, text: &str| json!({ "role": "tool", "tool_call_id": id, "content": text });
        let calls = json!([
            call("c1", "mcp__demo__lookup", json!({})),
            call("c2", "edit", json!({ "input": "a \"b\"" })),
            call("c3", "local_shell", json!({ "command": ["ls"] })),
            call("c4", "tool_search", json!({ "query": "mail" })),
        ]);
        let expected = json!([
            { "role": "assistant", "content": null, "tool_calls": calls },
            result("c1", "1"), result("c2", "2"), result("c3", "3"),
            result("c4", "[{\"name\":\"mail\",\"description\":\"Mail.\",\"tools\":[\"send\"]}]"),
            result("c5", "[{\"stdout\":\"x\"}]"), result("c6", "completed"),
        ]);
        assert_eq!(read(input).unwrap(), expected);
    }

    #[test]
    fn a_single_part_is_its_text_and_more_are_parts() {
        let text = |text: &str| json!({ "type": "input_text", "text": text });
        let input = json!([{ "role": "developer", "content": [text("a")] }, { "role": "user", "content": [text("b"), text("c")] }]);
        let parts = json!([{ "type": "text", "text": "b" }, { "type": "text", "text": "c" }]);
        let expected = json!([{ "role": "developer", "content": "a" }, { "role": "user", "content": parts }]);
        assert_eq!(read(input).unwrap(), expected);
        assert_eq!(read(json!("hi")).unwrap(), json!([{ "role": "user", "content": "hi" }]));
    }

    #[test]
    fn every_fault_names_its_field() {
        let user = |content: Value| json!([{ "role": "user", "content": content }]);
        for (input, parameter) in [
            (json!(7), "input"),
            (json!(["hi"]), "input[0].type"),
            (json!([{ "content": "hi" }]), "input[0].type"),
            (json!([{ "role": "robot", "content": "hi" }]), "input[0].role"),
            (json!([{ "role": "tool", "content": "hi" }]), "input[0].role"),
            (user(json!(null)), "input[0].content"),
            (user(json!([{ "type": "input_image", "image_url": "x" }])), "input[0].content[0].type"),
            (user(json!([{ "text": "x" }])), "input[0].content[0].type"),
            (user(json!([{ "type": "input_text", "text": 1 }])), "input[0].content[0].text"),
            (json!([{ "type": "web_search_call", "id": "ws_1" }]), "input[0].type"),
            (json!([{ "type": "function_call", "name": "f", "arguments": "{}" }]), "input[0].call_id"),
            (json!([{ "type": "function_call", "call_id": "c", "arguments": "{}" }]), "input[0].name"),
            (json!([{ "type": "function_call", "call_id": "c", "name": "f", "arguments": {} }]), "input[0].arguments"),
            (json!([{ "type": "function_call_output", "output": "7" }]), "input[0].call_id"),
            (json!([{ "type": "function_call_output", "call_id": "c" }]), "input[0].output"),
            (json!([{ "type": "custom_tool_call", "call_id": "c", "name": "f" }]), "input[0].input"),
            (json!([{ "type": "custom_tool_call", "call_id": "c", "input": "x" }]), "input[0].name"),
            (json!([{ "type": "shell_call", "call_id": "c" }]), "input[0].action"),
            (json!([{ "type": "shell_call", "action": {} }]), "input[0].call_id"),
            (json!([{ "type": "tool_search_output", "call_id": "c" }]), "input[0].tools"),
            (json!([{ "type": "mcp_call", "id": "m" }]), "input[0].type"),
            (json!([{ "type": "compaction", "encrypted_content": "gAAAAAB" }]), "input[0].encrypted_content"),
            (json!([{ "type": "compaction" }]), "input[0].encrypted_content"),
            (json!([{ "type": "compaction_trigger" }]), "input[0].type"),
            (json!([{ "type": "item_reference", "id": "msg_1" }]), "input[0].id"),
            (json!([{ "type": "item_reference" }]), "input[0].id"),
        ] {
            assert_eq!(read(input.clone()), Err(parameter.to_owned()), "{input}");
        }
    }
}
