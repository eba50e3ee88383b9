//! DeepSeek V4.1's own ways: how much to reason, turns of the user that hold results, and reasoning that tools keep.

use fulgurite_renderers::{Continuation, RenderError, Renderer, TrainOnWhat};
use fulgurite_types::Message;
use serde_json::{Value, json};

use super::conversations::{open, tools};

fn messages(value: Value) -> Vec<Message> {
    serde_json::from_value(value).unwrap()
}

fn prompt(name: &str, given: Value, tools: &[Value]) -> String {
    let renderer = open(name);
    renderer.tokenizer().decode(&renderer.render_prompt(&messages(given), tools).unwrap().tokens)
}

fn effort(effort: u8) -> String {
    format!(
        "<｜begin▁of▁sentence｜><｜System｜>Reasoning Effort: {effort} (range 1-100, the higher the value, the more \
         thorough the reasoning)\n\n"
    )
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn answer(reasoning: &str, text: &str) -> Value {
    json!({"role": "assistant", "content": text, "reasoning_content": reasoning})
}

fn calling(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": id, "arguments": {"é": [1, "b"], "s": "t"}}});
    json!({"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": id})
}

/// The calls of `calling`.
fn calls(names: &[&str]) -> String {
    let call = |name: &&str| {
        format!(
            "<｜DSML｜ invoke name=\"{name}\">\n<｜DSML｜ parameter name=\"é\" string=\"false\">[1, \"b\"]</｜DSML｜ parameter>\n\
             <｜DSML｜ parameter name=\"s\" string=\"true\">t</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n"
        )
    };
    format!("\n\n<｜DSML｜ calls>\n{}</｜DSML｜ calls>", names.iter().map(call).collect::<String>())
}

#[test]
fn a_prompt_says_how_much_to_reason() {
    for (name, opening, think) in [
        ("deepseekv4_1", effort(75), "<think>"),
        ("deepseekv4_1_low_reasoning", effort(50), "<think>"),
        ("deepseekv4_1_preserve_thinking", effort(75), "<think>"),
        ("deepseekv4_1_disable_thinking", "<｜begin▁of▁sentence｜>".to_owned(), "</think>"),
    ] {
        let system = if name.ends_with("disable_thinking") { "<｜System｜>s" } else { "s" };
        let asks = format!("<｜User｜>q<｜Assistant｜>{think}");
        assert_eq!(prompt(name, json!([user("q")]), &[]), format!("{opening}{asks}"));
        let given = json!([{"role": "system", "content": "s"}, user("q")]);
        assert_eq!(prompt(name, given, &[]), format!("{opening}{system}{asks}"));
    }
}

#[test]
fn results_and_what_the_user_says_are_one_turn_in_the_order_of_the_calls() {
    let given = json!([user("q"), calling(&["x", "y"]), result("y"), user("and"), result("x"), result("z")]);
    let expected = format!(
        "{}<｜User｜>q<｜Assistant｜></think>a{}<｜end▁of▁sentence｜><｜User｜><tool_result>x</tool_result>\n\nand\n\n\
         <tool_result>z</tool_result>\n\n<tool_result>y</tool_result><｜Assistant｜><think>",
        effort(75),
        calls(&["x", "y"])
    );
    assert_eq!(prompt("deepseekv4_1", given, &[]), expected);
}

#[test]
fn reasoning_stays_where_tools_are_declared_or_nothing_follows_it() {
    let given = json!([user("q"), calling(&["f"]), result("f"), answer("s", "b"), user("p")]);
    let kept = "<｜Assistant｜><think>r</think>a\n\n";
    let left_out = "<｜Assistant｜></think>a\n\n";
    let shown = |name: &str, tools: &[Value]| prompt(name, given.clone(), tools);
    assert!(shown("deepseekv4_1", &[]).contains(left_out));
    assert!(shown("deepseekv4_1", &[]).contains("<｜Assistant｜></think>b<"));
    assert!(shown("deepseekv4_1", &tools("d")).contains(kept));
    assert!(shown("deepseekv4_1_preserve_thinking", &[]).contains(kept));
    assert!(shown("deepseekv4_1_disable_thinking", &tools("d")).contains(left_out));

    // What a client puts in behind a sampled turn is written as the whole conversation has it.
    let renderer = open("deepseekv4_1");
    let (given, tools) = (messages(given), tools("d"));
    let end = renderer.stop_tokens()[0];
    let continuation = Continuation { messages: &given, new_from: 2, sampled: &[end], tools: &tools };
    let whole = renderer.render_prompt(&given, &tools).unwrap().tokens;
    let appended = renderer.render_continuation(&continuation).unwrap();
    assert!(whole.ends_with(&appended));
    assert!(renderer.tokenizer().decode(&appended).contains("<｜Assistant｜><think>s</think>b<"));
}

#[test]
fn tools_are_explained_behind_the_system() {
    let shown = prompt("deepseekv4_1", json!([{"role": "system", "content": "s"}, user("q")]), &tools("é"));
    assert!(shown.starts_with(&format!("{}s\n\n## Tools\n\n", effort(75))), "{shown}");
    assert!(shown.contains("### Available Tool Schemas\n\n{\"name\": \"f\", \"description\": \"é\", "), "{shown}");
    assert!(shown.ends_with("to invoke tool calls.\n<｜User｜>q<｜Assistant｜><think>"), "{shown}");
    let without_system = prompt("deepseekv4_1_disable_thinking", json!([user("q")]), &tools("d"));
    assert!(without_system.starts_with("<｜begin▁of▁sentence｜><｜System｜>\n\n## Tools\n\n"), "{without_system}");
}

#[test]
fn an_answer_is_asked_for_whatever_stands_before_it() {
    let after = |given: Value| prompt("deepseekv4_1", given, &[]);
    let system = json!({"role": "system", "content": "s"});
    assert_eq!(after(json!([system])), format!("{}s<｜Assistant｜><think>", effort(75)));
    let twice = after(json!([user("q"), answer("", "a"), answer("r", "b")]));
    assert!(
        twice.ends_with(
            "<｜User｜>q<｜Assistant｜><think></think>a<｜end▁of▁sentence｜><｜Assistant｜><think>r</think>b\
             <｜end▁of▁sentence｜><｜Assistant｜><think>"
        ),
        "{twice}"
    );
}

#[test]
fn reasoning_is_not_trained_where_the_prompt_closes_it() {
    let given = messages(json!([user("q"), answer("r", "a")]));
    let train = |name: &str| open(name).render_supervised(&given, &[], &TrainOnWhat::LastAssistantMessage);
    let refused = train("deepseekv4_1_disable_thinking").unwrap_err();
    assert!(matches!(refused, RenderError::ReasoningDisabled { message_index: 1, .. }), "{refused}");
    let renderer = open("deepseekv4_1");
    let example = train("deepseekv4_1").unwrap().remove(0);
    let trained: Vec<String> = example
        .runs()
        .filter(|(weight, _)| *weight == 1.0)
        .map(|(_, tokens)| renderer.tokenizer().decode(tokens))
        .collect();
    assert_eq!(trained, ["r</think>a<｜end▁of▁sentence｜>"]);
}
