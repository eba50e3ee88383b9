use serde_json::{Value, json};
use sqlx::{AnyConnection, AssertSqlSafe, Connection};
use std::collections::BTreeSet;

use super::host::{Host, post, start};
use super::wires::{CALL, Streaming, WIRES};
use crate::common::{Ran, Server, client, model_flag, text, tiny_model};
use crate::test_database::TestDatabase;
use crate::training::harvest::{train, write_config};

#[test]
fn an_agent_with_tools_behind_a_base_url_alone_is_one_session_in_every_dialect() {
    let host = Host::start("");
    for wire in WIRES {
        let mut history = vec![(wire.user)("How is the weather?")];
        host.say(CALL);
        let first = host.post(&(wire.path)(Streaming::Whole), &[], &(wire.request)(&history, Streaming::Whole));
        history.extend((wire.echo)(&first.json(), "Rain."));
        host.say("It rains.");
        let request = (wire.request)(&history, Streaming::Streamed);
        let second = host.post(&(wire.path)(Streaming::Streamed), &[], &request);
        assert_eq!(second.status, 200, "{}", second.text);
        history.extend([(wire.assistant)("It rains."), (wire.user)("And tomorrow?")]);
        host.say("It snows.");
        let third = host.post(&(wire.path)(Streaming::Whole), &[], &(wire.request)(&history, Streaming::Whole));
        third.json();
        assert!(first.rollout.starts_with("ro-"), "{}", first.rollout);
        assert_eq!([&second.rollout, &third.rollout], [&first.rollout; 2], "{}", wire.name);
        host.assert_chain(&first.rollout, 3);
        let reward = host.post(&format!("/rollout/{}/reward", third.rollout), &[], &json!({ "value": 1.0 }));
        assert!((200..300).contains(&reward.status), "{}", reward.text);
    }
    assert_eq!(host.server.query("rollouts").len(), WIRES.len());
}

#[test]
fn a_response_that_names_the_one_before_joins_its_session() {
    let host = Host::start("");
    let ask = |fields: Value| {
        let mut body = json!({ "model": "tiny", "input": "Go on." });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        host.say("Yes.");
        let answered = host.post("/v1/responses", &[], &body);
        (answered.rollout.clone(), answered.json())
    };
    let (rollout, first) = ask(json!({}));
    let (joined, _) = ask(json!({ "previous_response_id": first["id"] }));
    assert_eq!(joined, rollout);
    host.assert_chain(&rollout, 2);
}

#[test]
fn two_users_with_the_same_first_words_are_two_sessions() {
    let host = Host::start("");
    let (mut here, mut there) = (Vec::new(), Vec::new());
    let first = [host.turn(&[], &mut here, "Hello", "Good day."), host.turn(&[], &mut there, "Hello", "Good evening.")];
    assert_ne!(first[0], first[1]);
    for turn in ["one", "two"] {
        let rollout = host.turn(&[], &mut there, turn, "Yes.");
        assert_eq!(rollout, first[1]);
        let rollout = host.turn(&[], &mut here, turn, "Yes.");
        assert_eq!(rollout, first[0]);
    }
    first.iter().for_each(|rollout| host.assert_chain(rollout, 3));
}

#[test]
fn users_whose_first_answers_are_the_same_too_are_never_taken_for_each_other() {
    let host = Host::start("");
    let (mut here, mut there) = (Vec::new(), Vec::new());
    let mut of = [Vec::new(), Vec::new()];
    of[0].push(host.turn(&[], &mut here, "Hello", "Good day."));
    of[1].push(host.turn(&[], &mut there, "Hello", "Good day."));
    for turn in ["two", "three"] {
        of[1].push(host.turn(&[], &mut there, &format!("there {turn}"), "Yes."));
        of[0].push(host.turn(&[], &mut here, &format!("here {turn}"), "Yes."));
    }
    // Whose first answer a second call goes on with cannot be known; from then on their messages differ.
    let [here, there] = of.map(BTreeSet::from_iter);
    assert!(here.is_disjoint(&there));
    assert_eq!((here.len(), there.len()), (2, 2));
    assert_eq!(host.server.query("rollouts").len(), 4);

    // One after the other they are told apart: an answer that was continued is taken.
    for _ in 0..3 {
        let mut messages = Vec::new();
        let rollout = host.turn(&[], &mut messages, "Good bye", "Bye.");
        assert_eq!(host.turn(&[], &mut messages, "And then?", "Nothing."), rollout);
        host.assert_chain(&rollout, 2);
    }
    assert_eq!(host.server.query("rollouts").len(), 7);
}

#[test]
fn a_retry_is_the_same_call_of_the_same_session_whatever_others_do() {
    let host = Host::start("");
    let mut messages = Vec::new();
    let rollout = host.turn(&[], &mut messages, "Hello", "Good day.");
    let longer = [messages.clone(), vec![json!({ "role": "user", "content": "Go on" })]].concat();
    host.turn(&[], &mut messages, "Go on", "On.");
    // Another has the same first answer meanwhile, which nobody has continued.
    let mut other = Vec::new();
    let others = host.turn(&[], &mut other, "Hello", "Good day.");
    let (again, _) = host.chat(&[("x-stainless-retry-count", "1")], &longer);
    assert_eq!(again, rollout);
    assert_eq!(host.turn(&[], &mut other, "Go on", "Over."), others);
    assert_eq!((host.calls(&rollout).len(), host.calls(&others).len()), (2, 2));
}

#[test]
fn another_message_after_the_same_answer_is_a_branch_of_its_session() {
    let host = Host::start("");
    let mut messages = Vec::new();
    let rollout = host.turn(&[], &mut messages, "Hello", "Good day.");
    let mut fork = messages.clone();
    host.turn(&[], &mut messages, "Go on", "On.");
    assert_eq!(host.turn(&[], &mut fork, "Go back", "Back."), rollout);
    assert_eq!(host.turn(&[], &mut fork, "Further", "Further."), rollout);
    assert_eq!(host.turn(&[], &mut messages, "Further", "Further."), rollout);
    let calls = host.calls(&rollout);
    let parents: Vec<Option<&str>> = calls.iter().map(|(_, parent)| parent.as_deref()).collect();
    let [first, on, back, ..] = &calls[..] else { panic!("{calls:?}") };
    let [first, on, back] = [first, on, back].map(|(id, _)| Some(id.as_str()));
    assert_eq!(parents, [None, first, first, back, on]);
}

#[test]
fn a_conversation_that_was_rewarded_is_over_and_goes_on_as_another_rollout() {
    let host = Host::start("");
    let mut messages = Vec::new();
    let rollout = host.turn(&[], &mut messages, "Hello", "Good day.");
    let reward = |rollout: &str| {
        let rewarded = host.post(&format!("/rollout/{rollout}/reward"), &[], &json!({ "value": 1.0 }));
        assert!((200..300).contains(&rewarded.status), "{}", rewarded.text);
    };
    assert_eq!(host.turn(&[], &mut messages, "one", "One."), rollout);
    reward(&rollout);
    let next = host.turn(&[], &mut messages, "two", "Two.");
    assert_ne!(next, rollout);
    assert_eq!(host.turn(&[], &mut messages, "three", "Three."), next);
    reward(&next);
    assert_eq!((host.calls(&rollout).len(), host.calls(&next).len()), (2, 2));
}

#[test]
fn agents_with_other_system_prompts_are_other_sessions() {
    let host = Host::start("");
    let system = |text: &str| vec![json!({ "role": "system", "content": text })];
    let (mut main, mut explorer) = (system("You are the main agent."), system("You explore."));
    let first = [host.turn(&[], &mut main, "Go", "Yes."), host.turn(&[], &mut explorer, "Go", "Yes.")];
    assert_ne!(first[0], first[1]);
    assert_eq!(host.turn(&[], &mut explorer, "On", "Yes."), first[1]);
    assert_eq!(host.turn(&[], &mut main, "On", "Yes."), first[0]);
}

#[test]
fn a_conversation_is_of_the_key_that_began_it() {
    let host = Host::start("");
    let mut messages = Vec::new();
    let of = |key: &'static str| [("authorization", key)];
    let rollout = host.turn(&of("Bearer one"), &mut messages, "Hello", "Good day.");
    let asks = |headers: &[(&str, &str)]| host.turn(headers, &mut messages.clone(), "Go on", "On.");
    let others = [asks(&of("Bearer two")), asks(&[]), asks(&[("x-api-key", "one")])];
    assert!(!others.contains(&rollout));
    assert_eq!(BTreeSet::from(others).len(), 3);
    assert_eq!(asks(&of("Bearer one")), rollout);
}

#[test]
fn a_conversation_goes_on_after_a_kill_between_its_turns() {
    let mut host = Host::start("");
    let mut messages = Vec::new();
    let rollout = host.turn(&[], &mut messages, "Hello", "Good day.");
    for turn in ["one", "two"] {
        host.kill_and_restart();
        assert_eq!(host.turn(&[], &mut messages, turn, &format!("Said {turn}.")), rollout);
    }
    host.assert_chain(&rollout, 3);
}

#[test]
fn a_conversation_that_was_silent_for_too_long_is_a_new_session_and_so_is_each_call_where_it_is_turned_off() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let age = |store: &str, seconds: u32| {
        runtime.block_on(async {
            sqlx::any::install_default_drivers();
            let mut connection = AnyConnection::connect(store).await.unwrap();
            let sql = format!("UPDATE attempts SET last_heartbeat_time = last_heartbeat_time - {seconds}");
            sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        });
    };
    let host = Host::start("");
    let mut messages = Vec::new();
    let rollout = host.turn(&[], &mut messages, "Hello", "Good day.");
    age(&host.server.store, 3000);
    assert_eq!(host.turn(&[], &mut messages, "one", "One."), rollout);
    age(&host.server.store, 3700);
    let later = host.turn(&[], &mut messages, "two", "Two.");
    assert_ne!(later, rollout);
    assert_eq!(host.turn(&[], &mut messages, "three", "Three."), later);

    let host = Host::start("[proxy]\nconversation_gap_seconds = 0");
    let mut messages = Vec::new();
    let rollouts = ["one", "two", "three"].map(|turn| host.turn(&[], &mut messages, turn, turn));
    assert_eq!(BTreeSet::from(rollouts).len(), 3);
}

#[test]
fn a_conversation_whose_calls_come_to_either_of_two_servers_is_one_session() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::new());
    if !database.is_postgres() {
        return;
    }
    let here = Host::start_on(Some(&database.url), "");
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("serve.toml"), "").unwrap();
    let there = start(&database.url, directory.path(), &here.model_flag);
    let mut messages = Vec::new();
    let mut rollouts = BTreeSet::new();
    for (turn, server) in [&here.server, &there, &there, &here.server, &there].into_iter().enumerate() {
        messages.push(json!({ "role": "user", "content": format!("turn {turn}") }));
        here.say("Yes.");
        let answered = post(server, "/v1/chat/completions", &[], &json!({ "model": "tiny", "messages": messages }));
        answered.json();
        messages.push(json!({ "role": "assistant", "content": "Yes." }));
        rollouts.insert(answered.rollout);
    }
    assert_eq!(rollouts.len(), 1);
    here.assert_chain(rollouts.first().unwrap(), 5);
}

#[test]
fn every_turn_of_a_conversation_is_trained_by_one_reward() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 512);
    let served = directory.path().join("served");
    std::fs::create_dir(&served).unwrap();
    let mut server = Server::start(&served, ["--model", &model_flag("hello", &model)]);
    for (user, reward) in [("here", 1.0), ("there", 0.0)] {
        let mut messages = Vec::new();
        let mut rollouts = Vec::new();
        for turn in 0..3 {
            messages.push(json!({ "role": "user", "content": format!("{user} {turn}") }));
            let body = json!({ "model": "hello", "messages": messages, "max_tokens": 5 });
            let answered = post(&server, "/v1/chat/completions", &[], &body);
            messages.push(answered.json()["choices"][0]["message"].clone());
            rollouts.push(answered.rollout);
        }
        assert!(rollouts.iter().all(|rollout| *rollout == rollouts[0]), "{rollouts:?}");
        let url = format!("{}/rollout/{}/reward", server.url, rollouts[2]);
        assert!(client().post(url).json(&json!({ "value": reward })).send().unwrap().status().is_success());
    }
    let generations = server.query("generations");
    assert_eq!(generations.len(), 6);
    assert_eq!(server.query("rollouts").len(), 2);
    let count = |generation: &Value| generation["sampled_tokens"].as_array().unwrap().len() as u64;
    let sampled: u64 = generations.iter().map(count).sum();
    server.process.terminate();

    let harvest = "max_steps = 1\nlearning_rate = 1e-2\nharvest = { rollouts_per_step = 2, max_staleness = 9 }";
    let config = write_config(directory.path(), "backend = \"embedded\"", Some(&served.join("store.db")), harvest);
    let run = directory.path().join("run");
    let summary = Ran::from(train(&config, &run).output().unwrap()).json_lines().pop().unwrap();
    assert_eq!((&summary["steps"], &summary["trained_tokens"]), (&json!(1), &json!(sampled)), "{summary}");
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let first: Value = serde_json::from_str(metrics.lines().next().unwrap()).unwrap();
    assert_eq!(first["harvest/alone"], json!(2.0), "{first}");
    let trained: BTreeSet<String> = generations.iter().map(|generation| text(&generation["rollout_id"])).collect();
    assert_eq!(trained.len(), 2);
}
