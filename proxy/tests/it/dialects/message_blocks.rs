//! Blocks of Anthropic's Messages: calls that are streamed while they are sampled, and documents.

use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::messages::{post, request, with};
use crate::common::Script;
use crate::common::families::{FAMILIES, QWEN3};
use crate::common::messages::{assembled, events};

/// The sampler waits for the client to go: what arrives then arrives before the call is whole.
#[tokio::test]
async fn arguments_are_streamed_as_they_are_sampled() {
    for family in FAMILIES {
        let setup = family.setup().await;
        let (_, base) = setup.attempt().await;
        let (on_disconnect, disconnected) = oneshot::channel();
        setup.play(Script::Hang(setup.sampled(family.turn.split_once(family.end_of_call).unwrap().0), on_disconnect));
        let mut response = post(&setup, &base, &with(request(), "stream", json!(true))).await;
        let mut text = String::new();
        let pieces: Vec<String> = loop {
            text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
            let whole = text.rfind("\n\n").map_or("", |end| &text[..end + 2]);
            let parsed = events(whole);
            let pieces = parsed.iter().filter_map(|event| event["delta"]["partial_json"].as_str().map(str::to_owned));
            let pieces: Vec<String> = pieces.collect();
            if pieces.concat().contains("days") {
                let started = parsed.iter().find(|event| event["content_block"]["type"] == "tool_use").unwrap();
                assert_eq!(started["content_block"]["name"], "weather", "{}", family.format);
                break pieces;
            }
        };
        drop(response);
        disconnected.await.unwrap();
        assert!(pieces.len() > 1 && pieces[0].starts_with('{'), "{}: {pieces:?}", family.format);
    }
}

/// As a client has it that keeps what it was sent of a call and answers what it could not run.
#[tokio::test]
async fn a_conversation_goes_on_after_a_call_that_broke_while_it_was_streamed() {
    for family in FAMILIES {
        let setup = family.setup().await;
        let (rollout, base) = setup.attempt().await;
        setup.play(Script::Answer(
            setup.sampled(&format!("{}{}", family.broken[1], family.stop)),
            SamplingEnd::StopToken,
        ));
        let text = post(&setup, &base, &with(request(), "stream", json!(true))).await.text().await.unwrap();
        let parsed = events(&text);
        let started = parsed.iter().find(|event| event["content_block"]["type"] == "tool_use").unwrap();
        let id = started["content_block"]["id"].clone();
        let sent = |event: &Value| {
            let own = event["index"] == started["index"];
            own.then(|| event["delta"]["partial_json"].as_str().map(str::to_owned)).flatten()
        };
        let input: String = parsed.iter().filter_map(sent).collect();
        let answered = assembled(&parsed);
        let call = json!({ "type": "tool_use", "id": id, "name": "weather", "input": input });
        let mut blocks = vec![call];
        blocks.extend(answered["content"].as_array().cloned().unwrap());
        let result = json!({ "type": "tool_result", "tool_use_id": id, "content": "no JSON", "is_error": true });
        let mut request = request();
        request["messages"].as_array_mut().unwrap().extend([
            json!({ "role": "assistant", "content": blocks }),
            json!({ "role": "user", "content": [result] }),
        ]);
        setup.play(Script::Answer(setup.sampled(&(family.plain_turn)("Sorry.")), SamplingEnd::StopToken));
        let next = post(&setup, &base, &request).await;
        assert_eq!(next.status(), 200, "{}: {}", family.format, next.text().await.unwrap());
        let drift = setup.store.queries().drift(&rollout).await.unwrap();
        assert_eq!((drift.continued, &drift.calls[1].reason), (1, &None), "{}", family.format);
    }
}

#[tokio::test]
async fn a_document_of_text_is_read_as_text() {
    let setup = QWEN3.setup().await;
    let (_, base) = setup.attempt().await;
    let document = json!({
        "type": "document", "title": "Weather", "source": { "type": "text", "media_type": "text/plain", "data": "Rain." },
    });
    let mut request = request();
    request["messages"] = json!([
        { "role": "user", "content": [document, { "type": "text", "text": "Well?" }] },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "weather", "input": {} }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": [document] }] },
    ]);
    setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)("Rain.")), SamplingEnd::StopToken));
    assert_eq!(post(&setup, &base, &request).await.status(), 200);
    let prompt = setup.renderer.tokenizer().decode(&setup.sampler.requests.lock().unwrap()[0].prompt);
    let text = "<document>\n<title>Weather</title>\n<document_content>\nRain.\n</document_content>\n</document>\n";
    assert_eq!(prompt.matches(text.trim_end()).count(), 2, "{prompt}");
}

/// Anthropic's own libraries say when they add up a stream, which they cannot where a call breaks.
#[tokio::test]
async fn who_adds_up_a_stream_gets_calls_once_they_are_whole() {
    for family in FAMILIES {
        let setup = family.setup().await;
        let (_, base) = setup.attempt().await;
        let stream = async |sampled: &str, beta: &str| {
            setup.play(Script::Answer(setup.sampled(sampled), SamplingEnd::StopToken));
            let sent = setup.client.post(format!("{base}/messages")).header("x-stainless-helper-method", "stream");
            let sent = sent.header("anthropic-beta", beta).json(&with(request(), "stream", json!(true)));
            events(&sent.send().await.unwrap().text().await.unwrap())
        };
        let pieces =
            |events: &[Value]| events.iter().filter(|event| event["delta"]["partial_json"].is_string()).count();
        let broken = format!("{}{}", family.broken[1], family.stop);
        assert_eq!(pieces(&stream(family.turn, "none").await), 1, "{}", family.format);
        assert_eq!(pieces(&stream(&broken, "none").await), 0, "{}", family.format);
        let eager = "fine-grained-tool-streaming-2025-05-14";
        assert!(pieces(&stream(family.turn, eager).await) > 1, "{}", family.format);
    }
}
