//! The record over HTTP: of a real store it is the same record; what a server must not answer is refused by name, and
//! one that does not answer is waited for.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use fulgurite_agentlightning::Overdue;
use fulgurite_api::{RouteNeeds, Serving};
use fulgurite_client::{Server, ServerError, ServerOptions};
use fulgurite_store::{Store, StoreOptions};
use fulgurite_trainer::{Record, RecordError, RemoteRecord};
use fulgurite_types::{
    AttemptStatus, AttemptUpdate, CheckpointRecord, GenerationUse, NewGeneration, NewRollout, NewRun, RecordedSampling,
    RecordedTeacherLogprobs, Reward, StepRecord, TeacherLogprobs, WeightsFrom,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const REPLY_LIMIT: usize = 1 << 20;

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

fn options(url: &str) -> ServerOptions {
    ServerOptions { url: url.to_owned(), admin_key: None, patience: Duration::from_secs(60), reply_limit: REPLY_LIMIT }
}

fn record(options: ServerOptions) -> RemoteRecord {
    RemoteRecord::new(Server::new(options).unwrap())
}

/// A record over a server that answers everything with this.
async fn answered(status: StatusCode, body: &str) -> RemoteRecord {
    let body = Bytes::from(body.to_owned());
    record(options(&serve(Router::new().fallback(move || async move { (status, body) })).await))
}

fn refused<T: std::fmt::Debug>(answer: Result<T, RecordError>) -> ServerError {
    match answer {
        Err(RecordError::Server(error)) => error,
        other => panic!("{other:?}"),
    }
}

async fn store(directory: &tempfile::TempDir) -> Store {
    let url = format!("sqlite://{}", directory.path().join("t.db").display());
    Store::open(&url, StoreOptions::default()).await.unwrap()
}

fn generation(rollout_id: &str, attempt_id: &str, place: usize, prompt_tokens: Vec<u32>) -> NewGeneration {
    NewGeneration {
        generation_id: format!("generation-{place}"),
        rollout_id: rollout_id.into(),
        attempt_id: attempt_id.into(),
        name: "openai.chat.completion".into(),
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        span_id: format!("{place:016x}"),
        start_time: 1.0,
        end_time: 2.0,
        attributes: serde_json::Map::new(),
        model: "m".into(),
        prompt_tokens,
        sampled_tokens: vec![3, u32::MAX],
        logprobs: Some(vec![-f32::MIN_POSITIVE, -0.1 - place as f32 / 3.0]),
        stop_reason: "stop".into(),
        weights_versions: vec![WeightsFrom { version: u64::MAX >> 1, first_token: 0 }],
        sampling: RecordedSampling(json!({ "temperature": 1.0, "top_p": 1.0, "top_k": null })),
        seed: u64::MAX,
        renderer: "chatml".into(),
        tokenizer: "t".into(),
        request_digest: String::new(),
        branch_reason: None,
        client_disconnected: false,
        defect: None,
    }
}

/// All routes over a store, as a server has them.
fn all_routes(store: &Store) -> axum::Router {
    let serving = Serving::default();
    let agentlightning = fulgurite_agentlightning::routes(store.clone(), &serving, Overdue::ByTimer);
    fulgurite_api::routes(store.clone(), &serving, &mut RouteNeeds::default()).merge(agentlightning)
}

#[tokio::test]
async fn what_is_read_over_http_is_what_the_store_holds() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let remote = record(options(&serve(all_routes(&store)).await));
    let local: &dyn Record = &store;

    let new = NewRun { run_id: "run/1".into(), name: "n".into(), config: json!({ "a": 0.1 }), seed: u64::MAX };
    assert_eq!(remote.run("run/1").await.unwrap(), None);
    let run = remote.create_run(new).await.unwrap();
    assert_eq!(remote.run("run/1").await.unwrap(), Some(run));
    remote.allow_steps("run/1", Some(3)).await.unwrap();
    assert_eq!(store.runs().get("run/1").await.unwrap().unwrap().allowed_steps, Some(3));
    remote.allow_steps("run/1", None).await.unwrap();

    let rollouts = vec![NewRollout { input: json!({ "q": 1 }), ..NewRollout::default() }; 2];
    let enqueued = remote.enqueue_rollouts(rollouts).await.unwrap();
    let ids: Vec<String> = enqueued.iter().map(|rollout| rollout.rollout_id.clone()).collect();
    let claimed = store.rollouts().dequeue(1, Some("w"), Duration::ZERO).await.unwrap().remove(0);
    let (rollout_id, attempt_id) = (claimed.rollout.rollout_id.as_str(), claimed.attempt.attempt_id.as_str());
    assert_eq!(rollout_id, ids[0]);
    assert!(remote.wait_for_rollouts(&ids, Duration::ZERO).await.unwrap().is_empty());

    // More than a page, the prompts too.
    for place in 0..101 {
        store.recording().record(generation(rollout_id, attempt_id, place, vec![1; place + 1])).await.unwrap();
    }
    let reward = Reward { components: vec![("b".into(), 0.1), ("a".into(), 2.0)], ..Reward::new(1.0 / 3.0) };
    store.rewards().add(rollout_id, attempt_id, None, reward).await.unwrap();
    store.rewards().add(rollout_id, attempt_id, Some("generation-3"), Reward::new(0.2)).await.unwrap();
    store.attempts().report(rollout_id, attempt_id, AttemptUpdate::status(AttemptStatus::Succeeded)).await.unwrap();

    let ended = remote.wait_for_rollouts(&ids, Duration::ZERO).await.unwrap();
    assert_eq!(ended, local.wait_for_rollouts(&ids, Duration::ZERO).await.unwrap());
    assert_eq!(ended.len(), 1);
    assert_eq!(remote.rollout(rollout_id).await.unwrap(), local.rollout(rollout_id).await.unwrap());
    assert_eq!(remote.rollout("none").await.unwrap(), None);
    let wanted = [ids[1].clone(), "none".to_owned(), ids[0].clone()];
    let records = remote.rollout_records(&wanted).await.unwrap();
    assert_eq!(records, local.rollout_records(&wanted).await.unwrap());
    let sizes: Vec<Option<[usize; 3]>> = records
        .iter()
        .map(|record| record.as_ref().map(|r| [r.attempts.len(), r.rewards.len(), r.generations.len()]))
        .collect();
    assert_eq!(sizes, [Some([0; 3]), None, Some([1, 2, 101])]);

    let used = |place: usize| GenerationUse {
        generation_id: format!("generation-{place}"),
        cause: "trained".into(),
        tokens: 2,
    };
    let teacher_logprobs =
        TeacherLogprobs { generation_id: "generation-0".into(), teacher: "large".into(), logprobs: vec![-0.1, -1e-45] };
    let step = StepRecord {
        run_id: "run/1".into(),
        step: 1,
        metrics: json!({ "loss": 0.1 }),
        weights_version: 1,
        uses: vec![used(0)],
        teacher_logprobs: vec![teacher_logprobs.clone()],
        checkpoint: Some(CheckpointRecord { directory: "checkpoints/1".into(), state: json!({ "step": 1 }) }),
    };
    // As after a lost reply.
    for _ in 0..2 {
        remote.record_step(step.clone()).await.unwrap();
    }
    let changed = StepRecord { metrics: json!({ "loss": 0.2 }), ..step };
    let error = refused(remote.record_step(changed).await).to_string();
    let expected = "/runs/run%2F1/steps refused (status 409): step already exists: 1 of run run/1";
    assert!(error.ends_with(expected), "{error}");
    let recorded = store.runs().teacher_logprobs(&["generation-0"]).await.unwrap();
    assert_eq!(recorded, [RecordedTeacherLogprobs { run_id: "run/1".into(), values: teacher_logprobs }]);
    remote.record_uses("run/1", vec![used(1)]).await.unwrap();
    assert_eq!(remote.steps("run/1").await.unwrap(), local.steps("run/1").await.unwrap());
    assert_eq!(remote.latest_checkpoint("run/1").await.unwrap(), local.latest_checkpoint("run/1").await.unwrap());
    assert_eq!(remote.token_ledger("run/1").await.unwrap(), local.token_ledger("run/1").await.unwrap());
    let unaccounted = remote.unaccounted_generations("run/1").await.unwrap();
    assert_eq!(unaccounted, local.unaccounted_generations("run/1").await.unwrap());
    assert_eq!(unaccounted.len(), 99);
    remote.rewind_run("run/1", 0).await.unwrap();
    assert!(local.steps("run/1").await.unwrap().is_empty());

    remote.release_worker("w").await.unwrap();
    let resource = json!({ "main_llm": { "resource_type": "proxy_llm", "endpoint": "http://h/v1", "model": "m" } });
    remote.update_resources("run/1-weights-0", resource.as_object().cloned().unwrap()).await.unwrap();
    assert!(store.resources().get("run/1-weights-0").await.unwrap().is_some());
    assert!(remote.model_calls_key().await.unwrap().starts_with("fgr-"));
}

#[tokio::test]
async fn a_step_asks_a_handful_of_times_whatever_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let routes =
        all_routes(&store).layer(axum::middleware::from_fn(move |request: Request, next: axum::middleware::Next| {
            counted.fetch_add(1, Ordering::SeqCst);
            next.run(request)
        }));
    let url = serve(routes).await;
    let remote = record(options(&url));
    let rollouts = vec![NewRollout { input: json!(1), ..NewRollout::default() }; 128];
    let enqueued = remote.enqueue_rollouts(rollouts).await.unwrap();
    let ids: Vec<String> = enqueued.into_iter().map(|rollout| rollout.rollout_id).collect();
    for (place, claimed) in store.rollouts().dequeue(128, Some("w"), Duration::ZERO).await.unwrap().iter().enumerate() {
        let (rollout_id, attempt_id) = (claimed.rollout.rollout_id.as_str(), claimed.attempt.attempt_id.as_str());
        store.recording().record(generation(rollout_id, attempt_id, place, vec![1, 2])).await.unwrap();
        store.rewards().add(rollout_id, attempt_id, None, Reward::new(1.0)).await.unwrap();
    }
    let records = remote.rollout_records(&ids).await.unwrap();
    assert!(records.iter().flatten().all(|record| record.generations.len() == 1 && record.rewards.len() == 1));
    assert_eq!(records.iter().flatten().count(), 128);
    assert_eq!(requests.load(Ordering::SeqCst), 2, "one to enqueue, one to read");

    // What takes more than an answer has room for comes in several.
    let (rollout_id, attempt_id) = (&ids[0], &records[0].as_ref().unwrap().attempts[0].attempt_id);
    for place in 200..203 {
        store.recording().record(generation(rollout_id, attempt_id, place, vec![place as u32; 400_000])).await.unwrap();
    }
    let large = record(ServerOptions { reply_limit: 1 << 30, ..options(&url) });
    let again = large.rollout_records(&ids).await.unwrap();
    assert_eq!(again, Record::rollout_records(&store, &ids).await.unwrap());
    assert_eq!(requests.load(Ordering::SeqCst), 4, "the first rollout alone, then the others");
}

/// The record of rollout `r` with one generation, changed.
fn page(change: impl FnOnce(&mut Value)) -> String {
    let rollout: Value = serde_json::from_str(&rollout("r", "succeeded")).unwrap();
    let mut record = json!({ "rollout": rollout[0], "attempts": [], "rewards": [], "next_offset": null, "generations": [{
        "generation_id": "g", "rollout_id": "r", "attempt_id": "a", "span_id": "s", "trace_id": "t", "name": "n",
        "sequence_id": 1, "parent_id": null, "branch_reason": null, "start_time": 0.0, "end_time": 1.0,
        "model": "m", "prompt_tokens": "AQAAAA==", "sampled_tokens": "AQAAAA==", "logprobs": "AAAAvw==",
        "stop_reason": "stop", "weights_versions": [{ "version": 0, "first_token": 0 }], "sampling": null, "seed": 1,
        "renderer": "chatml", "tokenizer": "t", "request_digest": "", "client_gone": false, "defect": null,
    }] });
    change(&mut record);
    json!({ "items": [record] }).to_string()
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_refused_by_what_is_wrong_with_it() {
    let ids = ["r".to_owned()];
    let good = answered(StatusCode::OK, &page(|_| ())).await.rollout_records(&ids).await.unwrap();
    let generation = &good[0].as_ref().unwrap().generations[0];
    assert_eq!((generation.prompt_tokens.as_slice(), generation.logprobs.as_deref()), (&[1][..], Some(&[-0.5][..])));
    let reward = json!({ "attempt_id": "a", "span_id": "s1", "sequence_id": 1, "time": 1.0, "generation_id": null,
        "reward": { "value": 1.0, "name": "primary", "components": [] } });
    for (body, expected) in [
        ("<html>".to_owned(), "expected value"),
        ("{\"items\": [".to_owned(), "EOF"),
        (json!({ "items": [] }).to_string(), "it has 0 records of 1 rollouts"),
        (json!({ "items": [null, null] }).to_string(), "it has 2 records of 1 rollouts"),
        (page(|record| record["rollout"]["rollout_id"] = json!("other")), "it is of rollout other"),
        (page(|record| record["rewards"] = json!([reward])), "the reward s1 cannot be its"),
        (page(|record| record["generations"][0]["rollout_id"] = json!("other")), "it is of rollout other"),
        (
            page(|record| record["generations"][0]["logprobs"] = json!("AAAA")),
            "logprobs: its bytes do not come in fours",
        ),
        (page(|record| record["generations"][0]["logprobs"] = json!("")), "logprobs: 0 of them for 1 sampled tokens"),
        (page(|record| record["generations"][0]["sampled_tokens"] = json!([1])), "sampled_tokens: it is no text"),
    ] {
        let error = refused(answered(StatusCode::OK, &body).await.rollout_records(&ids).await);
        assert!(matches!(error, ServerError::Reply { .. }) && error.to_string().contains(expected), "{error}");
    }
    let large = " ".repeat(REPLY_LIMIT + 1);
    let error = refused(answered(StatusCode::OK, &large).await.rollout_records(&ids).await);
    assert!(matches!(error, ServerError::TooLarge { limit: REPLY_LIMIT, .. }), "{error}");
}

fn rollout(id: &str, status: &str) -> String {
    json!([{
        "rollout_id": id, "input": null, "start_time": 0.0, "end_time": null, "mode": null, "resources_id": null,
        "status": status, "config": {}, "metadata": null,
    }])
    .to_string()
}

#[tokio::test]
async fn an_answer_to_another_question_is_refused() {
    for (body, expected) in [
        (rollout("other", "succeeded"), "rollout other, which is succeeded, was not waited for"),
        (rollout("r", "running"), "rollout r, which is running, was not waited for"),
    ] {
        let remote = answered(StatusCode::OK, &body).await;
        let error = refused(remote.wait_for_rollouts(&["r".to_owned()], Duration::ZERO).await).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let remote = answered(StatusCode::CREATED, &rollout("other", "queuing")).await;
    let error = refused(remote.enqueue_rollouts(vec![NewRollout::default()]).await).to_string();
    assert!(error.contains("not those that were enqueued"), "{error}");
    let step = json!([{ "run_id": "other", "step": 1, "time": 0.0, "metrics": {}, "weights_version": 1 }]).to_string();
    let error = refused(answered(StatusCode::OK, &step).await.steps("run").await).to_string();
    assert!(error.contains("it is of run other"), "{error}");
}

#[tokio::test]
async fn a_refusal_says_url_key_and_fix() {
    let remote = answered(StatusCode::UNAUTHORIZED, "{\"detail\": \"No key\"}").await;
    let error = refused(remote.steps("run").await);
    assert!(matches!(error, ServerError::Key { status: 401, .. }));
    let message = error.to_string();
    assert!(message.contains("/v1/fulgurite/runs/run/steps") && message.contains("FULGURITE_ADMIN_KEY"), "{message}");
    let error = refused(answered(StatusCode::NOT_FOUND, "").await.steps("run").await);
    assert!(error.to_string().contains("as new as this program"), "{error}");
    let error = refused(answered(StatusCode::FOUND, "").await.steps("run").await);
    assert!(matches!(error, ServerError::Refused { status: 302, .. }), "{error}");
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let impatient = ServerOptions { patience: Duration::ZERO, ..options(&format!("http://{nobody}")) };
    let error = refused(record(impatient).steps("run").await);
    let message = error.to_string();
    assert!(matches!(error, ServerError::Unreachable { .. }) && message.contains("fulgurite serve"), "{message}");
}

#[tokio::test]
async fn a_server_that_fails_is_asked_again() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let answer = move |request: Request| async move {
        assert_eq!(request.headers()["authorization"], "Bearer the-key");
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => (StatusCode::SERVICE_UNAVAILABLE, "{\"detail\": \"ending\"}"),
            1 => (StatusCode::TOO_MANY_REQUESTS, ""),
            _ => (StatusCode::OK, "[]"),
        }
    };
    let url = serve(Router::new().fallback(answer)).await;
    let remote = record(ServerOptions { admin_key: Some("the-key".into()), ..options(&url) });
    assert!(remote.steps("run").await.unwrap().is_empty());
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}
