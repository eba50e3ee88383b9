//! `fulgurite show`: one rollout as a transcript.

use std::path::Path;
use std::process::Stdio;

use crate::common::{Process, Server, eventually, fulgurite, model_flag, printed, run, table, text, tiny_model};
use serde_json::{Value, json};

/// A conversation of two calls, one that begins anew, and rewards for a call and for the attempt.
fn conversation(directory: &Path) -> Server {
    let model = tiny_model(directory, 512);
    let server = Server::start(directory, ["--model", &model_flag("tiny", &model)]);
    let rollout = json!({ "rollout_id": "ro-talk", "input": "count", "mode": "val", "metadata": { "run_id": "run-1", "step": 3 } });
    server.post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": [rollout] })).expect(201);
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "limit": 1, "worker_id": "w" })).expect(200);
    let attempt = text(&claimed[0]["attempt"]["attempt_id"]);
    let base = format!("/rollout/ro-talk/attempt/{attempt}");
    let call = |messages: &Value| {
        let call = json!({ "model": "tiny", "messages": messages, "seed": 1, "max_tokens": 4 });
        server.post(&format!("{base}/v1/chat/completions"), &call).expect(200)
    };
    let system = json!({ "role": "system", "content": "You count.\nNothing else." });
    let one = json!({ "role": "user", "content": "one" });
    let answer = call(&json!([system, one]));
    let answer_message = answer["choices"][0]["message"].clone();
    call(&json!([system, one, answer_message, { "role": "user", "content": "two" }]));
    call(&json!([system, { "role": "user", "content": "three" }]));
    let of_call = format!("/rollout/ro-talk/generation/{}/reward", text(&answer["id"]));
    server.post(&of_call, &json!({ "value": -0.25 })).expect(201);
    server
        .post(&format!("{base}/reward"), &json!({ "value": 1, "components": { "exact": 1, "short": 0.5 } }))
        .expect(201);
    let failed = json!({ "status": "failed", "metadata": { "reason": "agent exited with status 3" } });
    server.post(&format!("/v1/fulgurite/rollouts/ro-talk/attempts/{attempt}/report"), &failed).expect(200);
    server
}

/// What `show` prints, with what only the model knows left out.
fn shown(server: &Server, flags: &[&str]) -> String {
    let shown = table(server, ["show", "ro-talk"].iter().chain(flags));
    let line = |line: &str| match line.split_once("logprob ") {
        Some((before, after)) => format!("{before}logprob [sum]{}\n", after.find(',').map_or("", |at| &after[at..])),
        None if line.trim_start().starts_with("assistant") => "  assistant  [answer]\n".to_owned(),
        None => format!("{line}\n"),
    };
    shown.lines().map(line).collect()
}

#[test]
fn a_rollout_is_shown_as_a_transcript() {
    let directory = tempfile::tempdir().unwrap();
    let server = conversation(directory.path());
    insta::assert_snapshot!(shown(&server, &[]), @r"
    rollout ro-talk: failed
      mode       val
      run        run-1
      step       3
      started    2026-11-21 15:04:05, took 0.000 s
      input      count

    attempt 1, at-########: failed
      worker     w
      started    2026-11-21 15:04:05, took 0.000 s
      reason     agent exited with status 3

      #1 chatcmpl-################################ tiny, weights 0, 0.000 s
      begins a conversation
      system     You count.
                 Nothing else.
      user       one
      assistant  [answer]
      54 prompt tokens, 4 sampled, logprob [sum], stop: length

      #2 chatcmpl-################################ tiny, weights 0, 0.000 s
      continues #1, token by token
      user       two
      assistant  [answer]
      82 prompt tokens, 4 sampled, logprob [sum], stop: length

      #3 chatcmpl-################################ tiny, weights 0, 0.000 s
      begins anew, like #2 up to message 1
      user       three
      assistant  [answer]
      56 prompt tokens, 4 sampled, logprob [sum], stop: length

      reward -0.250 primary: for #1, from a span agentlightning.annotation

      reward +1.000 primary (exact 1, short 0.5): for the attempt, from a span agentlightning.annotation
    ");
    let unknown = run(["show", "ro-none", "--store", &server.store]);
    insta::assert_snapshot!(unknown.failure(directory.path()), @"error: there is no rollout `ro-none` in this store, and no session of that name");
}

#[test]
fn a_transcript_shows_tokens_with_their_texts() {
    let directory = tempfile::tempdir().unwrap();
    let server = conversation(directory.path());
    let tokenizer = directory.path().join("model");
    let generations = server.query("generations");
    let ids: Vec<u64> = generations
        .iter()
        .flat_map(|generation| generation["sampled_tokens"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()))
        .collect();
    let token_lines = |flags: &[&str]| {
        let shown = printed(["show", "ro-talk", "--store", &server.store, "--tokens"].iter().chain(flags));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        shown
            .lines()
            .filter(|line| line.starts_with("     "))
            .map(words)
            .filter(|words| words[0].parse::<u64>().is_ok())
            .collect::<Vec<_>>()
    };
    let with_text = token_lines(&["--tokenizer", tokenizer.join("tokenizer.json").to_str().unwrap()]);
    assert_eq!(with_text.iter().map(|words| words[0].parse().unwrap()).collect::<Vec<u64>>(), ids);
    let opened = fulgurite_renderers::Tokenizer::open(&tokenizer).unwrap();
    for (words, id) in with_text.iter().zip(&ids) {
        assert_eq!(words[2..].join(" "), json!(opened.decode(&[*id as u32])).to_string());
    }
    assert!(token_lines(&[]).iter().all(|words| words.len() == 2), "without a tokenizer there is no text");
    let other = directory.path().join("no-such");
    let missing =
        run(["show", "ro-talk", "--store", &server.store, "--tokens", "--tokenizer", other.to_str().unwrap()]);
    insta::assert_snapshot!(missing.failure(directory.path()), @"error: [directory]/no-such is neither a tokenizer.json nor a directory");
}

#[test]
fn a_transcript_for_programs_holds_everything() {
    let directory = tempfile::tempdir().unwrap();
    let server = conversation(directory.path());
    let [line] = &run(["show", "ro-talk", "--json", "--store", &server.store]).json_lines()[..] else { panic!() };
    let events = line["attempts"][0]["events"].as_array().unwrap();
    let kinds: Vec<&str> =
        events.iter().map(|event| event.as_object().unwrap().keys().next().unwrap().as_str()).collect();
    assert_eq!(kinds, ["generation", "generation", "generation", "reward", "reward"]);
    assert_eq!(events[0]["generation"], server.query("generations")[0]);
    assert_eq!(events[3]["reward"], server.query("rewards")[0]);
}

#[test]
fn a_transcript_shows_calls_of_tools_and_serve_says_which_models_hear_of_none() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 2048);
    let template = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}\
                    {% endfor %}{{ '<|im_start|>assistant\n' }}";
    std::fs::write(model.join("chat_template.jinja"), template).unwrap();
    let deaf = format!("{},renderer=template", model_flag("deaf", &model));
    let words = format!("{},tools=preamble", model_flag("words", &model));
    let server = Server::start(directory.path(), ["--model", &deaf, "--model", &words]);
    let started = server.post("/v1/agl/rollouts", &json!({ "input": 1 })).expect(201);
    let (rollout, attempt) = (text(&started["rollout_id"]), text(&started["attempt"]["attempt_id"]));
    let function = json!({ "name": "weather", "arguments": "{\"city\": \"Paris\"}" });
    let body = |model: &str| {
        json!({
            "model": model, "max_tokens": 2,
            "tools": [{ "type": "function", "function": { "name": "weather", "parameters": { "type": "object" } } }],
            "messages": [
                { "role": "user", "content": "Rain?" },
                { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": function }] },
                { "role": "tool", "tool_call_id": "c", "content": "dry" },
            ],
        })
    };
    server.post(&format!("/rollout/{rollout}/attempt/{attempt}/v1/chat/completions"), &body("words")).expect(200);
    let shown = printed(["show", &rollout, "--store", &server.store]);
    assert!(shown.contains("  assistant  calls weather {\"city\": \"Paris\"}\n  tool       dry\n"), "{shown}");
    let mut without_calls = body("deaf");
    without_calls["messages"].as_array_mut().unwrap().truncate(1);
    for _ in 0..2 {
        server.post("/v1/chat/completions", &without_calls).expect(200);
    }
    let log = std::fs::read_to_string(directory.path().join("serve.log")).unwrap();
    assert_eq!(log.matches("`deaf` shows no tools").count(), 1, "{log}");

    let mut command = fulgurite(["serve", "--listen", "127.0.0.1:0", "--model", &deaf, "--model", &words]);
    let mut other = Process::spawn({
        command.arg("--ready-file").arg(directory.path().join("other.json"));
        command.arg("--store").arg(format!("sqlite://{}", directory.path().join("other.db").display()));
        command.stdout(Stdio::piped());
        command
    });
    eventually("the other server", || directory.path().join("other.json").exists().then_some(()));
    let mut printed = String::new();
    let mut stdout = other.stdout();
    other.terminate();
    std::io::Read::read_to_string(&mut stdout, &mut printed).unwrap();
    assert!(printed.contains("note         the template of the model `deaf` shows no tools"), "{printed}");
    assert!(!printed.contains("`words`"), "{printed}");
}
