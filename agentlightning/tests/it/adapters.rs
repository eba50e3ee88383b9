//! The adapters against what Agent-lightning 0.3.0's give for the same spans: cases made by hand, and random trees.

use std::path::Path;

use fulgurite_agentlightning::{
    RewardMatch, Triplet, TripletOptions, TripletReport, any_triplets, llm_proxy_triplets, messages, tracer_triplets,
};
use fulgurite_types::Span;
use regex::Regex;
use serde_json::{Value, json};

/// Each case with its name, its spans and what each adapter is expected to give.
fn cases(file: &str) -> Vec<(String, Vec<Span>, Value)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(file);
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let case = |(name, case): (&String, &Value)| {
        let spans = case["spans"].as_array().unwrap().iter().map(span).collect();
        (name.clone(), spans, case["expected"].clone())
    };
    file["cases"].as_object().unwrap().iter().map(case).collect()
}

/// A span of which the file may only say what differs from one span to the next.
fn span(fields: &Value) -> Span {
    let mut span = json!({
        "rollout_id": "ro-1", "attempt_id": "at-1", "trace_id": "00000000000000000000000000000007",
        "status": {"status_code": "OK"}, "events": [], "links": [], "context": null, "parent": null,
        "resource": {"attributes": {}, "schema_url": ""},
    });
    span.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(span).unwrap()
}

fn tracer_options(name: &str) -> Option<TripletOptions> {
    let defaults = TripletOptions::agent_lightning();
    Some(match name {
        "tracer_default" => defaults,
        "tracer_no_repair" => TripletOptions { repair_hierarchy: false, ..defaults },
        "tracer_first_sibling" => TripletOptions { reward_match: RewardMatch::FirstSibling, ..defaults },
        "tracer_agent_coder" => TripletOptions { agent_match: Some(Regex::new("coder").unwrap()), ..defaults },
        "tracer_include_in_reward" => TripletOptions { exclude_llm_call_in_reward: false, ..defaults },
        "tracer_skip_empty" => TripletOptions { skip_empty_token_spans: true, ..defaults },
        _ => return None,
    })
}

fn as_the_tracer_adapter_writes(report: &TripletReport) -> Value {
    report.triplets.iter().map(Triplet::to_agent_lightning).collect()
}

/// What only we keep is taken away.
fn as_the_proxy_adapter_writes(report: &TripletReport) -> Value {
    let written = |triplet: &Triplet| {
        json!({
            "prompt": {"token_ids": triplet.prompt.token_ids},
            "response": {"token_ids": triplet.response.token_ids},
            "reward": triplet.reward,
            "metadata": {"response_id": triplet.metadata.response_id},
        })
    };
    report.triplets.iter().map(written).collect()
}

/// Numbers that are equal but written otherwise, 1 and 1.0, are the same to a reader of JSON.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| same(one, other)))
        }
        _ => one == other,
    }
}

/// Every span is a triplet or has a reason, and no span is or has both.
fn assert_every_span_is_accounted_for(spans: &[Span], report: &TripletReport) {
    let mut accounted: Vec<&str> = report.triplets.iter().map(|triplet| triplet.metadata.span_id.as_str()).collect();
    accounted.extend(report.passed_over.iter().map(|passed| passed.span_id.as_str()));
    accounted.sort_unstable();
    let mut all: Vec<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
    all.sort_unstable();
    assert_eq!(accounted, all);
}

fn assert_equal_to_agent_lightnings(file: &str, least: usize) {
    let (mut compared, mut different) = (0, Vec::new());
    for (case, spans, expected) in cases(file) {
        for (adapter, expected_here) in expected.as_object().unwrap() {
            let as_default = expected_here == "as tracer_default";
            let expected = if as_default { &expected["tracer_default"] } else { expected_here };
            let actual: Value = if let Some(options) = tracer_options(adapter) {
                let report = tracer_triplets(&spans, &options);
                assert_every_span_is_accounted_for(&spans, &report);
                as_the_tracer_adapter_writes(&report)
            } else if adapter == "llm_proxy" {
                let report = llm_proxy_triplets(&spans);
                assert_every_span_is_accounted_for(&spans, &report);
                as_the_proxy_adapter_writes(&report)
            } else {
                assert_eq!(adapter, "messages");
                json!(messages(&spans).conversations)
            };
            if !same(&actual, expected) {
                different.push(format!("{case}, {adapter}:\n{actual}\nis not\n{expected}"));
            }
            compared += 1;
        }
    }
    assert!(different.is_empty(), "{} of {compared}:\n{}", different.len(), different.join("\n"));
    assert!(compared >= least, "only {compared} compared");
}

#[test]
fn cases_made_by_hand() {
    assert_equal_to_agent_lightnings("agentlightning_adapters.json", 12 * 7);
}

/// Parents that are missing, spans at the top that others enclose, calls and rewards inside each other, one response id
/// on many spans, attributes of every source.
#[test]
fn random_trees() {
    assert_equal_to_agent_lightnings("agentlightning_adapters_random.json", 30 * 8);
}

#[test]
fn links_and_any_source_change_nothing_where_there_is_no_link_and_one_source() {
    for (case, spans, expected) in cases("agentlightning_adapters.json") {
        let linked = tracer_triplets(&spans, &TripletOptions::default());
        assert!(same(&as_the_tracer_adapter_writes(&linked), &expected["tracer_default"]), "{case}");
        let any = any_triplets(&spans, &TripletOptions::default());
        assert_every_span_is_accounted_for(&spans, &any);
        if case == "proxy_spans" {
            assert!(same(&as_the_proxy_adapter_writes(&any), &expected["llm_proxy"]), "{case}");
        } else {
            assert!(same(&as_the_tracer_adapter_writes(&any), &expected["tracer_default"]), "{case}");
        }
    }
}
