//! The vLLM sampler over real sockets, against scripts of what vLLM 0.32 answered.

use std::sync::Arc;
use std::time::Duration;

use fulgurite_types::{SamplingParameters, WeightsVersion};

use crate::sample_request::sample_request;
use crate::scripted::{ScriptedReply, ScriptedServer, Step, Vllm, completed, generated, generated_by};
use fulgurite_backends::{
    AnswerFault, BackendError, RemoteOptions, SampleEvent, SampleRequest, Sampler, SamplingEnd, VllmSampler,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

type Expected<E> = fn(&E) -> bool;

fn options(url: &str) -> RemoteOptions {
    RemoteOptions {
        url: url.to_owned(),
        model: "tiny".into(),
        vocabulary_size: 100,
        api_key: Some("a-secret".into()),
        silence_limit: Duration::from_secs(60),
        changeover: fulgurite_backends::Changeover::default(),
    }
}

fn request() -> SampleRequest {
    SampleRequest { prompt: vec![5, 6, 7], ..sample_request() }
}

async fn sampler(vllm: &Arc<Vllm>) -> (ScriptedServer, VllmSampler) {
    let server = vllm.serve().await;
    let sampler = VllmSampler::new(&options(&server.url)).unwrap();
    (server, sampler)
}

/// All that is sampled, up to the end or a failure.
async fn sampled(sampler: &VllmSampler) -> (Vec<SampleEvent>, Option<BackendError>) {
    let mut stream = match sampler.sample(request()).await {
        Ok(stream) => stream,
        Err(error) => return (Vec::new(), Some(error)),
    };
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

fn ids(events: &[SampleEvent]) -> Vec<u32> {
    let id = |event: &SampleEvent| match event {
        SampleEvent::Token(token) => Some(token.id),
        _ => None,
    };
    events.iter().filter_map(id).collect()
}

fn stream(events: Vec<Value>) -> ScriptedReply {
    ScriptedReply::Stream(events.into_iter().map(Step::Event).chain(Step::done()).collect())
}

#[tokio::test]
async fn a_completion_is_streamed_token_by_token_and_its_weights_stay_unknown() {
    let vllm = Vllm::new(false, false);
    let (server, sampler) = sampler(&vllm).await;
    let mut first = completed(&[(3, -0.5)], None);
    first["choices"][0]["prompt_token_ids"] = json!([5, 6, 7]);
    vllm.play(stream(vec![first, completed(&[(4, -1.5), (9, -0.25)], Some("stop"))]));
    let (events, error) = sampled(&sampler).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(ids(&events), [3, 4, 9]);
    assert_eq!(events.last(), Some(&SampleEvent::Finished(SamplingEnd::StopToken)));
    let SampleEvent::Token(token) = &events[1] else { panic!("{events:?}") };
    assert_eq!((token.logprob, token.weights_version), (-1.5, None));
    assert_eq!(sampler.weights_version(), None);
    let sent = server.posts("/v1/completions").pop().unwrap();
    assert_eq!((&sent["model"], &sent["prompt"]), (&json!("served"), &json!([5, 6, 7])));
    assert!(server.heads().iter().all(|head| head.contains("authorization: Bearer a-secret")));
    assert_eq!(sampler.info().await.unwrap().context_length, 64);
}

#[tokio::test]
async fn weights_that_change_in_mid_generation_are_told_for_each_token() {
    let vllm = Vllm::new(true, true);
    let (server, sampler) = sampler(&vllm).await;
    let last = generated_by(&[(9, -0.25)], "stop", &[("v7", 0, 2), ("v8", 2, 3)]);
    vllm.play(stream(vec![generated(&[(3, -0.5)], None), generated(&[(4, -1.5)], None), last]));
    let (events, error) = sampled(&sampler).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(ids(&events), [3, 4, 9]);
    let versions = [7, 7, 8].map(|version| Some(WeightsVersion(version))).to_vec();
    assert_eq!(events[3..], [SampleEvent::WeightsVersions(versions), SampleEvent::Finished(SamplingEnd::StopToken)]);
    assert_eq!(sampler.weights_version(), Some(WeightsVersion(8)));
    assert_eq!(server.posts("/v1/completions"), [] as [Value; 0]);
}

#[tokio::test]
async fn how_much_of_a_prompt_was_cached_is_said_behind_the_answers_end() {
    let usage = |cached: Value| {
        Step::Event(json!({ "choices": [], "usage": { "prompt_tokens": 3, "prompt_tokens_details": cached } }))
    };
    for generates in [false, true] {
        let vllm = Vllm::new(generates, true);
        let (server, sampler) = sampler(&vllm).await;
        let (path, answer) = match generates {
            true => ("/inference/v1/generate", generated(&[(9, -0.5)], Some("stop"))),
            false => ("/v1/completions", completed(&[(9, -0.5)], Some("stop"))),
        };
        let cached = |tokens: usize| std::iter::once(usage(json!({ "cached_tokens": tokens }))).chain(Step::done());
        for (behind, expected) in [
            (cached(2).collect(), Some(2)),
            // That is more than there is.
            (cached(4).collect(), None),
            (std::iter::once(usage(Value::Null)).chain(Step::done()).collect(), None),
            (Step::done(), None),
            (vec![Step::Text("<html>".to_owned()), Step::End], None),
            (vec![Step::End], None),
            (vec![Step::Close], None),
        ] {
            vllm.play(ScriptedReply::Stream(std::iter::once(Step::Event(answer.clone())).chain(behind).collect()));
            let (events, error) = sampled(&sampler).await;
            assert!(error.is_none(), "{error:?}");
            assert_eq!(ids(&events), [9]);
            let cached = expected.map(SampleEvent::CachedPrompt);
            let end = cached.into_iter().chain([SampleEvent::Finished(SamplingEnd::StopToken)]);
            assert_eq!(events[1..], end.collect::<Vec<_>>());
        }
        assert_eq!(server.posts(path).pop().unwrap()["stream_options"], json!({ "include_usage": true }));
    }
}

#[tokio::test]
async fn logprobs_of_another_distribution_than_was_sampled_from_are_refused() {
    let warm = SamplingParameters { temperature: 0.5, ..SamplingParameters::default() };
    let greedy = SamplingParameters { temperature: 0.0, ..SamplingParameters::default() };
    for generates in [false, true] {
        for processed in [false, true] {
            let vllm = Vllm::new(generates, processed);
            let (_server, sampler) = sampler(&vllm).await;
            let refused = sampler.sample(SampleRequest { sampling: warm.clone(), ..request() }).await;
            match refused {
                Err(BackendError::InvalidRequest { message }) if !processed => {
                    assert!(message.contains("--logprobs-mode processed_logprobs"), "{message}");
                }
                // It is asked, and plays nothing.
                Err(BackendError::Configuration { .. }) if processed => {}
                other => panic!("{other:?}"),
            }
            let event = if generates {
                generated(&[(3, -0.5)], Some("length"))
            } else {
                completed(&[(3, -0.5)], Some("length"))
            };
            vllm.play(stream(vec![event]));
            let mut stream = sampler.sample(SampleRequest { sampling: greedy.clone(), ..request() }).await.unwrap();
            let Ok(SampleEvent::Token(token)) = stream.next().await else { panic!("no token") };
            assert_eq!((token.id, token.logprob), (3, 0.0));
        }
    }
}

#[tokio::test]
async fn every_broken_answer_is_named_after_the_tokens_that_came_whole() {
    let good = || Step::Event(completed(&[(3, -0.5)], None));
    let changed = |pointer: &str, value: Value| {
        let mut event = completed(&[(4, -1.0)], None);
        *event.pointer_mut(pointer).unwrap() = value;
        Step::Event(event)
    };
    let mut echoed = completed(&[(4, -1.0)], None);
    echoed["choices"][0]["prompt_token_ids"] = json!([5, 6, 8]);
    let half = completed(&[(4, -1.0)], None).to_string();
    let cases: Vec<(Vec<Step>, Expected<AnswerFault>)> = vec![
        (vec![changed("/choices/0/token_ids", Value::Null)], |f| matches!(f, AnswerFault::NoTokenIds)),
        (vec![changed("/choices/0/token_ids", json!([4, 4]))], |f| matches!(f, AnswerFault::CountsDiffer { .. })),
        (vec![changed("/choices/0/token_ids", json!([100]))], |f| matches!(f, AnswerFault::TokensDiffer { .. })),
        (vec![Step::Event(completed(&[(100, -1.0)], None))], |f| matches!(f, AnswerFault::UnknownToken { .. })),
        (vec![Step::Event(completed(&[(4, 0.5)], None))], |f| matches!(f, AnswerFault::Logprob { .. })),
        (vec![Step::Event(completed(&[(4, -9999.0)], None))], |f| matches!(f, AnswerFault::Logprob { .. })),
        (vec![changed("/choices/0/logprobs/token_logprobs", json!([null]))], |f| {
            matches!(f, AnswerFault::NoLogprob { token: 4 })
        }),
        (vec![Step::Text(half.replace("-1.0", "NaN"))], |f| matches!(f, AnswerFault::Unreadable { .. })),
        (vec![Step::Event(echoed)], |f| matches!(f, AnswerFault::PromptDiffers)),
        (
            vec![Step::Event(json!({ "error": { "message": "out of memory", "code": 500 } }))],
            |f| matches!(f, AnswerFault::HostError { message } if message == "out of memory"),
        ),
        (vec![Step::Text("<html>502</html>".into())], |f| matches!(f, AnswerFault::Unreadable { .. })),
        (vec![Step::Bytes(b"data: \xff\xfe\n\n".to_vec())], |f| matches!(f, AnswerFault::NotUtf8)),
        (
            vec![Step::Bytes(format!("data: {}", &half[..40]).into_bytes()), Step::End],
            |f| matches!(f, AnswerFault::BrokenOff { message } if message.is_empty()),
        ),
        (vec![Step::End], |f| matches!(f, AnswerFault::BrokenOff { .. })),
        (Step::done(), |f| matches!(f, AnswerFault::BrokenOff { message } if message.contains("done"))),
        (vec![Step::Close], |f| matches!(f, AnswerFault::BrokenOff { message } if !message.is_empty())),
        (vec![Step::Event(completed(&[(4, -1.0)], Some("abort")))], |f| matches!(f, AnswerFault::UnknownEnd { .. })),
        (vec![Step::Event(completed(&[(4, -1.0)], Some("stop")))], |f| matches!(f, AnswerFault::NotAtStopToken)),
        (vec![Step::Event(completed(&[(4, -1.0); 8], None))], |f| matches!(f, AnswerFault::TooManyTokens { limit: 8 })),
        (vec![Step::Event(completed(&[(9, -1.0), (4, -1.0)], None))], |f| matches!(f, AnswerFault::BeyondStopToken)),
    ];
    let vllm = Vllm::new(false, true);
    let (server, sampler) = sampler(&vllm).await;
    for (index, (steps, is_expected)) in cases.into_iter().enumerate() {
        vllm.play(ScriptedReply::Stream(std::iter::once(good()).chain(steps).collect()));
        let (events, error) = sampled(&sampler).await;
        assert_eq!(ids(&events), [3], "case {index}");
        match error {
            Some(BackendError::BrokenAnswer { host, fault }) if is_expected(&fault) => assert_eq!(host, server.url),
            other => panic!("case {index}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn events_are_read_however_they_are_cut_and_whatever_ends_their_lines() {
    let text = completed(&[(3, -0.5), (9, -1.0)], Some("stop")).to_string().replace("\"?\"", "\"ä€\"");
    let bytes = format!(": comment\r\n\r\ndata: {text}\r\n\r\n").into_bytes();
    let vllm = Vllm::new(false, true);
    let (_server, sampler) = sampler(&vllm).await;
    vllm.play(ScriptedReply::Stream(bytes.iter().map(|&byte| Step::Bytes(vec![byte])).chain([Step::End]).collect()));
    let (events, error) = sampled(&sampler).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(ids(&events), [3, 9]);
}

#[tokio::test]
async fn refusals_say_whose_fault_they_are() {
    let html = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\n<html".to_vec();
    let replies: Vec<(ScriptedReply, Expected<BackendError>)> = vec![
        (
            ScriptedReply::Json(400, json!({ "error": { "message": "no such grammar" } })),
            |error| matches!(error, BackendError::InvalidRequest { message } if message.contains("no such grammar")),
        ),
        (
            stream(vec![json!({ "error": { "message": "Invalid grammar", "code": 400 } })]),
            |error| matches!(error, BackendError::InvalidRequest { message } if message.contains("Invalid grammar")),
        ),
        (
            ScriptedReply::Json(401, json!({ "error": "Unauthorized" })),
            |error| matches!(error, BackendError::KeyRefused { message } if message.contains("api_key_env")),
        ),
        (ScriptedReply::Json(429, json!({})), |error| matches!(error, BackendError::Unavailable { .. })),
        (ScriptedReply::Json(500, json!({ "detail": "oops" })), |error| {
            matches!(error, BackendError::Unavailable { .. })
        }),
        (
            ScriptedReply::Json(200, json!({ "error": { "message": "odd" } })),
            |error| matches!(error, BackendError::BrokenAnswer { fault: AnswerFault::HostError { message }, .. } if message == "odd"),
        ),
        (ScriptedReply::Raw(vec![Step::Bytes(html), Step::Close]), |error| {
            matches!(error, BackendError::BrokenAnswer { fault: AnswerFault::NotAStream { .. }, .. })
        }),
        (ScriptedReply::Raw(vec![Step::Bytes(b"garbage\r\n\r\n".to_vec()), Step::Close]), |error| {
            matches!(error, BackendError::Unavailable { .. })
        }),
    ];
    let vllm = Vllm::new(false, true);
    let (_server, sampler) = sampler(&vllm).await;
    for (index, (reply, is_expected)) in replies.into_iter().enumerate() {
        vllm.play(reply);
        let (_, error) = sampled(&sampler).await;
        let error = error.unwrap();
        assert!(is_expected(&error), "case {index}: {error:?}");
        assert!(!error.to_string().contains("a-secret"));
    }
    // Of a connection that was kept, the first says nothing of the host.
    for _ in 0..2 {
        vllm.play(ScriptedReply::Raw(vec![Step::Reset]));
    }
    let (_, error) = sampled(&sampler).await;
    assert!(matches!(error, Some(BackendError::Unavailable { .. })), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_down_is_looked_for_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sampler = VllmSampler::new(&options(&format!("http://{address}"))).unwrap();
    assert!(matches!(sampler.info().await, Err(BackendError::Unavailable { .. })));
    assert!(matches!(sampler.check_health().await, Err(BackendError::Unavailable { .. })));
    let vllm = Vllm::new(false, true);
    let answering = vllm.clone();
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let _server = ScriptedServer::start_on(listener, move |request| answering.answer(request));
    sampler.check_health().await.unwrap();
    vllm.play(stream(vec![completed(&[(9, -0.5)], Some("stop"))]));
    assert_eq!(ids(&sampled(&sampler).await.0), [9]);
}

#[tokio::test]
async fn whoever_stops_listening_ends_the_hosts_work() {
    let vllm = Vllm::new(false, true);
    let (_server, sampler) = sampler(&vllm).await;
    let (on_disconnect, disconnected) = oneshot::channel();
    vllm.play(ScriptedReply::Stream(vec![Step::Event(completed(&[(3, -0.5)], None)), Step::Hang(on_disconnect)]));
    let mut stream = sampler.sample(request()).await.unwrap();
    assert!(matches!(stream.next().await, Ok(SampleEvent::Token(_))));
    drop(stream);
    disconnected.await.unwrap();
}

#[tokio::test]
async fn a_silent_host_is_given_up() {
    let vllm = Vllm::new(false, true);
    let server = vllm.serve().await;
    let impatient = RemoteOptions { silence_limit: Duration::from_secs(2), ..options(&server.url) };
    let sampler = VllmSampler::new(&impatient).unwrap();
    sampler.info().await.unwrap();
    let (on_disconnect, disconnected) = oneshot::channel();
    vllm.play(ScriptedReply::Stream(vec![Step::Event(completed(&[(3, -0.5)], None)), Step::Hang(on_disconnect)]));
    let (events, error) = sampled(&sampler).await;
    assert_eq!(ids(&events), [3]);
    assert!(matches!(error, Some(BackendError::BrokenAnswer { fault: AnswerFault::Silent { .. }, .. })), "{error:?}");
    disconnected.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_ended_leaves_its_connection_to_the_next() {
    let vllm = Vllm::new(false, true);
    let (server, sampler) = sampler(&vllm).await;
    for _ in 0..3 {
        vllm.play(stream(vec![completed(&[(9, -0.5)], Some("stop"))]));
        assert_eq!(ids(&sampled(&sampler).await.0), [9]);
    }
    // Requests after each other: each finds the connection of the one before. What is asked about the host has its own.
    assert_eq!((server.posts("/v1/completions").len(), server.connections()), (4, 2));
}

#[tokio::test]
async fn a_prompt_is_scored_by_its_own_tokens_whatever_else_is_told() {
    let vllm = Vllm::new(false, false);
    let (server, sampler) = sampler(&vllm).await;
    let row = |tokens: &[(u32, f64)]| -> Value {
        let row = |(id, logprob): &(u32, f64)| (id.to_string(), json!({ "logprob": logprob, "rank": 1 }));
        tokens.iter().map(row).collect()
    };
    let reply =
        |places: Value| ScriptedReply::Json(200, json!({ "choices": [{ "text": "", "prompt_logprobs": places }] }));
    vllm.play(reply(json!([null, row(&[(6, -2.5), (3, -0.5), (4, -1.0)]), row(&[(7, -0.25), (1, -3.0)])])));
    let scores = sampler.score_prompt(&[5, 6, 7], 2).await.unwrap();
    assert_eq!(scores.logprobs, [-2.5, -0.25]);
    assert_eq!(scores.likeliest, [vec![(3, -0.5), (4, -1.0)], vec![(7, -0.25), (1, -3.0)]]);
    let sent = server.posts("/v1/completions").pop().unwrap();
    assert_eq!((&sent["prompt"], &sent["prompt_logprobs"]), (&json!([5, 6, 7]), &json!(2)));
    assert_eq!((&sent["model"], &sent["max_tokens"]), (&json!("served"), &json!(1)));

    vllm.play(reply(json!([null, row(&[(6, -2.5)])])));
    let error = sampler.score_prompt(&[5, 6, 7], 0).await.unwrap_err();
    assert!(matches!(error, BackendError::BrokenAnswer { fault: AnswerFault::CountsDiffer { .. }, .. }), "{error}");
    vllm.play(reply(Value::Null));
    let error = sampler.score_prompt(&[5, 6, 7], 0).await.unwrap_err().to_string();
    assert!(error.contains("it does not tell the logprobs of a prompt"), "{error}");
    let error = sampler.score_prompt(&vec![5; 65], 0).await.unwrap_err();
    assert!(matches!(error, BackendError::PromptTooLong { prompt_tokens: 65, context_length: 64 }), "{error}");
    let error = sampler.score_prompt(&[5, 100], 0).await.unwrap_err().to_string();
    assert!(error.contains("token 100 is not in the vocabulary"), "{error}");
}
