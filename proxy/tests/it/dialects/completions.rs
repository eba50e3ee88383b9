//! `POST /v1/completions` over real sockets.

use crate::common::{CONTEXT_LENGTH, Script, Setup, VOCABULARY_SIZE, body, chunks};
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
async fn a_text_prompt_begins_as_the_tokenizer_begins_texts_unless_told_otherwise() {
    let setup = Setup::of_family("llama3", "llama3").await;
    let tokenizer = setup.renderer.tokenizer();
    let begin = tokenizer.token_to_id("<|begin_of_text|>").unwrap();
    let text = tokenizer.encode_with_specials("Say <|eot_id|>").unwrap();
    let with_begin = [vec![begin], text.clone()].concat();
    for (fields, expected) in [
        (json!({ "prompt": "Say <|eot_id|>" }), &with_begin),
        (json!({ "prompt": ["Say <|eot_id|>"], "add_special_tokens": true }), &with_begin),
        (json!({ "prompt": "Say <|eot_id|>", "add_special_tokens": false }), &text),
        (json!({ "prompt": text, "add_special_tokens": true }), &text),
    ] {
        let (_, base) = setup.attempt().await;
        setup.play(Script::Answer(setup.sampled("17<|eot_id|>"), SamplingEnd::StopToken));
        let mut request = fields.clone();
        request["model"] = json!("tiny");
        let (status, reply) = post(&setup, &base, &request).await;
        assert_eq!((status, &reply["choices"][0]["prompt_token_ids"]), (200, &json!(expected)), "{fields} {reply}");
        if fields["prompt"].is_string() {
            let tokens = setup.client.post(format!("{}/tokenize", setup.url)).json(&request).send().await.unwrap();
            assert_eq!(tokens.json::<Value>().await.unwrap()["tokens"], json!(expected), "{fields}");
        }
    }
    for wrong in [json!("yes"), json!(1)] {
        let request = json!({ "model": "tiny", "prompt": "Say", "add_special_tokens": wrong });
        let (status, error) = post(&setup, &format!("{}/v1", setup.url), &request).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("add_special_tokens")), "{error}");
    }
}

#[tokio::test]
async fn a_token_that_is_part_of_a_character_is_spelled_by_its_bytes_and_begins_where_the_character_does() {
    let setup = Setup::new(vec![]).await;
    let (_, base) = setup.attempt().await;
    let tokenizer = setup.renderer.tokenizer();
    let answer = [setup.tokens("7 \u{1f642}."), vec![setup.stop()]].concat();
    let bytes = |token: &u32| tokenizer.id_to_bytes(*token).unwrap().to_vec();
    let spelled = |prefix: &str, token: &u32| {
        let bytes = bytes(token);
        let spelled = bytes.iter().fold(prefix.to_owned(), |text, byte| text + &format!("\\x{byte:02x}"));
        String::from_utf8(bytes).unwrap_or(spelled)
    };
    let parts = answer.iter().filter(|token| String::from_utf8(bytes(token)).is_err()).count();
    assert!(parts > 1, "the small tokenizer has no token for the character");
    for stream in [false, true] {
        setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
        let request = json!({ "model": "tiny", "prompt": "Say", "logprobs": 0, "stream": stream });
        let response = setup.client.post(format!("{base}/completions")).json(&request).send().await.unwrap();
        let text = response.text().await.unwrap();
        let pieces = if stream { chunks(&text) } else { vec![serde_json::from_str(&text).unwrap()] };
        let list = |name: &str| -> Vec<Value> {
            let of = |piece: &Value| piece["choices"][0]["logprobs"][name].as_array().cloned().unwrap_or_default();
            pieces.iter().flat_map(of).collect()
        };
        let expected: Vec<Value> = answer.iter().map(|token| json!(spelled("bytes:", token))).collect();
        assert_eq!(list("tokens"), expected);
        let offsets: Vec<u64> = list("text_offset").iter().map(|offset| offset.as_u64().unwrap()).collect();
        let mut before = Vec::new();
        for (token, offset) in answer.iter().zip(offsets) {
            let whole = std::str::from_utf8(&before)
                .unwrap_or_else(|error| std::str::from_utf8(&before[..error.valid_up_to()]).unwrap());
            assert_eq!(offset, whole.chars().count() as u64);
            before.extend(bytes(token));
        }

        setup.play(Script::Answer(answer.clone(), SamplingEnd::StopToken));
        let mut request = body();
        request["logprobs"] = json!(true);
        let chat: Value = setup.post(&base, &request).await.json().await.unwrap();
        let content = chat["choices"][0]["logprobs"]["content"].as_array().unwrap();
        for (token, entry) in answer.iter().zip(content) {
            assert_eq!((&entry["token"], &entry["bytes"]), (&json!(spelled("", token)), &json!(bytes(token))));
        }
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
