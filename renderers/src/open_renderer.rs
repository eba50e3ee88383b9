use std::path::Path;
use std::sync::Arc;

use fulgurite_types::Message;
use serde::{Deserialize, Serialize};

use crate::tool_preamble::ToolPreambleRenderer;
use crate::{
    ChatMlRenderer, FormatOptions, NamedRenderer, RenderError, Renderer, TemplateOptions, TemplateRenderer, Tokenizer,
};

/// How tools are declared to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolWriting {
    /// As its format has it, if it has a way.
    #[default]
    Template,
    /// In words of the system message, in the form of Hermes, for formats that have no way of their own.
    Preamble,
}

impl ToolWriting {
    /// By its name in a config.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "template" => Some(Self::Template),
            "preamble" => Some(Self::Preamble),
            _ => None,
        }
    }
}

/// Which renderer is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct RendererChoice<'n> {
    /// As [`renderer_of`] takes it.
    pub name: &'n str,
    /// How it declares tools.
    pub tools: ToolWriting,
}

impl<'n> From<&'n str> for RendererChoice<'n> {
    fn from(name: &'n str) -> Self {
        Self { name, tools: ToolWriting::default() }
    }
}

/// Opens a model directory's renderer: [`renderer_of`] its tokenizer, without options.
pub fn open_renderer<'n>(
    model_dir: &Path,
    choice: impl Into<RendererChoice<'n>>,
) -> Result<Arc<dyn Renderer>, RenderError> {
    let RendererChoice { name, tools } = choice.into();
    let renderer = renderer_of(Arc::new(Tokenizer::open(model_dir)?), name, &FormatOptions::default())?;
    match tools {
        ToolWriting::Template => Ok(renderer),
        ToolWriting::Preamble if matches!(name, "auto" | "template" | "chatml") => {
            Ok(Arc::new(ToolPreambleRenderer::new(renderer)))
        }
        ToolWriting::Preamble => Err(RenderError::PreambleUnsupported { renderer: name.to_owned() }),
    }
}

/// The renderer for a tokenizer. `choice` is the name of a format, `chatml`, `template` (the chat template beside the
/// tokenizer), or `auto`: ChatML written by hand where that template gives the same tokens, or where there is no
/// template but a tokenizer with ChatML's tokens; else the template.
pub fn renderer_of(
    tokenizer: Arc<Tokenizer>,
    choice: &str,
    options: &FormatOptions,
) -> Result<Arc<dyn Renderer>, RenderError> {
    let no_template = |tokenizer: &Tokenizer| RenderError::NoTemplate { path: tokenizer.path().to_owned() };
    let template = |tokenizer: &Arc<Tokenizer>| {
        let current_date = options.current_date.clone();
        TemplateRenderer::open(tokenizer.clone(), TemplateOptions { current_date, ..TemplateOptions::default() })
    };
    match choice {
        "chatml" => Ok(Arc::new(ChatMlRenderer::new(tokenizer)?)),
        "template" => match template(&tokenizer)? {
            Some(template) => Ok(Arc::new(template)),
            None => Err(no_template(&tokenizer)),
        },
        "auto" => match (template(&tokenizer)?, ChatMlRenderer::new(tokenizer.clone())) {
            (Some(template), Ok(chatml)) if renders_alike(&template, &chatml) => Ok(Arc::new(chatml)),
            (Some(template), _) => Ok(Arc::new(template)),
            (None, Ok(chatml)) => Ok(Arc::new(chatml)),
            (None, Err(_)) => Err(no_template(&tokenizer)),
        },
        name => Ok(Arc::new(NamedRenderer::open(name, tokenizer, options.clone())?)),
    }
}

/// Whether two renderers give the same prompts for a few conversations, and end a message alike. The conversations
/// hold what templates treat in ways of their own: no system message, white space, reasoning, a last message that is
/// the assistant's, tool results.
fn renders_alike(left: &dyn Renderer, right: &dyn Renderer) -> bool {
    let (system, user) = (Message::text("system", " s "), Message::text("user", "a? "));
    let (spoken, thought) = (Message::text("assistant", "b."), Message::text("assistant", "<think>\nc\n</think>\n\nd"));
    let conversations: [&[Message]; 6] = [
        std::slice::from_ref(&user),
        &[system.clone(), user.clone()],
        &[user.clone(), spoken.clone(), user.clone(), spoken.clone(), user.clone()],
        &[user.clone(), thought.clone(), user.clone()],
        &[user.clone(), system, spoken],
        &[user.clone(), thought, Message::text("tool", "e"), user.clone()],
    ];
    let same_prompt = |conversation: &&[Message]| {
        matches!(
            (left.render_prompt(conversation, &[]), right.render_prompt(conversation, &[])),
            (Ok(left), Ok(right)) if left == right
        )
    };
    right.stop_tokens().iter().all(|token| left.stop_tokens().contains(token)) && conversations.iter().all(same_prompt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CHATML_TEMPLATE;
    use crate::testing::{directory_with_template, tiny_directory, vector_dir};

    fn opened(model_dir: &Path, choice: &str) -> String {
        match open_renderer(model_dir, choice) {
            Ok(renderer) => renderer.name().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_chatml_template_opens_as_chatml() {
        let dir = tiny_directory();
        assert_eq!(opened(dir.path(), "auto"), "chatml");
        assert_eq!(opened(dir.path(), "template"), "template");
        let names =
            ["auto", "template"].map(|choice| open_renderer(dir.path(), choice).unwrap().fingerprint().to_owned());
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn a_template_with_ways_of_its_own_opens_as_template() {
        for (from, to) in [
            ("message.content", "message.content | trim"),
            ("assistant\\n' }}", "assistant\\n<think>\\n' }}"),
            ("{%- for", "{{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{%- for"),
            ("message.content", "message.content.split('</think>')[-1]"),
        ] {
            let dir = directory_with_template("qwen3", &CHATML_TEMPLATE.replacen(from, to, 1), "<|im_end|>");
            assert_eq!(opened(dir.path(), "auto"), "template", "{to}");
        }
        let other_end = directory_with_template("qwen3", CHATML_TEMPLATE, "<|endoftext|>");
        assert_eq!(opened(other_end.path(), "auto"), "template");
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let llama = vector_dir("llama3");
        assert!(opened(&llama, "auto").ends_with("has no chat template, and its tokenizer lacks the tokens of ChatML"));
        assert!(opened(&llama, "chatml").contains("needs the token `<|im_start|>`"));
        assert_eq!(opened(&vector_dir("qwen3"), "auto"), "chatml");
    }
}
