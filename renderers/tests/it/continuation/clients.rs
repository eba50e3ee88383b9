//! One test for each way in which a client was seen to send a reply back otherwise than it got it.

use fulgurite_renderers::NextPrompt;
use fulgurite_types::{DepartureReason, Message};
use serde_json::{Value, json};

use super::setup::{Rollout, answer_of, calling, message, plain, result, user, weather_tool};

/// The rollout after one turn that `reply` was the answer of; the same request with the reply as the client sends it.
fn continues(reply: Message, sent_back: Value, next: Message) {
    let mut rollout = Rollout::new(plain());
    rollout.tools = vec![weather_tool()];
    let question = user("Weather?");
    let sampled = rollout.sampled("what the model\nreally  wrote");
    let turn = rollout.call(std::slice::from_ref(&question), &sampled, &reply);
    let continued = rollout.continued(&[question, message(sent_back), next]);
    assert_eq!((continued.turn, continued.new_from, continued.departure), (turn, 2, None));
    assert_eq!(continued.tokens_kept, rollout.turns.tokens(turn).len());
}

fn called() -> Message {
    calling(json!(null), &[("c1", "{\"city\": \"P\", \"days\": 1.0}")])
}

fn call_sent_back(arguments: &str, content: Value) -> Value {
    json!({"role": "assistant", "content": content, "tool_calls":
        [{"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]})
}

#[test]
fn opencode_and_the_ai_sdk_write_arguments_without_spaces_and_content_as_empty_text() {
    continues(called(), call_sent_back("{\"city\":\"P\",\"days\":1}", json!("")), result("c1", "sun"));
}

#[test]
fn others_send_arguments_as_they_were_and_null_content() {
    continues(called(), call_sent_back("{\"city\": \"P\", \"days\": 1.0}", json!(null)), result("c1", "sun"));
}

#[test]
fn mini_swe_agent_leaves_content_out_and_adds_fields_of_its_own() {
    let mut sent = call_sent_back("{\"city\": \"P\", \"days\": 1.0}", json!(null));
    sent.as_object_mut().unwrap().remove("content");
    sent["provider_specific_fields"] = json!({"refusal": null});
    sent["tool_calls"][0]["index"] = json!(0);
    continues(called(), sent, result("c1", "sun"));
}

#[test]
fn crewai_names_the_tool_in_the_result() {
    let mut rollout = Rollout::new(plain());
    let (question, answer) = (user("Weather?"), result("c1", "sun"));
    rollout.call(std::slice::from_ref(&question), &[1, 2], &called());
    rollout.call(&[question.clone(), called(), Message { name: None, ..answer.clone() }], &[3, 4], &answer_of("Sun."));
    let continued = rollout.continued(&[question, called(), answer, answer_of("Sun."), user("Thanks")]);
    assert_eq!((continued.turn, continued.new_from), (1, 4));
}

#[test]
fn crewai_drops_what_was_said_beside_calls() {
    let spoke = calling(json!("Looking."), &[("c1", "{\"city\": \"P\", \"days\": 1.0}")]);
    for content in [json!(null), json!("")] {
        continues(spoke.clone(), call_sent_back("{\"city\": \"P\", \"days\": 1.0}", content), result("c1", "sun"));
    }
    // It goes on so for as long as it likes, beside clients that drop nothing, and words that differ are no such thing.
    let mut rollout = Rollout::new(plain());
    let prompt =
        |history: &[&Message]| [&[&user("Weather?")], history].concat().into_iter().cloned().collect::<Vec<_>>();
    let (silent, sun) = (called(), result("c1", "sun"));
    rollout.call(&prompt(&[]), &[1, 2], &spoke);
    rollout.call(&prompt(&[&silent, &sun]), &[3, 4], &answer_of("Sun."));
    for before in [&silent, &spoke] {
        let continued = rollout.continued(&prompt(&[before, &sun, &answer_of("Sun."), &user("Thanks")]));
        assert_eq!((continued.turn, continued.new_from, continued.departure), (1, 4, None));
    }
    let other = calling(json!("Waiting."), &[("c1", "{\"city\": \"P\", \"days\": 1.0}")]);
    assert_eq!(rollout.fresh(&prompt(&[&other, &sun])).departure.reason, DepartureReason::HistoryRewritten);
    // Who said nothing beside the same calls is somebody else.
    let turn = rollout.call(&prompt(&[]), &[5, 6], &silent);
    assert_eq!(rollout.continued(&prompt(&[&silent, &result("c1", "rain")])).turn, turn);
    assert_eq!(rollout.continued(&prompt(&[&spoke, &result("c1", "rain")])).turn, 0);
}

#[test]
fn arguments_may_come_as_an_object() {
    let mut sent = call_sent_back("", json!(null));
    sent["tool_calls"][0]["function"]["arguments"] = json!({"days": 1, "city": "P"});
    continues(called(), sent, result("c1", "sun"));
}

#[test]
fn text_comes_back_as_parts_with_marks_for_caching() {
    let sent = json!({"role": "assistant", "content":
        [{"type": "text", "text": "It is ", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "sunny."}]});
    continues(answer_of("It is sunny."), sent, user("Thanks"));
}

#[test]
fn claude_code_moves_the_mark_for_caching_to_the_newest_block() {
    let text = |text: &str, marked: bool| {
        let mut part = json!({"type": "text", "text": text});
        if marked {
            part["cache_control"] = json!({"type": "ephemeral"});
        }
        message(json!({"role": "user", "content": [part]}))
    };
    let mut rollout = Rollout::new(plain());
    rollout.say(&[text("Hi", true)], "Hello.");
    assert_eq!(rollout.continued(&[text("Hi", false), answer_of("Hello."), text("Bye", true)]).new_from, 2);
}

#[test]
fn claude_codes_billing_header_changes_and_its_first_value_is_rendered() {
    let system = |call: &str| {
        let billing = format!("x-anthropic-billing-header: cc_version=2.1.197.{call}; cc_entrypoint=cli; cch={call}0;");
        message(
            json!({"role": "system", "content": [{"type": "text", "text": billing}, {"type": "text", "text": "Be brief."}]}),
        )
    };
    let mut rollout = Rollout::new(plain());
    rollout.say(&[system("a1f"), user("Hi")], "Hello.");
    let continued = rollout.continued(&[system("b2e"), user("Hi"), answer_of("Hello."), user("Bye")]);
    assert_eq!((continued.turn, continued.departure), (0, None));
    // Another conversation of the same agent has the same first tokens.
    let fresh = rollout.fresh(&[system("c3d"), user("Other")]);
    assert!(rollout.text(&fresh.tokens).contains("cc_version=2.1.197.a1f; cc_entrypoint=cli; cch=a1f0;"));
}

#[test]
fn reasoning_is_left_out_or_comes_back_under_another_name() {
    let reply = message(json!({"role": "assistant", "content": "Yes.", "reasoning_content": "Hm.\n"}));
    continues(reply.clone(), json!({"role": "assistant", "content": "Yes."}), user("Sure?"));
    continues(reply.clone(), json!({"role": "assistant", "content": "Yes.", "reasoning": "Hm."}), user("Sure?"));
    let parts = json!([{"type": "thinking", "thinking": "Hm.\n"}, {"type": "text", "text": "Yes."}]);
    continues(reply, json!({"role": "assistant", "content": parts}), user("Sure?"));
}

#[test]
fn white_space_around_a_reply_is_trimmed() {
    continues(answer_of("\n\nYes. \n"), json!({"role": "assistant", "content": "Yes."}), user("Sure?"));
}

#[test]
fn tools_come_wrapped_or_bare() {
    let mut rollout = Rollout::new(plain());
    rollout.say(&[user("Hi")], "Hello.");
    let messages = [user("Hi"), answer_of("Hello."), user("Bye")];
    let mut tool = weather_tool();
    rollout.tools = vec![tool.clone()];
    assert!(matches!(rollout.next(&messages), NextPrompt::Fresh(_)));
    rollout.say(&messages, "Bye.");
    rollout.tools = vec![tool["function"].take()];
    assert_eq!(rollout.continued(&[&messages[..], &[answer_of("Bye."), user("?")]].concat()).turn, 1);
}

#[test]
fn a_changed_call_is_not_the_call_that_was_sampled() {
    let mut rollout = Rollout::new(plain());
    rollout.call(&[user("a")], &[1], &called());
    let other = message(call_sent_back("{\"city\": \"Q\", \"days\": 1.0}", json!(null)));
    let fresh = rollout.fresh(&[user("a"), other, result("c1", "sun")]);
    assert_eq!((fresh.departure.reason.as_str(), fresh.departure.message_index), ("history_rewritten", Some(1)));
}
