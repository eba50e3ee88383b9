//! Codes for terminals in what agents, models and tools write: commands show them, and no terminal obeys them.

use serde_json::{Value, json};

use crate::common::{Server, model_flag, run, text, tiny_model};

/// Escape, bell, return, both sets of control characters, and a turn of the direction of writing.
const SLY: &str = "a\u{1b}[2J\u{1b}]0;title\u{7}\rb\u{9b}31m\u{8}\u{7f}\u{202e}c\nd";

#[test]
fn codes_for_terminals_are_shown_and_not_obeyed() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 512);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let id = format!("ro-{SLY}");
    let rollout = json!({
        "rollout_id": id, "input": SLY, "metadata": { "run_id": SLY, SLY: SLY },
    });
    server.post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": [rollout] })).expect(201);
    let worker = json!({ "limit": 1, "worker_id": SLY });
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &worker).expect(200);
    let attempt = text(&claimed[0]["attempt"]["attempt_id"]);
    let escaped: String = id.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let base = format!("/rollout/{escaped}/attempt/{attempt}");
    let call = json!({ "model": "tiny", "max_tokens": 4, "messages": [{ "role": "user", "content": SLY }] });
    server.post(&format!("{base}/v1/chat/completions"), &call).expect(200);
    let reward = json!({ "value": 1, "components": { SLY: 1 } });
    server.post(&format!("{base}/reward"), &reward).expect(201);
    let resource = json!({ "resource_type": "prompt_template", "template": SLY, "engine": "f-string" });
    server.post("/v1/agl/resources", &json!({ SLY: resource })).expect(201);
    let failed = json!({ "status": "failed", "metadata": { "reason": SLY } });
    server.post(&format!("/v1/fulgurite/rollouts/{escaped}/attempts/{attempt}/report"), &failed).expect(200);

    let select = "SELECT rollout_id, input AS \"in\u{1b}put\" FROM rollouts";
    let commands: [&[&str]; 11] = [
        &["rollouts"],
        &["attempts"],
        &["spans"],
        &["generations"],
        &["rewards"],
        &["workers"],
        &["resources"],
        &["triplets"],
        &["show", &id],
        &["sql", select],
        &["stats"],
    ];
    for command in commands {
        let ran = run(command.iter().chain(&["--store", &server.store]));
        for (stream, printed) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            let is_sly = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
            assert!(!printed.contains(is_sly), "{command:?} {stream}: {printed:?}");
        }
        assert!(!ran.stdout.is_empty() && ran.code == Some(0), "{command:?}: {}", ran.stderr);
    }
    let shown = run(["show", &id, "--store", &server.store]).stdout;
    assert!(shown.contains("a\\u001b[2J\\u001b]0;title\\u0007\\u000db\\u009b31m\\u0008\\u007f\\u202ec"), "{shown}");
    // For programs it is what it was.
    assert_eq!(server.query("rollouts")[0]["input"], SLY);
    let shown: Value = serde_json::from_str(&run(["show", &id, "--json", "--store", &server.store]).stdout).unwrap();
    assert_eq!(shown["rollout_id"], id);
    let missing = run(["show", SLY, "--store", &server.store]);
    assert!(missing.stderr.contains("there is no rollout `a\\u001b[2J"), "{:?}", missing.stderr);
}
