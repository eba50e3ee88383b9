//! Calls that break or are cut: the same items in the stream, in the answer, and when the response is read again.

use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

use super::{answered, assembled, events, post, request, texts_of, with};
use crate::common::families::{FAMILIES, Family, QWEN3};
use crate::common::{Script, Setup};

/// A turn, and the expected status of each of its calls.
struct Turn {
    sampled: String,
    end: SamplingEnd,
    calls: &'static [&'static str],
}

/// Turns of a family: a whole call, broken calls, and a cut one.
fn turns_of(family: &Family) -> Vec<Turn> {
    let cut = family.turn.split_once("Par").map_or(family.turn, |(before, _)| before);
    let turn = |sampled: String, end, calls| Turn { sampled, end, calls };
    let ended = |broken: &str| format!("{broken}{}", family.stop);
    vec![
        turn(family.turn.to_owned(), SamplingEnd::StopToken, &["completed"]),
        turn(ended(family.broken[0]), SamplingEnd::StopToken, &[]),
        turn(ended(family.broken[1]), SamplingEnd::StopToken, &["incomplete"]),
        turn(format!("{cut}Par"), SamplingEnd::Length, &["incomplete"]),
    ]
}

/// Turns in which other things stand next to a broken call.
fn longer_turns() -> Vec<Turn> {
    let broken = QWEN3.broken[1];
    let whole = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
    let turn = |text: String, calls| Turn {
        sampled: format!("<think>\nhm\n</think>\n\n{text}<|im_end|>"),
        end: SamplingEnd::StopToken,
        calls,
    };
    vec![
        turn(format!("{broken}\nSorry."), &["incomplete"]),
        turn(format!("Looking. {broken}"), &["incomplete"]),
        turn(format!("{whole}\n{broken}"), &["completed", "incomplete"]),
        turn(format!("{broken}\n{whole}"), &["incomplete", "completed"]),
        turn(format!("{broken}\n{broken}"), &["incomplete", "incomplete"]),
    ]
}

fn all_turns() -> Vec<(&'static Family, Turn)> {
    let of_families = FAMILIES.iter().flat_map(|family| turns_of(family).into_iter().map(move |turn| (family, turn)));
    of_families.chain(longer_turns().into_iter().map(|turn| (&QWEN3, turn))).collect()
}

async fn base_of(setup: &Setup, rollout: &str) -> String {
    let attempt = setup.generation_of(rollout).await.attempt_id;
    format!("{}/rollout/{rollout}/attempt/{attempt}/v1", setup.url)
}

fn calls(response: &Value) -> Vec<&Value> {
    let items = response["output"].as_array().unwrap().iter();
    items.filter(|item| item["type"] == "function_call").collect()
}

#[tokio::test]
async fn items_of_a_broken_or_cut_call_are_the_same_in_the_stream_the_answer_and_when_read_again() {
    for (family, Turn { sampled, end, calls: expected }) in all_turns() {
        // Compares the stream's announced items with its last event, and both with the answer that is not streamed.
        let (setup, response, [rollout, _]) = answered(family, &request(), &sampled, end).await;
        let statuses: Vec<&Value> = calls(&response).into_iter().map(|call| &call["status"]).collect();
        assert_eq!(json!(statuses), json!(expected), "{}: {sampled}\n{response}", family.format);
        for call in calls(&response) {
            let is_json = serde_json::from_str::<Value>(call["arguments"].as_str().unwrap()).is_ok();
            assert_eq!(is_json, call["status"] == "completed", "{call}");
        }
        if expected != ["completed"] {
            let is_text = |(kind, text): &(&str, &str)| *kind == "message" && text.contains("weather");
            assert!(texts_of(&response).iter().any(is_text), "{response}");
        }
        let url = format!("{}/responses/{}", base_of(&setup, &rollout).await, response["id"].as_str().unwrap());
        let again: Value = setup.client.get(&url).send().await.unwrap().json().await.unwrap();
        assert_eq!(again["output"], response["output"], "{}: {sampled}", family.format);
        let text = setup.client.get(format!("{url}?stream=true")).send().await.unwrap().text().await.unwrap();
        assert_eq!(assembled(&events(&text))["output"], response["output"], "{}: {sampled}", family.format);
    }
}

/// How a client sends an item back.
#[derive(Clone, Copy, Debug)]
enum Resent {
    Whole,
    /// Without a stream's unreadable end of the arguments.
    Unended,
    Reference,
}

impl Resent {
    fn item(self, item: &Value) -> Value {
        match self {
            Resent::Unended if item["type"] == "function_call" && item["status"] == "incomplete" => {
                with(item.clone(), "arguments", json!("{\"city\": \"Paris\""))
            }
            Resent::Whole | Resent::Unended => item.clone(),
            Resent::Reference => json!({ "type": "item_reference", "id": item["id"] }),
        }
    }
}

#[tokio::test]
async fn a_conversation_goes_on_token_by_token_from_the_items_of_an_answer_with_a_broken_call() {
    for (family, Turn { sampled, end, .. }) in all_turns().iter().filter(|(_, turn)| turn.calls.contains(&"incomplete"))
    {
        for way in [Resent::Whole, Resent::Unended, Resent::Reference] {
            let (setup, response, [rollout, _]) = answered(family, &request(), sampled, *end).await;
            let base = base_of(&setup, &rollout).await;
            let mut items = request()["input"].as_array().cloned().unwrap();
            items.extend(response["output"].as_array().unwrap().iter().map(|item| way.item(item)));
            let output =
                |call: &&Value| json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "7" });
            items.extend(calls(&response).iter().map(output));
            items.push(json!({ "role": "user", "content": "Go on." }));
            setup.play(Script::Answer(setup.sampled(&(family.plain_turn)("Sorry.")), SamplingEnd::StopToken));
            let next = post(&setup, &base, &with(request(), "input", json!(items))).await;
            assert_eq!(next.status(), 200, "{} {way:?}: {}", family.format, next.text().await.unwrap());
            let drift = setup.store.queries().drift(&rollout).await.unwrap();
            assert_eq!((drift.continued, &drift.calls[1].reason), (1, &None), "{} {way:?}: {sampled}", family.format);
        }
    }
}

/// As Codex does: it keeps every item that was done, the calls that broke among them, and answers what it could not run:
/// behind the response, or, where it did not come to an end, right behind the call.
#[tokio::test]
async fn a_conversation_goes_on_token_by_token_behind_a_call_that_broke() {
    for family in &FAMILIES {
        for is_last in [true, false] {
            let setup = family.setup().await;
            let (rollout, base) = setup.attempt().await;
            let sampled = setup.sampled(&format!("{}{}", family.broken[1], family.stop));
            setup.play(Script::Answer(sampled, SamplingEnd::StopToken));
            let parsed =
                events(&post(&setup, &base, &with(request(), "stream", json!(true))).await.text().await.unwrap());
            let done = parsed.iter().filter(|event| event["type"] == "response.output_item.done");
            let mut kept: Vec<Value> = done.map(|event| event["item"].clone()).collect();
            let call = kept.iter().position(|item| item["type"] == "function_call").unwrap();
            assert_eq!(kept[call]["status"], "incomplete", "{}", family.format);
            let output =
                json!({ "type": "function_call_output", "call_id": kept[call]["call_id"], "output": "no JSON" });
            kept.insert(if is_last { kept.len() } else { call + 1 }, output);
            let mut items = request()["input"].as_array().cloned().unwrap();
            items.extend(kept);
            setup.play(Script::Answer(setup.sampled(&(family.plain_turn)("Sorry.")), SamplingEnd::StopToken));
            let next = post(&setup, &base, &with(request(), "input", json!(items))).await;
            assert_eq!(next.status(), 200, "{}: {}", family.format, next.text().await.unwrap());
            let drift = setup.store.queries().drift(&rollout).await.unwrap();
            assert_eq!((drift.continued, &drift.calls[1].reason), (1, &None), "{} {is_last}", family.format);
        }
    }
}
