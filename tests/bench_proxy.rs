//! `fulgurite bench proxy` as scripts run it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::run;

#[test]
fn the_last_object_says_what_the_proxy_adds_to_each_kind_of_call() {
    let lines = run(["bench", "proxy", "--calls", "21", "--rate", "500", "--json"]).json_lines();
    let kinds = ["", "streamed_", "conversation_", "session_"];
    // Each kind straight to the host and through the proxy, and the summary.
    assert_eq!(lines.len(), 2 * kinds.len() + 1);
    let summary = lines.last().unwrap();
    for kind in kinds {
        // A conversation is never broken off in the middle of its eight turns.
        let calls = if kind == "conversation_" { 24 } else { 21 };
        assert_eq!(summary[format!("{kind}calls")], calls);
        for figure in ["added_cpu_ms_per_call", "added_p99_ms_at_500", "added_ttft_ms"] {
            assert!(summary[format!("{kind}{figure}")].is_f64(), "{kind}{figure}: {summary}");
        }
    }
    assert!(summary["resident_bytes_at_end"].as_u64().unwrap() > 0);
    assert_eq!((&summary["prompt_tokens"], &summary["synchronous"]), (&200.into(), &"full".into()));
}
