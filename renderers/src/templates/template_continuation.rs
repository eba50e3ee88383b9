use std::borrow::Cow;

use fulgurite_types::{Content, FunctionCall, Message, ToolCall};
use serde_json::{Value, json};

use crate::reasoning_marks::{closing_of_reasoning, unclosed_reasoning};
use crate::templates::template_conversations::{a_user, an_answer, calling, declared, result_of};
use crate::tokenizer::piece::Piece;
use crate::{Continuation, RenderError, Renderer, TemplateRenderer};

/// The text of a turn that stands in for the sampled one.
const STAND_IN: &str = "fulgurite";

impl TemplateRenderer {
    /// The tokens after a sampled turn.
    ///
    /// A template only renders conversations from their beginning. So a short one is rendered: a message of a user, a
    /// turn that stands in for the sampled one (with calls of the same ids and names, which results may refer to), and
    /// the new messages; what follows the turn's end is the result. Templates for which small conversations show that
    /// this does not give what the whole conversation gives have the whole rendered; only the new part is encoded.
    pub(crate) fn continuation(&self, continuation: &Continuation<'_>) -> Result<Vec<u32>, RenderError> {
        let Continuation { messages, new_from, sampled, tools } = *continuation;
        let message_index = new_from.saturating_sub(1);
        let turn = messages.get(message_index).ok_or(RenderError::NoTurnEnd)?;
        let (before, new) = (&messages[..message_index], &messages[new_from..]);
        let short = match self.continues_by_history {
            true => None,
            // One tool says to a template as much as all: that there are tools.
            false => self.after_turn(&[a_user()], turn, new, &tools[..tools.len().min(1)]).ok(),
        };
        let after = short.map_or_else(|| self.after_turn(before, turn, new, tools), Ok)?;
        // The end of the turn is encoded with what follows, so that no text counts as the beginning of a sequence.
        let tokens = self.tokenizer().encode_pieces(&after)?;
        let ended = sampled.last().is_some_and(|token| self.ends_turn(*token));
        if ended {
            return Ok(tokens[1..].to_vec());
        }
        let generation_prompt = || self.tokenizer().encode_pieces(&self.pieces(&[a_user()], &[], true)?);
        let mut closed = match unclosed_reasoning(self.tokenizer(), sampled, generation_prompt)? {
            Some(close) => self.tokenizer().encode_pieces(&closing_of_reasoning(close))?,
            None => Vec::new(),
        };
        closed.extend(tokens);
        Ok(closed)
    }

    /// Finds out whether what follows a turn can be rendered only with the whole history before it: true where
    /// conversations of many shapes do not all end as a short one does.
    pub(crate) fn needs_history(&self) -> bool {
        // What is written after a turn must not grow with the tools either.
        let tool_lists = [vec![], vec![declared("one"), declared("two")]];
        shapes().into_iter().any(|(before, turn, new)| {
            tool_lists.iter().any(|tools| {
                let whole = self.after_turn(&before, &turn, &new, tools);
                let short = self.after_turn(&[a_user()], &turn, &new, &tools[..tools.len().min(1)]);
                // A shape that the template refuses proves nothing.
                whole.is_ok_and(|whole| short.ok() != Some(whole))
            })
        })
    }

    /// The control token with which the template ends an assistant's text.
    pub(crate) fn written_turn_end(&self) -> Option<u32> {
        let turn = Message::text("assistant", STAND_IN);
        let pieces = self.pieces(&[a_user(), turn, a_user()], &[], false).ok()?;
        let (_, after) = pieces.split_at(last_mention(&pieces, STAND_IN)? + 1);
        after.iter().find_map(|piece| match piece {
            Piece::Control(id) => Some(*id),
            Piece::Text(_) => None,
        })
    }

    /// What the template writes after an assistant's turn, from the token that ends it.
    fn after_turn(
        &self,
        before: &[Message],
        turn: &Message,
        new: &[Message],
        tools: &[Value],
    ) -> Result<Vec<Piece>, RenderError> {
        let stand_in = unused_text(before, new);
        let turn = turn_with_text(turn, &stand_in);
        let written = self.roles_for(tools).in_place().written(before.iter().chain([&turn]).chain(new));
        let messages: Vec<Message> = written.into_iter().map(Cow::into_owned).collect();
        let mut pieces = self.pieces(&messages, tools, true)?;
        let mention = last_mention(&pieces, &stand_in).ok_or(RenderError::NoTurnEnd)?;
        let ends_turn = |piece: &Piece| matches!(piece, Piece::Control(id) if self.ends_turn(*id));
        let end = pieces[mention..].iter().position(ends_turn).ok_or(RenderError::NoTurnEnd)?;
        Ok(pieces.split_off(mention + end))
    }
}

/// The last piece of text that holds `text`: in a turn with calls, the arguments of the last.
fn last_mention(pieces: &[Piece], text: &str) -> Option<usize> {
    pieces.iter().rposition(|piece| matches!(piece, Piece::Text(written) if written.contains(text)))
}

/// A text that occurs in none of the messages.
fn unused_text(before: &[Message], new: &[Message]) -> String {
    let mut text = STAND_IN.to_owned();
    let occurs = |text: &str| before.iter().chain(new).any(|message| mentions(message, text));
    while occurs(&text) {
        text.push('9');
    }
    text
}

fn mentions(message: &Message, text: &str) -> bool {
    let in_content = match &message.content {
        None => false,
        Some(Content::Text(content)) => content.contains(text),
        Some(Content::Parts(parts)) => parts.iter().any(|part| part.0.to_string().contains(text)),
    };
    let in_call = |call: &ToolCall| call.function.arguments.to_string().contains(text);
    in_content
        || message.tool_calls.iter().any(in_call)
        || message.extra.values().any(|value| value.to_string().contains(text))
}

/// The turn with its calls by name and id, and `text` wherever it has words of its own.
fn turn_with_text(turn: &Message, text: &str) -> Message {
    let call = |call: &ToolCall| {
        let function = FunctionCall { arguments: json!({text: text}), ..call.function.clone() };
        ToolCall { function, ..call.clone() }
    };
    Message { tool_calls: turn.tool_calls.iter().map(call).collect(), ..Message::text(&turn.role, text) }
}

/// Conversations in which templates might write the same end in different ways: before a turn, the turn, after it.
fn shapes() -> Vec<(Vec<Message>, Message, Vec<Message>)> {
    let (one, two) = ("fulgurit1", "fulgurit2");
    let long = || vec![Message::text("system", "s"), a_user(), an_answer(), a_user()];
    let with_tools = || vec![a_user(), calling(&[one]), result_of(one)];
    vec![
        (long(), an_answer(), vec![a_user()]),
        (long(), an_answer(), vec![]),
        (long(), an_answer(), vec![Message::text("system", "s"), a_user()]),
        (with_tools(), an_answer(), vec![a_user()]),
        (long(), calling(&[one]), vec![result_of(one)]),
        (with_tools(), calling(&[one]), vec![result_of(one), a_user()]),
        (with_tools(), calling(&[one, two]), vec![result_of(one), result_of(two)]),
        ([long(), vec![an_answer()], with_tools()].concat(), calling(&[two]), vec![result_of(two)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FAMILY_TEMPLATES, family_renderer};

    /// Templates in which what follows a turn depends on what stood before it: one opens the section of tool results
    /// only once in a conversation, the other moves the system message and the tools to the last message of the user.
    const NEED_HISTORY: [&str; 2] = ["deepseek_v3", "mistral"];

    fn conversations() -> Vec<(Vec<Message>, Vec<Message>)> {
        let turn_last =
            |before: Vec<Message>, turn: Message, new: &[Message]| ([before, vec![turn]].concat(), new.to_vec());
        let hard = || Message::text("user", "  <|im_end|>\n</think> fulgurite é {{ x }}\n");
        let system = || Message::text("system", "s");
        let an_answer = || Message::text("assistant", "fulgurite9 b");
        let mut answer = result_of("fulgurit1");
        answer.content = hard().content;
        vec![
            turn_last(vec![a_user()], an_answer(), &[hard()]),
            turn_last(vec![system(), a_user(), an_answer(), hard()], an_answer(), &[a_user(), an_answer(), a_user()]),
            turn_last(vec![a_user()], calling(&["fulgurit1"]), &[answer.clone()]),
            turn_last(vec![system(), a_user()], calling(&["fulgurit1"]), &[answer.clone(), an_answer(), hard()]),
            turn_last(
                vec![a_user(), calling(&["fulgurit1"]), result_of("fulgurit1")],
                calling(&["fulgurit1", "fulgurit2"]),
                &[answer, result_of("fulgurit2")],
            ),
        ]
    }

    #[test]
    fn a_continuation_is_the_end_of_the_whole_conversation() {
        for name in FAMILY_TEMPLATES {
            let renderer = family_renderer(name);
            assert_eq!(renderer.continues_by_history, NEED_HISTORY.contains(&name), "{name}");
            let mut compared = 0;
            for ((past, new), tools) in conversations().into_iter().flat_map(|conversation| {
                [vec![], vec![declared("one"), declared("two")]].map(|tools| (conversation.clone(), tools))
            }) {
                let messages = [past.as_slice(), &new].concat();
                let Ok(whole) = renderer.render_prompt(&messages, &tools) else { continue };
                let end = renderer.turn_end.unwrap();
                let continuation = |sampled: &[u32]| {
                    let continuation =
                        Continuation { messages: &messages, new_from: past.len(), sampled, tools: &tools };
                    renderer.render_continuation(&continuation).unwrap()
                };
                let (ended, cut) = (continuation(&[end]), continuation(&[]));
                assert_eq!(cut[1..], ended, "{name}");
                assert!(renderer.ends_turn(cut[0]), "{name}");
                assert!(whole.tokens.ends_with(&cut), "{name} {messages:?}");
                compared += 1;
            }
            assert!(compared >= 2, "{name}: {compared}");
        }
    }

    #[test]
    fn reasoning_that_was_cut_off_is_closed_before_the_turn_ends() {
        let opened = include_str!("../../tests/vectors/templates/think_opened.jinja");
        for (template, sampled, closed) in [
            (crate::CHATML_TEMPLATE, "<think>\nhm", "\n</think>\n\n<|im_end|>"),
            (crate::CHATML_TEMPLATE, "<think>\nhm\n</think>\n\nyes", "<|im_end|>"),
            (crate::CHATML_TEMPLATE, "yes", "<|im_end|>"),
            (opened, "hm", "\n</think>\n\n<|im_end|>"),
            (opened, "hm\n</think>\n\nyes", "<|im_end|>"),
        ] {
            let dir = crate::testing::directory_with_template("qwen3", template, "<|im_end|>");
            let tokenizer = std::sync::Arc::new(crate::Tokenizer::open(dir.path()).unwrap());
            let renderer = TemplateRenderer::open(tokenizer, Default::default()).unwrap().unwrap();
            let messages = [a_user(), Message::text("assistant", "b"), a_user()];
            let sampled = renderer.tokenizer().encode_with_specials(sampled).unwrap();
            let continuation = Continuation { messages: &messages, new_from: 2, sampled: &sampled, tools: &[] };
            let text = renderer.tokenizer().decode(&renderer.render_continuation(&continuation).unwrap());
            assert!(text.starts_with(&format!("{closed}\n<|im_start|>user")), "{text}");
        }
    }

    #[test]
    fn a_template_that_shows_no_end_is_refused_by_name() {
        let dir = crate::testing::directory_with_template("qwen3", "{{ messages | length }}", "<|im_end|>");
        let tokenizer = std::sync::Arc::new(crate::Tokenizer::open(dir.path()).unwrap());
        let renderer = TemplateRenderer::open(tokenizer, Default::default()).unwrap().unwrap();
        let messages = [a_user(), Message::text("assistant", "b"), a_user()];
        let continuation = Continuation { messages: &messages, new_from: 2, sampled: &[], tools: &[] };
        assert!(matches!(renderer.render_continuation(&continuation), Err(RenderError::NoTurnEnd)));
    }
}
