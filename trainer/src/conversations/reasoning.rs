//! Reasoning in the assistant's messages: split from the answer, left out, or trained alone.

use std::sync::{Arc, OnceLock};

use fulgurite_renderers::{
    Renderer, Tokenizer, TrainOnWhat, WeightedTokens, begins_reasoning, reasoning_ends, split_reasoning,
};
use fulgurite_types::{Content, Message};

use crate::ReasoningUse;

/// The field in which templates are given reasoning; they read it from wherever they know it.
const FIELD: &str = "reasoning_content";
/// Fields in which data have it.
const FIELDS: [&str; 2] = [FIELD, "reasoning"];

/// What becomes of reasoning, and whether the model's template writes it from a field of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reasoning {
    used: ReasoningUse,
    is_written: Arc<OnceLock<bool>>,
}

impl From<ReasoningUse> for Reasoning {
    fn from(used: ReasoningUse) -> Self {
        Self { used, is_written: Arc::default() }
    }
}

impl Reasoning {
    /// The messages with what becomes of their reasoning; `None` where they stay as they are.
    pub(super) fn divided(&self, renderer: &dyn Renderer, messages: &[Message]) -> Option<Vec<Message>> {
        let marked = |message: &Message| message.is_assistant() && split(message).is_some();
        let reasons = |message: &Message| {
            FIELDS.iter().any(|field| message.extra.contains_key(*field))
                || matches!(&message.content, Some(Content::Text(text)) if begins_reasoning(text))
        };
        if self.used == ReasoningUse::Drop {
            let has_any = messages.iter().any(|message| message.is_assistant() && reasons(message));
            return has_any.then(|| messages.iter().map(without_reasoning).collect());
        }
        if !messages.iter().any(marked) || !self.is_written(renderer) {
            return None;
        }
        Some(messages.iter().map(with_field).collect())
    }

    /// Of `only`, leaves what stands behind reasoning untrained; false where the format does not mark its end.
    pub(super) fn keep_trained(&self, renderer: &dyn Renderer, sequences: &mut [WeightedTokens]) -> bool {
        if self.used != ReasoningUse::Only {
            return true;
        }
        let ends = reasoning_ends(renderer.tokenizer());
        for sequence in sequences.iter_mut() {
            keep_reasoning(renderer.tokenizer(), &ends, sequence);
        }
        !ends.is_empty()
    }

    /// Whether the template writes reasoning that stands in a field of its own: it changes what is written then.
    fn is_written(&self, renderer: &dyn Renderer) -> bool {
        *self.is_written.get_or_init(|| {
            let written = |message: Message| {
                let messages = [Message::text("user", "a"), message];
                renderer.render_supervised(&messages, &[], &TrainOnWhat::LastAssistantMessage).ok()
            };
            let plain = Message::text("assistant", "b");
            let mut thought = plain.clone();
            thought.extra.insert(FIELD.to_owned(), "c".into());
            written(plain) != written(thought)
        })
    }
}

/// The reasoning and the answer of a message that begins with marked reasoning.
fn split(message: &Message) -> Option<(&str, &str)> {
    match &message.content {
        Some(Content::Text(text)) if FIELDS.iter().all(|field| !message.extra.contains_key(*field)) => {
            split_reasoning(text)
        }
        _ => None,
    }
}

fn with_field(message: &Message) -> Message {
    let Some((reasoning, answer)) = split(message).filter(|_| message.is_assistant()) else { return message.clone() };
    let mut divided = message.clone();
    divided.extra.insert(FIELD.to_owned(), reasoning.into());
    divided.content = Some(Content::Text(answer.to_owned()));
    divided
}

fn without_reasoning(message: &Message) -> Message {
    let mut answer = message.clone();
    if !message.is_assistant() {
        return answer;
    }
    FIELDS.iter().for_each(|field| drop(answer.extra.shift_remove(*field)));
    if let Some(Content::Text(text)) = &message.content {
        let mut rest = text.as_str();
        while let Some((_, behind)) = split_reasoning(rest) {
            rest = behind;
        }
        // Of reasoning that was cut off there is no answer.
        let rest = if begins_reasoning(rest) { "" } else { rest };
        answer.content = Some(Content::Text(rest.to_owned()));
    }
    answer
}

/// Whether the assistant says nothing in a message of these that it had reasoned in.
pub(super) fn leaves_nothing(before: &[Message], after: &[Message]) -> bool {
    let is_silent = |message: &Message| {
        message.tool_calls.is_empty() && matches!(&message.content, Some(Content::Text(text)) if text.trim().is_empty())
    };
    before.iter().zip(after).any(|(before, after)| after.is_assistant() && is_silent(after) && before != after)
}

/// Leaves of each trained run what ends with reasoning; a run without any is not trained.
fn keep_reasoning(tokenizer: &Tokenizer, ends: &[u32], sequence: &mut WeightedTokens) {
    let mut start = 0;
    while start < sequence.tokens.len() {
        let is_trained = |weight: &f32| *weight > 0.0;
        let Some(begin) = sequence.weights[start..].iter().position(is_trained).map(|place| start + place) else {
            return;
        };
        let length = sequence.weights[begin..].iter().take_while(|weight| is_trained(weight)).count();
        let run = &sequence.tokens[begin..begin + length];
        let kept = run.iter().position(|token| ends.contains(token)).map_or(0, |end| end + 1);
        // Templates write marks with nothing between them where an answer has no reasoning.
        let words: Vec<u32> = run[..kept].iter().copied().filter(|token| !tokenizer.is_control(*token)).collect();
        let kept = if tokenizer.decode(&words).trim().is_empty() { 0 } else { kept };
        sequence.weights[begin + kept..begin + length].fill(0.0);
        start = begin + length;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::super::rendering::{RenderRefusal, Rendering};
    use super::super::rows::conversation::Conversation;
    use super::super::rows::row_form::RowForm;
    use super::super::split::sequences::Unusable;
    use super::*;
    use crate::TrainOn;

    fn rendering(directory: &Path, format: &str, used: ReasoningUse) -> Rendering {
        let marks = ["<think>", "</think>"];
        let json = fulgurite_renderers::train_byte_level_tokenizer(["a b"; 2], 290, &marks).unwrap();
        fulgurite_renderers::write_tokenizer_directory(directory, &json).unwrap();
        Rendering {
            form: RowForm::default(),
            renderer: fulgurite_renderers::open_renderer(directory, format).unwrap(),
            train_on: TrainOn::default(),
            max_tokens: None,
            truncate: Default::default(),
            cut: Default::default(),
            reasoning: used.into(),
        }
    }

    fn message(answer: Value) -> Conversation {
        let row = json!({ "messages": [{ "role": "user", "content": "q" }, answer] });
        Conversation::read(row.to_string().as_bytes()).unwrap()
    }

    fn trained(rendering: &Rendering, answer: Value) -> Result<String, RenderRefusal> {
        let sequences = rendering.sequences(&message(answer))?;
        let runs = sequences.iter().flat_map(WeightedTokens::runs).filter(|(weight, _)| *weight > 0.0);
        Ok(runs.map(|(_, tokens)| rendering.renderer.tokenizer().decode(tokens)).collect())
    }

    #[test]
    fn marked_reasoning_is_kept_as_the_template_writes_it_dropped_or_trained_alone() {
        let directory = tempfile::tempdir().unwrap();
        let with = |format: &str, used| rendering(directory.path(), format, used);
        // Spelled unlike the templates write it.
        let marked = json!({ "role": "assistant", "content": "<think>because</think>yes" });
        let field = json!({ "role": "assistant", "content": "yes", "reasoning_content": "because" });
        let plain = json!({ "role": "assistant", "content": "yes" });
        let end = "<|im_end|>";
        for format in ["qwen3", "chatml"] {
            let written = match format {
                "qwen3" => "<think>\nbecause\n</think>\n\nyes",
                _ => "<think>because</think>yes",
            };
            assert_eq!(trained(&with(format, ReasoningUse::Keep), marked.clone()).unwrap(), format!("{written}{end}"));
            let dropped = trained(&with(format, ReasoningUse::Drop), marked.clone()).unwrap();
            assert_eq!(dropped, trained(&with(format, ReasoningUse::Keep), plain.clone()).unwrap());
            assert!(!dropped.contains("because"), "{dropped}");
            let only = trained(&with(format, ReasoningUse::Only), marked.clone()).unwrap();
            assert_eq!(only, written.split_inclusive("</think>").next().unwrap(), "{format}");
            let nothing = trained(&with(format, ReasoningUse::Only), plain.clone()).unwrap_err();
            assert!(matches!(nothing, RenderRefusal::Unusable(Unusable::NothingToTrain, _)), "{nothing:?}");
        }
        let qwen3 = |used, answer: &Value| trained(&with("qwen3", used), answer.clone()).unwrap();
        for used in [ReasoningUse::Keep, ReasoningUse::Drop, ReasoningUse::Only] {
            assert_eq!(qwen3(used, &field), qwen3(used, &marked), "{used:?}");
        }
    }

    #[test]
    fn of_an_answer_that_is_nothing_but_reasoning_nothing_is_left_to_train() {
        let directory = tempfile::tempdir().unwrap();
        let dropping = rendering(directory.path(), "chatml", ReasoningUse::Drop);
        let answer = |content: &str| trained(&dropping, json!({ "role": "assistant", "content": content }));
        for content in ["<think>because", "<think>only</think>", "<think>a</think>\n<think>b"] {
            let nothing = answer(content).unwrap_err();
            assert!(matches!(nothing, RenderRefusal::Unusable(Unusable::NothingToTrain, _)), "{content}: {nothing:?}");
        }
        assert_eq!(answer("<think>a</think><think>b</think>yes").unwrap(), "yes<|im_end|>");
    }

    #[test]
    fn a_thought_of_the_user_and_one_that_does_not_end_are_text() {
        let directory = tempfile::tempdir().unwrap();
        let keeping = rendering(directory.path(), "qwen3", ReasoningUse::Keep);
        let open = json!({ "role": "assistant", "content": "<think>because" });
        assert!(trained(&keeping, open).unwrap().contains("because"));
        let rendering = rendering(directory.path(), "qwen3", ReasoningUse::Drop);
        let row = json!({ "messages": [{ "role": "user", "content": "<think>a</think>b" }, { "role": "assistant", "content": "c" }] });
        let conversation = Conversation::read(row.to_string().as_bytes()).unwrap();
        let sequences = rendering.sequences(&conversation).unwrap();
        assert!(rendering.renderer.tokenizer().decode(&sequences[0].tokens).contains("<think>a</think>b"));
    }
}
