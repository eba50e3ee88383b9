//! Conversations that are compacted, and what goes on from them.

use fulgurite_backends::SamplingEnd;
use fulgurite_types::Message;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use super::{post, with};
use crate::common::families::QWEN3;
use crate::common::{Script, Setup};

const SUMMARY: &str = "It rains in Paris for 2 days.";

/// How a summary stands in a prompt.
fn summary_message(summary: &str) -> Message {
    let text = format!("Summary of the conversation before this point, by the assistant who had it:\n\n{summary}");
    Message::text("user", text)
}

/// A conversation with an answer, a call and its result.
fn conversation() -> Value {
    json!([
        { "role": "user", "content": [
            { "type": "input_text", "text": "Rain in" }, { "type": "input_text", "text": " Paris?" },
        ] },
        { "type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{\"city\": \"Paris\"}" },
        { "type": "function_call_output", "call_id": "c1", "output": "rain, 2 days" },
        { "role": "assistant", "content": "It rains." },
        { "role": "user", "content": "Thank you." },
    ])
}

fn request() -> Value {
    json!({ "model": "tiny", "instructions": "Be brief.", "input": conversation() })
}

async fn compact(setup: &Setup, base: &str, body: &Value, sampled: &str, end: SamplingEnd) -> (u16, Value) {
    setup.play(Script::Answer(setup.sampled(sampled), end));
    let reply = setup.client.post(format!("{base}/responses/compact")).json(body).send().await.unwrap();
    (reply.status().as_u16(), reply.json().await.unwrap())
}

async fn compacted(setup: &Setup, base: &str, body: &Value) -> Value {
    let (status, compacted) = compact(setup, base, body, &(QWEN3.plain_turn)(SUMMARY), SamplingEnd::StopToken).await;
    assert_eq!(status, 200, "{compacted}");
    compacted
}

/// The prompt from which a request is answered.
async fn prompt_of(setup: &Setup, base: &str, body: &Value) -> Vec<u32> {
    setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)("Yes.")), SamplingEnd::StopToken));
    let reply = post(setup, base, body).await;
    assert_eq!(reply.status(), 200, "{}", reply.text().await.unwrap());
    setup.sampler.requests.lock().unwrap().last().unwrap().prompt.to_vec()
}

#[tokio::test]
async fn a_compaction_is_what_was_said_and_a_summary_that_is_recorded_and_not_trained() {
    let setup = QWEN3.setup().await;
    let (rollout, base) = setup.attempt().await;
    let body = with(request(), "tools", super::declared_tools());
    setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)(SUMMARY)), SamplingEnd::StopToken));
    let reply = setup.client.post(format!("{base}/responses/compact")).json(&body).send().await.unwrap();
    let ignored = reply.headers().get("x-fulgurite-ignored").cloned();
    let response: Value = reply.json().await.unwrap();
    assert_eq!(ignored.as_ref().map(HeaderValue::as_bytes), Some(&b"tools"[..]), "{response}");
    let output = response["output"].as_array().unwrap();
    let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(
        (response["object"].as_str(), kinds),
        (Some("response.compaction"), vec!["message", "message", "compaction"])
    );
    assert_eq!((&output[0]["role"], &output[0]["content"][1]["text"]), (&json!("user"), &json!(" Paris?")));
    assert_eq!(output[1]["content"][0]["text"], "Thank you.");

    let generation = setup.generation_of(&rollout).await;
    assert_eq!(response["id"], generation.generation_id.as_str());
    let defect = generation.defect.as_ref().map(ToString::to_string);
    assert_eq!(defect.as_deref(), Some("auxiliary:responses_compaction"));
    let usage = &response["usage"];
    assert_eq!(usage["input_tokens"], generation.prompt_tokens.len());
    assert_eq!(usage["output_tokens"], generation.sampled_tokens.len());
    assert!(usage["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0, "{usage}");
    let prompt = setup.renderer.tokenizer().decode(&generation.prompt_tokens);
    for part in ["Be brief.", "Rain in Paris?", "rain, 2 days", "It rains.", "Summarize this conversation"] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert!(!prompt.contains("Tells the weather."), "tools are not shown: {prompt}");

    // Its client may want it trained.
    let (rollout, base) = setup.attempt().await;
    setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)(SUMMARY)), SamplingEnd::StopToken));
    let url = format!("{base}/responses/compact");
    let reply = setup.client.post(url).header("x-fulgurite-trainable", "true").json(&request()).send().await.unwrap();
    assert_eq!(reply.status(), 200);
    assert_eq!(setup.generation_of(&rollout).await.defect, None);
}

#[tokio::test]
async fn a_conversation_goes_on_from_its_compaction_in_each_way() {
    let setup = QWEN3.setup().await;
    let (_, base) = setup.attempt().await;
    let response = compacted(&setup, &base, &request()).await;
    let next = json!({ "role": "user", "content": "And Rome?" });
    let items: Vec<Value> = response["output"].as_array().unwrap().iter().chain([&next]).cloned().collect();
    let by_items = with(request(), "input", json!(items));
    let prompt = prompt_of(&setup, &base, &by_items).await;
    let first: Message = serde_json::from_value(json!({ "role": "user", "content": [
        { "type": "text", "text": "Rain in" }, { "type": "text", "text": " Paris?" },
    ] }))
    .unwrap();
    let messages = [
        Message::text("system", "Be brief."),
        first,
        Message::text("user", "Thank you."),
        summary_message(SUMMARY),
        Message::text("user", "And Rome?"),
    ];
    assert_eq!(prompt, setup.renderer.render_prompt(&messages, &[]).unwrap().tokens);

    let mut by_id = with(request(), "input", json!([next]));
    by_id["previous_response_id"] = response["id"].clone();
    assert_eq!(prompt_of(&setup, &base, &by_id).await, prompt, "by the compaction's id");

    let reference = json!({ "type": "item_reference", "id": response["output"][2]["id"] });
    let mut referring = items.clone();
    referring[2] = reference;
    assert_eq!(prompt_of(&setup, &base, &with(request(), "input", json!(referring))).await, prompt, "by reference");

    // Another compaction takes the place of the first.
    let again = compacted(&setup, &base, &by_items).await;
    let kinds: Vec<&str> =
        again["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "message", "message", "compaction"]);
    let by_id = compacted(&setup, &base, &by_id).await;
    let texts = |response: &Value| {
        response["output"].as_array().unwrap().iter().map(|item| item["content"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&by_id), texts(&again));
}

#[tokio::test]
async fn a_compaction_is_asked_for_again_by_its_id() {
    let setup = QWEN3.setup().await;
    let (_, base) = setup.attempt().await;
    let response = compacted(&setup, &base, &request()).await;
    let id = response["id"].as_str().unwrap();
    let get = async |path: &str| setup.client.get(format!("{base}/responses/{path}")).send().await.unwrap();
    let kept: Value = get(id).await.json().await.unwrap();
    assert_eq!((&kept["object"], &kept["output"]), (&response["object"], &response["output"]));
    let items: Value = get(&format!("{id}/input_items?order=asc")).await.json().await.unwrap();
    assert_eq!(items["data"].as_array().unwrap().len(), 5, "{items}");
    assert_eq!(get(&format!("{id}?stream=true")).await.status(), 400);
}

#[tokio::test]
async fn a_summary_that_is_none_or_does_not_end_is_refused_and_so_is_what_others_encrypted() {
    let setup = QWEN3.setup().await;
    let (_, base) = setup.attempt().await;
    for (sampled, end, words) in [
        ("<think>\nhm\n</think>\n\n<|im_end|>", SamplingEnd::StopToken, "wrote no summary"),
        ("<think>\nhm\n</think>\n\nIt rai", SamplingEnd::Length, "did not end"),
    ] {
        let (status, error) = compact(&setup, &base, &request(), sampled, end).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("input")), "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains(words), "{error}");
    }
    for (item, param) in [
        (json!({ "type": "compaction", "encrypted_content": "gAAAAABp" }), "input[0].encrypted_content"),
        (json!({ "type": "compaction_trigger" }), "input[0].type"),
    ] {
        let reply = post(&setup, &base, &with(request(), "input", json!([item]))).await;
        let (status, error) = (reply.status().as_u16(), reply.json::<Value>().await.unwrap());
        assert_eq!((status, &error["error"]["param"]), (400, &json!(param)), "{error}");
    }
}
