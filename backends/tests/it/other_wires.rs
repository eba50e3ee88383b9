//! SGLang's and llama.cpp's wires over real sockets, against scripts of them.

use std::time::Duration;

use fulgurite_types::{SamplingParameters, WeightsVersion};

use crate::sample_request::sample_request;
use crate::scripted::{ScriptedReply, ScriptedServer, Step};
use fulgurite_backends::{
    AnswerFault, BackendError, LlamaCppSampler, RemoteOptions, SampleEvent, SampleRequest, Sampler, SamplingEnd,
    SglangSampler,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

fn options(url: &str) -> RemoteOptions {
    RemoteOptions {
        url: url.to_owned(),
        model: "tiny".into(),
        vocabulary_size: 100,
        api_key: None,
        silence_limit: Duration::from_secs(60),
        changeover: fulgurite_backends::Changeover::default(),
    }
}

/// A server that answers its first sampling request by these steps.
async fn server(path: &'static str, steps: Vec<Step>) -> ScriptedServer {
    let steps = std::sync::Mutex::new(Some(steps));
    ScriptedServer::start(move |request| match request.path.as_str() {
        "/v1/models" => ScriptedReply::Json(200, json!({ "data": [{ "id": "served", "max_model_len": 64 }] })),
        "/props" => ScriptedReply::Json(200, json!({ "default_generation_settings": { "n_ctx": 64 } })),
        "/health" => ScriptedReply::Json(200, json!({ "status": "ok" })),
        requested if requested == path => ScriptedReply::Stream(steps.lock().unwrap().take().unwrap()),
        _ => ScriptedReply::Json(404, json!({ "detail": "Not Found" })),
    })
    .await
}

async fn sampled(sampler: &dyn Sampler) -> (Vec<SampleEvent>, Option<BackendError>) {
    let mut stream = sampler.sample(sample_request()).await.unwrap();
    let mut events = Vec::new();
    loop {
        match stream.next().await {
            Ok(event) => {
                let is_end = matches!(event, SampleEvent::Finished(_));
                events.push(event);
                if is_end {
                    return (events, None);
                }
            }
            Err(error) => return (events, Some(error)),
        }
    }
}

/// Ids with the versions of their weights.
fn tokens(events: &[SampleEvent]) -> Vec<(u32, Option<u64>)> {
    let token = |event: &SampleEvent| match event {
        SampleEvent::Token(token) => Some((token.id, token.weights_version.map(|version| version.0))),
        _ => None,
    };
    events.iter().filter_map(token).collect()
}

/// An event of SGLang, which tells all tokens so far.
fn sglang(tokens: &[u32], version: &str, finish_reason: Value) -> Step {
    let logprobs: Vec<Value> = tokens.iter().map(|id| json!([-0.5, id, null])).collect();
    Step::Event(json!({ "text": "?", "output_ids": tokens, "meta_info": {
        "id": "r", "finish_reason": finish_reason, "prompt_tokens": 2, "completion_tokens": tokens.len(),
        "weight_version": version, "output_token_logprobs": logprobs, "cached_tokens": 1,
    } }))
}

#[tokio::test]
async fn sglang_tells_the_weights_with_each_event_and_spans_at_the_end_count_more() {
    let stop = json!({ "type": "stop", "matched": 9 });
    let steps = || {
        vec![sglang(&[3], "1", Value::Null), sglang(&[3, 4], "2", Value::Null), sglang(&[3, 4, 9], "2", stop.clone())]
    };
    let server_of_events = server("/generate", steps()).await;
    let sampler = SglangSampler::new(&options(&server_of_events.url)).unwrap();
    let (events, error) = sampled(&sampler).await;
    assert!(error.is_none(), "{error:?}");
    // Whether the second was sampled before the change or after it is not known.
    assert_eq!(tokens(&events), [(3, Some(1)), (4, None), (9, Some(2))]);
    assert_eq!(events.last(), Some(&SampleEvent::Finished(SamplingEnd::StopToken)));
    assert_eq!(sampler.weights_version(), Some(WeightsVersion(2)));
    assert_eq!(server_of_events.posts("/generate")[0]["input_ids"], json!([5, 6]));

    let mut spanned = steps();
    let Some(Step::Event(last)) = spanned.last_mut() else { panic!("no event") };
    last["meta_info"]["weight_versions"] =
        json!([{ "version": "1", "start": 0, "end": 2 }, { "version": "2", "start": 2, "end": 3 }]);
    let server_of_spans = server("/generate", spanned).await;
    let (events, _) = sampled(&SglangSampler::new(&options(&server_of_spans.url)).unwrap()).await;
    let versions = [1, 1, 2].map(|version| Some(WeightsVersion(version))).to_vec();
    assert_eq!(events[3..5], [SampleEvent::CachedPrompt(1), SampleEvent::WeightsVersions(versions)]);
}

#[tokio::test]
async fn an_older_sglang_is_not_asked_for_what_its_logprobs_would_not_tell() {
    let server = server("/generate", vec![]).await;
    let sampler = SglangSampler::new(&options(&server.url)).unwrap();
    for sampling in [
        SamplingParameters { top_p: 0.9, ..SamplingParameters::default() },
        SamplingParameters { top_k: Some(3), ..SamplingParameters::default() },
    ] {
        let refused = sampler.sample(SampleRequest { sampling, ..sample_request() }).await;
        assert!(matches!(refused, Err(BackendError::InvalidRequest { .. })), "{refused:?}");
    }
    assert_eq!(server.posts("/generate"), [] as [Value; 0]);
    sampler.check_health().await.unwrap();
}

/// SGLang as 0.5.23 tells of itself, which takes logprobs before the temperature or after it.
async fn sglang_that_tells(temperature: bool) -> ScriptedServer {
    let stop = json!({ "type": "stop", "matched": 9 });
    ScriptedServer::start(move |request| match request.path.as_str() {
        "/v1/models" => ScriptedReply::Json(200, json!({ "data": [{ "id": "served", "max_model_len": 64 }] })),
        "/server_info" => ScriptedReply::Json(
            200,
            json!({ "max_req_input_len": 58, "sampling_mask_max_tokens": 100, "incremental_streaming_output": true,
                    "grammar_backend": "llguidance" }),
        ),
        "/generate" => {
            let is_low = request.body["sampling_params"]["temperature"].as_f64().unwrap() < 0.01;
            let mut event = json!({ "output_ids": [9], "meta_info": {
                "finish_reason": stop.clone(), "completion_tokens": 1, "weight_version": "v1",
                "output_token_logprobs": [[if is_low && temperature { 0.0 } else { -0.5 }, 9, null]],
            } });
            if request.body["return_sampling_mask"] == true {
                event["meta_info"]["output_token_sampling_mask"] = json!([[9, 4]]);
                event["meta_info"]["output_token_sampling_logprobs"] = json!([-0.25]);
            }
            ScriptedReply::Stream(vec![Step::Event(event)])
        }
        _ => ScriptedReply::Json(404, json!({ "detail": "Not Found" })),
    })
    .await
}

#[tokio::test]
async fn what_sglang_tells_of_itself_is_what_it_is_asked_for() {
    let server = sglang_that_tells(true).await;
    let sampler = SglangSampler::new(&options(&server.url)).unwrap();
    let info = sampler.info().await.unwrap();
    assert_eq!((info.context_length, info.capabilities.lark), (58, true));
    let sampling = SamplingParameters { top_k: Some(2), temperature: 0.7, ..SamplingParameters::default() };
    let mut stream = sampler.sample(SampleRequest { sampling, ..sample_request() }).await.unwrap();
    let Ok(SampleEvent::Token(token)) = stream.next().await else { panic!("no token") };
    assert_eq!(token.logprob, -0.25);
    assert_eq!(server.posts("/generate").len(), 1, "what is told of top-k tells of the temperature too");
}

#[tokio::test]
async fn whether_sglangs_logprobs_tell_of_the_temperature_is_tried_out_once() {
    for tells in [true, false] {
        let server = sglang_that_tells(tells).await;
        let sampler = SglangSampler::new(&options(&server.url)).unwrap();
        assert_eq!(tokens(&sampled(&sampler).await.0).len(), 1);
        assert_eq!(server.posts("/generate").len(), 1, "nobody has asked for another one yet");
        for temperature in [0.7, 1.3] {
            let sampling = SamplingParameters { temperature, ..SamplingParameters::default() };
            match sampler.sample(SampleRequest { sampling, ..sample_request() }).await {
                Ok(_) => assert!(tells),
                Err(BackendError::InvalidRequest { message }) => {
                    assert!(!tells && message.contains("SGLANG_RETURN_ORIGINAL_LOGPROB"), "{message}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(server.posts("/generate").len(), if tells { 4 } else { 2 });
    }
}

#[tokio::test]
async fn sglangs_abort_breaks_the_answer() {
    let abort = json!({ "type": "abort", "message": "flushed for new weights", "status_code": 503 });
    let server = server("/generate", vec![sglang(&[3], "1", Value::Null), sglang(&[3], "1", abort)]).await;
    let (events, error) = sampled(&SglangSampler::new(&options(&server.url)).unwrap()).await;
    assert_eq!(tokens(&events), [(3, Some(1))]);
    let Some(BackendError::BrokenAnswer { fault: AnswerFault::HostError { message }, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(message, "flushed for new weights");
}

/// An event of llama.cpp's server.
fn llama_cpp(token: u32) -> Step {
    let probability = json!({ "id": token, "token": "?", "bytes": [63], "prob": 0.5, "top_probs": [] });
    Step::Event(json!({ "content": "?", "tokens": [token], "stop": false, "completion_probabilities": [probability] }))
}

fn llama_cpp_end(stop_type: &str, tokens: usize) -> Step {
    Step::Event(json!({ "content": "", "tokens": [], "stop": true, "stop_type": stop_type,
                        "tokens_predicted": tokens, "truncated": false }))
}

#[tokio::test]
async fn llama_cpps_tokens_come_one_by_one_with_the_logarithms_of_their_probabilities() {
    let server = server("/completion", vec![llama_cpp(3), llama_cpp(4), llama_cpp_end("limit", 2), Step::End]).await;
    let sampler = LlamaCppSampler::new(&options(&server.url)).unwrap();
    let (events, error) = sampled(&sampler).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(tokens(&events), [(3, None), (4, None)]);
    let SampleEvent::Token(token) = &events[0] else { panic!("{events:?}") };
    assert_eq!(token.logprob, 0.5f32.ln());
    assert_eq!(events.last(), Some(&SampleEvent::Finished(SamplingEnd::Length)));
    assert_eq!(sampler.info().await.unwrap().context_length, 64);
}

#[tokio::test]
async fn a_stop_token_ends_an_answer_that_llama_cpp_would_go_on_with() {
    let (on_disconnect, disconnected) = oneshot::channel();
    let server = server("/completion", vec![llama_cpp(3), llama_cpp(9), Step::Hang(on_disconnect)]).await;
    let (events, error) = sampled(&LlamaCppSampler::new(&options(&server.url)).unwrap()).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(tokens(&events), [(3, None), (9, None)]);
    assert_eq!(events.last(), Some(&SampleEvent::Finished(SamplingEnd::StopToken)));
    disconnected.await.unwrap();
}

#[tokio::test]
async fn tokens_that_llama_cpp_keeps_to_itself_break_the_answer() {
    let Step::Event(mut behind) = llama_cpp(4) else { panic!("it tells a token") };
    behind["tokens_predicted"] = json!(3);
    let steps = vec![llama_cpp(3), Step::Event(behind), llama_cpp_end("limit", 3), Step::End];
    let server = server("/completion", steps).await;
    let (events, error) = sampled(&LlamaCppSampler::new(&options(&server.url)).unwrap()).await;
    assert_eq!(tokens(&events), [(3, None)], "what follows is not known to follow");
    let Some(BackendError::BrokenAnswer { fault, .. }) = error else { panic!("{error:?}") };
    assert_eq!(fault, AnswerFault::TokensUnreported { sampled: 3, reported: 2 });
}

#[tokio::test]
async fn sglang_scores_a_prompt_and_llama_cpp_says_that_it_does_not() {
    let scored = |request: &crate::scripted::Request| match request.path.as_str() {
        "/v1/models" => ScriptedReply::Json(200, json!({ "data": [{ "id": "served", "max_model_len": 64 }] })),
        "/generate" => ScriptedReply::Json(
            200,
            json!({ "text": "", "meta_info": {
                "input_token_logprobs": [[null, 5, null], [-2.5, 6, null], [-0.25, 7, null]],
                "input_top_logprobs": [null, [[-0.5, 3, null], [-1.0, 4, null]], [[-0.25, 7, null], [-3.0, 1, null]]],
            } }),
        ),
        _ => ScriptedReply::Json(404, json!({ "detail": "Not Found" })),
    };
    let server = ScriptedServer::start(scored).await;
    let sampler = SglangSampler::new(&options(&server.url)).unwrap();
    let scores = sampler.score_prompt(&[5, 6, 7], 2).await.unwrap();
    assert_eq!(scores.logprobs, [-2.5, -0.25]);
    assert_eq!(scores.likeliest, [vec![(3, -0.5), (4, -1.0)], vec![(7, -0.25), (1, -3.0)]]);
    let sent = server.posts("/generate").pop().unwrap();
    assert_eq!((&sent["input_ids"], &sent["logprob_start_len"]), (&json!([5, 6, 7]), &json!(0)));
    assert_eq!(sent["sampling_params"]["max_new_tokens"], json!(0));

    let other = LlamaCppSampler::new(&options("http://127.0.0.1:9")).unwrap();
    let error = other.score_prompt(&[5, 6], 0).await.unwrap_err();
    assert!(matches!(error, BackendError::Configuration { .. }), "{error}");
    assert!(error.to_string().contains("tells no logprobs of a prompt"), "{error}");
}
