//! What an agent's own tracer needs of an answer: the tokens and their logprobs, as vLLM gives them.

use crate::common::{Script, Setup, body, chunks};
use fulgurite_backends::SamplingEnd;
use fulgurite_proxy::ProxyOptions;
use serde_json::{Value, json};

fn logprobs(content: &Value) -> Vec<f64> {
    content.as_array().unwrap().iter().map(|entry| entry["logprob"].as_f64().unwrap()).collect()
}

#[tokio::test]
async fn an_attempts_answer_carries_every_token_with_its_logprob() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    let mut answer = setup.tokens("I am 17, ä.");
    answer.push(setup.stop());
    let expected: Vec<f64> = (1..=answer.len()).map(|place| -0.25 * place as f64).collect();
    for _ in 0..2 {
        setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
    }
    let whole: Value = setup.post(&base, &body()).await.json().await.unwrap();
    let mut streamed = body();
    streamed["stream"] = json!(true);
    let chunks = chunks(&setup.post(&base, &streamed).await.text().await.unwrap());

    let [first, second] = &setup.generations().await[..] else { panic!("not two") };
    assert_eq!(whole["id"], json!(first.generation_id));
    assert_eq!(whole["prompt_token_ids"], json!(first.prompt_tokens));
    assert_eq!(whole["choices"][0]["token_ids"], json!(answer));
    // One for one, the stop token too: a trainer that finds another number of logprobs drops them all.
    assert_eq!(logprobs(&whole["choices"][0]["logprobs"]["content"]), expected);

    assert_eq!(chunks[0]["prompt_token_ids"], json!(second.prompt_tokens));
    assert!(chunks[1..].iter().all(|chunk| chunk.get("prompt_token_ids").is_none()));
    let choices = || chunks[1..].iter().map(|chunk| &chunk["choices"][0]);
    let ids: Vec<&Value> = choices().flat_map(|choice| choice["token_ids"].as_array().unwrap()).collect();
    assert_eq!(json!(ids), json!(answer));
    let streamed_logprobs: Vec<f64> = choices().flat_map(|choice| logprobs(&choice["logprobs"]["content"])).collect();
    assert_eq!(streamed_logprobs, expected);
}

#[tokio::test]
async fn elsewhere_token_ids_are_for_those_who_ask() {
    let setup = Setup::new(vec![]).await;
    let here = format!("{}/v1", setup.url);
    for wants_ids in [json!(null), json!(false), json!(true)] {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
        let mut request = body();
        request["return_token_ids"] = wants_ids.clone();
        let answer: Value = setup.post(&here, &request).await.json().await.unwrap();
        let given = wants_ids == json!(true);
        assert_eq!(answer.get("prompt_token_ids").is_some(), given, "{answer}");
        assert_eq!(answer["choices"][0].get("token_ids").is_some(), given, "{answer}");
        assert_eq!(answer["choices"][0]["logprobs"].is_object(), given, "{answer}");
    }

    let options = ProxyOptions { token_ids_on_attributed_path: false, ..ProxyOptions::default() };
    let setup = Setup::with_options(options).await;
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let (_, base) = setup.attempt().await;
    let answer: Value = setup.post(&base, &body()).await.json().await.unwrap();
    assert_eq!((answer.get("prompt_token_ids"), &answer["choices"][0]["logprobs"]), (None, &Value::Null));
}

/// Agent-lightning's two adapters find the call once each: by these names and attributes, of these types.
#[tokio::test]
async fn a_call_is_recorded_as_both_adapters_read_it() {
    let setup = Setup::new(vec![]).await;
    let (rollout, base) = setup.attempt().await;
    let mut answer = setup.tokens("I am 17.");
    answer.push(setup.stop());
    setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
    let mut request = body();
    request["temperature"] = json!(0.5);
    let reply: Value = setup.post(&base, &request).await.json().await.unwrap();

    let filter = fulgurite_types::SpanFilter { rollout_id: rollout, ..Default::default() };
    let page: Value = serde_json::from_str(&setup.store.spans().query_as_json(&filter).await.unwrap()).unwrap();
    let [traced, raw] = page["items"].as_array().unwrap().as_slice() else { panic!("{page}") };

    assert_eq!(traced["name"], "openai.chat.completion");
    let attributes = &traced["attributes"];
    assert_eq!(attributes["gen_ai.response.id"], reply["id"]);
    assert_eq!(attributes["gen_ai.request.model"], "tiny");
    assert_eq!(attributes["gen_ai.request.temperature"], 0.5);
    assert_eq!(attributes["gen_ai.prompt.0.role"], "user");
    assert_eq!(attributes["gen_ai.prompt.0.content"], "Say you are 17.");
    assert_eq!(attributes["gen_ai.completion.0.role"], "assistant");
    assert_eq!(attributes["gen_ai.completion.0.content"], "I am 17.");
    assert_eq!(attributes["gen_ai.completion.0.finish_reason"], "stop");
    assert_eq!(attributes["prompt_token_ids"], reply["prompt_token_ids"]);
    assert_eq!(attributes["response_token_ids"], json!(answer));
    let content: Value = serde_json::from_str(attributes["logprobs.content"].as_str().unwrap()).unwrap();
    assert_eq!(content.as_array().unwrap().len(), answer.len());

    assert_eq!((&raw["name"], &raw["parent_id"]), (&json!("raw_gen_ai_request"), &traced["span_id"]));
    assert_eq!(raw["sequence_id"], traced["sequence_id"]);
    let attributes = &raw["attributes"];
    assert_eq!(attributes["llm.hosted_vllm.id"], reply["id"]);
    let literal = |key: &str| serde_json::from_str::<Value>(attributes[key].as_str().unwrap()).unwrap();
    assert_eq!(literal("llm.hosted_vllm.prompt_token_ids"), reply["prompt_token_ids"]);
    assert_eq!(literal("llm.hosted_vllm.choices")[0]["token_ids"], json!(answer));
    assert!(attributes.as_object().unwrap().keys().all(|key| key.starts_with("llm.hosted_vllm.")));
}
