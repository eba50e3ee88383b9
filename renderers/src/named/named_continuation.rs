use std::borrow::Cow;

use fulgurite_types::Message;

use crate::formats::chunk::Chunk;
use crate::formats::format::Conversation;
use crate::named::prompt_writer::PromptWriter;
use crate::reasoning_marks::unclosed_reasoning;
use crate::{Continuation, RenderError};

/// Texts that stand in for reasoning and for what follows it.
const REASONING: &str = "fulgurite9";
const TEXT: &str = "fulgurite8";

impl PromptWriter {
    /// What follows a turn that was sampled: what the turn lacks of its end, the messages after it, and what asks for
    /// the next one.
    pub(crate) fn continuation(&self, continuation: &Continuation<'_>) -> Result<Vec<u32>, RenderError> {
        let Continuation { messages, new_from, sampled, tools } = *continuation;
        let written = self.written(messages, &[])?;
        // What is put in or taken out when written stands before the first turn.
        let new_from = new_from + written.len() - messages.len();
        let conversation = Conversation::read(&written).and_then(|conversation| conversation.with_tools(tools));
        let tokens = conversation.and_then(|conversation| match self.format.stop_string() {
            Some(stop) => self.tokens_after_stop_string(&conversation, new_from, sampled, stop),
            None => {
                let before = &written[..new_from.saturating_sub(1)];
                self.tokens_after_stop_token(&conversation, before, new_from, sampled)
            }
        });
        tokens.map_err(|error| error.of_given_message(written.len(), messages.len()))
    }

    fn tokens_after_stop_token(
        &self,
        conversation: &Conversation<'_>,
        before: &[Cow<'_, Message>],
        new_from: usize,
        sampled: &[u32],
    ) -> Result<Vec<u32>, RenderError> {
        let last = sampled.last().copied();
        let (is_ended, end) = match self.format.shared_turn_end(conversation, new_from) {
            // Another token that ends a turn is not the role that the next message leaves out.
            Some(end) => (last.is_some() && last == self.tokenizer().token_to_id(end), Chunk::of_format(end)),
            None => (last.is_some_and(|token| self.stop_tokens.contains(&token)), self.format.end_of_turn()),
        };
        let mut tokens = Vec::new();
        if !is_ended {
            let generation_prompt = || self.generation_prompt(&Conversation::read(before)?);
            if unclosed_reasoning(self.tokenizer(), sampled, generation_prompt)?.is_some() {
                tokens.extend(self.closing_of_reasoning()?);
            }
            tokens.extend(self.encode(&end)?);
        }
        tokens.extend(self.tokens_from(conversation, new_from)?);
        Ok(tokens)
    }

    /// What the format writes between reasoning and the text after it.
    fn closing_of_reasoning(&self) -> Result<Vec<u32>, RenderError> {
        let mut answer = Message::text("assistant", TEXT);
        answer.extra.insert("reasoning_content".to_owned(), REASONING.into());
        let messages = [Message::text("user", "a"), answer].map(Cow::Owned);
        let conversation = Conversation::read_sampled(&messages)?;
        let written = self.format.message(&conversation, 1)?;
        let written: String = written.output.iter().map(Chunk::text).collect();
        let between = written.split_once(REASONING).and_then(|(_, after)| after.split_once(TEXT));
        between.map_or_else(|| Ok(Vec::new()), |(between, _)| self.encode(&Chunk::of_format(between)))
    }

    /// A text that ends a turn may begin the next message: `\n\nUser:` ends the turn by its line breaks, and the rest
    /// stands before what the user says.
    fn tokens_after_stop_string(
        &self,
        conversation: &Conversation<'_>,
        new_from: usize,
        sampled: &[u32],
        stop: &str,
    ) -> Result<Vec<u32>, RenderError> {
        let text = self.tokenizer().decode(sampled);
        let end_of_turn = self.format.end_of_turn().text();
        let refused = |message: String| Err(RenderError::Message { message_index: new_from, message });
        match text.split_once(stop) {
            None => {
                let mut tokens = self.tokenizer().encode_ordinary(lacking(&text, &end_of_turn))?;
                tokens.extend(self.tokens_from(conversation, new_from)?);
                Ok(tokens)
            }
            Some((_, "")) => {
                let opened = stop.strip_prefix(&*end_of_turn).unwrap_or_default();
                if new_from == conversation.messages().len() {
                    return refused(format!("the turn before it ends with `{opened}`, but no message follows"));
                }
                let next = self.format.message(conversation, new_from)?;
                if next.header.text() != opened {
                    return refused(format!(
                        "the turn before it ends with `{opened}`, so that this message cannot follow"
                    ));
                }
                let mut tokens = Vec::new();
                for chunk in &next.output {
                    tokens.extend(self.encode(chunk)?);
                }
                tokens.extend(self.tokens_from(conversation, new_from + 1)?);
                Ok(tokens)
            }
            Some(_) => refused(format!("the turn before it goes on after its end `{}`", stop.escape_debug())),
        }
    }
}

/// What `text` lacks of the `end` that it should end with.
fn lacking<'e>(text: &str, end: &'e str) -> &'e str {
    let starts = (0..=end.len()).rev().filter(|length| end.is_char_boundary(*length));
    let has = starts.into_iter().find(|length| text.ends_with(&end[..*length]));
    &end[has.unwrap_or_default()..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::named_renderer::NamedRenderer;
    use crate::testing::vector_tokenizer;
    use crate::{FormatOptions, Renderer};

    fn role_colon() -> NamedRenderer {
        NamedRenderer::open("role_colon", vector_tokenizer("qwen3"), FormatOptions::default()).unwrap()
    }

    /// The text of prompt, turn and continuation, or the error.
    fn continued(sampled: &str, next: &[Message]) -> Result<String, String> {
        let renderer = role_colon();
        let mut messages = vec![Message::text("user", "a?"), Message::text("assistant", "b.")];
        let prompt = renderer.render_prompt(&messages[..1], &[]).unwrap().tokens;
        let sampled = renderer.tokenizer().encode_ordinary(sampled).unwrap();
        messages.extend_from_slice(next);
        let continuation = Continuation { messages: &messages, new_from: 2, sampled: &sampled, tools: &[] };
        let tokens = renderer.render_continuation(&continuation).map_err(|error| error.to_string())?;
        Ok(renderer.tokenizer().decode(&[prompt, sampled, tokens].concat()))
    }

    #[test]
    fn what_ends_a_turn_stands_once_however_much_of_it_was_sampled() {
        let whole = "User: a?\n\nAssistant: b.\n\nUser: c?\n\nAssistant:";
        for sampled in [" b.", " b.\n", " b.\n\n", " b.\n\nUser:"] {
            assert_eq!(continued(sampled, &[Message::text("user", "c?")]).unwrap(), whole, "{sampled:?}");
        }
        let system = continued(" b.\n\n", &[Message::text("system", "s"), Message::text("user", "c?")]).unwrap();
        assert_eq!(system, "User: a?\n\nAssistant: b.\n\nSystem: s\n\nUser: c?\n\nAssistant:");
    }

    #[test]
    fn a_turn_that_began_the_next_message_is_followed_by_the_user_alone() {
        let error = |sampled, next: &[Message]| continued(sampled, next).unwrap_err();
        assert_eq!(
            error(" b.\n\nUser:", &[Message::text("system", "s")]),
            "message 2: the turn before it ends with `User:`, so that this message cannot follow"
        );
        assert_eq!(
            error(" b.\n\nUser:", &[]),
            "message 2: the turn before it ends with `User:`, but no message follows"
        );
        assert_eq!(
            error(" b.\n\nUser: d", &[Message::text("user", "c?")]),
            "message 2: the turn before it goes on after its end `\\n\\nUser:`"
        );
    }

    /// The text with which a turn goes on that was cut off.
    fn cut(name: &str, tokenizer: &str, sampled: &str) -> String {
        let renderer = NamedRenderer::open(name, vector_tokenizer(tokenizer), FormatOptions::default()).unwrap();
        let messages = [Message::text("user", "a?"), Message::text("assistant", "b."), Message::text("user", "c?")];
        let sampled = renderer.tokenizer().encode_with_specials(sampled).unwrap();
        let continuation = Continuation { messages: &messages, new_from: 2, sampled: &sampled, tools: &[] };
        renderer.tokenizer().decode(&renderer.render_continuation(&continuation).unwrap())
    }

    #[test]
    fn reasoning_that_was_cut_off_is_closed_as_the_format_closes_it() {
        for (name, tokenizer, opened, closed) in [
            ("qwen3", "qwen3", "<think>\n", "\n</think>\n\n<|im_end|>"),
            ("qwen3_5", "qwen3", "", "\n</think>\n\n<|im_end|>"),
            ("nemotron3_ultra", "qwen3", "", "</think><|im_end|>"),
            ("deepseekv3_thinking", "deepseek", "", "</think><｜end▁of▁sentence｜>"),
            ("glm5_3_low_reasoning", "glm", "", "</think><|user|>"),
            ("kimi_k25", "kimi", "", "</think><|im_end|>"),
        ] {
            let in_reasoning = cut(name, tokenizer, &format!("{opened}hm"));
            assert!(in_reasoning.starts_with(closed), "{name}: {in_reasoning}");
            let behind_it = cut(name, tokenizer, &format!("{opened}hm</think>yes"));
            assert!(closed.ends_with(behind_it.split_inclusive('>').next().unwrap()), "{name}: {behind_it}");
        }
    }
}
