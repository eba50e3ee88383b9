//! An agent with a tool, in each of four dialects.

use serde_json::{Map, Value, json};

/// What differs between the dialects of an agent that sends its whole history with each call.
pub struct Wire {
    pub name: &'static str,
    pub path: fn(Streaming) -> String,
    /// The request with this history.
    pub request: fn(&[Value], Streaming) -> Value,
    /// An item of the history in which the user says something.
    pub user: fn(&str) -> Value,
    /// An item in which the model said something.
    pub assistant: fn(&str) -> Value,
    /// An answer that calls the tool, as its client keeps it, and the tool's result.
    pub echo: fn(&Value, &str) -> Vec<Value>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Streaming {
    Whole,
    Streamed,
}

pub const SYSTEM: &str = "You are an agent.";

pub const CALL: &str =
    "Looking.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}}\n</tool_call>";

fn schema() -> Value {
    json!({ "type": "object", "properties": { "city": { "type": "string" }, "days": { "type": "integer" } } })
}

/// Arguments in another order of keys.
fn respelled(arguments: &Value) -> Map<String, Value> {
    let arguments = arguments.as_object().unwrap();
    ["days", "city"].into_iter().map(|key| (key.to_owned(), arguments[key].clone())).collect()
}

pub const WIRES: [Wire; 4] = [
    Wire {
        name: "chat completions",
        path: |_| "/v1/chat/completions".to_owned(),
        request: |history, streaming| {
            let system = json!({ "role": "system", "content": SYSTEM });
            let messages: Vec<Value> = std::iter::once(system).chain(history.iter().cloned()).collect();
            let function = json!({ "name": "weather", "parameters": schema() });
            json!({
                "model": "tiny", "messages": messages, "stream": streaming == Streaming::Streamed,
                "tools": [{ "type": "function", "function": function }],
            })
        },
        user: |text| json!({ "role": "user", "content": text }),
        assistant: |text| json!({ "role": "assistant", "content": text }),
        echo: |reply, result| {
            let call = &reply["choices"][0]["message"]["tool_calls"][0];
            let arguments = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
            let arguments = Value::Object(respelled(&arguments)).to_string();
            // Without its text, its reasoning and all that is null.
            let function = json!({ "arguments": arguments, "name": "weather" });
            let calls = [json!({ "function": function, "id": call["id"], "type": "function" })];
            vec![
                json!({ "role": "assistant", "content": null, "tool_calls": calls }),
                json!({ "role": "tool", "tool_call_id": call["id"], "content": result }),
            ]
        },
    },
    Wire {
        name: "messages",
        path: |_| "/v1/messages".to_owned(),
        request: |history, streaming| {
            json!({
                "model": "tiny", "system": SYSTEM, "messages": history, "max_tokens": 200,
                "stream": streaming == Streaming::Streamed,
                "tools": [{ "name": "weather", "input_schema": schema() }],
            })
        },
        user: |text| json!({ "role": "user", "content": text }),
        assistant: |text| json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] }),
        echo: |reply, result| {
            let blocks = reply["content"].as_array().unwrap();
            let kept: Vec<Value> = blocks.iter().filter(|block| block["type"] != "thinking").cloned().collect();
            let id = &kept.iter().find(|block| block["type"] == "tool_use").unwrap()["id"];
            let result = json!({ "type": "tool_result", "tool_use_id": id, "content": result });
            vec![json!({ "role": "assistant", "content": kept }), json!({ "role": "user", "content": [result] })]
        },
    },
    Wire {
        name: "generateContent",
        path: |streaming| match streaming {
            Streaming::Whole => "/v1beta/models/tiny:generateContent".to_owned(),
            Streaming::Streamed => "/v1beta/models/tiny:streamGenerateContent?alt=sse".to_owned(),
        },
        request: |history, _| {
            json!({
                "systemInstruction": { "parts": [{ "text": SYSTEM }] }, "contents": history,
                "tools": [{ "functionDeclarations": [{ "name": "weather", "parametersJsonSchema": schema() }] }],
            })
        },
        user: |text| json!({ "role": "user", "parts": [{ "text": text }] }),
        assistant: |text| json!({ "role": "model", "parts": [{ "text": text }] }),
        echo: |reply, result| {
            let parts = reply["candidates"][0]["content"]["parts"].as_array().unwrap();
            let mut kept: Vec<Value> = parts.iter().filter(|part| part["thought"] != true).cloned().collect();
            let call = kept.iter_mut().find_map(|part| part.get_mut("functionCall")).unwrap();
            // Its id is left out, as older clients do.
            *call = json!({ "args": respelled(&call["args"]), "name": "weather" });
            let response = json!({ "name": "weather", "response": { "output": result } });
            vec![
                json!({ "role": "model", "parts": kept }),
                json!({ "role": "user", "parts": [{ "functionResponse": response }] }),
            ]
        },
    },
    Wire {
        name: "responses",
        path: |_| "/v1/responses".to_owned(),
        request: |history, streaming| {
            json!({
                "model": "tiny", "instructions": SYSTEM, "input": history, "store": false,
                "stream": streaming == Streaming::Streamed,
                "tools": [{ "type": "function", "name": "weather", "parameters": schema(), "strict": false }],
            })
        },
        user: |text| json!({ "type": "message", "role": "user", "content": text }),
        assistant: |text| {
            let content = [json!({ "type": "output_text", "text": text, "annotations": [] })];
            json!({ "type": "message", "role": "assistant", "content": content })
        },
        echo: |reply, result| {
            let items = reply["output"].as_array().unwrap();
            let mut kept: Vec<Value> = items.iter().filter(|item| item["type"] != "reasoning").cloned().collect();
            let id = kept.iter().find(|item| item["type"] == "function_call").unwrap()["call_id"].clone();
            kept.push(json!({ "type": "function_call_output", "call_id": id, "output": result }));
            kept
        },
    },
];
