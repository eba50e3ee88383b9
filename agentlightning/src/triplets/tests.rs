//! What the adapters do beyond Agent-lightning's: links, several sources at once, reasons.

use fulgurite_types::Span;
use regex::Regex;
use serde_json::{Value, json};

use super::*;

#[expect(dead_code, reason = "rewards are spans here")]
#[path = "../../../adapters/src/recorded.rs"]
mod recorded;

use recorded::generation;

/// A span of a second, sequence id 1.
pub(super) fn span(span_id: &str, parent_id: Option<&str>, name: &str, attributes: Value) -> Span {
    let span = json!({
        "rollout_id": "ro-1", "attempt_id": "at-1", "sequence_id": 1, "trace_id": "00000000000000000000000000000007",
        "span_id": span_id, "parent_id": parent_id, "name": name, "status": {"status_code": "OK"},
        "attributes": attributes, "events": [], "links": [], "start_time": 1.0, "end_time": 2.0, "context": null,
        "parent": null, "resource": {"attributes": {}, "schema_url": ""},
    });
    serde_json::from_value(span).unwrap()
}

fn timed(span: Span, sequence_id: u64, start: f64, end: f64) -> Span {
    Span { sequence_id, start_time: Some(start), end_time: Some(end), ..span }
}

/// A tracer's call between `time` and `time + 1`.
fn call(id: &str, time: f64) -> Span {
    let attributes = json!({
        "gen_ai.response.id": format!("r-{id}"), "prompt_token_ids": [1], "response_token_ids": [2],
        "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi",
    });
    timed(span(id, None, "openai.chat.completion", attributes), time as u64, time, time + 1.0)
}

fn with(mut span: Span, attributes: Value) -> Span {
    span.attributes.extend(attributes.as_object().unwrap().clone());
    span
}

fn reward(id: &str, time: f64, value: f64, more: Value) -> Span {
    let attributes = json!({"agentlightning.reward.0.name": "primary", "agentlightning.reward.0.value": value});
    timed(with(span(id, None, "agentlightning.annotation", attributes), more), time as u64, time, time)
}

fn link(key: &str, value: &str) -> Value {
    json!({"agentlightning.link.0.key_match": key, "agentlightning.link.0.value_match": value})
}

fn rewards(report: &TripletReport) -> Vec<(&str, Option<f64>)> {
    report.triplets.iter().map(|triplet| (triplet.metadata.span_id.as_str(), triplet.reward)).collect()
}

fn reasons(report: &TripletReport) -> Vec<(&str, Reason)> {
    report.passed_over.iter().map(|passed| (passed.span_id.as_str(), passed.reason)).collect()
}

#[test]
fn a_linked_reward_goes_to_the_call_that_it_names() {
    for link in [
        link("gen_ai.response.id", "r-a"),
        link("span_id", "a"),
        json!({
            "agentlightning.link.0.key_match": "gen_ai.prompt.0.content", "agentlightning.link.0.value_match": "hi",
            "agentlightning.link.1.key_match": "span_id", "agentlightning.link.1.value_match": "a",
        }),
    ] {
        let spans = [call("a", 1.0), call("b", 3.0), reward("x", 5.0, 0.25, link), reward("y", 6.0, 1.0, json!({}))];
        let followed = tracer_triplets(&spans, &TripletOptions::default());
        assert_eq!(rewards(&followed), [("a", Some(0.25)), ("b", Some(1.0))]);
        assert_eq!(rewards(&any_triplets(&spans, &TripletOptions::default())), rewards(&followed));
        let guessed = tracer_triplets(&spans, &TripletOptions::agent_lightning());
        assert_eq!(rewards(&guessed), [("a", Some(1.0)), ("b", Some(0.25))]);
    }
}

#[test]
fn a_reward_linked_to_a_span_around_calls_goes_to_the_last_that_had_ended() {
    let inside = |call: Span| Span { parent_id: Some("agent".into()), ..call };
    let spans = [
        timed(span("agent", None, "agent", json!({})), 1, 0.5, 9.0),
        inside(call("a", 1.0)),
        inside(call("b", 3.0)),
        inside(call("c", 7.0)),
        reward("x", 5.0, 0.25, link("span_id", "agent")),
        reward("revised", 6.0, 0.75, link("span_id", "agent")),
    ];
    let report = tracer_triplets(&spans, &TripletOptions::default());
    assert_eq!(rewards(&report), [("a", None), ("b", Some(0.75)), ("c", None)]);
}

#[test]
fn a_reward_that_names_nothing_recorded_is_not_given_to_another_call() {
    let spans = [call("a", 1.0), reward("x", 5.0, 1.0, link("span_id", "gone"))];
    let report = tracer_triplets(&spans, &TripletOptions::default());
    assert_eq!(rewards(&report), [("a", None)]);
    assert_eq!(reasons(&report), [("x", Reason::RewardWithoutCall)]);
}

#[test]
fn every_named_number_of_a_reward_is_kept() {
    let format = json!({"agentlightning.reward.1.name": "format", "agentlightning.reward.1.value": 1});
    let report = any_triplets(&[call("a", 1.0), reward("x", 5.0, 0.5, format)], &TripletOptions::default());
    assert_eq!(report.triplets[0].reward, Some(0.5));
    assert_eq!(report.triplets[0].reward_components, [("primary".to_owned(), 0.5), ("format".to_owned(), 1.0)]);
}

/// Our proxy's span of the call that the tracer's span `a` tells too.
fn ours() -> Span {
    let attributes = json!({
        "gen_ai.provider.name": "fulgurite", "gen_ai.response.id": "r-a", "prompt_token_ids": [1, 5],
        "response_token_ids": [7], "logprobs.content": "[{\"token\": \"x\", \"logprob\": -0.5}]",
        "gen_ai.request.model": "m",
    });
    timed(span("ours", None, "anthropic.message", attributes), 2, 1.1, 1.9)
}

/// LiteLLM's spans of the same call.
fn litellms() -> [Span; 2] {
    let raw = json!({
        "llm.hosted_vllm.id": "r-a", "llm.hosted_vllm.prompt_token_ids": "[1, 6]",
        "llm.hosted_vllm.choices": "[{'token_ids': [8, 9], 'logprobs': {'content': [{'logprob': -0.25}, {'logprob': -1}]}}]",
    });
    let request = json!({"gen_ai.response.id": "r-a", "gen_ai.request.model": "m"});
    [span("asked", None, "litellm_request", request), span("raw", Some("asked"), "raw_gen_ai_request", raw)]
}

#[test]
fn one_call_is_counted_once_whoever_tells_it_first() {
    let tracers = Span { parent_id: Some("agent".into()), ..call("a", 1.0) };
    let agent = timed(span("agent", None, "agent", json!({"agent.name": "coder"})), 1, 0.5, 9.0);
    let [request, raw] = litellms();
    let mut spans = vec![agent, tracers, ours(), request, raw, reward("x", 5.0, 1.0, json!({}))];
    for _ in 0..spans.len() {
        spans.rotate_left(1);
        let report = any_triplets(&spans, &TripletOptions::default());
        let [triplet] = &report.triplets[..] else { panic!("{report:?}") };
        assert_eq!(
            (triplet.prompt.token_ids.as_slice(), triplet.response.token_ids.as_slice()),
            (&[1, 5][..], &[7][..])
        );
        assert_eq!(triplet.response.logprobs, Some(vec![-0.5]));
        assert_eq!(triplet.prompt.raw_content, json!([{"role": "user", "content": "hi"}]), "only the tracer has it");
        assert_eq!(triplet.metadata.agent_name.as_deref(), Some("coder"), "only the tracer knows it");
        assert_eq!(triplet.reward, Some(1.0));
        let mut reasons = reasons(&report);
        reasons.sort_unstable();
        assert_eq!(
            reasons,
            [
                ("a", Reason::DuplicateResponseId),
                ("agent", Reason::NotAModelCall),
                ("asked", Reason::DuplicateResponseId),
                ("raw", Reason::DuplicateResponseId),
                ("x", Reason::RewardGiven),
            ]
        );
    }
}

#[test]
fn without_our_proxy_the_source_that_knows_the_logprobs_tells_the_tokens() {
    let [request, raw] = litellms();
    let report = any_triplets(&[call("a", 1.0), request, raw], &TripletOptions::default());
    let [triplet] = &report.triplets[..] else { panic!("{report:?}") };
    assert_eq!(triplet.metadata.span_id, "raw");
    assert_eq!(triplet.response.token_ids, [8, 9]);
    assert_eq!(triplet.response.logprobs, Some(vec![-0.25, -1.0]));
}

#[test]
fn a_judges_call_through_our_proxy_is_not_trained() {
    let judge = Span { parent_id: Some("x".into()), ..call("a", 1.0) };
    let report = any_triplets(&[reward("x", 0.5, 1.0, json!({})), judge, ours()], &TripletOptions::default());
    assert_eq!(
        reasons(&report),
        [("x", Reason::RewardWithoutCall), ("a", Reason::InsideReward), ("ours", Reason::InsideReward)]
    );
}

#[test]
fn what_the_store_recorded_is_taken_to_the_bit() {
    let report = any_triplets(&[call("a", 1.0), call("b", 2.0)], &TripletOptions::default());
    let report = report.with_generations(&[generation("r-a", &[4, 5], &[6])]);
    assert_eq!(report.triplets[0].prompt.token_ids, [4, 5]);
    assert_eq!(report.triplets[0].response.logprobs, Some(vec![-1.0]));
    let written = serde_json::to_value(&report.triplets[0]).unwrap();
    assert_eq!(written["metadata"]["stop_reason"], "stop");
    assert_eq!(serde_json::from_value::<crate::Triplet>(written).unwrap(), report.triplets[0]);
    assert_eq!(report.triplets[1].metadata.generation, None);
}

#[test]
fn times_that_nobody_gave_keep_no_reward_from_its_call() {
    let untimed = |span: Span| Span { start_time: None, end_time: None, ..span };
    let spans = [untimed(reward("x", 1.0, 1.0, json!({}))), untimed(call("a", 1.0))];
    assert_eq!(rewards(&tracer_triplets(&spans, &TripletOptions::default())), [("a", Some(1.0))]);
}

#[test]
fn every_way_to_be_passed_over_has_its_reason() {
    let inside = |parent: &str, span: Span| Span { parent_id: Some(parent.into()), ..span };
    let without_id = |mut span: Span| {
        span.attributes.shift_remove("gen_ai.response.id");
        span
    };
    let spans = [
        timed(span("coder", None, "agent", json!({"agent.name": "coder"})), 1, 0.0, 50.0),
        inside("coder", call("told", 1.0)),
        inside("told", without_id(call("inner", 1.0))),
        inside("coder", with(call("again", 2.0), json!({"gen_ai.response.id": "r-told"}))),
        inside("coder", with(call("text", 3.0), json!({"prompt_token_ids": "[1]"}))),
        inside("coder", with(call("empty", 4.0), json!({"response_token_ids": []}))),
        inside("coder", Span { name: "litellm_request".into(), ..call("named", 5.0) }),
        inside("coder", span("plan", None, "plan", json!({}))),
        inside("coder", reward("given", 60.0, 1.0, json!({}))),
        inside("coder", reward("too many", 61.0, 1.0, json!({}))),
        inside("given", call("judge", 6.0)),
        inside("coder", span("broken", None, "x", json!({"agentlightning.reward.0.name": "a"}))),
        inside("ring", span("ring", None, "x", json!({}))),
        call("outside", 7.0),
        span("plan", None, "plan", json!({})),
    ];
    let agent_match = Some(Regex::new("coder").unwrap());
    let options = TripletOptions {
        agent_match,
        skip_empty_token_spans: true,
        repair_hierarchy: false,
        ..TripletOptions::default()
    };
    let report = tracer_triplets(&spans, &options);
    assert_eq!(rewards(&report), [("told", Some(1.0))]);
    assert_eq!(
        reasons(&report),
        [
            ("coder", Reason::NotAModelCall),
            ("inner", Reason::NoResponseIdInsideCall),
            ("again", Reason::DuplicateResponseId),
            ("text", Reason::UnreadableTokenIds),
            ("empty", Reason::NoTokenIds),
            ("named", Reason::NameDoesNotMatch),
            ("plan", Reason::RepeatedSpanId),
            ("given", Reason::RewardGiven),
            ("too many", Reason::RewardWithoutCall),
            ("judge", Reason::InsideReward),
            ("broken", Reason::UnreadableReward),
            ("ring", Reason::ParentsFormRing),
            ("outside", Reason::OutsideAgent),
            ("plan", Reason::NotAModelCall),
        ]
    );
}

fn explained(spans: &[Span], options: &TripletOptions) -> String {
    tracer_triplets(spans, options).explain()
}

#[test]
fn no_triplets_are_explained_by_what_to_do() {
    let skip = TripletOptions { skip_empty_token_spans: true, ..TripletOptions::default() };
    let coder = TripletOptions { agent_match: Some(Regex::new("coder").unwrap()), ..skip.clone() };
    let bare = span("a", None, "openai.chat.completion", json!({"gen_ai.response.id": "r"}));
    let begins = |text: &str, beginning: &str| assert!(text.starts_with(beginning), "{text}");
    begins(&explained(&[], &skip), "No triplets among 0 spans. Either the rollout and attempt are others than");
    begins(
        &explained(&[bare], &skip),
        "No triplets among 1 span. There are model calls, but without token ids: the model server was not asked",
    );
    begins(
        &explained(&litellms(), &skip),
        "No triplets among 2 spans. Spans named `litellm_request` look like model calls, but the name asked for is \
         `openai.chat.completion`: ask for that name, or let `auto`",
    );
    begins(
        &explained(&[call("a", 1.0)], &coder),
        "No triplets among 1 span. There are model calls, but none of the agent that was asked for: it is in no \
         agent's span.",
    );
    begins(
        &explained(&[reward("x", 1.0, 1.0, json!({})), span("s", None, "session", json!({}))], &skip),
        "No triplets among 2 spans. No span is a model call (1 × `agentlightning.annotation`, 1 × `session`): the",
    );
    begins(&explained(&[call("a", 1.0)], &skip), "1 triplet; 0 spans passed over. 1 without logprobs, which cannot be");
    begins(&any_triplets(&[ours()], &skip).explain(), "1 triplet; 0 spans passed over.");
}

#[test]
fn reasons_are_written_as_they_are_named() {
    for reason in Reason::ALL {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
    }
}
