//! GLM's own ways: the token that ends a turn is the next message's role.

use fulgurite_renderers::{Renderer, TrainOnWhat};
use fulgurite_types::Message;
use serde_json::{Value, json};

use super::conversations::{open, tools};

fn messages(value: Value) -> Vec<Message> {
    serde_json::from_value(value).unwrap()
}

fn prompt(given: Value, tools: &[Value]) -> String {
    let renderer = open("glm5_3_max_reasoning");
    renderer.tokenizer().decode(&renderer.render_prompt(&messages(given), tools).unwrap().tokens)
}

fn calling(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": id, "arguments": {"é": [1, "b"], "s": "t"}}});
    json!({"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": id})
}

#[test]
fn a_conversation_has_every_role_once() {
    let user = json!({"role": "user", "content": "q"});
    let answer = json!({"role": "assistant", "content": " a "});
    let call = |name: &str| {
        format!(
            "<tool_call>{name}<arg_key>é</arg_key><arg_value>[1, \"b\"]</arg_value><arg_key>s</arg_key>\
             <arg_value>t</arg_value></tool_call>"
        )
    };
    let expected = format!(
        "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>q<|assistant|><think>r</think>{}{}<|observation|>\
         <tool_response>x</tool_response><tool_response>y</tool_response><|assistant|><think></think>a<|user|>q\
         <|assistant|><think>",
        call("x"),
        call("y")
    );
    // Results come in the order of the calls.
    let given = json!([user, calling(&["x", "y"]), result("y"), result("x"), answer, user]);
    assert_eq!(prompt(given, &[]), expected);
}

#[test]
fn results_keep_their_order_where_ids_do_not_tell_another() {
    let user = json!({"role": "user", "content": "q"});
    for (ids, results) in
        [(["x", "y"], ["y", "z"]), (["x", "x"], ["y", "x"]), (["x", "y"], ["y", "y"]), (["", "y"], ["y", ""])]
    {
        let shown = prompt(json!([user, calling(&ids), result(results[0]), result(results[1])]), &[]);
        let [first, second] = results;
        let expected = format!(
            "<tool_response>{first}</tool_response><tool_response>{second}</tool_response><|assistant|><think>"
        );
        assert!(shown.ends_with(&expected), "{shown}");
    }
}

#[test]
fn tools_have_a_message_before_the_systems() {
    let mut deferred = tools("later");
    deferred[0]["function"]["defer_loading"] = true.into();
    let mut declared = tools("d");
    declared[0]["function"]["strict"] = true.into();
    let given = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]);
    let shown = prompt(given, &[declared, deferred].concat());
    assert!(shown.starts_with("[gMASK]<sop><|system|>Reasoning Effort: Max<|system|>\n# Tools\n\n"), "{shown}");
    assert!(shown.contains("<tools>\n{\"name\": \"f\", \"description\": \"d\", \"parameters\": "), "{shown}");
    assert!(!shown.contains("later") && !shown.contains("strict"), "{shown}");
    assert!(shown.ends_with("...</tool_call><|system|>s<|user|>q<|assistant|><think>"), "{shown}");
}

#[test]
fn the_end_of_every_turn_is_trained() {
    let renderer = open("glm5_3_low_reasoning");
    let user = json!({"role": "user", "content": "q"});
    let answer = json!({"role": "assistant", "content": "a", "reasoning_content": "r"});
    let given = messages(json!([user, calling(&["x"]), result("x"), answer, user, answer]));
    let examples = renderer.render_supervised(&given, &[], &TrainOnWhat::AllAssistantMessages).unwrap();
    let [example] = &examples[..] else { panic!("{examples:?}") };
    let trained: Vec<String> = example
        .runs()
        .filter(|(weight, _)| *weight == 1.0)
        .map(|(_, tokens)| renderer.tokenizer().decode(tokens))
        .collect();
    assert_eq!(
        trained,
        [
            "r</think><tool_call>x<arg_key>é</arg_key><arg_value>[1, \"b\"]</arg_value><arg_key>s</arg_key>\
             <arg_value>t</arg_value></tool_call><|observation|>",
            "r</think>a<|user|>",
            "r</think>a<|user|>"
        ]
    );
}

#[test]
fn what_only_the_assistant_says_is_refused_of_others() {
    let refused =
        |given: Value| open("glm5_3_max_reasoning").render_prompt(&messages(given), &[]).unwrap_err().to_string();
    assert_eq!(
        refused(json!([{"role": "user", "content": "q", "reasoning_content": "r"}])),
        "message 0: the glm5_3 format cannot write reasoning of the role `user`"
    );
    assert_eq!(
        refused(json!([{"role": "critic", "content": "q"}])),
        "message 0: the glm5_3 format has no role `critic`"
    );
}
