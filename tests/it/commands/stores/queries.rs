//! `fulgurite rollouts`, `spans` and `triplets`: what a store holds, as people and programs see it.

use std::path::Path;

use crate::common::{Ran, Server, fulgurite, model_flag, run, table, text, tiny_model};
use serde_json::{Value, json};

/// A store with a rollout that was played and rewarded, one that failed, and one that waits.
fn three_rollouts(directory: &Path) -> Server {
    let model = tiny_model(directory, 256);
    let server = Server::start(directory, ["--model", &model_flag("tiny", &model)]);
    let rollout = |id: &str, input: Value, metadata: Value| {
        let mode = "train";
        json!({ "rollout_id": id, "input": input, "mode": mode, "metadata": metadata })
    };
    let queued = json!({ "rollouts": [
        rollout("ro-played", json!({ "n": 17 }), json!({ "run_id": "run-1", "step": 3, "seed": 1 })),
        rollout("ro-failed", json!("a task of which so much is to be said that it does not fit into its column"), json!({})),
        rollout("ro-waiting", json!(3), json!({})),
    ] });
    server.post("/v1/agl/queues/rollouts/enqueue", &queued).expect(201);
    let resources = json!({ "main_llm": { "resource_type": "llm", "endpoint": "http://127.0.0.1", "model": "tiny" } });
    server.post("/v1/agl/resources/rs-1", &resources).expect(200);
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "limit": 2, "worker_id": "w" })).expect(200);
    let attempts: Vec<String> = (0..2).map(|index| text(&claimed[index]["attempt"]["attempt_id"])).collect();
    let base = format!("/rollout/ro-played/attempt/{}", attempts[0]);
    let call = json!({
        "model": "tiny", "messages": [{ "role": "user", "content": "hi" }], "temperature": 0, "max_tokens": 5,
    });
    server.post(&format!("{base}/v1/chat/completions"), &call).expect(200);
    server.post(&format!("{base}/reward"), &json!({ "value": 0.5, "components": { "exact": 1 } })).expect(201);
    let report = |rollout: &str, attempt: &str, body: Value| {
        server.post(&format!("/v1/fulgurite/rollouts/{rollout}/attempts/{attempt}/report"), &body).expect(200);
    };
    report("ro-played", &attempts[0], json!({ "status": "succeeded" }));
    report(
        "ro-failed",
        &attempts[1],
        json!({ "status": "failed", "metadata": { "reason": "agent exited with status 3" } }),
    );
    server
}

/// Replaces what differs from one time to the next, and what only the model knows.
fn redacted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), redacted_field(key, value))).collect(),
        Value::Array(items) => items.iter().map(redacted).collect(),
        Value::String(text) if text.starts_with("chatcmpl-") => json!("[response_id]"),
        other => other.clone(),
    }
}

fn redacted_field(key: &str, value: &Value) -> Value {
    const CHANGING: [&str; 14] = [
        "attempt_id",
        "span_id",
        "trace_id",
        "response_id",
        "gen_ai.response.id",
        "tokenizer",
        "token_ids",
        "logprobs",
        "gen_ai.completion.0.content",
        "prompt_token_ids",
        "response_token_ids",
        "logprobs.content",
        "logprobs_content",
        "raw_content",
    ];
    let changes = CHANGING.contains(&key) || key.ends_with("_time");
    if changes && !value.is_null() { json!(format!("[{key}]")) } else { redacted(value) }
}

fn pretty(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{:#}\n", redacted(line))).collect()
}

#[test]
fn what_a_store_holds_is_shown_as_tables() {
    let directory = tempfile::tempdir().unwrap();
    let server = three_rollouts(directory.path());
    insta::assert_snapshot!(table(&server, ["rollouts"]), @r#"
    rollout     status     mode   run    step  started              attempts  reward  input                                                          reason
    ro-played   succeeded  train  run-1  3     2026-11-21 15:04:05  1         +0.500  {"n":17}
    ro-failed   failed     train               2026-11-21 15:04:05  1                 a task of which so much is to be said that it does not fit i…  agent exited with status 3
    ro-waiting  queuing    train               2026-11-21 15:04:05  0                 3
    "#);
    insta::assert_snapshot!(table(&server, ["attempts"]), @r"
    rollout    attempt      seq  status     worker  started              seconds  reason
    ro-played  at-########  1    succeeded  w       2026-11-21 15:04:05  0.000
    ro-failed  at-########  1    failed     w       2026-11-21 15:04:05  0.000    agent exited with status 3
    ");
    insta::assert_snapshot!(table(&server, ["generations"]), @r"
    rollout    attempt      seq  generation                                 model  weights  prompt  sampled  logprob  stop    seconds  continues  untrained
    ro-played  at-########  1    chatcmpl-################################  tiny   0        21      5        0.000    length  0.000               modified_distribution
    ");
    insta::assert_snapshot!(table(&server, ["drift"]), @r"
    rollout    seq  generation                                 prompt  kept  new  sampled  continues  reason      first difference
    ro-played  1    chatcmpl-################################  21      0     21   5                   first_turn
    ");
    let drift = server.get("/rollout/ro-played/drift").expect(200);
    assert_eq!((&drift["continued"], &drift["reasons"]), (&json!(0), &json!({ "first_turn": 1 })));
    assert_eq!(drift["calls"], json!(server.query("drift")));
    server.get("/rollout/ro-none/drift").expect(404);
    insta::assert_snapshot!(table(&server, ["rewards"]), @r"
    rollout    attempt      seq  reward  name     components  given by  generation  span
    ro-played  at-########  2    +0.500  primary  exact 1     unknown               agentlightning.annotation
    ");
    insta::assert_snapshot!(table(&server, ["workers"]), @r"
    worker  status  rollout  attempt  heard of  asked                busy                 idle
    w       idle                                2026-11-21 15:04:05  2026-11-21 15:04:05  2026-11-21 15:04:05
    ");
    insta::assert_snapshot!(table(&server, ["resources"]), @r"
    resources  version  updated              what
    rs-1       1        2026-11-21 15:04:05  main_llm: llm
    ");
    insta::assert_snapshot!(table(&server, ["triplets"]), @r"
    rollout    attempt      response                                   prompt     sampled   logprob  reward
    ro-played  at-########  chatcmpl-################################  21 tokens  5 tokens  0.000    +0.500
    ");
    let spans = table(&server, ["spans"]);
    let columns: Vec<Vec<&str>> = spans.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(columns[0], ["rollout", "attempt", "seq", "name"]);
    assert_eq!(columns[1][2..], ["1", "openai.chat.completion"]);
    assert_eq!(columns[2][2..], ["2", "agentlightning.annotation"]);
}

#[test]
fn what_a_store_holds_is_shown_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let server = three_rollouts(directory.path());
    insta::assert_snapshot!(pretty(&server.query("rollouts")), @r#"
    {
      "rollout_id": "ro-played",
      "input": {
        "n": 17
      },
      "start_time": "[start_time]",
      "end_time": "[end_time]",
      "mode": "train",
      "resources_id": null,
      "status": "succeeded",
      "config": {
        "timeout_seconds": null,
        "unresponsive_seconds": null,
        "max_attempts": 1,
        "retry_condition": []
      },
      "metadata": {
        "run_id": "run-1",
        "step": 3,
        "seed": 1
      },
      "attempt": {
        "rollout_id": "ro-played",
        "attempt_id": "[attempt_id]",
        "sequence_id": 1,
        "start_time": "[start_time]",
        "end_time": "[end_time]",
        "status": "succeeded",
        "worker_id": "w",
        "last_heartbeat_time": "[last_heartbeat_time]",
        "metadata": null
      },
      "reward": 0.5
    }
    {
      "rollout_id": "ro-failed",
      "input": "a task of which so much is to be said that it does not fit into its column",
      "start_time": "[start_time]",
      "end_time": "[end_time]",
      "mode": "train",
      "resources_id": null,
      "status": "failed",
      "config": {
        "timeout_seconds": null,
        "unresponsive_seconds": null,
        "max_attempts": 1,
        "retry_condition": []
      },
      "metadata": {},
      "attempt": {
        "rollout_id": "ro-failed",
        "attempt_id": "[attempt_id]",
        "sequence_id": 1,
        "start_time": "[start_time]",
        "end_time": "[end_time]",
        "status": "failed",
        "worker_id": "w",
        "last_heartbeat_time": null,
        "metadata": {
          "reason": "agent exited with status 3"
        }
      },
      "reward": null
    }
    {
      "rollout_id": "ro-waiting",
      "input": 3,
      "start_time": "[start_time]",
      "end_time": null,
      "mode": "train",
      "resources_id": null,
      "status": "queuing",
      "config": {
        "timeout_seconds": null,
        "unresponsive_seconds": null,
        "max_attempts": 1,
        "retry_condition": []
      },
      "metadata": {},
      "attempt": null,
      "reward": null
    }
    "#);
    insta::assert_snapshot!(pretty(&server.query("triplets")), @r#"
    {
      "prompt": {
        "token_ids": "[token_ids]",
        "raw_content": "[raw_content]",
        "image_urls": []
      },
      "response": {
        "token_ids": "[token_ids]",
        "logprobs": "[logprobs]",
        "raw_content": "[raw_content]",
        "logprobs_content": "[logprobs_content]"
      },
      "reward": 0.5,
      "reward_components": [
        [
          "primary",
          0.5
        ],
        [
          "exact",
          1.0
        ]
      ],
      "metadata": {
        "response_id": "[response_id]",
        "agent_name": "*",
        "rollout_id": "ro-played",
        "attempt_id": "[attempt_id]",
        "span_id": "[span_id]",
        "sequence_id": 1,
        "request": {
          "model": "tiny",
          "temperature": 0.0,
          "top_p": 1.0,
          "max_tokens": 5,
          "is_stream": false
        },
        "response": {
          "id": "[response_id]",
          "model": "tiny"
        },
        "parent_id": null,
        "branch_reason": "first_turn",
        "model": "tiny",
        "stop_reason": "length",
        "weights_versions": [
          {
            "version": 0,
            "first_token": 0
          }
        ],
        "sampling": {
          "temperature": 0.0,
          "top_p": 1.0,
          "top_k": null
        },
        "renderer": "chatml",
        "tokenizer": "[tokenizer]",
        "exclusion": "modified_distribution"
      }
    }
    "#);
    insta::assert_snapshot!(pretty(&server.query("spans")), @r#"
    {
      "rollout_id": "ro-played",
      "attempt_id": "[attempt_id]",
      "sequence_id": 1,
      "trace_id": "[trace_id]",
      "span_id": "[span_id]",
      "parent_id": null,
      "name": "openai.chat.completion",
      "status": {
        "status_code": "OK",
        "description": null
      },
      "attributes": {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "fulgurite",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.max_tokens": 5,
        "fulgurite.departure.reason": "first_turn",
        "gen_ai.request.is_stream": false,
        "gen_ai.response.id": "[gen_ai.response.id]",
        "gen_ai.response.model": "tiny",
        "gen_ai.usage.input_tokens": 21,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.completion.0.finish_reason": "length",
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "hi",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "[gen_ai.completion.0.content]",
        "prompt_token_ids": "[prompt_token_ids]",
        "response_token_ids": "[response_token_ids]",
        "logprobs.content": "[logprobs.content]"
      },
      "events": [],
      "links": [],
      "start_time": "[start_time]",
      "end_time": "[end_time]",
      "context": null,
      "parent": null,
      "resource": {
        "attributes": {},
        "schema_url": ""
      }
    }
    {
      "rollout_id": "ro-played",
      "attempt_id": "[attempt_id]",
      "sequence_id": 2,
      "trace_id": "[trace_id]",
      "span_id": "[span_id]",
      "parent_id": null,
      "name": "agentlightning.annotation",
      "status": {
        "status_code": "OK",
        "description": null
      },
      "attributes": {
        "agentlightning.reward.0.name": "primary",
        "agentlightning.reward.0.value": 0.5,
        "agentlightning.reward.1.name": "exact",
        "agentlightning.reward.1.value": 1.0,
        "fulgurite.reward.giver": "unknown"
      },
      "events": [],
      "links": [],
      "start_time": "[start_time]",
      "end_time": "[end_time]",
      "context": null,
      "parent": null,
      "resource": {
        "attributes": {},
        "schema_url": ""
      }
    }
    "#);
}

#[test]
fn a_query_can_be_narrowed() {
    let directory = tempfile::tempdir().unwrap();
    let server = three_rollouts(directory.path());
    let lines = |command: &str, flags: &[&str]| {
        run([command, "--store", &server.store, "--json"].iter().chain(flags)).json_lines()
    };
    let ids =
        |flags: &[&str]| lines("rollouts", flags).iter().map(|line| text(&line["rollout_id"])).collect::<Vec<_>>();
    assert_eq!(ids(&["--limit", "2"]), ["ro-failed", "ro-waiting"]);
    assert_eq!(ids(&["--sort", "status"]), ["ro-failed", "ro-waiting", "ro-played"]);
    assert_eq!(ids(&["--sort", "reward"]), ["ro-failed", "ro-waiting", "ro-played"], "what has none comes first");
    assert_eq!(ids(&["--sort", "reward", "--reverse", "--limit", "1"]), ["ro-played"]);
    assert_eq!(ids(&["--sort", "start_time", "--reverse"]), ["ro-waiting", "ro-failed", "ro-played"]);
    let unknown = run(["rollouts", "--store", &server.store, "--sort", "colour"]).stderr;
    assert!(unknown.contains("there are reward, attempts, duration, run_id, step"), "{unknown}");
    assert_eq!(ids(&["--status", "failed", "--status", "queuing"]), ["ro-failed", "ro-waiting"]);
    assert_eq!(ids(&["--run-id", "run-1", "--step", "3"]), ["ro-played"]);
    assert_eq!(ids(&["--mode", "val"]), [] as [&str; 0]);
    assert_eq!(ids(&["--since", "1h"]).len(), 3);
    assert_eq!(ids(&["--since", "9999-01-01"]), [] as [&str; 0]);
    assert_eq!(ids(&["ro-played"]), ["ro-played"]);
    // A filter is met first; of what it means the limit leaves the newest, and other flags hold beside it.
    let unrewarded = ["--where", "not reward > 0 and mode = train"];
    assert_eq!(ids(&unrewarded), ["ro-failed", "ro-waiting"]);
    assert_eq!(ids(&[&unrewarded[..], &["--limit", "1"]].concat()), ["ro-waiting"]);
    assert_eq!(ids(&[&unrewarded[..], &["--status", "failed"]].concat()), ["ro-failed"]);
    assert_eq!(ids(&[&unrewarded[..], &["--sort", "status", "--limit", "1"]].concat()), ["ro-waiting"]);
    assert_eq!(ids(&["--where", "model = tiny"]), ["ro-played"]);
    assert_eq!(ids(&["--where", "reward > 0", "ro-failed"]), [] as [&str; 0]);
    for (flags, expected) in [
        (&["--where", "rewrd = 1"][..], "`rewrd` is no field"),
        (&["--where", "reward >= 1; DROP TABLE rollouts"], "`;` is nothing that a filter has"),
        (&["--where", "reward >= 1", "--follow"], "cannot be used with"),
    ] {
        let refused = run([&["rollouts", "--store", &server.store], flags].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains(expected), "{refused:?}");
    }
    assert_eq!(lines("spans", &["--limit", "1"]).len(), 1);
    assert_eq!(lines("spans", &["--name", "agentlightning.annotation"]).len(), 1);
    assert_eq!(lines("rollouts", &["--limit", "0"]).len(), 0);
    assert_eq!(lines("attempts", &["--status", "failed"]).len(), 1);
    assert_eq!(lines("attempts", &["--worker", "nobody"]).len(), 0);
    assert_eq!(lines("generations", &["--model", "other"]).len(), 0);
    assert_eq!(lines("generations", &["--model", "tiny"]).len(), 1);
    let [failed] = &lines("rollouts", &["--rollout", "ro-failed"])[..] else { panic!("not one rollout") };
    assert_eq!(failed["rollout_id"], "ro-failed");
    assert_eq!(lines("triplets", &["--rollout", "ro-failed"]).len(), 0);
    let unknown = run(["spans", "--store", &server.store, "--rollout", "ro-none"]);
    insta::assert_snapshot!(unknown.failure(directory.path()), @"error: there is no rollout `ro-none` in this store, and no session of that name");
}

#[test]
fn a_store_that_cannot_be_read_is_a_clear_error_and_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store.db");
    let url = format!("sqlite://{}", file.display());
    let fail = |ran: Ran| ran.failure(directory.path());
    insta::assert_snapshot!(fail(run(["rollouts", "--store", &url])), @r"
    error: cannot open the store sqlite://[directory]/store.db (--store, --run, --config)
      caused by: store not found: sqlite://[directory]/store.db
    ");
    insta::assert_snapshot!(fail(run(["spans", "--run", directory.path().to_str().unwrap()])), @r"
    error: cannot open the store sqlite://[directory]/fulgurite.db (--store, --run, --config)
      caused by: store not found: sqlite://[directory]/fulgurite.db
    ");
    insta::assert_snapshot!(fail(run(["rollouts", "--store", "mysql://x"])), @r"
    error: cannot open the store mysql://x (--store, --run, --config)
      caused by: store.url: `mysql` is not a database that this program knows; use sqlite://PATH or postgres://USER:PASSWORD@HOST/DATABASE
    ");
    let mut without_flags = fulgurite(["triplets"]);
    insta::assert_snapshot!(fail(without_flags.current_dir(directory.path()).output().unwrap().into()), @r"
    error: cannot open the store sqlite://[directory]/fulgurite.db (--store, --run, --config)
      caused by: store not found: sqlite://[directory]/fulgurite.db
    ");
    assert_eq!(directory.path().read_dir().unwrap().count(), 0, "asking makes nothing");
    std::fs::write(&file, "no database").unwrap();
    insta::assert_snapshot!(fail(run(["rollouts", "--store", &url])), @r"
    error: cannot open the store sqlite://[directory]/store.db (--store, --run, --config)
      caused by: the database failed: error returned from database: (code: 26) file is not a database
    ");
}

#[test]
fn a_store_named_by_the_environment_is_meant_where_the_command_line_names_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let config = path("a.toml");
    std::fs::write(&config, "[store]\nurl = \"sqlite://of-config.db\"\n").unwrap();
    let last_error = |arguments: &[&str]| {
        let mut command = fulgurite(["rollouts"].iter().chain(arguments));
        command.current_dir(directory.path()).env("FULGURITE_STORE", "sqlite://of-environment.db");
        let message = Ran::from(command.output().unwrap()).stderr;
        message.lines().last().unwrap_or_default().to_owned()
    };
    let run = path("a-run");
    let cases: [(&[&str], &str); 4] = [
        (&[], "of-environment.db"),
        (&["--run", &run], "a-run/fulgurite.db"),
        (&["--config", &config], "of-config.db"),
        (&["--store", "sqlite://of-flag.db"], "of-flag.db"),
    ];
    for (arguments, named) in cases {
        let message = last_error(arguments);
        assert!(message.contains("store not found") && message.ends_with(named), "{arguments:?}: {message}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_query_without_a_word() {
    use std::io::{BufRead, BufReader, Read};
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start::<&str>(directory.path(), []);
    let many: Vec<Value> = (0..3000).map(|task| json!({ "input": task })).collect();
    server.post("/v1/agl/queues/rollouts/enqueue", &json!({ "rollouts": many })).expect(201);
    let store = server.store.clone();
    let mut query = fulgurite(["rollouts", "--all", "--json", "--store", &store])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(64, query.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut stderr = String::new();
    query.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((query.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}

/// The list as it grows.
fn following(server: &Server, flags: &[&str]) -> std::process::Child {
    fulgurite(["rollouts", "--follow", "--json", "--store", &server.store].iter().chain(flags))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_list_is_followed_until_it_is_interrupted() {
    use std::io::{BufRead, BufReader, Read};
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start::<&str>(directory.path(), []);
    server.enqueue([json!("old"), json!("newest")], &json!({}));
    let mut query = following(&server, &["--limit", "1"]);
    let mut lines = BufReader::new(query.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["input"].clone();
    assert_eq!(next(), "newest");
    for number in 0..4 {
        server.enqueue((0..number).map(|index| json!([number, index])), &json!({}));
        for index in 0..number {
            assert_eq!(next(), json!([number, index]));
        }
    }
    assert!(std::process::Command::new("kill").args(["-INT", &query.id().to_string()]).status().unwrap().success());
    let (code, mut stderr) = (query.wait().unwrap().code(), String::new());
    query.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_list_is_not_followed_for_a_reader_who_has_gone() {
    use std::io::{BufRead, BufReader};
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start::<&str>(directory.path(), []);
    server.enqueue([json!("only")], &json!({}));
    let mut query = following(&server, &[]);
    BufReader::new(query.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert_eq!(query.wait().unwrap().code(), Some(0));
}
