//! Sampling at a service that speaks the Tinker API, over real sockets, and all that can go wrong there.

use std::sync::Arc;
use std::time::Duration;

use fulgurite_types::{SamplingParameters, WeightsVersion};

use crate::scripted::{ScriptedReply, ScriptedServer, Step};
use crate::tinker_host::{Fault, PATIENCE, Tinker, TinkerKind, answer};
use fulgurite_backends::{
    AnswerFault, BackendError, NewWeights, SampleEvent, SampleRequest, SampledToken, Sampler, SamplingEnd,
    WeightsSource,
};
use fulgurite_tinker::wire::protobuf::{SampledSequence, StopReason, TopkLogprobs};
use fulgurite_tinker::{Patience, TinkerOptions, TinkerSampler, TinkerSamplerOptions, TinkerService};
use serde_json::{Value, json};
use tokio::sync::oneshot;

struct Setup {
    tinker: Arc<Tinker>,
    server: ScriptedServer,
    sampler: TinkerSampler,
}

impl Setup {
    async fn new() -> Self {
        Self::with(TinkerKind::default(), PATIENCE).await
    }

    async fn with(kind: TinkerKind, patience: Patience) -> Self {
        let api_key = kind.key.clone();
        let tinker = Tinker::new(kind);
        let server = tinker.serve().await;
        let options = TinkerOptions { url: format!("{}/prefix", server.url), api_key, patience };
        let service = Arc::new(TinkerService::new(&options).unwrap());
        let options =
            TinkerSamplerOptions { base_model: "base".into(), vocabulary_size: 100, context_length: Some(32) };
        Self { tinker, server, sampler: TinkerSampler::new(service, options) }
    }

    async fn sample(&self) -> Result<(Vec<SampledToken>, SamplingEnd), BackendError> {
        sample(&self.sampler, request()).await
    }

    fn posts(&self, path: &str) -> Vec<Value> {
        self.server.posts(&format!("/prefix/api/v1/{path}"))
    }

    async fn until_posted(&self, path: &str) {
        while self.posts(path).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn request() -> SampleRequest {
    SampleRequest { stop_tokens: vec![8], ..SampleRequest::new(vec![5, 6], 4, 1) }
}

async fn sample(
    sampler: &dyn Sampler,
    request: SampleRequest,
) -> Result<(Vec<SampledToken>, SamplingEnd), BackendError> {
    let mut stream = sampler.sample(request).await?;
    let mut tokens = Vec::new();
    loop {
        match stream.next().await? {
            SampleEvent::Token(token) => tokens.push(token),
            SampleEvent::Finished(reason) => return Ok((tokens, reason)),
            SampleEvent::WeightsVersions(_) => panic!("every token tells its own"),
            SampleEvent::CachedPrompt(_) => panic!("the service finds nothing in its cache"),
        }
    }
}

fn ids(tokens: &[SampledToken]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

#[tokio::test]
async fn tokens_come_with_logprobs_and_weights_up_to_the_stop_token() {
    let setup = Setup::new().await;
    let info = setup.sampler.info().await.unwrap();
    assert_eq!((info.context_length, info.vocabulary_size, info.capabilities.top_logprobs), (64, 100, 20));
    let (tokens, reason) = setup.sample().await.unwrap();
    assert_eq!((ids(&tokens), reason), (vec![6, 7, 8], SamplingEnd::StopToken));
    assert!(tokens.iter().all(|token| token.logprob == -2.0 && token.weights_version == Some(WeightsVersion(0))));
    let longer = SampleRequest { stop_tokens: vec![], prompt: vec![1; 60], max_tokens: 9, ..request() };
    let (tokens, reason) = sample(&setup.sampler, longer).await.unwrap();
    assert_eq!((tokens.len(), reason), (4, SamplingEnd::Length));
    assert_eq!(setup.posts("create_session").len(), 1);
    let places: Vec<_> = setup.posts("asample").iter().map(|body| body["seq_id"].clone()).collect();
    assert_eq!(places, [json!(0), json!(1)]);
    let heads = setup.server.heads();
    let head = heads.iter().find(|head| head.contains("/asample")).unwrap();
    assert!(head.contains("x-tinker-sampling-backpressure: 1"), "{head}");
    let polled = heads.iter().find(|head| head.contains("/retrieve_future")).unwrap();
    assert!(polled.contains("x-tinker-request-type: Sample") && polled.contains("accept: application/x-protobuf"));
    setup.sampler.check_health().await.unwrap();
}

#[tokio::test]
async fn a_submission_that_fails_is_sent_again_and_counts_once() {
    let setup = Setup::new().await;
    for fault in [
        Fault::status(429, json!({ "detail": "busy" })),
        Fault::status(402, json!({ "detail": "pay" })),
        Fault::status(503, json!({})),
        Fault::status(409, json!({})),
        Fault::status(408, json!({})),
        Fault::reset(),
        Fault { takes_effect: false, reply: answer(500, "retry-after-ms: 1\r\n", b"<html>") },
        Fault::lost_answer(),
        Fault::bytes("application/json", b"{\"request_id\": "),
    ] {
        setup.tinker.fail("asample", fault);
    }
    let (tokens, _) = setup.sample().await.unwrap();
    assert_eq!(ids(&tokens), [6, 7, 8]);
    assert_eq!(setup.posts("asample").len(), 10);
    assert_eq!((setup.tinker.duplicates(), setup.tinker.violations()), (2, vec![]));
}

#[tokio::test]
async fn a_result_is_asked_for_until_it_is_there() {
    let setup = Setup::new().await;
    let try_again = |state: &str| json!({ "type": "try_again", "request_id": "0", "queue_state": state });
    for fault in [
        Fault::status(200, try_again("active")),
        Fault::status(200, try_again("paused_capacity")),
        Fault::status(408, try_again("paused_rate_limit")),
        Fault::status(408, json!({ "detail": "not yet" })),
        Fault::status(200, json!({ "status": "complete_metadata", "response_payload_size": 9 })),
        Fault::status(429, json!({})),
        Fault::status(500, json!({})),
        Fault::status(425, json!({})),
        Fault::status(402, json!({})),
        Fault::status(400, json!({ "detail": "a gateway says" })),
        Fault::reset(),
        Fault::lost_answer(),
        Fault::bytes("application/x-protobuf", b"\xff\xff\xff"),
        Fault::bytes("application/json", b"{}"),
        Fault::bytes("text/html", b"<html>"),
    ] {
        setup.tinker.fail("retrieve_future", fault);
    }
    let (tokens, _) = setup.sample().await.unwrap();
    assert_eq!(ids(&tokens), [6, 7, 8]);
    assert_eq!((setup.posts("asample").len(), setup.posts("retrieve_future").len()), (1, 16));
}

#[tokio::test]
async fn a_lost_request_is_made_again_in_its_own_place() {
    let setup = Setup::new().await;
    setup.tinker.fail("retrieve_future", Fault::status(410, json!({ "detail": "gone" })));
    let (tokens, _) = setup.sample().await.unwrap();
    assert_eq!(ids(&tokens), [6, 7, 8]);
    let places: Vec<_> = setup.posts("asample").iter().map(|body| body["seq_id"].clone()).collect();
    assert_eq!(places, [json!(0), json!(1)]);
}

#[tokio::test]
async fn what_the_service_refuses_for_good_is_told_in_its_words() {
    let setup = Setup::new().await;
    for (path, fault, is_hosts) in [
        ("asample", Fault::status(400, json!({ "detail": "why so" })), false),
        ("asample", Fault::status(422, json!({ "detail": "why so" })), false),
        ("asample", Fault::status(403, json!({ "detail": "why so" })), true),
        ("retrieve_future", Fault::status(200, json!({ "error": "why so", "category": "user" })), false),
        ("retrieve_future", Fault::status(200, json!({ "error": "why so", "category": "server" })), true),
        ("retrieve_future", Fault::status(200, json!({ "error": "why so" })), true),
        ("retrieve_future", Fault::status(404, json!({ "detail": "why so" })), true),
    ] {
        setup.tinker.fail(path, fault);
        let error = setup.sample().await.unwrap_err();
        assert!(error.to_string().contains("why so"), "{error}");
        assert_eq!(error.is_hosts_fault(), is_hosts, "{error}");
    }
    for _ in 0..4 {
        setup.tinker.fail("retrieve_future", Fault::status(400, json!({ "detail": "the sample failed" })));
    }
    let error = setup.sample().await.unwrap_err();
    assert!(matches!(&error, BackendError::InvalidRequest { message } if message.contains("the sample failed")));
}

#[tokio::test]
async fn patience_ends() {
    let none = Patience { failing: Duration::ZERO, busy: Duration::ZERO, unpaid: Duration::ZERO, ..PATIENCE };
    let setup = Setup::with(TinkerKind::default(), none).await;
    setup.sample().await.unwrap();
    for path in ["asample", "retrieve_future"] {
        for status in [429, 402, 503] {
            setup.tinker.fail(path, Fault::status(status, json!({ "detail": "not now" })));
            let error = setup.sample().await.unwrap_err();
            assert!(matches!(&error, BackendError::Unavailable { message } if message.contains("not now")), "{error}");
        }
    }
    for _ in 0..4 {
        setup.tinker.fail("retrieve_future", Fault::bytes("application/x-protobuf", b"\xff"));
    }
    let error = setup.sample().await.unwrap_err();
    let is_broken = matches!(error, BackendError::BrokenAnswer { fault: AnswerFault::Unreadable { .. }, .. });
    assert!(is_broken, "{error}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_true_is_refused() {
    let setup = Setup::new().await;
    let whole = || SampledSequence::new(StopReason::Length, &[6, 7], &[-0.5, -0.5]);
    let unknown = |token| AnswerFault::UnknownToken { token, vocabulary_size: 100 };
    for (sequence, fault) in [
        (SampledSequence::new(StopReason::Length, &[6, 100], &[-0.5; 2]), unknown(100)),
        (SampledSequence::new(StopReason::Length, &[6, u32::MAX], &[-0.5; 2]), unknown(-1)),
        (SampledSequence::new(StopReason::Stop, &[6], &[-0.5]), AnswerFault::NotAtStopToken),
        (SampledSequence::new(StopReason::Length, &[8, 6], &[-0.5; 2]), AnswerFault::BeyondStopToken),
        (SampledSequence::new(StopReason::Length, &[6; 5], &[-0.5; 5]), AnswerFault::TooManyTokens { limit: 4 }),
        (SampledSequence { logprobs: None, ..whole() }, AnswerFault::CountsDiffer { tokens: 2, logprobs: 0 }),
        (SampledSequence::new(StopReason::Length, &[6], &[0.5]), AnswerFault::Logprob { token: 6, logprob: 0.5 }),
        (SampledSequence { stop_reason: 9, ..whole() }, AnswerFault::UnknownEnd { reason: "9".into() }),
    ] {
        setup.tinker.play(sequence);
        match setup.sample().await.unwrap_err() {
            BackendError::BrokenAnswer { fault: found, .. } => assert_eq!(found, fault),
            error => panic!("{error}"),
        }
    }
    setup.tinker.play(SampledSequence::new(StopReason::Length, &[6], &[f32::NAN]));
    let error = setup.sample().await.unwrap_err();
    assert!(error.to_string().contains("NaN"), "{error}");
}

#[tokio::test]
async fn alternatives_come_where_the_service_has_them() {
    let setup = Setup::new().await;
    let mut sequence = SampledSequence::new(StopReason::Length, &[6, 7], &[-0.5, -1.0]);
    let rows = [vec![(6, -0.5), (9, -1.5)], vec![(7, -1.0)]];
    sequence.topk_sampled_logprobs = Some(TopkLogprobs::new(&rows, 2));
    setup.tinker.play(sequence);
    let (tokens, _) = sample(&setup.sampler, SampleRequest { top_logprobs: 2, ..request() }).await.unwrap();
    let alternatives: Vec<_> = tokens.iter().map(|token| token.top_logprobs.clone()).collect();
    assert_eq!(alternatives, rows);
    assert_eq!(setup.posts("asample")[0]["topk_sample_logprobs"], 2);

    let kind = TinkerKind { dynamic: None, ..TinkerKind::default() };
    let older = Setup::with(kind, PATIENCE).await;
    older.sample().await.unwrap();
    let error = sample(&older.sampler, SampleRequest { top_logprobs: 1, ..request() }).await.unwrap_err();
    assert!(error.to_string().starts_with("top_logprobs is not supported"), "{error}");
}

#[tokio::test]
async fn a_distribution_other_than_the_models_own_is_sampled_from_where_its_logprobs_are_told() {
    let with = |change: fn(&mut SamplingParameters)| {
        let mut request = request();
        change(&mut request.sampling);
        request
    };
    let warm = with(|sampling| sampling.temperature = 0.5);
    let narrow = with(|sampling| sampling.top_p = 0.5);
    for (reports_temperature, tells_truncation) in [(false, false), (true, false), (false, true), (true, true)] {
        let kind = TinkerKind { reports_temperature, tells_truncation, ..TinkerKind::default() };
        let setup = Setup::with(kind, PATIENCE).await;
        for (request, is_reported) in [(&warm, reports_temperature), (&narrow, tells_truncation)] {
            for _ in 0..2 {
                match sample(&setup.sampler, request.clone()).await {
                    Ok((tokens, _)) => assert!(is_reported && tokens.len() == 3),
                    Err(BackendError::InvalidRequest { .. }) => assert!(!is_reported),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let posts = 2 + 2 * usize::from(reports_temperature) + 2 * usize::from(tells_truncation);
        assert_eq!(setup.posts("asample").len(), posts, "each is tried out once");
    }
    let setup = Setup::new().await;
    let greedy = with(|sampling| sampling.temperature = 0.0);
    let (tokens, _) = sample(&setup.sampler, greedy).await.unwrap();
    assert!(tokens.iter().all(|token| token.logprob == 0.0));
    assert_eq!(setup.posts("asample").len(), 1, "what is certain needs no trial");
    let error = sample(&setup.sampler, with(|sampling| sampling.presence_penalty = 1.0)).await.unwrap_err();
    assert!(error.to_string().starts_with("presence_penalty is not supported"), "{error}");
}

#[tokio::test]
async fn new_weights_are_sampled_from_once_the_service_has_them() {
    let setup = Setup::new().await;
    let weights = |path: &str| {
        let source = WeightsSource::Kept(path.into());
        NewWeights { version: WeightsVersion(3), source }
    };
    setup.sample().await.unwrap();
    let error = setup.sampler.load_weights(&weights("tinker://m/sampler_weights/none")).await.unwrap_err();
    assert!(error.to_string().contains("no such checkpoint"), "{error}");
    for wrong in ["m", "tinker://m/weights/a"] {
        let error = setup.sampler.load_weights(&weights(wrong)).await.unwrap_err();
        assert!(matches!(error, BackendError::Configuration { .. }), "{error}");
    }
    assert_eq!(setup.sampler.weights_version(), Some(WeightsVersion(0)));
    setup.tinker.keep("tinker://m/sampler_weights/a", 4);
    setup.sampler.load_weights(&weights("tinker://m/sampler_weights/a")).await.unwrap();
    let (tokens, _) = setup.sample().await.unwrap();
    let first_token = |tokens: &[SampledToken]| (tokens[0].logprob, tokens[0].weights_version);
    assert_eq!(first_token(&tokens), (-1.5, Some(WeightsVersion(3))));
    setup.tinker.restart();
    let (tokens, _) = setup.sample().await.unwrap();
    assert_eq!(first_token(&tokens), (-1.5, Some(WeightsVersion(3))));
    let sessions = setup.posts("create_sampling_session");
    assert_eq!(sessions.last().unwrap()["model_path"], "tinker://m/sampler_weights/a");
    assert_eq!(sessions.last().unwrap()["session_id"], "s2");
}

#[tokio::test]
async fn whoever_leaves_has_the_sampling_cancelled_where_that_can_be() {
    let kind = TinkerKind { dynamic: Some(json!({ "sample_cancel_enabled": true })), ..TinkerKind::default() };
    let setup = Setup::with(kind, PATIENCE).await;
    let (on_disconnect, disconnected) = oneshot::channel();
    let hold = ScriptedReply::Raw(vec![Step::Hang(on_disconnect)]);
    setup.tinker.fail("retrieve_future", Fault { takes_effect: false, reply: hold });
    let stream = setup.sampler.sample(request()).await.unwrap();
    setup.until_posted("retrieve_future").await;
    drop(stream);
    disconnected.await.unwrap();
    setup.until_posted("cancel_future").await;
    assert_eq!(setup.posts("cancel_future"), [json!({ "request_id": "0" })]);
}

#[tokio::test]
async fn a_key_is_exchanged_for_a_token_where_the_service_wants_that() {
    let config = json!({ "pjwt_auth_enabled": true });
    let setup =
        Setup::with(TinkerKind { config, key: Some("tml-key".into()), ..TinkerKind::default() }, PATIENCE).await;
    setup.sample().await.unwrap();
    assert_eq!(setup.posts("auth/token").len(), 1);
    setup.tinker.take_key("eyJ-second");
    setup.sample().await.unwrap();
    assert_eq!(setup.posts("auth/token").len(), 2);
    let heads = setup.server.heads();
    let last = heads.last().unwrap();
    assert!(last.contains("x-api-key: eyJ-second"), "{last}");

    let refused = Setup::with(TinkerKind { key: Some("tml-key".into()), ..TinkerKind::default() }, PATIENCE).await;
    refused.tinker.take_key("tml-other");
    let error = refused.sample().await.unwrap_err();
    assert!(matches!(&error, BackendError::KeyRefused { message } if message.contains("api_key_env")), "{error}");
    assert!(!error.to_string().contains("tml-"), "{error}");
}

#[tokio::test]
async fn a_session_that_the_service_ends_is_followed_by_another() {
    let patience = Patience { heartbeat: Duration::from_millis(1), ..PATIENCE };
    let setup = Setup::with(TinkerKind::default(), patience).await;
    setup.sample().await.unwrap();
    setup.tinker.fail("session_heartbeat", Fault::status(503, json!({})));
    setup.tinker.fail("session_heartbeat", Fault::status(410, json!({ "detail": "the session is over" })));
    while setup.posts("create_session").len() < 2 {
        setup.sample().await.unwrap();
    }
    let sessions: Vec<Value> =
        setup.posts("create_sampling_session").iter().map(|body| body["session_id"].clone()).collect();
    assert_eq!(sessions, [json!("s1"), json!("s2")]);
}

#[tokio::test]
async fn a_service_that_is_down_is_told_at_once_and_asked_when_it_is_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let options = TinkerOptions { url: format!("http://{address}/api/v1/"), api_key: None, patience: PATIENCE };
    let service = Arc::new(TinkerService::new(&options).unwrap());
    let options = TinkerSamplerOptions { base_model: "base".into(), vocabulary_size: 100, context_length: None };
    let sampler = TinkerSampler::new(service, options);
    for error in [sample(&sampler, request()).await.map(drop), sampler.check_health().await] {
        assert!(matches!(error, Err(BackendError::Unavailable { .. })), "{error:?}");
    }
    let tinker = Tinker::new(TinkerKind::default());
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let _server = ScriptedServer::start_on(listener, move |request| tinker.answer(request));
    assert_eq!(ids(&sample(&sampler, request()).await.unwrap().0), [6, 7, 8]);
}

#[tokio::test]
async fn a_context_length_that_nobody_tells_is_asked_for() {
    let capabilities = json!({ "supported_models": [{ "model_name": "base" }] });
    let setup = Setup::with(TinkerKind { capabilities, ..TinkerKind::default() }, PATIENCE).await;
    assert_eq!(setup.sampler.info().await.unwrap().context_length, 32);
}
