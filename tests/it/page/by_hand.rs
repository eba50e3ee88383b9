//! Rollouts in full, what a server holds, and models that are asked by hand.

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use super::following::ready;
use super::{ADMIN, browser, seen};
use crate::common::{Server, client, model_flag, text, tiny_model};

/// A server that serves a tiny model as `tiny`, behind a key if one is given.
pub(super) fn serving(directory: &std::path::Path, context: usize, key: Option<&str>) -> Server {
    let model = tiny_model(directory, context);
    let environment: Vec<(&str, &str)> = key.into_iter().map(|key| ("FULGURITE_ADMIN_KEY", key)).collect();
    Server::start_in(&environment, directory, ["--model", &model_flag("tiny", &model)])
}

/// A rollout whose attempt has begun, and where it calls models.
pub(super) fn started_attempt(server: &Server) -> (String, String) {
    let started = server.post("/v1/agl/rollouts", &json!({ "input": "x" })).expect(201);
    let (rollout, attempt) = (text(&started["rollout_id"]), text(&started["attempt"]["attempt_id"]));
    let url = format!("/rollout/{rollout}/attempt/{attempt}/v1/chat/completions");
    (rollout, url)
}

pub(super) fn user(words: &str) -> Value {
    json!({ "role": "user", "content": words })
}

#[test]
fn sixty_four_thousand_tokens_are_drawn_where_they_are_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let server = serving(directory.path(), 8192, None);
    let (rollout, url) = started_attempt(&server);
    for call in 0..11 {
        let words: String = (0..6000).map(|place| char::from(b'a' + ((place * 7 + call * 3) % 26) as u8)).collect();
        let call = json!({ "model": "tiny", "max_tokens": 2, "messages": [user(&words)] });
        server.post(&url, &call).expect(200);
    }
    let path = format!("{}/ui/data/rollouts/{rollout}/tokens", server.url);
    let sent = client().get(path).send().unwrap().bytes().unwrap().len();
    let Some(browser) = browser("tokens64k", &server.url, &[&rollout]) else { return };
    let seen = seen(browser);
    let tokens = seen["tokens"].as_u64().unwrap();
    assert!(tokens >= 64_000 && seen["last"] == tokens - 1, "{seen}");
    assert!(sent as u64 <= 40 * tokens, "{sent} bytes for {tokens} tokens");
    // Each token that is drawn is a node at least.
    assert!(seen["nodes"].as_u64().unwrap() < tokens / 3, "{seen}");
}

#[test]
fn a_call_is_shown_once_it_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let server = serving(directory.path(), 256, None);
    let (rollout, url) = started_attempt(&server);
    let call = |words: &str| {
        let call = json!({ "model": "tiny", "max_tokens": 2, "messages": [user(words)] });
        server.post(&url, &call).expect(200);
    };
    call("One.");
    let Some(mut browser) = browser("grows", &server.url, &[&rollout]) else { return };
    let mut output = ready(&mut browser);
    call("Another.");
    browser.stdin.take().unwrap().write_all(b"more\n").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let ended = browser.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let seen: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&seen["before"], &seen["after"]), (&json!(1), &json!(2)), "{seen}");
}

#[test]
fn a_conversation_within_another_is_shown_inside_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = serving(directory.path(), 1024, None);
    let (rollout, url) = started_attempt(&server);
    let ask = |messages: &[Value]| {
        let call = json!({ "model": "tiny", "max_tokens": 6, "messages": messages });
        let answer = server.post(&url, &call).expect(200);
        let message = answer["choices"][0]["message"].clone();
        [messages, &[message]].concat()
    };
    let mut lead = ask(&[user("Lead.")]);
    let mut helper = ask(&[json!({ "role": "system", "content": "You help." }), user("Look this up.")]);
    helper.push(user("And that."));
    ask(&helper);
    lead.push(user("Now go on."));
    ask(&lead);
    let Some(browser) = browser("tree", &server.url, &[&rollout]) else { return };
    let seen = seen(browser);
    assert_eq!((&seen["threads"], &seen["nested"], &seen["calls"]), (&json!(2), &json!(1), &json!(4)), "{seen}");
    assert!(seen["bars"].as_u64().unwrap() >= 4 && seen["focused"].is_string(), "{seen}");
}

#[test]
fn a_server_is_shown_with_its_models_its_queue_and_its_spans() {
    let directory = tempfile::tempdir().unwrap();
    let server = serving(directory.path(), 256, None);
    let (rollout, url) = started_attempt(&server);
    server.post(&url, &json!({ "model": "tiny", "max_tokens": 2, "messages": [user("x")] })).expect(200);
    server.enqueue([json!(1), json!(2)], &json!({}));
    let Some(browser) = browser("store", &server.url, &[&rollout]) else { return };
    let seen = seen(browser);
    assert!(text(&seen["models"][0]).contains("tiny"), "{seen}");
    assert!(seen["counts"].to_string().contains("queuing"), "{seen}");
    assert!(seen["spans"].as_u64().unwrap() >= 1 && seen["bars"].as_u64().unwrap() >= 1, "{seen}");
}

#[test]
fn a_model_is_played_with_and_what_came_of_it_becomes_a_task_a_comparison_and_a_reward() {
    let directory = tempfile::tempdir().unwrap();
    let server = serving(directory.path(), 256, Some(ADMIN));
    let Some(browser) = browser("play", &server.url, &["tiny", ADMIN, "tiny"]) else { return };
    let seen = seen(browser);
    assert!(text(&seen["alert"]).contains("403"), "the cookie that reads is not enough: {seen}");
    assert!(seen["tokens"].as_u64().unwrap() > 0 && seen["answers"].as_array().unwrap().len() == 2, "{seen}");
    assert_eq!(seen["pair"]["prompt"], "Say 17.", "{seen}");
    assert_eq!(seen["stored"], 0, "the key is in memory alone");
    assert_eq!(seen["growing"], "one two", "tokens are shown as they come: {seen}");
    let stopped = text(&seen["stopped"]);
    assert!(stopped.contains("ended by interruption") && stopped.contains("one two"), "what was there stays: {seen}");
    // What the page made is in the store.
    let rollouts = server.query("rollouts");
    let task =
        rollouts.iter().find(|rollout| rollout["rollout_id"] == seen["task"]).unwrap_or_else(|| panic!("{seen}"));
    assert_eq!(task["status"], "queuing", "{task}");
    let rewards = crate::common::run(["rewards", "--store", &server.store, "--all", "--json"]).json_lines();
    assert!(rewards.iter().any(|reward| reward["rollout_id"] == seen["rewarded"]), "{seen}: {rewards:?}");
}

#[test]
fn a_server_without_models_says_so_where_one_would_play() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [] as [&str; 0]);
    let Some(browser) = browser("play", &server.url, &["tiny"]) else { return };
    assert!(text(&seen(browser)["none"]).contains("No model is served"));
}
