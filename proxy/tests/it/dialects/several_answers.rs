//! Requests for several answers, whole and streamed: each is a call of its own.

use crate::common::{Script, Setup, body, chunks};
use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

async fn two_answers(stream: bool) -> (Setup, String, String) {
    let setup = Setup::new(vec![]).await;
    for text in ["I am 17", "Say you"] {
        let tokens = [setup.tokens(text), vec![setup.stop()]].concat();
        setup.play(Script::Answer(tokens, SamplingEnd::StopToken));
    }
    let (rollout, base) = setup.attempt().await;
    let mut request = body();
    for (key, value) in
        [("n", json!(2)), ("stream", json!(stream)), ("stream_options", json!({ "include_usage": stream }))]
    {
        request[key] = value;
    }
    let text = setup.post(&base, &request).await.text().await.unwrap();
    (setup, rollout, text)
}

/// Which answer got which script is the scheduler's choice.
fn both() -> Vec<String> {
    vec!["I am 17".to_owned(), "Say you".to_owned()]
}

#[tokio::test]
async fn each_answer_is_a_choice_and_a_generation() {
    let (setup, rollout, text) = two_answers(false).await;
    let reply: Value = serde_json::from_str(&text).unwrap();
    let choices = reply["choices"].as_array().unwrap();
    assert_eq!((choices[0]["index"].as_u64(), choices[1]["index"].as_u64()), (Some(0), Some(1)));
    let mut texts: Vec<String> =
        choices.iter().map(|choice| choice["message"]["content"].as_str().unwrap().to_owned()).collect();
    texts.sort();
    assert_eq!(texts, both());

    let generations = setup.generations().await;
    let (id, prompt) = (reply["id"].as_str().unwrap(), &generations[0].prompt_tokens);
    assert_eq!(reply["usage"]["prompt_tokens"], prompt.len());
    let sampled: usize = generations.iter().map(|generation| generation.sampled_tokens.len()).sum();
    assert_eq!(reply["usage"]["completion_tokens"], sampled);
    let mut ids: Vec<&str> = generations.iter().map(|generation| generation.generation_id.as_str()).collect();
    ids.sort();
    assert_eq!(ids, [id, &format!("{id}-1")]);
    for generation in &generations {
        assert_eq!((&generation.rollout_id, generation.client_disconnected), (&rollout, false));
        let choice = usize::from(generation.generation_id != id);
        assert_eq!(choices[choice]["token_ids"], json!(generation.sampled_tokens));
    }
    assert_ne!(generations[0].seed, generations[1].seed);
}

#[tokio::test]
async fn a_stream_tells_of_each_answer_and_ends_once() {
    let (setup, _, text) = two_answers(true).await;
    let chunks = chunks(&text);
    let mut texts = vec![String::new(); 2];
    let mut reasons = vec![Value::Null; 2];
    for choice in chunks.iter().filter_map(|chunk| chunk["choices"].get(0)) {
        let index = choice["index"].as_u64().unwrap() as usize;
        texts[index] += choice["delta"]["content"].as_str().unwrap_or_default();
        if !choice["finish_reason"].is_null() {
            reasons[index] = choice["finish_reason"].clone();
        }
    }
    texts.sort();
    assert_eq!((texts, reasons), (both(), vec![json!("stop"), json!("stop")]));
    let usages: Vec<&Value> = chunks.iter().map(|chunk| &chunk["usage"]).filter(|usage| !usage.is_null()).collect();
    let sampled: usize = setup.generations().await.iter().map(|generation| generation.sampled_tokens.len()).sum();
    assert_eq!((usages.len(), &usages[0]["completion_tokens"]), (1, &json!(sampled)));
}

#[tokio::test]
async fn if_one_breaks_all_are_an_error_and_none_is_trained() {
    let setup = Setup::new(vec![]).await;
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    setup.play(Script::Break(vec![]));
    let mut request = body();
    request["n"] = json!(2);
    let (_, base) = setup.attempt().await;
    let response = setup.post(&base, &request).await;
    assert_eq!(response.status(), 500);
    setup.generation_when(|generation| generation.client_disconnected).await;
}

#[tokio::test]
async fn if_one_broke_all_are_asked_anew_also_after_a_restart() {
    let mut setup = Setup::new(vec![]).await;
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    setup.play(Script::Break(setup.tokens("I am")));
    let mut request = body();
    request["n"] = json!(2);
    let (_, base) = setup.attempt().await;
    assert_eq!(setup.post(&base, &request).await.status(), 500);
    let before = loop {
        let generations = setup.generations().await;
        if generations.iter().any(|generation| generation.client_disconnected) {
            break generations;
        }
        tokio::task::yield_now().await;
    };
    let old = setup.url.clone();
    setup.restart().await;
    for text in both() {
        let tokens = [setup.tokens(&text), vec![setup.stop()]].concat();
        setup.play(Script::Answer(tokens, SamplingEnd::StopToken));
    }
    let response = setup.post(&base.replace(&old, &setup.url), &request).await;
    assert_eq!(response.status(), 200);
    let reply: Value = response.json().await.unwrap();
    assert!(before.iter().all(|generation| reply["id"] != generation.generation_id));
    assert_eq!((before.len(), setup.generations().await.len()), (2, 4));
}
