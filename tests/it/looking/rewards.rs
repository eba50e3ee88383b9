//! `fulgurite reward`, and sessions by the names that their clients gave them.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Server, client, model_flag, run, text, tiny_model};

/// A call of a session, as its client makes it.
fn call(url: &str, header: &str, session: &str) {
    let body = json!({ "model": "tiny", "max_tokens": 2, "messages": [{ "role": "user", "content": "hi" }] });
    let sent = client().post(format!("{url}/v1/chat/completions")).header(header, session).json(&body).send().unwrap();
    assert!(sent.status().is_success(), "{}", sent.text().unwrap());
}

fn start(directory: &Path) -> Server {
    let model = tiny_model(directory, 64);
    Server::start(directory, ["--model".to_owned(), model_flag("tiny", &model)])
}

#[test]
fn a_session_is_rewarded_and_shown_by_its_name_from_the_command_line() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let reward = |words: &[&str]| run(["reward", "--server", &server.url].iter().chain(words));
    call(&server.url, "x-session-id", "visit 7");

    let given = reward(&["visit 7", "-0.5", "--component", "exact=0.25", "--json"]);
    assert_eq!(given.code, Some(0), "{}", given.stderr);
    let given: Value = serde_json::from_str(&given.stdout).unwrap();
    let expected = json!({ "value": -0.5, "name": "primary", "components": [["exact", 0.25]] });
    assert_eq!((&given["reward"], &given["giver"]), (&expected, &json!("unknown")));
    let revised = reward(&["visit 7", "1"]);
    let attempt = text(&given["attempt_id"]);
    assert_eq!(
        revised.stdout,
        format!("rewarded the attempt {attempt} of visit 7 with 1 (primary), given by unknown\n")
    );

    let of = |command: &[&str]| {
        let ran = run(command.iter().chain(&["--store", server.store.as_str(), "--json"]));
        assert_eq!(ran.code, Some(0), "{command:?}: {}", ran.stderr);
        ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let rollout = of(&["show", "visit 7"]).remove(0);
    assert_eq!(rollout["metadata"]["session"], json!({ "header": "x-session-id", "name": "visit 7" }));
    for command in [
        &["rollouts", "visit 7"][..],
        &["rollouts", "--rollout", "visit 7"],
        &["rollouts", "--where", "session = 'visit 7' and reward = 1"],
        &["rollouts", "--where", "rollout = 'visit 7'"],
    ] {
        let found = of(command);
        assert_eq!((found.len(), &found[0]["rollout_id"]), (1, &rollout["rollout_id"]), "{command:?}");
    }
    assert_eq!(of(&["rewards", "visit 7"]).len(), 2);
    assert_eq!(of(&["generations", "visit 7"]).len(), 1);
    let page = server.get("/ui/data/rollouts/visit%207").expect(200);
    assert_eq!(page["rollout"]["rollout_id"], rollout["rollout_id"]);
    assert_eq!(server.get("/v1/agl/rollouts/visit%207").expect(200)["rollout_id"], rollout["rollout_id"]);

    // The same name by another header is another session, and then neither is meant.
    call(&server.url, "session-id", "visit 7");
    let refused = reward(&["visit 7", "1"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("`visit 7` names more than one session"), "{}", refused.stderr);
    let refused = run(["show", "visit 7", "--store", &server.store]);
    assert!(refused.stderr.contains("(x-session-id)") && refused.stderr.contains("(session-id)"), "{}", refused.stderr);
}

#[test]
fn a_reward_that_cannot_be_given_is_told_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    call(&server.url, "x-session-id", "s");
    let refused = |words: &[&str]| {
        let ran = run(["reward", "--server", &server.url].iter().chain(words));
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{words:?}");
        ran.stderr
    };
    assert!(refused(&["nobody", "1"]).contains("rollout not found: nobody"));
    assert!(refused(&["s", "NaN"]).starts_with("error: the reward is NaN, but must be a finite number"));
    assert!(refused(&["s", "-inf"]).starts_with("error: the reward is -inf, but must be a finite number"));
    assert!(refused(&["s", "good"]).starts_with("error: the reward is `good`, but must be a number"));
    assert!(refused(&["s", "1", "--component", "x=inf"]).contains("the component `x` is inf"));
    assert!(refused(&["s", "1", "--component", "x"]).contains("give NAME=VALUE"));
    assert!(refused(&["s", "1", "--attempt", "at-no"]).contains("attempt not found: at-no"));
    // The server has its store.
    let locked = run(["reward", "s", "1", "--store", &server.store]);
    assert_eq!(locked.code, Some(1), "{}", locked.stdout);
    let none = run(["rewards", "--store", &server.store, "--json"]);
    assert_eq!(none.stdout, "");
}

#[test]
fn a_store_that_no_server_has_takes_rewards_itself() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = start(directory.path());
    call(&server.url, "x-fulgurite-session", "conv-42");
    server.process.terminate();
    let given = run(["reward", "conv-42", "1", "--giver", "person", "--store", &server.store, "--json"]);
    assert_eq!(given.code, Some(0), "{}", given.stderr);
    let given: Value = serde_json::from_str(&given.stdout).unwrap();
    assert_eq!(given["giver"], json!("person"));
    let unknown = run(["reward", "conv-43", "1", "--store", &server.store]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("there is no rollout `conv-43` in this store"), "{}", unknown.stderr);
    let missing = format!("sqlite://{}", directory.path().join("missing.db").display());
    assert_eq!(run(["reward", "conv-42", "1", "--store", &missing]).code, Some(1));
    assert!(!directory.path().join("missing.db").exists());
}
