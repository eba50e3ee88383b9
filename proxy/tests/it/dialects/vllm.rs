//! vLLM's routes at the server's root, over real sockets: our own client of vLLM reads what they say.

use std::time::Duration;

use crate::common::{CONTEXT_LENGTH, Script, Setup, body};
use fulgurite_backends::{Changeover, RemoteOptions, SampleEvent, SampleRequest, Sampler, SamplingEnd, VllmSampler};
use fulgurite_types::Message;
use serde_json::{Value, json};

async fn post(setup: &Setup, path: &str, body: &Value) -> (u16, Value) {
    let response = setup.client.post(format!("{}{path}", setup.url)).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_client_of_vllm_gets_the_tokens_logprobs_and_weights_that_are_recorded() {
    let setup = Setup::new(vec![]).await;
    let sampler = VllmSampler::new(&RemoteOptions {
        url: setup.url.clone(),
        model: "tiny".to_owned(),
        vocabulary_size: setup.renderer.tokenizer().vocabulary_size(),
        api_key: None,
        silence_limit: Duration::from_secs(60),
        changeover: Changeover::default(),
    })
    .unwrap();
    // One to find out whether logprobs are those of what was sampled from.
    setup.play(Script::Answer(setup.tokens("a")[..1].to_vec(), SamplingEnd::Length));
    assert_eq!(sampler.info().await.unwrap().context_length, CONTEXT_LENGTH);
    let answer = [setup.tokens("I am 17."), vec![setup.stop()]].concat();
    setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
    let prompt = setup.tokens("Say you are 17.");
    let request = SampleRequest { stop_tokens: vec![setup.stop()], ..SampleRequest::new(prompt.clone(), 20, 7) };
    let mut stream = sampler.sample(request).await.unwrap();
    let (mut tokens, mut versions) = (Vec::new(), Vec::new());
    let end = loop {
        match stream.next().await.unwrap() {
            SampleEvent::Token(token) => tokens.push(token),
            SampleEvent::WeightsVersions(reported) => versions = reported,
            SampleEvent::CachedPrompt(_) => {}
            SampleEvent::Finished(ended) => break ended,
        }
    };
    assert_eq!(end, SamplingEnd::StopToken);
    // It is recorded before its end is told.
    let recorded = setup.generations().await;
    let generation = recorded.into_iter().find(|generation| generation.prompt_tokens == prompt).unwrap();
    let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
    assert_eq!((&ids, &generation.sampled_tokens), (&answer, &answer));
    let logprobs: Vec<f32> = tokens.iter().map(|token| token.logprob).collect();
    assert_eq!(Some(logprobs), generation.logprobs);
    assert_eq!(versions.len(), answer.len());
}

#[tokio::test]
async fn generate_answers_whole_with_the_only_model_and_refuses_by_name() {
    let setup = Setup::new(vec![]).await;
    let (rollout, base) = setup.attempt().await;
    let answer = [setup.tokens("17"), vec![setup.stop()]].concat();
    setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
    let prompt = setup.tokens("Say you are 17.");
    let request = json!({ "token_ids": prompt, "sampling_params": { "max_tokens": 9, "logprobs": 0 } });
    let url = format!("{}/inference/v1/generate", base.strip_suffix("/v1").unwrap());
    let whole: Value = setup.client.post(url).json(&request).send().await.unwrap().json().await.unwrap();
    assert_eq!(whole["choices"][0]["token_ids"], json!(answer), "{whole}");
    assert_eq!(
        (&whole["choices"][0]["finish_reason"], &whole["usage"]["prompt_tokens"]),
        (&json!("stop"), &json!(prompt.len()))
    );
    assert_eq!(whole["choices"][0]["logprobs"]["content"].as_array().unwrap().len(), answer.len());
    assert_eq!(setup.generation_of(&rollout).await.sampled_tokens, answer);
    for (body, parameter) in [
        (json!({}), "token_ids"),
        (json!({ "token_ids": "x" }), "token_ids"),
        (json!({ "token_ids": [4_000_000] }), "token_ids"),
        (json!({ "token_ids": [1], "model": "other" }), "model"),
        (json!({ "token_ids": [1], "sampling_params": { "n": 0 } }), "sampling_params.n"),
        (json!({ "token_ids": [1], "sampling_params": 7 }), "sampling_params"),
    ] {
        let (status, error) = post(&setup, "/inference/v1/generate", &body).await;
        assert!(matches!(status, 400 | 404), "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains(parameter), "{body} {error}");
    }
}

#[tokio::test]
async fn texts_and_conversations_are_tokens_and_tokens_are_text() {
    let setup = Setup::new(vec![]).await;
    let (status, reply) = post(&setup, "/tokenize", &json!({ "prompt": "Say ä.", "return_token_strs": true })).await;
    let tokens = setup.tokens("Say ä.");
    assert_eq!((status, &reply["tokens"], &reply["count"]), (200, &json!(tokens), &json!(tokens.len())));
    assert_eq!(
        (&reply["max_model_len"], reply["token_strs"].as_array().unwrap().len()),
        (&json!(CONTEXT_LENGTH), tokens.len())
    );
    let (_, text) = post(&setup, "/detokenize", &json!({ "model": "tiny", "tokens": tokens })).await;
    assert_eq!(text, json!({ "prompt": "Say ä." }));
    let messages: Vec<Message> = serde_json::from_value(body()["messages"].clone()).unwrap();
    let (_, reply) = post(&setup, "/tokenize", &json!({ "model": "tiny", "messages": messages })).await;
    assert_eq!(reply["tokens"], json!(setup.renderer.render_prompt(&messages, &[]).unwrap().tokens));
    for (path, body, field) in [
        ("/tokenize", json!({}), "prompt"),
        ("/tokenize", json!({ "prompt": "a", "messages": [] }), "prompt"),
        ("/tokenize", json!({ "prompt": "a", "model": "other" }), "other"),
        ("/tokenize", json!({ "messages": body()["messages"], "add_special_tokens": true }), "add_special_tokens"),
        ("/detokenize", json!({ "tokens": [4_000_000] }), "tokens"),
        ("/detokenize", json!({}), "tokens"),
    ] {
        let (status, error) = post(&setup, path, &body).await;
        assert!(matches!(status, 400 | 404), "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains(field), "{body} {error}");
    }
    assert_eq!(setup.client.get(format!("{}/health", setup.url)).send().await.unwrap().status(), 200);
}
