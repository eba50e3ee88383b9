//! What Qwen's and Nemotron's formats write, by value.

use fulgurite_renderers::Renderer;
use fulgurite_types::Message;
use serde_json::{Value, json};

use super::conversations::open;

fn messages(value: Value) -> Vec<Message> {
    serde_json::from_value(value).unwrap()
}

/// The text of a prompt from the first message of the assistant on.
fn from_assistant(name: &str, conversation: Value) -> String {
    let renderer = open(name);
    let tokens = renderer.render_prompt(&messages(conversation), &[]).unwrap().tokens;
    let text = renderer.tokenizer().decode(&tokens);
    text[text.find("<|im_start|>assistant\n").unwrap()..].to_owned()
}

fn call(arguments: &Value) -> Value {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}});
    json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [call]}])
}

#[test]
fn arguments_are_written_as_they_came() {
    for (arguments, written) in [
        (json!("{\"x\":1,  \"é\": \"ü\"}"), "{\"x\":1,  \"é\": \"ü\"}"),
        (json!({"x": 1, "é": "ü"}), "{\"x\": 1, \"é\": \"ü\"}"),
        (json!(""), "{}"),
        (json!(null), "{}"),
    ] {
        let text = from_assistant("qwen3_instruct", call(&arguments));
        let expected = format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {written}}}\n</tool_call><|im_end|>");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn scalars_are_written_as_each_generation_writes_them() {
    let arguments = json!("{\"t\": true, \"n\": null, \"f\": 1e22, \"s\": \"é\", \"l\": [true, \"é\"]}");
    let values = |values: [&str; 5]| {
        let parameter = |(key, value)| format!("<parameter={key}>\n{value}\n</parameter>\n");
        let keys = ["t", "n", "f", "s", "l"];
        let parameters: String = keys.into_iter().zip(values).map(parameter).collect();
        format!("<tool_call>\n<function=f>\n{parameters}</function>\n</tool_call>")
    };
    for name in ["qwen3_5", "nemotron3", "nemotron3_ultra"] {
        let text = from_assistant(name, call(&arguments));
        assert!(text.contains(&values(["True", "None", "1e+22", "é", "[true, \"é\"]"])), "{name}: {text}");
    }
    let text = from_assistant("qwen3_8_medium_reasoning", call(&arguments));
    assert!(text.contains(&values(["true", "null", "1e+22", "é", "[true, \"é\"]"])), "{text}");
}

#[test]
fn integers_of_any_size_keep_their_digits() {
    let digits = "123456789012345678901234567890";
    let arguments = json!(format!("{{\"x\": {digits}, \"l\": [-{digits}, 1.5]}}"));
    for name in ["qwen3_5", "qwen3_5_preserve_thinking", "qwen3_8_low_reasoning", "nemotron3", "nemotron3_ultra"] {
        let text = from_assistant(name, call(&arguments));
        let written = format!("<parameter=x>\n{digits}\n</parameter>\n<parameter=l>\n[-{digits}, 1.5]\n</parameter>");
        assert!(text.contains(&written), "{name}: {text}");
    }
    let text = from_assistant("qwen3", call(&arguments));
    assert!(text.contains(&format!("\"arguments\": {{\"x\": {digits}, \"l\": [-{digits}, 1.5]}}")), "{text}");
}

#[test]
fn a_history_goes_on_after_a_call_whose_arguments_are_no_object() {
    for (arguments, written) in [
        (json!("{\"x\": "), "{\"x\": "),
        (json!("[1,2]"), "[1,2]"),
        (json!("\"<|im_end|>\""), "\"<|im_end|>\""),
        (json!([1, 2]), "[1, 2]"),
    ] {
        for name in ["qwen3_5", "qwen3_8_medium_reasoning", "nemotron3"] {
            let text = from_assistant(name, call(&arguments));
            let expected = format!("<tool_call>\n<function=f>\n{written}\n</function>\n</tool_call>");
            assert!(text.contains(&expected), "{name}: {text}");
        }
    }
}

#[test]
fn a_turn_between_results_of_tools_keeps_its_reasoning() {
    let tool_call = json!([{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "1"});
    let turn = json!({"role": "assistant", "content": "t", "reasoning_content": "r", "tool_calls": tool_call});
    let conversation = json!([{"role": "user", "content": "a"}, turn, result, result]);
    let results = "<tool_response>\n1\n</tool_response>";
    for (name, expected) in [
        (
            "qwen3",
            format!(
                "<|im_start|>assistant\n<think>\nr\n</think>\n\nt\n\
                 <tool_call>\n{{\"name\": \"f\", \"arguments\": {{}}}}\n</tool_call><|im_end|>\n\
                 <|im_start|>user\n{results}\n{results}<|im_end|>\n<|im_start|>assistant\n"
            ),
        ),
        (
            "qwen3_5",
            format!(
                "<|im_start|>assistant\n<think>\nr\n</think>\n\nt\n\n\
                 <tool_call>\n<function=f>\n</function>\n</tool_call><|im_end|>\n\
                 <|im_start|>user\n{results}\n{results}<|im_end|>\n<|im_start|>assistant\n<think>\n"
            ),
        ),
        (
            "nemotron3_ultra",
            format!(
                "<|im_start|>assistant\n<think>\nr</think>t\n\
                 <tool_call>\n<function=f>\n</function>\n</tool_call>\n<|im_end|>\n\
                 <|im_start|>user\n{results}\n{results}\n<|im_end|>\n<|im_start|>assistant\n<think>\n"
            ),
        ),
    ] {
        assert_eq!(from_assistant(name, conversation.clone()), expected, "{name}");
    }
}

#[test]
fn reasoning_is_found_in_the_text_of_a_turn() {
    let inline =
        json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nr\n</think>\n\nt"}]);
    let part = json!([{"role": "user", "content": "a"},
                      {"role": "assistant", "content": [{"type": "text", "text": "r\n</think>\n\nt"}]}]);
    let separate = json!([{"role": "user", "content": "a"},
                        {"role": "assistant", "content": "t", "reasoning_content": "r"}]);
    for name in ["qwen3", "qwen3_5", "qwen3_8_low_reasoning"] {
        let expected = from_assistant(name, separate.clone());
        assert!(expected.starts_with("<|im_start|>assistant\n<think>\nr\n</think>\n\nt<|im_end|>"), "{expected}");
        assert_eq!(from_assistant(name, inline.clone()), expected, "{name}");
        assert_eq!(from_assistant(name, part.clone()), expected, "{name}");
    }
}

#[test]
fn how_much_to_reason_is_said_once() {
    let text = |conversation: Value, tools: &[Value]| {
        let renderer = open("qwen3_8_xhigh_reasoning");
        let tokens = renderer.render_prompt(&messages(conversation), tools).unwrap().tokens;
        renderer.tokenizer().decode(&tokens)
    };
    let user = json!({"role": "user", "content": "a"});
    let alone = text(json!([user]), &[]);
    let system = alone.strip_prefix("<|im_start|>system\n").unwrap();
    let (effort, _) = system.split_once("<|im_end|>").unwrap();
    assert!(effort.starts_with("Reasoning effort is set to xhigh."));
    assert_eq!(text(json!([{"role": "system", "content": effort}, user]), &[]), alone);
    assert_eq!(text(json!([{"role": "system", "content": " "}, user]), &[]), alone);
    let both = text(json!([{"role": "system", "content": " s "}, user]), &[]);
    assert_eq!(both, alone.replacen(effort, &format!("{effort}\n\ns"), 1));
    let with_tools = text(json!([user]), &[json!({"name": "f"})]);
    assert!(with_tools.starts_with(&format!("<|im_start|>system\n{effort}\n\n# Tools\n\n")), "{with_tools}");
    let renderer = open("qwen3_8_medium_reasoning");
    let empty = renderer.render_prompt(&messages(json!([{"role": "system", "content": " "}, user])), &[]).unwrap();
    assert_eq!(empty, renderer.render_prompt(&messages(json!([user])), &[]).unwrap());
}
