//! Renderers, messages and a rollout whose turns are recorded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_renderers::{
    ContinuationPolicy, Continued, FormatOptions, Fresh, NextPrompt, RecordedTurn, RecordedTurns, Renderer, Tokenizer,
    VolatileRules, renderer_of, train_byte_level_tokenizer,
};
use fulgurite_types::Message;
use serde_json::{Value, json};

pub fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

pub fn tokenizer(name: &str) -> Arc<Tokenizer> {
    Arc::new(Tokenizer::open(&vectors().join("tokenizers").join(name)).unwrap())
}

/// ChatML with tools: a template that has no ways of its own.
pub fn plain() -> Arc<dyn Renderer> {
    template("qwen3_2507", "qwen3", "<|im_end|>")
}

/// A format by its name, on the tokenizer of its family.
pub fn named(name: &str, tokenizer_name: &str) -> Arc<dyn Renderer> {
    renderer_of(tokenizer(tokenizer_name), name, &options()).unwrap()
}

/// A clock that stands still.
fn options() -> FormatOptions {
    FormatOptions { current_date: Some("2026-01-02".to_owned()), ..FormatOptions::default() }
}

/// A family's chat template on a tokenizer of the vectors.
pub fn template(name: &str, tokenizer_name: &str, eos: &str) -> Arc<dyn Renderer> {
    template_of(&template_text(name), tokenizer_name, eos)
}

/// A family's chat template on a tokenizer made for it, with its control tokens, of which the last ends a message.
pub fn template_with_control(name: &str, control: &[&str]) -> Arc<dyn Renderer> {
    let tokenizer = train_byte_level_tokenizer(["user assistant\n\n"], 300, control).unwrap();
    opened(&template_text(name), &tokenizer, control.last().unwrap())
}

/// A chat template by its text, on a tokenizer of the vectors.
pub fn template_of(text: &str, tokenizer_name: &str, eos: &str) -> Arc<dyn Renderer> {
    let tokenizer = vectors().join("tokenizers").join(tokenizer_name).join("tokenizer.json");
    opened(text, &std::fs::read(tokenizer).unwrap(), eos)
}

fn template_text(name: &str) -> String {
    std::fs::read_to_string(vectors().join(format!("templates/{name}.jinja"))).unwrap()
}

fn opened(template: &str, tokenizer: &[u8], eos: &str) -> Arc<dyn Renderer> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tokenizer.json"), tokenizer).unwrap();
    let config = json!({"eos_token": eos, "bos_token": "", "chat_template": template});
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    renderer_of(Arc::new(Tokenizer::open(dir.path()).unwrap()), "template", &options()).unwrap()
}

pub fn message(value: Value) -> Message {
    serde_json::from_value(value).unwrap()
}

pub fn user(text: &str) -> Message {
    Message::text("user", text)
}

pub fn system(text: &str) -> Message {
    Message::text("system", text)
}

pub fn answer_of(text: &str) -> Message {
    Message::text("assistant", text)
}

pub fn result(id: &str, content: &str) -> Message {
    message(json!({"role": "tool", "tool_call_id": id, "name": "get_weather", "content": content}))
}

pub fn calling(content: Value, calls: &[(&str, &str)]) -> Message {
    let calls = calls.iter().map(|(id, arguments)| {
        json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}})
    });
    message(json!({"role": "assistant", "content": content, "tool_calls": calls.collect::<Vec<_>>()}))
}

pub fn weather_tool() -> Value {
    json!({"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}})
}

/// A rollout: a renderer, and the turns that were sampled.
pub struct Rollout {
    pub renderer: Arc<dyn Renderer>,
    pub turns: RecordedTurns,
    pub tools: Vec<Value>,
    pub policy: ContinuationPolicy,
}

impl Rollout {
    pub fn new(renderer: Arc<dyn Renderer>) -> Self {
        let turns = RecordedTurns::new(VolatileRules::built_in());
        Self { renderer, turns, tools: Vec::new(), policy: ContinuationPolicy::Exact }
    }

    pub fn next(&self, messages: &[Message]) -> NextPrompt {
        self.turns.next_prompt(&*self.renderer, messages, &self.tools, self.policy).unwrap()
    }

    pub fn continued(&self, messages: &[Message]) -> Continued {
        match self.next(messages) {
            NextPrompt::Continued(continued) => continued,
            NextPrompt::Fresh(fresh) => panic!("{:?}", fresh.departure),
        }
    }

    pub fn fresh(&self, messages: &[Message]) -> Fresh {
        match self.next(messages) {
            NextPrompt::Fresh(fresh) => fresh,
            NextPrompt::Continued(continued) => panic!("continues turn {}", continued.turn),
        }
    }

    /// A model call: the prompt for `messages`, `sampled` after it, `reply` to the client. Gives the turn's number.
    pub fn call(&mut self, messages: &[Message], sampled: &[u32], reply: &Message) -> usize {
        let prompt_tokens = self.turns.prompt_tokens(&self.next(messages));
        let tools = &self.tools;
        self.turns.record(&RecordedTurn {
            messages,
            tools,
            reply,
            prompt_tokens: &prompt_tokens,
            sampled_tokens: sampled,
        })
    }

    /// A model call whose reply is plain text, ended by the stop token.
    pub fn say(&mut self, messages: &[Message], text: &str) -> usize {
        let sampled = self.sampled(text);
        self.call(messages, &sampled, &answer_of(text))
    }

    /// Text as tokens that a model might sample, and the stop token.
    pub fn sampled(&self, text: &str) -> Vec<u32> {
        let mut tokens = self.renderer.tokenizer().encode_with_specials(text).unwrap();
        tokens.extend(self.renderer.stop_tokens().first());
        tokens
    }

    pub fn text(&self, tokens: &[u32]) -> String {
        self.renderer.tokenizer().decode(tokens)
    }
}
