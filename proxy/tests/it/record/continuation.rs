//! Conversations over real sockets: what was sampled is never rendered again, whatever clients do to it.

use fulgurite_types::Generation;

use crate::common::{Script, Setup};
use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

const CALL: &str = "<think>\nhm\n</think>\n\nLooking.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \
                    \"Paris\",   \"days\": 2}}\n</tool_call><|im_end|>";

fn tools() -> Value {
    json!([{ "type": "function", "function": { "name": "weather", "parameters": {
        "type": "object", "properties": { "city": { "type": "string" }, "days": { "type": "integer" } },
    } } }])
}

fn system(text: &str) -> Value {
    json!({ "role": "system", "content": text })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// Asks, and gives the reply's message and the generation's id.
async fn ask(setup: &Setup, base: &str, messages: &[Value], sampled: &str) -> (Value, String) {
    setup.play(Script::Answer(setup.sampled(sampled), SamplingEnd::StopToken));
    let request = json!({ "model": "tiny", "messages": messages, "tools": tools() });
    let reply: Value = setup.post(base, &request).await.json().await.unwrap();
    (reply["choices"][0]["message"].clone(), reply["id"].as_str().unwrap().to_owned())
}

/// As some clients give a turn back: arguments spelled anew, no reasoning, empty content, fields of their own.
fn as_clients_do(message: &Value) -> Value {
    let mut message = message.clone();
    message.as_object_mut().unwrap().remove("reasoning_content");
    message.as_object_mut().unwrap().remove("refusal");
    message["provider_specific_fields"] = json!({ "x": 1 });
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        call["function"]["arguments"] = json!(arguments.to_string());
    }
    message
}

fn result(message: &Value, text: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": text })
}

async fn generation(setup: &Setup, id: &str) -> Generation {
    setup.generations().await.into_iter().find(|generation| generation.generation_id == id).unwrap()
}

fn context(generation: &Generation) -> Vec<u32> {
    [generation.prompt_tokens.as_slice(), &generation.sampled_tokens].concat()
}

#[tokio::test]
async fn the_next_prompt_is_the_last_one_and_what_was_sampled_and_the_new_messages() {
    let mut setup = Setup::of_family("qwen3", "qwen3").await;
    let (rollout, _) = setup.attempt().await;
    let attempt = setup.store.rollouts().get(&rollout).await.unwrap().unwrap().1.unwrap().attempt_id;
    let base = |setup: &Setup| format!("{}/rollout/{rollout}/attempt/{attempt}/v1", setup.url);
    let mut messages = vec![system("Be brief."), user("Rain in Paris?")];
    let mut last: Option<Generation> = None;
    for turn in 0..4 {
        let (message, id) = ask(&setup, &base(&setup), &messages, CALL).await;
        let generation = generation(&setup, &id).await;
        let attributes = setup.attributes(&rollout).await;
        match &last {
            None => {
                assert_eq!(generation.branch_reason.as_ref().map(ToString::to_string).as_deref(), Some("first_turn"))
            }
            Some(last) => {
                assert!(generation.prompt_tokens.starts_with(&context(last)), "turn {turn}");
                assert_eq!(
                    (&generation.parent_id, &generation.branch_reason),
                    (&Some(last.generation_id.clone()), &None)
                );
                assert_eq!(attributes["fulgurite.continues"], json!(last.generation_id));
            }
        }
        messages.extend([as_clients_do(&message), result(&message, "Rain."), user("And then?")]);
        last = Some(generation);
        if turn == 1 {
            setup.restart().await;
        }
    }
}

#[tokio::test]
async fn sub_agents_and_rewritten_histories_find_their_branch_or_say_why_not() {
    let setup = Setup::of_family("qwen3", "qwen3").await;
    let (rollout, base) = setup.attempt().await;
    let main = vec![system("Be brief."), user("Rain in Paris?")];
    let (first, first_id) = ask(&setup, &base, &main, CALL).await;
    // A sub-agent of its own, between the main agent's turns.
    let (sub, sub_id) = ask(&setup, &base, &[system("You summarise."), user("Sum up.")], CALL).await;
    let went_on = [main.clone(), vec![as_clients_do(&first), result(&first, "Rain.")]].concat();
    let (_, main_id) = ask(&setup, &base, &went_on, CALL).await;
    let sub_went_on = [system("You summarise."), user("Sum up."), as_clients_do(&sub), result(&sub, "Sun.")];
    let (_, sub_went_on_id) = ask(&setup, &base, &sub_went_on, CALL).await;
    let mut rewritten = went_on.clone();
    rewritten[1] = user("Rain in Rome?");
    let (_, rewritten_id) = ask(&setup, &base, &rewritten, CALL).await;
    let other_system = [vec![system("Be long.")], went_on[1..].to_vec()].concat();
    let (_, other_system_id) = ask(&setup, &base, &other_system, CALL).await;
    let found = async |id: &str| {
        let generation = generation(&setup, id).await;
        (generation.parent_id, generation.branch_reason)
    };
    let branch = Some("other_branch".into());
    assert_eq!(found(&first_id).await, (None, Some("first_turn".into())));
    assert_eq!(found(&sub_id).await, (None, Some("first_turn".into())));
    assert_eq!(found(&main_id).await, (Some(first_id.clone()), branch.clone()));
    assert_eq!(found(&sub_went_on_id).await, (Some(sub_id.clone()), branch));
    assert_eq!(found(&rewritten_id).await, (None, Some("history_rewritten".into())));
    assert_eq!(found(&other_system_id).await, (None, Some("system_changed".into())));
    let attributes = setup.attributes(&rollout).await;
    assert_eq!(attributes["fulgurite.departure.reason"], "system_changed");
    assert_eq!(attributes["fulgurite.departure.message_index"], 0);
}

#[tokio::test]
async fn a_call_that_continues_nothing_says_why_whatever_its_prompt_is() {
    let setup = Setup::of_family("qwen3", "qwen3").await;
    let answer = || Script::Answer(setup.sampled("<think>\nhm\n</think>\n\nRain<|im_end|>"), SamplingEnd::StopToken);
    // A session of its own, of two answers.
    let chat = json!({ "model": "tiny", "messages": [user("Rain?")], "n": 2 });
    (0..2).for_each(|_| setup.play(answer()));
    assert_eq!(setup.post(&format!("{}/v1", setup.url), &chat).await.status(), 200);
    let session = setup.generations().await.remove(0).rollout_id;
    let report = setup.store.queries().drift(&session).await.unwrap();
    assert_eq!((report.continued, json!(report.reasons)), (0, json!({ "first_turn": 2 })));

    let (rollout, base) = setup.attempt().await;
    let mut before = Vec::new();
    for (text, goes_on) in [("Rain?", false), ("And then?", true), ("Sun?", false)] {
        let prompt = [if goes_on { before } else { vec![] }, setup.tokens(text)].concat();
        setup.play(answer());
        let request = json!({ "model": "tiny", "prompt": prompt });
        let call = setup.client.post(format!("{base}/completions")).json(&request).send().await.unwrap();
        let reply: Value = call.json().await.unwrap();
        before = context(&generation(&setup, reply["id"].as_str().unwrap()).await);
    }
    let report = setup.store.queries().drift(&rollout).await.unwrap();
    let reasons: Vec<Option<&str>> =
        report.calls.iter().map(|call| call.reason.as_ref().map(fulgurite_types::BranchReason::as_str)).collect();
    assert_eq!(reasons, [Some("first_turn"), None, Some("history_rewritten")]);
    assert_eq!(report.continued, 1);
}

#[tokio::test]
async fn a_turn_that_was_cut_off_is_closed_before_the_next_message() {
    let setup = Setup::of_family("qwen3", "qwen3").await;
    let (_, base) = setup.attempt().await;
    setup.play(Script::Answer(setup.sampled("<think>\nhm\n</think>\n\nIt ra"), SamplingEnd::Length));
    let request = json!({ "model": "tiny", "messages": [user("Rain?")], "tools": tools() });
    let reply: Value = setup.post(&base, &request).await.json().await.unwrap();
    assert_eq!(reply["choices"][0]["finish_reason"], "length");
    let message = as_clients_do(&reply["choices"][0]["message"]);
    let (_, id) = ask(&setup, &base, &[user("Rain?"), message, user("Go on.")], CALL).await;
    let cut = generation(&setup, reply["id"].as_str().unwrap()).await;
    let next = generation(&setup, &id).await;
    let appended = next.prompt_tokens.strip_prefix(context(&cut).as_slice()).unwrap();
    let text = setup.renderer.tokenizer().decode(appended);
    assert_eq!(text, "<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n");
}

#[tokio::test]
async fn side_requests_are_answered_and_marked_unless_their_client_says_otherwise() {
    let setup = Setup::of_family("qwen3", "qwen3").await;
    let (_, base) = setup.attempt().await;
    let title = json!({ "model": "tiny", "messages": [system("You are a title generator."), user("Rain?")] });
    let task = json!({ "model": "tiny", "messages": [user("Rain?")] });
    for (request, trainable, defect) in [
        (&title, None, Some("auxiliary:opencode_title")),
        (&title, Some("true"), None),
        (&task, None, None),
        (&task, Some("false"), Some("auxiliary")),
    ] {
        setup.play(Script::Answer(setup.sampled("<think>\nhm\n</think>\n\nRain<|im_end|>"), SamplingEnd::StopToken));
        let mut call = setup.client.post(format!("{base}/chat/completions")).json(request);
        if let Some(trainable) = trainable {
            call = call.header("x-fulgurite-trainable", trainable);
        }
        let reply: Value = call.send().await.unwrap().json().await.unwrap();
        assert_eq!(reply["choices"][0]["message"]["content"], "Rain");
        let generation = generation(&setup, reply["id"].as_str().unwrap()).await;
        assert_eq!(generation.defect.as_ref().map(ToString::to_string).as_deref(), defect, "{trainable:?}");
    }
    let call =
        setup.client.post(format!("{base}/chat/completions")).json(&task).header("x-fulgurite-trainable", "maybe");
    let refused = call.send().await.unwrap();
    assert_eq!(refused.status(), 400);
    assert_eq!(refused.json::<Value>().await.unwrap()["error"]["param"], "x-fulgurite-trainable");
}
