use crate::formats::chunk::Chunk;
use crate::formats::format::Conversation;
use crate::named::prompt_writer::PromptWriter;
use crate::{Continuation, RenderError};

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
            None => self.tokens_after_stop_token(&conversation, new_from, sampled),
        });
        tokens.map_err(|error| error.of_given_message(written.len(), messages.len()))
    }

    fn tokens_after_stop_token(
        &self,
        conversation: &Conversation<'_>,
        new_from: usize,
        sampled: &[u32],
    ) -> Result<Vec<u32>, RenderError> {
        let last = sampled.last().copied();
        let (is_ended, end) = match self.format.shared_turn_end(conversation, new_from) {
            // Another token that ends a turn is not the role that the next message leaves out.
            Some(end) => (last.is_some() && last == self.tokenizer().token_to_id(end), Chunk::of_format(end)),
            None => (last.is_some_and(|token| self.stop_tokens.contains(&token)), self.format.end_of_turn()),
        };
        let mut tokens = if is_ended { Vec::new() } else { self.encode(&end)? };
        tokens.extend(self.tokens_from(conversation, new_from)?);
        Ok(tokens)
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
                let begun = stop.strip_prefix(&*end_of_turn).unwrap_or_default();
                if new_from == conversation.messages().len() {
                    return refused(format!("the turn before it ends with `{begun}`, but no message follows"));
                }
                let next = self.format.message(conversation, new_from)?;
                if next.header.text() != begun {
                    return refused(format!(
                        "the turn before it ends with `{begun}`, so that this message cannot follow"
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
    use fulgurite_types::Message;

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
}
