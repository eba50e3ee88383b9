//! `POST /v1/completions` over real sockets.

use crate::common::{CONTEXT_LENGTH, Script, Setup, VOCABULARY_SIZE, chunks};
use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

async fn post(setup: &Setup, base: &str, body: &Value) -> (u16, Value) {
    let response = setup.client.post(format!("{base}/completions")).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn text_or_tokens_go_in_and_text_with_its_tokens_comes_out() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    let prompt = setup.renderer.tokenizer().encode_with_specials("<|im_start|>user").unwrap();
    let mut answer = setup.tokens("I am 17.");
    answer.push(setup.stop());
    for given in [json!("<|im_start|>user"), json!(["<|im_start|>user"]), json!(prompt), json!([prompt])] {
        setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
        let (status, reply) = post(&setup, &base, &json!({ "model": "tiny", "prompt": given })).await;
        assert_eq!((status, &reply["object"]), (200, &json!("text_completion")), "{reply}");
        let choice = &reply["choices"][0];
        assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!("I am 17."), &json!("stop")));
        assert_eq!(choice["prompt_token_ids"], json!(prompt));
        assert_eq!(choice["token_ids"], json!(answer));
        assert_eq!(reply["usage"]["completion_tokens"], answer.len());
        let logprobs = &choice["logprobs"];
        assert_eq!(logprobs["token_logprobs"][1], -0.5);
        for list in ["tokens", "token_logprobs", "text_offset"] {
            assert_eq!(logprobs[list].as_array().unwrap().len(), answer.len(), "{list}");
        }
        assert_eq!(logprobs["text_offset"][1], logprobs["tokens"][0].as_str().unwrap().chars().count());
    }
    for (generation, request) in setup.generations().await.iter().zip(setup.sampler.requests.lock().unwrap().iter()) {
        assert_eq!((&generation.prompt_tokens, &generation.sampled_tokens), (&prompt, &answer));
        assert_eq!(generation.name, "openai.completion");
        assert!(generation.generation_id.starts_with("cmpl-"));
        assert_eq!(request.max_tokens, 16);
    }
}

#[tokio::test]
async fn a_stream_says_what_a_whole_answer_says() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    let mut answer = setup.tokens("I am 17, ä.");
    answer.push(setup.stop());
    for _ in 0..2 {
        setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
    }
    let mut request = json!({ "model": "tiny", "prompt": "Say", "logprobs": 0 });
    let (_, whole) = post(&setup, &base, &request).await;
    request["stream"] = json!(true);
    let response = setup.client.post(format!("{base}/completions")).json(&request).send().await.unwrap();
    let chunks = chunks(&response.text().await.unwrap());
    assert!(chunks.iter().all(|chunk| chunk["object"] == "text_completion"));
    let choices = || chunks.iter().map(|chunk| &chunk["choices"][0]);
    let text: String = choices().map(|choice| choice["text"].as_str().unwrap()).collect();
    assert_eq!(text, whole["choices"][0]["text"].as_str().unwrap());
    assert_eq!(choices().next().unwrap()["prompt_token_ids"], whole["choices"][0]["prompt_token_ids"]);
    assert_eq!(choices().next_back().unwrap()["finish_reason"], "stop");
    let joined = |list: &dyn Fn(&Value) -> Value| -> Value {
        choices().flat_map(|choice| list(choice).as_array().cloned().unwrap_or_default()).collect()
    };
    assert_eq!(joined(&|choice| choice["token_ids"].clone()), whole["choices"][0]["token_ids"]);
    for list in ["tokens", "token_logprobs", "text_offset"] {
        assert_eq!(joined(&|choice| choice["logprobs"][list].clone()), whole["choices"][0]["logprobs"][list], "{list}");
    }
}

#[tokio::test]
async fn every_bad_request_names_its_field_and_stores_nothing() {
    let setup = Setup::new(vec![]).await;
    let base = format!("{}/v1", setup.url);
    let tokens = vec![1; CONTEXT_LENGTH];
    for (key, value, status, code) in [
        ("model", json!("huge"), 404, json!("model_not_found")),
        ("prompt", json!(["a", "b"]), 400, Value::Null),
        ("prompt", json!([VOCABULARY_SIZE]), 400, Value::Null),
        ("prompt", json!(tokens), 400, json!("context_length_exceeded")),
        ("echo", json!(true), 400, Value::Null),
        ("suffix", json!("."), 400, Value::Null),
        ("best_of", json!(3), 400, Value::Null),
    ] {
        let mut request = json!({ "model": "tiny", "prompt": "Say" });
        request[key] = value;
        let (found, error) = post(&setup, &base, &request).await;
        assert_eq!((found, &error["error"]["param"], &error["error"]["code"]), (status, &json!(key), &code), "{error}");
    }
    assert_eq!(setup.generations().await, []);
}
