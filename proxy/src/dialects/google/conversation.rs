use fulgurite_renderers::{arguments_text, respelled_json};
use fulgurite_types::{Content, ContentPart, FunctionCall, Message, ToolCall};
use serde_json::{Map, Value, json};

use super::fields::{Fields, must};
use crate::dialects::field_checks::refuse;
use crate::error::ProxyError;
use crate::reply::assistant_message::assistant_message;
use crate::reply::numbered_calls::CallNumbers;
use crate::requests::exact_json::{ExactValues, RawFields, Step};

/// Fields of a part that say nothing of what it means: Gemini's own marks, which come back to it, and notes.
const NEUTRAL: [&str; 4] = ["thoughtSignature", "partMetadata", "mediaResolution", "videoMetadata"];

const REQUEST: Step = Step::Inside(&["generateContentRequest", "generate_content_request"]);
const CONTENTS: Step = Step::Field(&["contents"]);
const PARTS: Step = Step::Field(&["parts"]);
const CALL: Step = Step::Field(&["functionCall", "function_call"]);
const ARGUMENTS: Step = Step::Field(&["args"]);
const RESPONSE: Step = Step::Field(&["functionResponse", "function_response"]);
const RESULT: Step = Step::Field(&["response"]);

/// Where the arguments of calls and what they gave stand in a request.
pub(crate) const CALLS_AND_RESULTS: [&[Step]; 2] = [
    &[CONTENTS, Step::Items, PARTS, Step::Items, CALL, ARGUMENTS],
    &[CONTENTS, Step::Items, PARTS, Step::Items, RESPONSE, RESULT],
];

/// The same in a request to count tokens that holds one to generate.
pub(crate) const COUNTED_CALLS_AND_RESULTS: [&[Step]; 4] = [
    CALLS_AND_RESULTS[0],
    CALLS_AND_RESULTS[1],
    &[REQUEST, CONTENTS, Step::Items, PARTS, Step::Items, CALL, ARGUMENTS],
    &[REQUEST, CONTENTS, Step::Items, PARTS, Step::Items, RESPONSE, RESULT],
];

/// Reads what makes a conversation, as Chat Completions would have it: the same conversation has the same tokens. `exact`
/// has the arguments and results whose integers were rounded.
pub(super) fn read(
    body: &mut Fields,
    exact: &ExactValues,
    unknown: &mut Vec<String>,
) -> Result<Vec<Message>, ProxyError> {
    let system = body.object("systemInstruction")?;
    let contents = body.objects("contents")?;
    if contents.is_empty() {
        refuse("contents", "must hold at least one content")?;
    }
    let mut conversation = Conversation { messages: Vec::new(), numbers: CallNumbers::default(), waiting: Vec::new() };
    if let Some(system) = system {
        conversation.add_system(system, exact, unknown)?;
    }
    let mut turn: Option<ModelTurn> = None;
    for mut content in contents {
        let role = content.string("role")?.unwrap_or_else(|| "user".to_owned());
        let parts = parts(&mut content, exact, unknown)?;
        if role == "model" {
            // Contents that follow each other are one turn, such as the pieces of a stream.
            turn.get_or_insert_default().add(parts, &mut conversation.numbers)?;
            continue;
        }
        conversation.add_turn(turn.take());
        match role.as_str() {
            "user" | "function" => conversation.add_user(content.place(), parts)?,
            _ => refuse(&content.place_of("role"), &format!("is `{role}`; expected user, model or function"))?,
        }
    }
    conversation.add_turn(turn);
    Ok(conversation.messages)
}

/// What a part of a content is.
enum Part {
    Text(String),
    Thought(String),
    /// The arguments are JSON.
    Call {
        id: Option<String>,
        name: String,
        arguments: String,
    },
    Response {
        id: Option<String>,
        name: String,
        text: String,
    },
}

/// A part and its place.
struct PlacedPart {
    place: String,
    part: Part,
}

impl PlacedPart {
    /// The error for a part of another role.
    fn misplaced(&self) -> ProxyError {
        let (field, role) = match self.part {
            Part::Text(_) => ("text", "user"),
            Part::Thought(_) => ("thought", "model"),
            Part::Call { .. } => ("functionCall", "model"),
            Part::Response { .. } => ("functionResponse", "user"),
        };
        must(&format!("{}.{field}", self.place), &format!("cannot stand here, but in contents of the role {role}"))
    }
}

/// The parts of a content.
fn parts(content: &mut Fields, exact: &ExactValues, unknown: &mut Vec<String>) -> Result<Vec<PlacedPart>, ProxyError> {
    let parts = content.objects("parts")?.into_iter().map(|part| read_part(part, exact, unknown)).collect();
    content.tell_left(unknown);
    parts
}

fn read_part(mut fields: Fields, exact: &ExactValues, unknown: &mut Vec<String>) -> Result<PlacedPart, ProxyError> {
    for neutral in NEUTRAL {
        fields.take(neutral);
    }
    let is_thought = fields.boolean("thought")? == Some(true);
    let text = fields.string("text")?;
    let (call, response) = (fields.object("functionCall")?, fields.object("functionResponse")?);
    if let Some(name) = fields.any_left() {
        let why = match name {
            "inlineData" | "fileData" => "is not supported: the model here reads text alone",
            "executableCode" | "codeExecutionResult" | "toolCall" | "toolResponse" => {
                "is not supported: nothing here runs the tools of Google's servers"
            }
            _ => "is not known; expected text, functionCall or functionResponse",
        };
        refuse(&fields.place_of(name), why)?;
    }
    let part = match (text, call, response) {
        // Some clients leave an empty text out.
        (text, None, None) if is_thought => Part::Thought(text.unwrap_or_default()),
        (text, None, None) => Part::Text(text.unwrap_or_default()),
        (None, Some(call), None) => read_call(call, exact, unknown)?,
        (None, None, Some(response)) => read_response(response, exact, unknown)?,
        _ => return Err(must(fields.place(), "must hold one of text, functionCall and functionResponse")),
    };
    Ok(PlacedPart { place: fields.place().to_owned(), part })
}

fn read_call(mut call: Fields, exact: &ExactValues, unknown: &mut Vec<String>) -> Result<Part, ProxyError> {
    let (id, name) = (given_id(&mut call)?, function_name(&mut call)?);
    let arguments = call.take("args").unwrap_or_else(|| json!({}));
    if !arguments.is_object() {
        refuse(&call.place_of("args"), "must be an object")?;
    }
    let exact = exact.get(&call.place_of("args")).and_then(respelled_json);
    let arguments = exact.unwrap_or_else(|| json_text(arguments));
    call.tell_left(unknown);
    Ok(Part::Call { id, name, arguments })
}

fn read_response(mut response: Fields, exact: &ExactValues, unknown: &mut Vec<String>) -> Result<Part, ProxyError> {
    let (id, name) = (given_id(&mut response)?, function_name(&mut response)?);
    let result = response.take("response").unwrap_or_else(|| json!({}));
    let Value::Object(result) = result else {
        return Err(must(&response.place_of("response"), "must be an object"));
    };
    if !response.list("parts").is_empty() {
        refuse(&response.place_of("parts"), "is not supported: the model here reads text alone")?;
    }
    for neutral in ["willContinue", "scheduling"] {
        response.take(neutral);
    }
    let exact = exact.get(&response.place_of("response")).and_then(exact_result_text);
    response.tell_left(unknown);
    Ok(Part::Response { id, name, text: exact.unwrap_or_else(|| result_text(result)) })
}

/// An id; an empty one is none.
fn given_id(fields: &mut Fields) -> Result<Option<String>, ProxyError> {
    Ok(fields.string("id")?.filter(|id| !id.is_empty()))
}

fn function_name(fields: &mut Fields) -> Result<String, ProxyError> {
    let name = fields.string("name")?.filter(|name| !name.is_empty());
    name.ok_or_else(|| must(&fields.place_of("name"), "must be the function's name"))
}

/// What a function gave, as text: the value of `output` where that is all, as Google reads it, and else the whole object.
fn result_text(mut result: Map<String, Value>) -> String {
    let only_output = if result.len() == 1 { result.shift_remove("output") } else { None };
    match only_output.unwrap_or(Value::Object(result)) {
        Value::String(text) => text,
        value => json_text(value),
    }
}

/// The same of a result that is still text; `None` where it gave a text.
fn exact_result_text(result: &str) -> Option<String> {
    let fields: RawFields<'_> = serde_json::from_str(result).ok()?;
    match fields.get("output") {
        Some(output) if fields.len() == 1 && output.get().starts_with('"') => None,
        Some(output) if fields.len() == 1 => respelled_json(output.get()),
        _ => respelled_json(result),
    }
}

/// JSON as most models spell it.
fn json_text(value: Value) -> String {
    match value {
        // As arguments it would be an empty object.
        Value::Null => "null".to_owned(),
        value => {
            arguments_text(&FunctionCall { name: String::new(), arguments: value, extra: Map::new() }).into_owned()
        }
    }
}

/// The messages so far.
struct Conversation {
    messages: Vec<Message>,
    numbers: CallNumbers,
    /// Ids and functions of calls of the last turn that are not answered yet.
    waiting: Vec<(String, String)>,
}

impl Conversation {
    fn add_system(
        &mut self,
        mut system: Fields,
        exact: &ExactValues,
        unknown: &mut Vec<String>,
    ) -> Result<(), ProxyError> {
        // Clients say that it is the user's, or the system's.
        system.take("role");
        let texts = parts(&mut system, exact, unknown)?.into_iter().map(|part| match part.part {
            Part::Text(text) => Ok(text),
            Part::Thought(_) | Part::Call { .. } | Part::Response { .. } => Err(part.misplaced()),
        });
        let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
        if texts.iter().any(|text| !text.is_empty()) {
            self.messages.push(text_message("system", texts));
        }
        Ok(())
    }

    /// Results of functions are messages of their own; the text between them is the user's.
    fn add_user(&mut self, place: &str, parts: Vec<PlacedPart>) -> Result<(), ProxyError> {
        if parts.is_empty() {
            refuse(&format!("{place}.parts"), "must hold at least one part")?;
        }
        let mut texts = Vec::new();
        for placed in parts {
            match placed.part {
                Part::Text(text) => texts.push(text),
                Part::Response { id, name, text } => {
                    self.add_texts(std::mem::take(&mut texts));
                    let message = self.result(id, name, text);
                    self.messages.push(message);
                }
                Part::Thought(_) | Part::Call { .. } => return Err(placed.misplaced()),
            }
        }
        self.add_texts(texts);
        Ok(())
    }

    fn add_texts(&mut self, texts: Vec<String>) {
        self.messages.extend((!texts.is_empty()).then(|| text_message("user", texts)));
    }

    fn add_turn(&mut self, turn: Option<ModelTurn>) {
        let Some(ModelTurn { reasoning, text, calls }) = turn else { return };
        let call = |call: &ToolCall| (call.id.clone().unwrap_or_default(), call.function.name.clone());
        self.waiting = calls.iter().map(call).collect();
        self.messages.push(assistant_message(reasoning, text, calls));
    }

    /// The message of what a function gave. It answers the call of its id, or else the first call of its function that is
    /// not answered.
    fn result(&mut self, id: Option<String>, name: String, text: String) -> Message {
        let by_id = self.waiting.iter().position(|(waiting, _)| Some(waiting) == id.as_ref());
        let answered = by_id.or_else(|| self.waiting.iter().position(|(_, function)| *function == name));
        let (call_id, name) = match answered {
            Some(place) => (self.waiting.remove(place).0, None),
            None => (id.unwrap_or_else(|| name.clone()), Some(name)),
        };
        Message { tool_call_id: Some(call_id), name, ..text_message("tool", vec![text]) }
    }
}

/// A message of texts, of which a single one is plain content.
fn text_message(role: &str, mut texts: Vec<String>) -> Message {
    let content = match texts.len() {
        0 | 1 => Content::Text(texts.pop().unwrap_or_default()),
        _ => Content::Parts(texts.into_iter().map(ContentPart::from_text).collect()),
    };
    Message { role: role.to_owned(), content: Some(content), ..Message::default() }
}

/// The model's parts of a turn, as one message, the same as when it was sampled.
#[derive(Default)]
struct ModelTurn {
    reasoning: String,
    text: String,
    calls: Vec<ToolCall>,
}

impl ModelTurn {
    fn add(&mut self, parts: Vec<PlacedPart>, numbers: &mut CallNumbers) -> Result<(), ProxyError> {
        for placed in parts {
            match placed.part {
                Part::Text(text) => self.text.push_str(&text),
                Part::Thought(text) => self.reasoning.push_str(&text),
                Part::Call { id, name, arguments } => {
                    self.calls.push(tool_call(numbers.id_of(id), name, arguments));
                }
                Part::Response { .. } => return Err(placed.misplaced()),
            }
        }
        Ok(())
    }
}

/// The arguments are spelled as most models do, so that the call is recorded as it was when it was answered.
fn tool_call(id: String, name: String, arguments: String) -> ToolCall {
    let function = FunctionCall { name, arguments: arguments.into(), extra: Map::new() };
    ToolCall { id: Some(id), call_type: "function".to_owned(), function, extra: Map::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::field_checks::refused_field;

    fn messages(body: Value) -> Result<(Value, Vec<String>), String> {
        let mut unknown = Vec::new();
        let mut body = Fields::of_body(body.as_object().unwrap().clone()).unwrap();
        let messages = read(&mut body, &ExactValues::default(), &mut unknown).map_err(refused_field)?;
        Ok((json!(messages), unknown))
    }

    fn call(id: Value) -> Value {
        json!({ "functionCall": { "id": id, "name": "f", "args": { "a": 1, "b": [] } }, "thoughtSignature": "c2ln" })
    }

    fn response(id: Value, response: Value) -> Value {
        json!({ "function_response": { "id": id, "name": "f", "response": response } })
    }

    #[test]
    fn a_conversation_is_that_of_a_chat() {
        let body = json!({
            "system_instruction": { "role": "user", "parts": { "text": "Be brief." } },
            "contents": [
                { "parts": [{ "text": "Well?" }, { "text": "?" }] },
                { "role": "model", "parts": [{ "text": "hm", "thought": true }, { "text": "Loo" }] },
                { "role": "model", "parts": [{ "text": "king." }, {}, call(json!("call_0")), call(json!("call_1"))] },
                { "role": "user", "parts": [
                    response(json!("call_1"), json!({ "output": "second" })),
                    response(json!("call_0"), json!({ "output": { "n": 1.0 }, "error": null })),
                    { "text": "And?" },
                ] },
            ],
        });
        let called = |id: &str| {
            let function = json!({ "name": "f", "arguments": "{\"a\": 1, \"b\": []}" });
            json!({ "id": id, "type": "function", "function": function })
        };
        let expected = json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "Well?" }, { "type": "text", "text": "?" }] },
            { "role": "assistant", "content": "Looking.", "reasoning_content": "hm",
              "tool_calls": [called("call_0"), called("call_1")] },
            { "role": "tool", "content": "second", "tool_call_id": "call_1" },
            { "role": "tool", "content": "{\"output\": {\"n\": 1.0}, \"error\": null}", "tool_call_id": "call_0" },
            { "role": "user", "content": "And?" },
        ]);
        assert_eq!(messages(body), Ok((expected, vec![])));
    }

    #[test]
    fn calls_and_results_without_ids_are_counted_and_matched_by_their_function() {
        let named = |name: &str| json!({ "functionCall": { "name": name } });
        let gave = |name: &str| json!({ "functionResponse": { "name": name, "response": { "output": name } } });
        let body = json!({ "contents": [
            { "role": "user", "parts": [{ "text": "Go." }] },
            { "role": "model", "parts": [named("f"), named("g"), named("f")] },
            { "role": "function", "parts": [gave("g"), gave("f"), gave("f"), gave("h")] },
        ] });
        let (messages, _) = messages(body).unwrap();
        let ids: Vec<&Value> = (2..6_usize).map(|place| &messages[place]["tool_call_id"]).collect();
        assert_eq!(json!(ids), json!(["call_1", "call_0", "call_2", "h"]));
        assert_eq!((&messages[2].get("name"), &messages[5]["name"]), (&None, &json!("h")));
    }

    #[test]
    fn results_are_text_where_that_is_all() {
        for (response, text) in [
            (json!({ "output": "rain" }), "rain"),
            (json!({ "output": 7 }), "7"),
            (json!({ "output": null }), "null"),
            (json!({ "result": "r\u{e4}in" }), "{\"result\": \"r\u{e4}in\"}"),
            (json!({}), "{}"),
        ] {
            assert_eq!(result_text(response.as_object().unwrap().clone()), text);
        }
    }

    #[test]
    fn every_fault_names_its_place() {
        let user = |part: Value| json!({ "contents": [{ "parts": [part] }] });
        let model = |part: Value| json!({ "contents": [{ "role": "model", "parts": [part] }] });
        for (body, field) in [
            (json!({}), "contents"),
            (json!({ "contents": ["Hi"] }), "contents[0]"),
            (json!({ "contents": { "role": "robot", "parts": [{ "text": "" }] } }), "contents[0].role"),
            (json!({ "contents": [{ "role": "user" }] }), "contents[0].parts"),
            (json!({ "contents": [{ "parts": [1] }] }), "contents[0].parts[0]"),
            (user(json!({ "text": 1 })), "contents[0].parts[0].text"),
            (user(json!({ "inline_data": { "data": "" } })), "contents[0].parts[0].inlineData"),
            (user(json!({ "fileData": {} })), "contents[0].parts[0].fileData"),
            (user(json!({ "text": "", "poem": "" })), "contents[0].parts[0].poem"),
            (user(call(json!(null))), "contents[0].parts[0].functionCall"),
            (user(json!({ "text": "", "thought": true })), "contents[0].parts[0].thought"),
            (model(json!({ "executableCode": {} })), "contents[0].parts[0].executableCode"),
            (model(response(json!(null), json!({}))), "contents[0].parts[0].functionResponse"),
            (model(json!({ "functionCall": {} })), "contents[0].parts[0].functionCall.name"),
            (model(json!({ "functionCall": { "name": "f", "args": [] } })), "contents[0].parts[0].functionCall.args"),
            (model(json!({ "text": "", "functionCall": { "name": "f" } })), "contents[0].parts[0]"),
            (user(response(json!(1), json!({}))), "contents[0].parts[0].functionResponse.id"),
            (user(response(json!(null), json!("x"))), "contents[0].parts[0].functionResponse.response"),
        ] {
            assert_eq!(messages(body.clone()), Err(field.to_owned()), "{body}");
        }
        let system = json!({ "systemInstruction": "Be brief.", "contents": [] });
        assert_eq!(messages(system), Err("systemInstruction".to_owned()));
    }
}
