//! `fulgurite-bench proxy` as scripts run it.

use crate::{Gateway, run};

#[test]
fn the_last_object_says_what_the_proxy_adds_to_each_kind_of_call() {
    let lines = run(["proxy", "--calls", "21", "--rate", "500", "--json"]).json_lines();
    let kinds = ["", "streamed_", "conversation_", "session_"];
    // Each kind at a rate and at once, straight to the host and through the proxy, and the summary.
    assert_eq!(lines.len(), 2 * 2 * kinds.len() + 1);
    let paces: Vec<String> = lines[..4].iter().map(|line| line["pace"].to_string()).collect();
    assert_eq!(paces[1..3], [r#"{"calls_a_second":500.0}"#, r#"{"calls_at_once":32}"#]);
    let summary = lines.last().unwrap();
    for kind in kinds {
        // A conversation is never broken off in the middle of its eight turns.
        let calls = if kind == "conversation_" { 24 } else { 21 };
        assert_eq!(summary[format!("{kind}calls")], calls);
        let figures = ["added_cpu_ms_per_call_at_500", "added_p99_ms_at_500", "added_ttft_ms"];
        for figure in figures.into_iter().chain(["added_cpu_ms_per_call", "calls_per_second"]) {
            assert!(summary[format!("{kind}{figure}")].is_f64(), "{kind}{figure}: {summary}");
        }
    }
    for share in [0, 10, 50, 100] {
        assert!(summary[format!("resident_mib_at_{share}_percent")].as_f64().unwrap() > 0.0, "{share} %: {summary}");
    }
    let disk = ["disk_p50_ms", "disk_p99_ms"].map(|figure| summary[figure].as_f64().unwrap());
    assert!(0.0 < disk[0] && disk[0] <= disk[1], "{summary}");
    assert_eq!((&summary["prompt_tokens"], &summary["synchronous"]), (&200.into(), &"full".into()));
    // A quota would make them seem fewer to the standard library.
    let processors = rustix::thread::sched_getaffinity(None).unwrap().count();
    assert_eq!(summary["client_and_host_processors"].as_u64().unwrap_or(0), u64::from(processors) / 2);
}

#[test]
fn one_kind_alone_can_be_asked_for_and_what_its_record_survives() {
    let kinds = ["--kinds", "sessions", "--synchronous", "normal", "--concurrency", "4"];
    let command = ["proxy", "--calls", "9", "--rate", "500", "--share-processors", "--json"];
    let directory = tempfile::tempdir().unwrap();
    let stores = directory.path().join("stores");
    let on_disk = ["--directory", stores.to_str().unwrap()];
    let refused = run([&command[..], &on_disk].concat()).failure(directory.path());
    assert!(refused.contains("--directory") && refused.contains("stores"), "{refused}");
    std::fs::create_dir(&stores).unwrap();
    let lines = run([&command[..], &kinds, &on_disk].concat()).json_lines();
    assert_eq!(lines.iter().map(|line| &line["traffic"]).filter(|kind| *kind == "calls of nobody").count(), 4);
    let summary = lines.last().unwrap();
    assert_eq!((lines.len(), &summary["session_calls"], &summary["synchronous"]), (5, &9.into(), &"normal".into()));
    assert!(summary["client_and_host_processors"].is_null());
    assert_eq!(summary["directory"], on_disk[1]);
    assert_eq!(std::fs::read_dir(&stores).unwrap().count(), 0, "what was measured is removed");
    // The very first, to see that the answer is as scripted; what warms up; and those that count, at both paces.
    assert_eq!((&summary["calls_at_once"], &summary["calls_made"]), (&4.into(), &(1 + 9 + 2 * 9).into()));
}

#[test]
fn a_gateway_of_agent_lightnings_wire_is_measured_beside_it_on_whole_calls() {
    let directory = tempfile::tempdir().unwrap();
    // Which this program itself is as well.
    let gateway = Gateway::start(directory.path());
    let (url, pid) = (gateway.url.as_str(), gateway.process.id().to_string());
    let command = ["proxy", "--calls", "20", "--kinds", "whole,streamed", "--json"];
    let with_gateway = ["--gateway", url, "--gateway-pid", &pid];
    let lines = run([&command[..], &with_gateway].concat()).json_lines();
    let rows: Vec<&serde_json::Value> = lines.iter().filter(|line| line["server"] == "gateway").collect();
    let [row] = rows[..] else { panic!("{rows:?}") };
    let made = (&row["traffic"], &row["pace"], &row["calls"]);
    assert_eq!(made, (&"attempts of 1 call".into(), &serde_json::json!({ "calls_at_once": 32 }), &20.into()));
    let summary = lines.last().unwrap();
    assert_eq!((&summary["server"], &summary["streamed_calls"]), (&"fulgurite".into(), &20.into()));
    assert!(summary["gateway_calls_per_second"].as_f64().unwrap() > 0.0, "{summary}");
    let refused = run(["proxy", "--kinds", "sessions", "--gateway", url, "--gateway-pid", &pid]);
    assert!(refused.failure(directory.path()).contains("--kinds whole"));
}
