//! Any conversation, with any tools, rendered in every format; and any reply to it, continued.

use std::sync::LazyLock;

use fulgurite_types::Message;
use serde_json::{Value, json};

use super::tokenizer;
use crate::{
    ContinuationPolicy, FormatOptions, NamedRenderer, NextPrompt, RecordedTurn, RecordedTurns, Renderer, TrainOnWhat,
    VolatileRules, renderer_names,
};

/// What messages, tools and arguments are made of.
const SNIPPETS: &[&str] = &[
    "",
    "a",
    " b\n",
    "\n\n",
    "é🙂",
    "e\u{301}",
    "<think>",
    "</think>",
    "<think>\nr\n</think>\n\n",
    "<tool_call>",
    "<|user|>",
    "<tool_call>f<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>",
    "<|im_end|>",
    "<|im_start|>",
    "<｜User｜>",
    "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
    "<|end|>",
    "<|eot_id|>",
    "{\"x\": [1, 2.5, null, \"<|im_end|>\"]}",
    "{}",
    "{\"x\":",
    "\n\nUser:",
    "\u{0}\u{f0000}",
];

static RENDERERS: LazyLock<Vec<NamedRenderer>> = LazyLock::new(|| {
    let families =
        [("deepseek", "deepseek"), ("glm", "glm"), ("kimi", "kimi"), ("gpt_oss", "gpt_oss"), ("llama3", "llama3")];
    let open = |name: &&str| {
        let family = families.iter().find(|(family, _)| name.starts_with(family)).map_or("qwen3", |(_, of)| of);
        let options = FormatOptions { current_date: Some("2026-01-31".to_owned()), ..FormatOptions::default() };
        NamedRenderer::open(name, tokenizer(family), options).expect("the renderer opens")
    };
    // The first names are those of renderers that are no format.
    renderer_names().iter().filter(|name| !["auto", "template", "chatml"].contains(name)).map(open).collect()
});

/// Renders the conversation that bytes name, in the format that the first of them names, for sampling and for training.
/// Then reads some tokens as a reply, sends it back as a client would, and holds that the next prompt begins with the
/// last one and with every token of the reply.
pub fn fuzz_render(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let renderer = &RENDERERS[bytes.below(RENDERERS.len())];
    let tools: Vec<Value> = (0..bytes.below(3)).map(|_| bytes.tool()).collect();
    let messages: Vec<Message> = (0..bytes.below(6)).filter_map(|_| bytes.message()).collect();
    for train_on in [TrainOnWhat::AllAssistantMessages, TrainOnWhat::AllTokens] {
        for example in renderer.render_supervised(&messages, &tools, &train_on).unwrap_or_default() {
            assert_eq!(example.tokens.len(), example.weights.len());
            // Everything may be nothing, as an empty system message is in some formats; a turn has its end at least.
            assert!(train_on == TrainOnWhat::AllTokens || example.weights.contains(&1.0), "{}", renderer.name());
        }
    }
    // What a format cannot write is refused.
    let Ok(prompt) = renderer.render_prompt(&messages, &tools) else { return };
    let sampled: Vec<u32> = bytes.sampled(renderer);
    check_continuation(renderer, &messages, &tools, &prompt.tokens, &sampled);
}

fn check_continuation(
    renderer: &NamedRenderer,
    messages: &[Message],
    tools: &[Value],
    prompt_tokens: &[u32],
    sampled_tokens: &[u32],
) {
    let mut reply = renderer.parse(prompt_tokens, sampled_tokens, tools).message();
    for (index, call) in reply.tool_calls.iter_mut().enumerate() {
        call.id.get_or_insert_with(|| format!("functions.{}:{index}", call.function.name));
    }
    let mut recorded = RecordedTurns::new(VolatileRules::built_in());
    recorded.record(&RecordedTurn { messages, tools, reply: &reply, prompt_tokens, sampled_tokens });

    let mut next = messages.to_vec();
    next.push(reply.clone());
    next.extend(reply.tool_calls.iter().map(|call| {
        let mut result = Message::text("tool", "done");
        result.tool_call_id = call.id.clone();
        result.name = Some(call.function.name.clone());
        result
    }));
    if reply.tool_calls.is_empty() {
        next.push(Message::text("user", "and then?"));
    }
    let prompt = recorded.next_prompt(renderer, &next, tools, ContinuationPolicy::Exact);
    let prompt = prompt.expect("what the model said and what answers it can be written");
    // Where text ends a turn, a sampler may have gone on behind it; then the next prompt cannot.
    if renderer.stop_string().is_some() && matches!(prompt, NextPrompt::Fresh(_)) {
        return;
    }
    assert!(matches!(prompt, NextPrompt::Continued(_)), "{}: {prompt:?}", renderer.name());
    let tokens = recorded.prompt_tokens(&prompt);
    assert!(tokens.starts_with(&[prompt_tokens, sampled_tokens].concat()), "{}", renderer.name());
}

/// Bytes as the choices that they name; zeros once they are used up.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn below(&mut self, end: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % end
    }

    fn text(&mut self) -> String {
        (0..self.below(4)).map(|_| SNIPPETS[self.below(SNIPPETS.len())]).collect()
    }

    fn content(&mut self) -> Value {
        match self.below(4) {
            0 => Value::Null,
            1 => json!([{"type": "text", "text": self.text()}, {"type": "text", "text": self.text()}]),
            2 => json!([{"type": "thinking", "thinking": self.text()}, {"type": "text", "text": self.text()}]),
            _ => self.text().into(),
        }
    }

    fn message(&mut self) -> Option<Message> {
        let role = ["user", "assistant", "tool", "system", "developer", "nobody"][self.below(6)];
        let mut message = json!({"role": role, "content": self.content()});
        match role {
            "tool" => message["tool_call_id"] = self.text().into(),
            "assistant" => {
                let call = |this: &mut Self| {
                    let function = json!({"name": this.text(), "arguments": this.text()});
                    json!({"id": this.text(), "type": "function", "function": function})
                };
                message["tool_calls"] = (0..self.below(3)).map(|_| call(self)).collect();
                message["reasoning_content"] = self.text().into();
            }
            _ => {}
        }
        serde_json::from_value(message).ok()
    }

    fn tool(&mut self) -> Value {
        let mut function = json!({"name": self.text(), "description": self.text()});
        let kind = ["string", "integer", "array", "object", "null", "nothing"][self.below(6)];
        let schema = json!({"type": kind, "description": self.text(), "enum": [self.text(), 1, null]});
        match self.below(4) {
            0 => {}
            1 => function["parameters"] = json!({"type": "object", "properties": {self.text(): schema}}),
            2 => function["parameters"] = json!({"properties": {"x": {"anyOf": [schema, {}]}}, "required": ["x"]}),
            _ => function["parameters"] = schema,
        }
        if self.below(2) == 0 { function } else { json!({"type": "function", "function": function}) }
    }

    /// Text, control tokens and tokens of the vocabulary, mostly with an end.
    fn sampled(&mut self, renderer: &NamedRenderer) -> Vec<u32> {
        let tokenizer = renderer.tokenizer();
        let mut tokens = Vec::new();
        for _ in 0..self.below(6) {
            match self.below(3) {
                0 => tokens.push(u32::try_from(self.below(256) * 3).unwrap_or_default() % 570),
                1 => tokens.extend(tokenizer.encode_ordinary(&self.text()).unwrap_or_default()),
                _ => tokens.extend(tokenizer.encode_with_specials(&self.text()).unwrap_or_default()),
            }
        }
        if self.below(4) > 0 {
            tokens.extend(renderer.stop_tokens().first());
        }
        tokens
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn no_conversation_breaks_a_format_and_no_sampled_token_is_lost(
            bytes in proptest::collection::vec(any::<u8>(), 0..160),
        ) {
            fuzz_render(&bytes);
        }
    }
}
