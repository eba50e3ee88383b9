//! Whose a call is, over real sockets: by its path, by ids in headers, by its client's session.

use fulgurite_types::{
    Attempt, AttemptStatus, AttemptUpdate, Generation, NewRollout, Rollout, RolloutFilter, RolloutStatus,
};

use crate::common::{Script, Setup, body};
use fulgurite_backends::{SamplingEnd, derive_seed};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::sync::oneshot;

const DIALECTS: [&str; 4] = ["chat/completions", "completions", "responses", "messages"];
const SESSION: (&str, &str) = ("x-claude-code-session-id", "c0ffee");

type Headers<'h> = &'h [(&'h str, &'h str)];

/// A request in a dialect, which each has its own words for.
fn request(dialect: &str) -> Value {
    let mut request = body();
    let use_text = |request: &mut Value, field: &str| {
        request.as_object_mut().unwrap().remove("messages");
        request[field] = json!("Say you are 17.");
    };
    match dialect {
        "completions" => use_text(&mut request, "prompt"),
        "responses" => use_text(&mut request, "input"),
        "messages" => request["max_tokens"] = json!(20),
        _ => {}
    }
    request
}

fn with_headers(request: RequestBuilder, headers: Headers) -> RequestBuilder {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

async fn send(setup: &Setup, base: &str, dialect: &str, body: &Value, headers: Headers<'_>) -> (u16, Value) {
    let request = with_headers(setup.client.post(format!("{base}/{dialect}")).json(body), headers);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Asks, and gives what is recorded of the answer.
async fn generation(setup: &Setup, base: &str, dialect: &str, headers: Headers<'_>) -> Generation {
    setup.play(Script::Answer([setup.tokens("I am 17"), vec![setup.stop()]].concat(), SamplingEnd::StopToken));
    let (status, reply) = send(setup, base, dialect, &request(dialect), headers).await;
    assert_eq!(status, 200, "{dialect} {headers:?}: {reply}");
    recorded(setup, &reply).await
}

async fn recorded(setup: &Setup, reply: &Value) -> Generation {
    setup.generations().await.into_iter().find(|generation| reply["id"] == generation.generation_id).unwrap()
}

fn plain(setup: &Setup) -> String {
    format!("{}/v1", setup.url)
}

async fn attempts(setup: &Setup, rollout: &str) -> Vec<Attempt> {
    setup.store.attempts().query(rollout, &Default::default()).await.unwrap().items
}

async fn rollouts(setup: &Setup) -> Vec<Rollout> {
    let found = setup.store.rollouts().query(&RolloutFilter::default()).await.unwrap();
    found.items.into_iter().map(|(rollout, _)| rollout).collect()
}

async fn statuses(setup: &Setup, rollout: &str) -> (RolloutStatus, AttemptStatus) {
    let (rollout, attempt) = setup.store.rollouts().get(rollout).await.unwrap().unwrap();
    (rollout.status, attempt.unwrap().status)
}

#[tokio::test]
async fn headers_name_the_attempt_in_every_dialect_as_a_path_does() {
    let setup = Setup::new(vec![]).await;
    let (rollout, _) = setup.attempt().await;
    let first = attempts(&setup, &rollout).await.remove(0).attempt_id;
    let latest = setup.store.rollouts().start_attempt(&rollout, None).await.unwrap().attempt.attempt_id;
    for dialect in DIALECTS {
        for (headers, attempt) in [
            (&[("x-rollout-id", rollout.as_str()), ("x-attempt-id", &first)] as Headers, &first),
            (&[("x-rollout-id", &rollout), SESSION], &latest),
        ] {
            let generation = generation(&setup, &plain(&setup), dialect, headers).await;
            assert_eq!((&generation.rollout_id, &generation.attempt_id), (&rollout, attempt), "{dialect}");
        }
    }
    // With token ids unasked, for a tracer in the agent.
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let (_, reply) = send(&setup, &plain(&setup), DIALECTS[0], &body(), &[("x-rollout-id", &rollout)]).await;
    assert_eq!(reply["choices"][0]["token_ids"], json!([setup.stop()]));
    assert_eq!(rollouts(&setup).await.len(), 1);
}

#[tokio::test]
async fn a_path_comes_before_a_session_and_what_a_header_may_say() {
    let setup = Setup::new(vec![]).await;
    let (rollout, base) = setup.attempt().await;
    let attempt = attempts(&setup, &rollout).await.remove(0).attempt_id;
    for headers in [&[SESSION] as Headers, &[("x-rollout-id", &rollout)], &[("x-attempt-id", &attempt)]] {
        assert_eq!(generation(&setup, &base, "messages", headers).await.rollout_id, rollout);
    }
    let gateway = format!("{}/proxy/rollout/{rollout}/attempt/{attempt}/mode/train/openai/v1", setup.url);
    let headers = [("x-rollout-id", "other"), ("x-attempt-id", "other"), SESSION];
    assert_eq!(generation(&setup, &gateway, "responses", &headers).await.rollout_id, rollout);
    assert_eq!(rollouts(&setup).await.len(), 1);
}

#[tokio::test]
async fn ids_that_contradict_each_other_or_that_nobody_knows_are_refused_and_change_nothing() {
    let setup = Setup::new(vec![]).await;
    let (rollout, base) = setup.attempt().await;
    let queued = setup.store.rollouts().enqueue(vec![NewRollout::default()]).await.unwrap().remove(0).rollout_id;
    let plain = plain(&setup);
    let refusals: [(&str, Headers, u16, &[&str]); 7] = [
        (&base, &[("x-rollout-id", "other")], 400, &[&rollout, "`other`"]),
        (&base, &[("x-attempt-id", "other")], 400, &["the path names `at-", "`other`"]),
        (&plain, &[("x-rollout-id", "other"), SESSION], 404, &["no rollout `other`"]),
        (&plain, &[("x-rollout-id", &rollout), ("x-attempt-id", "other")], 404, &["no attempt `other`"]),
        (&plain, &[("x-rollout-id", &queued)], 400, &[&queued, "no attempt yet"]),
        (&plain, &[("x-attempt-id", "other"), SESSION], 400, &["x-attempt-id needs x-rollout-id"]),
        (&plain, &[("x-rollout-id", "")], 400, &["x-rollout-id must be one id"]),
    ];
    for (base, headers, expected, words) in refusals {
        for dialect in DIALECTS {
            let (status, refused) = send(&setup, base, dialect, &request(dialect), headers).await;
            let message = refused["error"]["message"].as_str().unwrap();
            assert_eq!(status, expected, "{dialect} {headers:?}: {message}");
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
            assert_eq!(refused["type"] == "error", dialect == "messages");
        }
    }
    assert_eq!((rollouts(&setup).await.len(), setup.generations().await.len()), (2, 0));
}

#[tokio::test]
async fn responses_are_seen_by_calls_of_their_rollout_however_it_is_named() {
    let setup = Setup::new(vec![]).await;
    let (rollout, base) = setup.attempt().await;
    let (other, _) = setup.attempt().await;
    let (own, other): (Headers, Headers) = (&[("x-rollout-id", &rollout)], &[("x-rollout-id", &other)]);
    let id = generation(&setup, &plain(&setup), "responses", own).await.generation_id;
    let get = async |base: &str, headers| {
        let request = setup.client.get(format!("{base}/responses/{id}"));
        with_headers(request, headers).send().await.unwrap().status().as_u16()
    };
    assert_eq!((get(&plain(&setup), own).await, get(&base, &[]).await, get(&base, own).await), (200, 200, 200));
    assert_eq!(
        (get(&plain(&setup), other).await, get(&plain(&setup), &[]).await, get(&base, other).await),
        (404, 404, 400)
    );
    let next = json!({ "model": "tiny", "input": "Say.", "previous_response_id": id });
    for (headers, expected) in [(other, 400), (&[] as Headers, 400), (&[SESSION], 400), (own, 200)] {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
        let (status, reply) = send(&setup, &plain(&setup), "responses", &next, headers).await;
        assert_eq!(status, expected, "{reply}");
        if status == 200 {
            assert_eq!(recorded(&setup, &reply).await.parent_id.as_ref(), Some(&id));
        }
    }
}

#[tokio::test]
async fn all_calls_of_a_clients_session_belong_to_one_rollout_that_goes_on() {
    let setup = Setup::new(vec![]).await;
    let names = ["x-fulgurite-session", "x-claude-code-session-id", "x-session-id", "session-id", "thread-id"];
    for name in names {
        let mut calls = Vec::new();
        for dialect in DIALECTS {
            calls.push(generation(&setup, &plain(&setup), dialect, &[(name, "one")]).await);
        }
        let rollout = &calls[0].rollout_id;
        let attempt = attempts(&setup, rollout).await.remove(0).attempt_id;
        assert!(calls.iter().all(|call| call.rollout_id == *rollout && call.attempt_id == attempt));
        assert_eq!(statuses(&setup, rollout).await, (RolloutStatus::Running, AttemptStatus::Running));
        let (stored, _) = setup.store.rollouts().get(rollout).await.unwrap().unwrap();
        assert_eq!(json!(stored.metadata), json!({ "kind": "session", "session": { "header": name, "name": "one" } }));
        assert_eq!(stored.config.unresponsive_seconds, Some(3600.0));
        let two = generation(&setup, &plain(&setup), "messages", &[(name, "two")]).await;
        assert_ne!(two.rollout_id, *rollout);
    }
    assert_eq!(rollouts(&setup).await.len(), 2 * names.len());
    // Nobody asked for token ids, and no tracer waits for them.
    setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    let (_, reply) = send(&setup, &plain(&setup), DIALECTS[0], &body(), &[SESSION]).await;
    assert_eq!(reply["choices"][0].get("token_ids"), None);
}

#[tokio::test]
async fn a_sessions_own_name_is_an_id_in_x_rollout_id_too() {
    let setup = Setup::new(vec![]).await;
    let base = plain(&setup);
    let of_session = generation(&setup, &base, "responses", &[("x-session-id", "visit-7")]).await;
    let named = [("x-rollout-id", "visit-7")];
    for dialect in DIALECTS {
        let of_name = generation(&setup, &base, dialect, &named).await;
        assert_eq!(of_name.rollout_id, of_session.rollout_id, "{dialect}");
        assert_eq!(of_name.attempt_id, of_session.attempt_id, "{dialect}");
    }
    let attempt = [("x-rollout-id", "visit-7"), ("x-attempt-id", of_session.attempt_id.as_str())];
    assert_eq!(generation(&setup, &base, "messages", &attempt).await.rollout_id, of_session.rollout_id);
    // The session's responses are seen by the name, too.
    let response = format!("{base}/responses/{}", of_session.generation_id);
    for (name, expected) in [("visit-7", 200), ("visit-8", 404)] {
        let seen = setup.client.get(&response).header("x-rollout-id", name).send().await.unwrap();
        assert_eq!(seen.status(), expected, "{name}");
    }
    // A name that two sessions have is neither's.
    generation(&setup, &base, "messages", &[("thread-id", "visit-7")]).await;
    let (status, reply) = send(&setup, &base, "chat/completions", &request("chat/completions"), &named).await;
    assert_eq!(status, 409, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("names more than one session"), "{reply}");
}

#[tokio::test]
async fn first_calls_of_a_session_at_once_begin_it_once() {
    let setup = Setup::new(vec![]).await;
    let base = plain(&setup);
    let call = || generation(&setup, &base, "messages", &[SESSION]);
    let calls = tokio::join!(call(), call(), call(), call());
    let rollout = calls.0.rollout_id;
    assert!([calls.1, calls.2, calls.3].iter().all(|call| call.rollout_id == rollout));
    assert_eq!((rollouts(&setup).await.len(), attempts(&setup, &rollout).await.len()), (1, 1));
    assert_eq!(setup.generations().await.len(), 4);
}

#[tokio::test]
async fn a_session_continues_token_by_token_over_a_restart_and_its_seeds_are_its_own() {
    let mut seeds = Vec::new();
    for restarted in [false, true] {
        let mut setup = Setup::of_family("qwen3", "qwen3").await;
        let mut conversation = request("messages");
        let mut last: Option<Generation> = None;
        for turn in 0..3 {
            setup.play(Script::Answer(setup.sampled("I am 17<|im_end|>"), SamplingEnd::StopToken));
            let (status, reply) = send(&setup, &plain(&setup), "messages", &conversation, &[SESSION]).await;
            assert_eq!(status, 200, "{reply}");
            let call = recorded(&setup, &reply).await;
            if let Some(last) = &last {
                assert_eq!((&call.parent_id, &call.branch_reason), (&Some(last.generation_id.clone()), &None));
                assert_eq!(call.rollout_id, last.rollout_id);
                let context = [last.prompt_tokens.as_slice(), &last.sampled_tokens].concat();
                assert!(call.prompt_tokens.starts_with(&context), "turn {turn}");
            }
            let messages = conversation["messages"].as_array_mut().unwrap();
            messages.push(json!({ "role": "assistant", "content": reply["content"] }));
            messages.push(json!({ "role": "user", "content": "Again." }));
            last = Some(call);
            if restarted {
                setup.restart().await;
            }
        }
        seeds.push(setup.sampler.requests.lock().unwrap().iter().map(|request| request.seed).collect::<Vec<_>>());
    }
    assert_eq!(seeds[0], seeds[1]);
    assert_ne!(seeds[0][0], seeds[0][1]);
}

#[tokio::test]
async fn no_call_after_a_restart_has_the_seed_of_one_before_it() {
    let mut setup = Setup::new(vec![]).await;
    let (_, base) = setup.seeded_attempt(5).await;
    let mut seeds = vec![generation(&setup, &base, DIALECTS[0], &[]).await.seed];
    // Nothing is recorded of this one.
    assert_eq!(send(&setup, &base, DIALECTS[0], &body(), &[]).await.0, 503);
    seeds.push(generation(&setup, &base, DIALECTS[0], &[]).await.seed);
    let old = setup.url.clone();
    setup.restart().await;
    seeds.push(generation(&setup, &base.replace(&old, &setup.url), DIALECTS[0], &[]).await.seed);
    assert_eq!(seeds, ["0", "2", "3"].map(|place| derive_seed(5, &[place, ""])));
}

/// As if nothing had been heard of a session for long.
async fn fall_silent(setup: &Setup, rollout: &str) {
    let heard = AttemptUpdate { last_heartbeat_time: Some(0.0), ..AttemptUpdate::default() };
    let attempt = setup.store.attempts().update(rollout, "latest", heard).await.unwrap();
    let ended = setup.store.attempts().scan_watchdog().await.unwrap();
    assert_eq!(ended.iter().map(|ended| &ended.attempt_id).collect::<Vec<_>>(), [&attempt.attempt_id]);
    assert_eq!(statuses(setup, rollout).await, (RolloutStatus::Failed, AttemptStatus::Unresponsive));
}

#[tokio::test]
async fn a_session_that_was_silent_for_too_long_goes_on_with_its_next_call() {
    let setup = Setup::new(vec![]).await;
    let base = plain(&setup);
    let first = generation(&setup, &base, "messages", &[SESSION]).await;
    fall_silent(&setup, &first.rollout_id).await;
    let late = generation(&setup, &base, "messages", &[SESSION]).await;
    assert_eq!((&late.rollout_id, &late.attempt_id), (&first.rollout_id, &first.attempt_id));
    let running = (RolloutStatus::Running, AttemptStatus::Running);
    assert_eq!(statuses(&setup, &first.rollout_id).await, running);
    assert_eq!(setup.store.attempts().scan_watchdog().await.unwrap(), []);

    // While an answer is sampled, too: its record wakes the attempt, and the next call the rollout.
    let (on_disconnect, disconnected) = oneshot::channel();
    setup.play(Script::Hang(setup.tokens("I"), on_disconnect));
    let mut streamed = body();
    streamed["stream"] = json!(true);
    let request = setup.client.post(format!("{base}/chat/completions")).json(&streamed);
    let mut response = with_headers(request, &[SESSION]).send().await.unwrap();
    response.chunk().await.unwrap().unwrap();
    fall_silent(&setup, &first.rollout_id).await;
    drop(response);
    disconnected.await.unwrap();
    while setup.generations().await.len() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(generation(&setup, &base, "messages", &[SESSION]).await.attempt_id, first.attempt_id);
    assert_eq!(statuses(&setup, &first.rollout_id).await, running);
}

#[tokio::test]
async fn a_session_that_somebody_ended_takes_no_more_calls() {
    let setup = Setup::new(vec![]).await;
    let base = plain(&setup);
    let rollout = generation(&setup, &base, "messages", &[SESSION]).await.rollout_id;
    let ended = AttemptUpdate::status(AttemptStatus::Succeeded);
    setup.store.attempts().update(&rollout, "latest", ended).await.unwrap();
    let (status, refused) = send(&setup, &base, "chat/completions", &body(), &[SESSION]).await;
    assert_eq!((status, &refused["error"]["code"]), (410, &json!("attempt_ended")));
}

#[tokio::test]
async fn every_answer_says_in_whose_record_it_stands() {
    let setup = Setup::new(vec![]).await;
    let (rollout, base) = setup.attempt().await;
    for dialect in DIALECTS {
        for (base, headers) in [(base.clone(), &[][..]), (plain(&setup), &[][..]), (plain(&setup), &[SESSION][..])] {
            for stream in [false, true] {
                let answer = || Script::Answer(vec![setup.tokens("I")[0], setup.stop()], SamplingEnd::StopToken);
                let mut body = request(dialect);
                body["stream"] = json!(stream);
                setup.play(answer());
                let sent = with_headers(setup.client.post(format!("{base}/{dialect}")).json(&body), headers);
                let response = sent.send().await.unwrap();
                let [named, attempt] = ["x-fulgurite-rollout-id", "x-fulgurite-attempt-id"]
                    .map(|name| response.headers()[name].to_str().unwrap().to_owned());
                response.bytes().await.unwrap();
                let calls = setup.generations().await;
                let last = calls.iter().max_by(|one, other| one.start_time.total_cmp(&other.start_time)).unwrap();
                assert_eq!((&named, &attempt), (&last.rollout_id, &last.attempt_id), "{dialect} {headers:?} {stream}");
                assert_eq!(named == rollout, base.contains("/rollout/"));
            }
        }
    }
    // Several answers are one session, which is rewarded as a whole.
    for _ in 0..2 {
        setup.play(Script::Answer(vec![setup.stop()], SamplingEnd::StopToken));
    }
    let mut several = request("chat/completions");
    several["n"] = json!(2);
    let response =
        setup.client.post(format!("{}/chat/completions", plain(&setup))).json(&several).send().await.unwrap();
    let named = response.headers()["x-fulgurite-rollout-id"].to_str().unwrap().to_owned();
    response.bytes().await.unwrap();
    assert_eq!(setup.generations().await.iter().filter(|call| call.rollout_id == named).count(), 2);
    assert_eq!(statuses(&setup, &named).await, (RolloutStatus::Succeeded, AttemptStatus::Succeeded));
    // What is refused before it belongs to anybody names nobody.
    let refused = setup.client.post(format!("{}/chat/completions", plain(&setup))).json(&json!({ "model": "none" }));
    assert!(!refused.send().await.unwrap().headers().contains_key("x-fulgurite-rollout-id"));
}

#[tokio::test]
async fn an_answer_that_is_given_again_names_the_record_of_the_first() {
    let setup = Setup::new(vec![]).await;
    setup.play(Script::Answer(vec![setup.tokens("I")[0], setup.stop()], SamplingEnd::StopToken));
    let mut named = Vec::new();
    for _ in 0..2 {
        let sent = setup.client.post(format!("{}/chat/completions", plain(&setup))).header("idempotency-key", "k");
        let response = sent.json(&request("chat/completions")).send().await.unwrap();
        named.push(response.headers()["x-fulgurite-rollout-id"].clone());
        response.bytes().await.unwrap();
    }
    assert_eq!(named[0], named[1]);
    assert_eq!(setup.generations().await.len(), 1);
}
