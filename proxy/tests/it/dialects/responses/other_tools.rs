//! Tools that are no functions.

use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

use super::{answered, post, request, texts_of, with};
use crate::common::Script;
use crate::common::families::QWEN3;

/// A tool of an MCP server, one that takes text, and a shell, as Codex and OpenAI's own agents declare and send them back.
#[tokio::test]
async fn calls_of_namespaces_custom_tools_and_shells_come_back_in_their_own_words_and_go_on_exactly() {
    let parameters = json!({ "type": "object", "properties": { "key": { "type": "string" } } });
    let lookup = json!({ "type": "function", "name": "lookup", "parameters": parameters });
    let tools = json!([
        { "type": "namespace", "name": "mcp__demo", "description": "A demo.", "tools": [lookup] },
        { "type": "custom", "name": "edit", "description": "Edits." },
        { "type": "shell" },
        { "type": "web_search" },
    ]);
    let call = |name: &str, arguments: Value| {
        let call = json!({ "name": name, "arguments": arguments });
        format!("<think>\nhm\n</think>\n\n<tool_call>\n{call}\n</tool_call><|im_end|>")
    };
    for (name, arguments, expected, output) in [
        (
            "mcp__demo__lookup",
            json!({ "key": "a" }),
            json!({ "type": "function_call", "namespace": "mcp__demo", "name": "lookup", "arguments": "{\"key\": \"a\"}" }),
            json!({ "type": "function_call_output", "output": "7" }),
        ),
        (
            "edit",
            json!({ "input": "a\nb" }),
            json!({ "type": "custom_tool_call", "name": "edit", "input": "a\nb" }),
            json!({ "type": "custom_tool_call_output", "output": "done" }),
        ),
        (
            "shell",
            json!({ "commands": ["ls"] }),
            json!({ "type": "shell_call", "action": { "commands": ["ls"] } }),
            json!({ "type": "shell_call_output", "output": [{ "stdout": "a", "stderr": "" }] }),
        ),
    ] {
        let request = with(request(), "tools", tools.clone());
        let text = call(name, arguments);
        let (setup, response, [rollout, _]) = answered(&QWEN3, &request, &text, SamplingEnd::StopToken).await;
        let item = &response["output"][1];
        for (field, value) in expected.as_object().unwrap() {
            let parsed = |value: &Value| value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
            let is_same = item[field] == *value || (field == "arguments" && parsed(&item[field]) == parsed(value));
            assert!(is_same, "{item} has another {field} than {value}");
        }
        let attempt = setup.generation_of(&rollout).await.attempt_id;
        let base = format!("{}/rollout/{rollout}/attempt/{attempt}/v1", setup.url);
        let url = format!("{base}/responses/{}", response["id"].as_str().unwrap());
        let again: Value = setup.client.get(url).send().await.unwrap().json().await.unwrap();
        assert_eq!(again["output"], response["output"]);
        let kinds: Vec<&str> =
            again["tools"].as_array().unwrap().iter().map(|tool| tool["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["namespace", "custom", "shell"]);
        assert!(again.get("tool_forms").is_none());

        let mut items = request["input"].as_array().cloned().unwrap();
        items.extend(response["output"].as_array().cloned().unwrap());
        items.push(with(output, "call_id", item["call_id"].clone()));
        setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)("Done.")), SamplingEnd::StopToken));
        let next: Value = post(&setup, &base, &with(request, "input", json!(items))).await.json().await.unwrap();
        assert_eq!(texts_of(&next).last().unwrap(), &("message", "Done."), "{next}");
        let drift = setup.store.queries().drift(&rollout).await.unwrap();
        assert_eq!(drift.continued, 1, "{name}: {drift:?}");
    }
}
