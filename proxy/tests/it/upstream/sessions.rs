//! Calls that name no session and are passed on: which session each belongs to.

use serde_json::{Value, json};

use crate::common::upstreams::{Setup, bytes, chunk, streamed};
use crate::scripted::{ScriptedReply, Step};

/// A call without a rollout; the rollout that it got.
async fn call(setup: &Setup, path: &str, headers: &[(&str, &str)], body: &Value, reply: ScriptedReply) -> String {
    setup.play(reply);
    let request = setup.client.post(format!("{}/v1/{path}", setup.url)).json(body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.send().await.unwrap();
    let rollout = response.headers().get("x-fulgurite-rollout-id").map(|id| id.to_str().unwrap().to_owned());
    let (status, text) = (response.status(), response.text().await.unwrap());
    assert_eq!(status, 200, "{text}");
    rollout.unwrap()
}

fn chat_of(messages: &[Value]) -> Value {
    json!({ "model": "judge", "messages": messages })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

fn chat_reply(message: Value) -> ScriptedReply {
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    ScriptedReply::Json(200, json!({ "object": "chat.completion", "model": "gpt-x-1", "choices": [choice] }))
}

/// A user's next turn of a chat; the rollout that it is in.
async fn turn(setup: &Setup, headers: &[(&str, &str)], messages: &mut Vec<Value>, text: &str, answer: &str) -> String {
    messages.push(user(text));
    let rollout = call(setup, "chat/completions", headers, &chat_of(messages), chat_reply(assistant(answer))).await;
    messages.push(assistant(answer));
    rollout
}

#[tokio::test]
async fn a_conversation_that_is_passed_on_is_one_session_in_every_dialect() {
    let setup = Setup::new(Vec::new()).await;
    let mut rollouts = Vec::new();

    // A chat with a call of a tool, whose ids and spelling are the client's.
    let function = |arguments: &str| json!({ "name": "look", "arguments": arguments });
    let calling = |arguments: &str| {
        json!({ "role": "assistant", "content": null, "tool_calls":
            [{ "id": "c", "type": "function", "function": function(arguments) }] })
    };
    let mut history = vec![json!({ "role": "system", "content": "Look." }), user("look")];
    let first =
        call(&setup, "chat/completions", &[], &chat_of(&history), chat_reply(calling("{\"at\": 1, \"of\": 2}"))).await;
    history.extend([calling("{\"of\":2,\"at\":1}"), json!({ "role": "tool", "tool_call_id": "c", "content": "x" })]);
    let steps = vec![
        bytes(format!("data: {}\n\n", chunk(assistant("An x."), None))),
        bytes(format!("data: {}\n\ndata: [DONE]\n\n", chunk(json!({}), Some("stop")))),
        Step::End,
    ];
    let reply = ScriptedReply::Stream(steps);
    let second = call(&setup, "chat/completions", &[], &streamed(chat_of(&history)), reply).await;
    history.extend([assistant("An x."), user("and?")]);
    let third = call(&setup, "chat/completions", &[], &chat_of(&history), chat_reply(assistant("That is all."))).await;
    rollouts.push([first, second, third]);

    // Anthropic's, with reasoning that the client sends back or not.
    let messages =
        |history: &[Value]| json!({ "model": "claude", "max_tokens": 9, "system": "Look.", "messages": history });
    let answer = |content: Value, reason: &str| {
        ScriptedReply::Json(
            200,
            json!({ "type": "message", "role": "assistant", "content": content, "stop_reason": reason }),
        )
    };
    let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": "s" });
    let text = json!({ "type": "text", "text": "Let me look." });
    let used = json!({ "type": "tool_use", "id": "t", "name": "look", "input": { "at": 1 } });
    let mut history = vec![user("look")];
    let content = json!([thinking, text, used]);
    let first = call(&setup, "messages", &[], &messages(&history), answer(content.clone(), "tool_use")).await;
    let result = json!([{ "type": "tool_result", "tool_use_id": "t", "content": "x" }]);
    history.extend([json!({ "role": "assistant", "content": content }), json!({ "role": "user", "content": result })]);
    let content = json!([{ "type": "text", "text": "An x." }]);
    let second = call(&setup, "messages", &[], &messages(&history), answer(content, "end_turn")).await;
    history.extend([assistant("An x."), user("and?")]);
    let content = json!([{ "type": "text", "text": "That is all." }]);
    let third = call(&setup, "messages", &[], &messages(&history), answer(content, "end_turn")).await;
    rollouts.push([first, second, third]);

    // The Responses API's, where the client sends its whole history.
    let response = |input: &[Value]| json!({ "model": "judge", "instructions": "Look.", "input": input });
    let answer = |text: &str| {
        let item =
            json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] });
        (ScriptedReply::Json(200, json!({ "object": "response", "status": "completed", "output": [item] })), item)
    };
    let mut history = vec![user("look")];
    let mut of_session = Vec::new();
    for text in ["One.", "Two.", "Three."] {
        let (reply, item) = answer(text);
        of_session.push(call(&setup, "responses", &[], &response(&history), reply).await);
        history.extend([item, user("and?")]);
    }
    let [first, second, third] = <[String; 3]>::try_from(of_session).unwrap();
    rollouts.push([first, second, third]);

    for [first, second, third] in &rollouts {
        assert_eq!([second, third], [first; 2], "{rollouts:?}");
    }
    assert_eq!(setup.generations().await.len(), 9);
}

#[tokio::test]
async fn users_whose_passed_on_calls_say_the_same_are_not_taken_for_each_other() {
    let setup = Setup::new(Vec::new()).await;
    let (mut here, mut there) = (Vec::new(), Vec::new());
    let first = [
        turn(&setup, &[], &mut here, "Hello", "Good day.").await,
        turn(&setup, &[], &mut there, "Hello", "Good evening.").await,
    ];
    assert_ne!(first[0], first[1]);
    assert_eq!(turn(&setup, &[], &mut there, "one", "Yes.").await, first[1]);
    assert_eq!(turn(&setup, &[], &mut here, "one", "Yes.").await, first[0]);
    // The same answers to the same words: whose it is cannot be known.
    let (mut one, mut other) = (Vec::new(), Vec::new());
    let first_turns =
        [turn(&setup, &[], &mut one, "Who?", "I.").await, turn(&setup, &[], &mut other, "Who?", "I.").await];
    let next = turn(&setup, &[], &mut one, "Still?", "Yes.").await;
    assert!(!first_turns.contains(&next), "{next} of {first_turns:?}");
    // Of another key, or another conversation that the upstream remembers.
    let with_key = [("authorization", "Bearer one")];
    let mut keyed = Vec::new();
    let of_key = turn(&setup, &with_key, &mut keyed, "Key", "Yes.").await;
    assert_ne!(turn(&setup, &[], &mut keyed.clone(), "on", "Yes.").await, of_key);
    assert_eq!(turn(&setup, &with_key, &mut keyed, "on", "Yes.").await, of_key);
    let item =
        json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Yes." }] });
    let answer = json!({ "object": "response", "status": "completed", "output": [item] });
    let kept = json!({ "model": "judge", "previous_response_id": "resp_1", "input": [user("Go on.")] });
    let kept = call(&setup, "responses", &[], &kept, ScriptedReply::Json(200, answer.clone())).await;
    let whole = json!({ "model": "judge", "input": [user("Go on."), item, user("More.")] });
    assert_ne!(call(&setup, "responses", &[], &whole, ScriptedReply::Json(200, answer)).await, kept);
}

#[tokio::test]
async fn a_passed_on_retry_stays_in_the_session_of_its_request() {
    let setup = Setup::new(Vec::new()).await;
    let mut messages = Vec::new();
    let rollout = turn(&setup, &[], &mut messages, "Hello", "Good day.").await;
    let repeated = chat_of(&[&messages[..], &[user("Go on")]].concat());
    assert_eq!(turn(&setup, &[], &mut messages, "Go on", "On.").await, rollout);
    // Somebody else has the same first answer meanwhile, which nobody has continued.
    let mut other = Vec::new();
    let others = turn(&setup, &[], &mut other, "Hello", "Good day.").await;
    assert_ne!(others, rollout);
    let retry = [("x-stainless-retry-count", "1")];
    let unused = || chat_reply(assistant("Anew."));
    assert_eq!(call(&setup, "chat/completions", &retry, &repeated, unused()).await, rollout);
    assert_eq!(setup.generations().await.len(), 3, "what was answered is sent again");
    // A process that knows no request of before.
    let mut setup = setup;
    setup.url = setup.another_process().await;
    assert_eq!(call(&setup, "chat/completions", &retry, &repeated, unused()).await, rollout);
    assert_eq!(turn(&setup, &[], &mut other, "Go on", "Over.").await, others);
}
