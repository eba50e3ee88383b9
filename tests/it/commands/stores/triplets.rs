//! `fulgurite triplets` on spans that others recorded: what it finds, and why it finds nothing.

use crate::common::{Server, printed, run, text};
use serde_json::{Value, json};

/// A server whose one rollout, `ro-1`, has an attempt with these spans.
fn server_with(directory: &std::path::Path, spans: impl IntoIterator<Item = Value>) -> (Server, String) {
    let server = Server::start::<&str>(directory, []);
    let queued = json!({ "rollouts": [{ "rollout_id": "ro-1", "input": 1 }] });
    server.post("/v1/agl/queues/rollouts/enqueue", &queued).expect(201);
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &json!({ "limit": 1, "worker_id": "w" })).expect(200);
    let attempt_id = text(&claimed[0]["attempt"]["attempt_id"]);
    for mut span in spans {
        span["attempt_id"] = json!(attempt_id);
        server.post("/v1/agl/spans", &span).expect(201);
    }
    (server, attempt_id)
}

/// The attempt's `number`-th span, of that second.
fn span(number: u64, parent: Option<u64>, name: &str, attributes: Value) -> Value {
    let id = |number: u64| format!("{number:016x}");
    json!({
        "rollout_id": "ro-1", "sequence_id": number, "trace_id": format!("{:032x}", 7), "span_id": id(number),
        "parent_id": parent.map(id), "name": name, "status": {"status_code": "OK"}, "attributes": attributes,
        "events": [], "links": [], "start_time": number, "end_time": number as f64 + 0.5, "context": null,
        "parent": null, "resource": {"attributes": {}, "schema_url": ""},
    })
}

/// Two calls, one of them told by two sources, a reward of two numbers for the first, and a session around them.
fn agent() -> Vec<Value> {
    let choices = "[{'token_ids': [4, 5], 'logprobs': {'content': [{'logprob': -0.5}, {'logprob': -0.25}]}}]";
    vec![
        span(1, None, "session", json!({})),
        span(
            2,
            Some(1),
            "openai.chat.completion",
            json!({
                "gen_ai.response.id": "c1", "prompt_token_ids": [1, 2, 3], "response_token_ids": [4, 5],
            }),
        ),
        span(
            3,
            None,
            "raw_gen_ai_request",
            json!({
                "llm.hosted_vllm.id": "c1", "llm.hosted_vllm.prompt_token_ids": "[1, 2, 3]", "llm.hosted_vllm.choices": choices,
            }),
        ),
        span(
            4,
            Some(1),
            "openai.chat.completion",
            json!({
                "gen_ai.response.id": "c2", "prompt_token_ids": [1], "response_token_ids": [6],
            }),
        ),
        span(
            5,
            None,
            "agentlightning.annotation",
            json!({
                "agentlightning.reward.0.name": "accuracy", "agentlightning.reward.0.value": 1.0,
                "agentlightning.reward.1.name": "format", "agentlightning.reward.1.value": 0.5,
                "agentlightning.link.0.key_match": "gen_ai.response.id", "agentlightning.link.0.value_match": "c1",
            }),
        ),
    ]
}

#[test]
fn triplets_of_every_source_and_why_the_rest_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let (server, attempt_id) = server_with(directory.path(), agent());
    let shown = |flags: &[&str]| {
        printed(["triplets", "ro-1", "--store", &server.store].iter().chain(flags)).replace(&attempt_id, "at-########")
    };
    insta::assert_snapshot!(shown(&[]), @r"
    rollout  attempt      response  prompt    sampled   logprob  reward
    ro-1     at-########  c1        3 tokens  2 tokens  -0.750   +1.000
    ro-1     at-########  c2        1 tokens  1 tokens  none
    ");
    insta::assert_snapshot!(shown(&["--why"]), @r"
     rollout  attempt      response  prompt    sampled   logprob  reward
     ro-1     at-########  c1        3 tokens  2 tokens  -0.750   +1.000
     ro-1     at-########  c2        1 tokens  1 tokens  none

    ro-1: 2 triplets; 3 spans passed over. 1 without logprobs, which cannot be trained: the model server was not asked for them. Point the agent's base URL at Fulgurite, or set `logprobs` in the request.
     seq  span              name                       why it is no triplet
     1    0000000000000001  session                    not a model call
     2    0000000000000002  openai.chat.completion     the same model call as another span (told by span 0000000000000003)
     5    0000000000000005  agentlightning.annotation  a reward that was given to a call
    ");
    insta::assert_snapshot!(shown(&["--adapter", "llm-proxy"]), @r"
    rollout  attempt      response  prompt    sampled   logprob  reward
    ro-1     at-########  c1        3 tokens  2 tokens  -0.750   +1.000
    ");
    insta::assert_snapshot!(shown(&["--agent", "coder"]), @r"
     rollout  attempt  response  prompt  sampled  logprob  reward

    ro-1: No triplets among 5 spans. There are model calls, but none of the agent that was asked for: it is in no agent's span. Ask for another, or for none.
     seq  span              name                       why it is no triplet
     1    0000000000000001  session                    not a model call
     2    0000000000000002  openai.chat.completion     a model call outside the agent that was asked for (it is in no agent's span)
     3    0000000000000003  raw_gen_ai_request         a model call outside the agent that was asked for (it is in no agent's span)
     4    0000000000000004  openai.chat.completion     a model call outside the agent that was asked for (it is in no agent's span)
     5    0000000000000005  agentlightning.annotation  a reward without a call to give it to
    ");
    let lines = run(["triplets", "--store", &server.store, "--why", "--json"]).json_lines();
    assert_eq!(lines[0]["reward_components"], json!([["accuracy", 1.0], ["format", 0.5]]));
    assert_eq!(lines[0]["response"]["logprobs"], json!([-0.5, -0.25]));
    let reasons: Vec<&Value> = lines[2..].iter().map(|line| &line["reason"]).collect();
    assert_eq!(reasons, ["not_a_model_call", "duplicate_response_id", "reward_given"]);
}

#[test]
fn an_attempt_without_triplets_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let bare = span(1, None, "openai.chat.completion", json!({ "gen_ai.response.id": "c1" }));
    let (server, _) = server_with(directory.path(), [bare]);
    let shown = |flags: &[&str]| printed(["triplets", "ro-1", "--store", &server.store].iter().chain(flags));
    insta::assert_snapshot!(shown(&[]), @r"
     rollout  attempt  response  prompt  sampled  logprob  reward

    ro-1: No triplets among 1 span. There are model calls, but without token ids: the model server was not asked for them. Point the agent's base URL at Fulgurite, or have the server return them (vLLM: `return_token_ids`).
     seq  span              name                    why it is no triplet
     1    0000000000000001  openai.chat.completion  a model call without token ids
    ");
    insta::assert_snapshot!(shown(&["--llm-call", "^chat$"]), @r"
     rollout  attempt  response  prompt  sampled  logprob  reward

    ro-1: No triplets among 1 span. Spans named `openai.chat.completion` look like model calls, but the name asked for is `^chat$`: ask for that name, or let `auto` find the calls of every source.
     seq  span              name                    why it is no triplet
     1    0000000000000001  openai.chat.completion  looks like a model call, but its name does not match (the name asked for is `^chat$`)
    ");
    assert_eq!(run(["triplets", "ro-1", "--store", &server.store, "--json"]).json_lines(), [] as [Value; 0]);
    let queued = json!({ "rollouts": [{ "rollout_id": "ro-2", "input": 1 }] });
    server.post("/v1/agl/queues/rollouts/enqueue", &queued).expect(201);
    insta::assert_snapshot!(printed(["triplets", "ro-2", "--store", &server.store]), @r"
     rollout  attempt  response  prompt  sampled  logprob  reward

    ro-2: No attempt yet: no runner has taken it.
    ");
}

#[test]
fn options_that_do_nothing_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let triplets_with = |flags: &[&str]| run(["triplets", "--store", "sqlite://none.db"].iter().chain(flags));
    let ran = triplets_with(&["--adapter", "llm-proxy", "--agent", "coder"]);
    insta::assert_snapshot!(ran.failure(directory.path()), @"error: --agent is not for --adapter llm-proxy, which knows its spans by name and their rewards by order");
    let ran = triplets_with(&["--agent", "("]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.starts_with("error: invalid value '(' for '--agent <REGEX>': regex parse error"),
        "{}",
        ran.stderr
    );
}
