use std::sync::Arc;

use fulgurite_types::Message;
use serde_json::{Map, Value};

use crate::formats::format_options::FormatOptions;
use crate::named::cookbook_supervised::{cookbook_example, cookbook_examples};
use crate::named::prompt_writer::PromptWriter;
use crate::renderer_names::renderer_names;
use crate::{
    Continuation, RenderError, RenderedPrompt, Renderer, RendererIdentity, ResponseFormat, Tokenizer, TrainOnWhat,
    WeightedTokens,
};

/// Renders by a format that is written by hand and has a name, such as `qwen3_5` or `gpt_oss_low_reasoning`.
///
/// Every chunk of the format is encoded apart, so that the tokens of a message do not depend on its neighbours.
#[derive(Debug)]
pub struct NamedRenderer {
    writer: PromptWriter,
}

impl NamedRenderer {
    /// The renderer of a name; a name may end in `#strip=False`, which keeps reasoning in the history.
    pub fn open(name: &str, tokenizer: Arc<Tokenizer>, options: FormatOptions) -> Result<Self, RenderError> {
        Ok(Self { writer: PromptWriter::open(name, tokenizer, options)? })
    }

    /// The whole conversation as one sequence, as tinker-cookbook's `build_supervised_example` makes it: in a format that
    /// rewrites earlier turns, these are trained in a context in which they are never sampled.
    /// [`render_supervised`](Renderer::render_supervised) cuts the conversation there instead.
    pub fn cookbook_example(
        &self,
        messages: &[Message],
        tools: &[Value],
        train_on: &TrainOnWhat,
    ) -> Result<WeightedTokens, RenderError> {
        let written = self.writer.written(messages, tools)?.len();
        let example = cookbook_example(&self.writer, messages, tools, train_on);
        example.map_err(|error| error.of_given_message(written, messages.len()))
    }
}

impl Renderer for NamedRenderer {
    fn identity(&self) -> &RendererIdentity {
        &self.writer.identity
    }

    fn stop_tokens(&self) -> &[u32] {
        &self.writer.stop_tokens
    }

    fn stop_string(&self) -> Option<&str> {
        self.writer.format.stop_string()
    }

    fn response_format(&self) -> ResponseFormat {
        self.writer.format.response_format()
    }

    fn with_preferences(&self, preferences: &Map<String, Value>) -> Option<Arc<dyn Renderer>> {
        let variant = variant_of(self.name(), preferences)?;
        let renderer = Self::open(&variant, self.tokenizer().clone(), self.writer.options.clone()).ok()?;
        Some(Arc::new(renderer))
    }

    fn render_prompt(&self, messages: &[Message], tools: &[Value]) -> Result<RenderedPrompt, RenderError> {
        Ok(RenderedPrompt { tokens: self.writer.prompt_tokens(messages, tools)? })
    }

    fn render_continuation(&self, continuation: &Continuation<'_>) -> Result<Vec<u32>, RenderError> {
        self.writer.continuation(continuation)
    }

    fn render_supervised(
        &self,
        messages: &[Message],
        tools: &[Value],
        train_on: &TrainOnWhat,
    ) -> Result<Vec<WeightedTokens>, RenderError> {
        let written = self.writer.written(messages, tools)?.len();
        let examples = match self.writer.options.cookbook_exact {
            true => cookbook_examples(&self.writer, messages, tools, train_on),
            false => self.writer.examples(messages, tools, train_on),
        };
        examples.map_err(|error| error.of_given_message(written, messages.len()))
    }
}

/// The variant of a format that reasons as is wished, if it has one: `qwen3_disable_thinking` of `qwen3`, or
/// `gpt_oss_low_reasoning` of `gpt_oss_high_reasoning`. A name that chose a variant itself keeps it, but for its effort.
fn variant_of(name: &str, preferences: &Map<String, Value>) -> Option<String> {
    let effort = preferences.get("reasoning_effort").and_then(Value::as_str);
    let family = name.strip_suffix("_reasoning").and_then(|name| name.rsplit_once('_')).map_or(name, |(name, _)| name);
    let is_off = preferences.get("enable_thinking").is_some_and(|enabled| *enabled == Value::Bool(false));
    let of_effort = effort.map(|effort| format!("{family}_{effort}_reasoning"));
    let wished = match is_off {
        true => Some(format!("{family}_disable_thinking"))
            .filter(|off| renderer_names().contains(&off.as_str()))
            .or(of_effort),
        false => of_effort,
    };
    wished.filter(|wished| wished != name && renderer_names().contains(&wished.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_format_reasons_as_is_wished_where_it_has_a_variant_for_it() {
        let variant = |name: &str, preferences: Value| variant_of(name, preferences.as_object().unwrap());
        let off = json!({ "enable_thinking": false });
        let low = json!({ "reasoning_effort": "low", "enable_thinking": true });
        for (name, preferences, wished) in [
            ("qwen3", &off, Some("qwen3_disable_thinking")),
            ("qwen3", &low, None),
            ("qwen3_8_medium_reasoning", &off, Some("qwen3_8_disable_thinking")),
            ("qwen3_8_medium_reasoning", &low, Some("qwen3_8_low_reasoning")),
            ("gpt_oss_high_reasoning", &low, Some("gpt_oss_low_reasoning")),
            ("gpt_oss_low_reasoning", &low, None),
            ("qwen3_disable_thinking", &off, None),
            ("role_colon", &off, None),
            ("deepseekv4_1", &low, Some("deepseekv4_1_low_reasoning")),
            ("deepseekv4_1_max_reasoning", &off, Some("deepseekv4_1_disable_thinking")),
            ("glm5_3_max_reasoning", &low, Some("glm5_3_low_reasoning")),
            ("glm5_3_max_reasoning", &off, None),
        ] {
            assert_eq!(variant(name, preferences.clone()).as_deref(), wished, "{name} {preferences}");
        }
    }
}
