//! The named formats against the chat templates that the models ship with (`vectors/cookbook/hf_template_compare.json`):
//! what Hugging Face's `apply_chat_template` writes, where it is not what tinker-cookbook writes.

use fulgurite_renderers::Renderer;
use serde_json::{Value, json};

use super::{conversations, open, vectors};

/// Cases in which a format does not write what the template does, by renderer and case.
const EXCEPTIONS: [(&str, &[&str], &str); 4] = [
    ("", &["unicode"], "the tokenizer normalises text, which is read back from tokens here"),
    ("llama3", &["multi_turn_thinking", "tools_decl", "tools_decl_nosys_two"], "what cannot be written is refused"),
    ("llama3", &["tool_call_result", "tool_call_text_think", "parallel_tools"], "what cannot be written is refused"),
    ("qwen3_5", &["no_user"], "the template refuses to write what has no question"),
];

/// Pairs of a renderer and a template that do not belong together.
const UNRELATED: [&str; 2] = ["qwen3_5 | qwen3_5_nothink.jinja", "qwen3_5 | qwen3_6.jinja"];

fn is_exception(renderer: &str, case: &str) -> bool {
    EXCEPTIONS.iter().any(|(prefix, cases, _)| renderer.starts_with(prefix) && cases.contains(&case))
}

#[test]
fn ours_is_the_models_chat_template_but_for_named_exceptions() {
    let compared = vectors("cookbook", "hf_template_compare");
    let conversations = conversations("cookbook");
    let mut wrong = String::new();
    let mut count = 0;
    for (pair, template) in compared.as_object().unwrap() {
        let renderer = pair.split(" | ").next().unwrap();
        let is_ours = ["qwen3", "nemotron3", "llama3"].iter().any(|family| renderer.starts_with(family));
        if !is_ours || UNRELATED.contains(&pair.as_str()) {
            continue;
        }
        let cookbook = vectors("cookbook", renderer);
        let opened = open(&cookbook, false);
        for (name, case) in template["cases"].as_object().unwrap() {
            let same = || cookbook["generation_prompt"].get(name).map(|prompt| &prompt["decoded"]);
            let Some(expected) = case.get("hf").or_else(same).and_then(Value::as_str) else { continue };
            if is_exception(renderer, name) {
                continue;
            }
            let conversation = &conversations[name];
            let wrapped = |tool: &Value| json!({"type": "function", "function": tool});
            let tools: Vec<Value> = conversation.tools.iter().map(wrapped).collect();
            let ours = opened.render_prompt(&conversation.messages, &tools);
            let ours = ours.map(|prompt| opened.tokenizer().decode(&prompt.tokens)).map_err(|error| error.to_string());
            count += 1;
            if ours.as_deref() != Ok(expected) {
                wrong += &format!("\n{pair}: {name}\n  ours   {ours:?}\n  theirs {expected:?}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 100, "{count} cases were compared");
}
