//! Half a surrogate pair, which JavaScript leaves where it cuts a text, does not lock an agent out: in every dialect it
//! is replaced, and header and record say where.

use fulgurite_backends::SamplingEnd;
use fulgurite_types::GenerationFilter;
use serde_json::json;

use crate::common::families::QWEN3;
use crate::common::{Script, Setup};

const HALF: &str = r"x \ud99c y";

/// A path below a base URL and a body by each dialect, whose second item is a call with half a pair in its arguments, and
/// whose third has one in its text; and where they stand.
fn requests() -> [(&'static str, String, [&'static str; 2]); 4] {
    let call = r#"{\"a\":\"\\udc00\"}"#;
    let chat = format!(
        r#"{{"model":"tiny","messages":[{{"role":"user","content":"u"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c1","type":"function","function":{{"name":"f","arguments":"{call}"}}}}]}},{{"role":"tool","tool_call_id":"c1","content":"{HALF}"}}]}}"#
    );
    let responses = format!(
        r#"{{"model":"tiny","input":[{{"role":"user","content":"u"}},{{"type":"function_call","call_id":"c1","name":"f","arguments":"{call}"}},{{"type":"function_call_output","call_id":"c1","output":"{HALF}"}}]}}"#
    );
    let anthropic = format!(
        r#"{{"model":"tiny","max_tokens":9,"messages":[{{"role":"user","content":"u"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"c1","name":"f","input":{{"a":"\udc00"}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c1","content":"{HALF}"}}]}}]}}"#
    );
    let google = format!(
        r#"{{"contents":[{{"role":"user","parts":[{{"text":"u"}}]}},{{"role":"model","parts":[{{"functionCall":{{"name":"f","args":{{"a":"\udc00"}}}}}}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"f","response":{{"output":"{HALF}"}}}}}}]}}]}}"#
    );
    [
        ("v1/chat/completions", chat, ["messages[1].tool_calls[0].function.arguments", "messages[2].content"]),
        ("v1/responses", responses, ["input[1].arguments", "input[2].output"]),
        ("v1/messages", anthropic, ["messages[1].content[0].input.a", "messages[2].content[0].content"]),
        (
            "v1beta/models/tiny:generateContent",
            google,
            ["contents[1].parts[0].functionCall.args.a", "contents[2].parts[0].functionResponse.response.output"],
        ),
    ]
}

async fn post(setup: &Setup, base: &str, path: &str, body: String) -> reqwest::Response {
    let url = format!("{}/{path}", base.strip_suffix("/v1").unwrap());
    setup.client.post(url).header("content-type", "application/json").body(body).send().await.unwrap()
}

#[tokio::test]
async fn half_a_surrogate_pair_is_replaced_and_named_in_every_dialect() {
    let setup = QWEN3.setup().await;
    let answer = setup.sampled(&(QWEN3.plain_turn)("It rains."));
    for (path, body, places) in requests() {
        setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
        let (rollout, base) = setup.attempt().await;
        let response = post(&setup, &base, path, body).await;
        let warning = response.headers().get("x-fulgurite-warning").map(|value| value.to_str().unwrap().to_owned());
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, 200, "{path}: {text}");
        let expected = format!("halves of surrogate pairs in {} replaced by U+FFFD: 2", places.join(", "));
        assert_eq!(warning, Some(expected), "{path}");

        let attributes = setup.attributes(&rollout).await;
        assert_eq!(attributes["fulgurite.request.replaced_characters"], json!(places), "{path}");
        let filter = GenerationFilter { rollout_id: Some(rollout), ..GenerationFilter::default() };
        let [generation] = setup.store.generations().matching(&filter).await.unwrap().try_into().unwrap();
        let prompt = setup.renderer.tokenizer().decode(&generation.prompt_tokens);
        assert!(prompt.contains("x \u{fffd} y"), "{path}: {prompt}");
        assert!(prompt.contains("\"a\": \"\u{fffd}\"") || prompt.contains(r#""a":"\ufffd""#), "{path}: {prompt}");
    }
}

#[tokio::test]
async fn an_agent_goes_on_token_by_token_behind_half_a_surrogate_pair_also_after_a_restart() {
    let mut setup = QWEN3.setup().await;
    let answer = setup.sampled(&(QWEN3.plain_turn)("It rains."));
    let (rollout, base) = setup.attempt().await;
    let path = base.strip_prefix(&setup.url).unwrap().to_owned();
    let mut items = format!(r#"{{"role":"user","content":"{HALF}"}}"#);
    for turn in 0..3 {
        if turn == 2 {
            setup.restart().await;
        }
        setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
        let body = format!(r#"{{"model":"tiny","stream":true,"messages":[{items}]}}"#);
        let response = post(&setup, &format!("{}{path}", setup.url), "v1/chat/completions", body).await;
        assert_eq!(response.status(), 200);
        assert!(response.headers().contains_key("x-fulgurite-warning"));
        response.text().await.unwrap();
        let more = r#"{"role":"user","content":"and \udfff?"}"#;
        items = format!(r#"{items},{{"role":"assistant","content":"It rains."}},{more}"#);
    }
    let filter = GenerationFilter { rollout_id: Some(rollout), ..GenerationFilter::default() };
    let generations = setup.store.generations().matching(&filter).await.unwrap();
    let [first, second, third] = generations.try_into().unwrap();
    assert_eq!((&second.branch_reason, &third.branch_reason), (&None, &None));
    for (earlier, later) in [(&first, &second), (&second, &third)] {
        let before = [earlier.prompt_tokens.as_slice(), &earlier.sampled_tokens].concat();
        assert!(later.prompt_tokens.starts_with(&before));
    }
}
