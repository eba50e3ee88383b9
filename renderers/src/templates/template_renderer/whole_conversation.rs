//! Sequences to train on of which more is trained than an assistant's own words.

use std::collections::VecDeque;

use fulgurite_types::{Content, Message};
use serde_json::Value;

use super::TemplateRenderer;
use crate::templates::pieces::without_prefix;
use crate::tokenizer::piece::Piece;
use crate::{RenderError, Renderer, TrainOnWhat, WeightedTokens};

/// Pieces that share a weight.
type Run = (f32, Vec<Piece>);

/// Stand around the content of a message while it is looked for.
#[derive(Clone, Copy)]
struct ContentMarks {
    begin: char,
    end: char,
}

/// White space at the beginning and the end of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OuterSpace {
    /// It is content.
    Content,
    /// It is not.
    Outside,
}

impl TemplateRenderer {
    /// One sequence of the whole conversation, for templates that only append: each message is found by what the template
    /// writes more than without it. Of an assistant's message that is trained, what a model would sample is; of another
    /// one its content and the token that ends its turn.
    pub(super) fn whole_conversation(
        &self,
        messages: &[Message],
        tools: &[Value],
        train_on: &TrainOnWhat,
        trained: &[bool],
    ) -> Result<Vec<WeightedTokens>, RenderError> {
        let mut example = WeightedTokens::default();
        let mut done: Vec<Piece> = Vec::new();
        // The first message of which the template has written nothing yet.
        let mut next = 0;
        for message_index in 0..messages.len() {
            let upto = &messages[..=message_index];
            let whole = match self.pieces(upto, tools, false) {
                Ok(whole) => whole,
                // Some templates take no system's message alone.
                Err(_) if message_index + 1 < messages.len() => continue,
                Err(error) => return Err(error),
            };
            let not_append_only = || RenderError::NotAppendOnly { message_index };
            let new = without_prefix(&whole, &done).ok_or_else(not_append_only)?;
            let runs = match train_on.trains_headers() {
                true => vec![(1.0, new)],
                false => self.runs(upto, tools, next, &done, new, trained)?,
            };
            for (weight, pieces) in runs {
                example.extend(&self.tokenizer().encode_pieces(&pieces)?, weight);
            }
            done = whole;
            next = message_index + 1;
        }
        Ok(vec![example])
    }

    /// What the template has written of the messages from `first` on, by what of it is trained.
    fn runs(
        &self,
        messages: &[Message],
        tools: &[Value],
        first: usize,
        done: &[Piece],
        new: Vec<Piece>,
        trained: &[bool],
    ) -> Result<Vec<Run>, RenderError> {
        let message_index = messages.len() - 1;
        let not_append_only = || RenderError::NotAppendOnly { message_index };
        let others = (first..=message_index).filter(|index| !messages[*index].is_assistant());
        let mut runs = Vec::new();
        let mut rest = new;
        if messages[message_index].is_assistant() && trained[message_index] {
            let prompt = self.pieces(&messages[..message_index], tools, true)?;
            let turn = self.sampled_turn(&prompt, messages, tools)?;
            let before = without_prefix(&[prompt, turn.unsampled].concat(), done).ok_or_else(not_append_only)?;
            let behind = without_prefix(&rest, &[before.clone(), turn.sampled.clone()].concat());
            runs.extend([(1.0, turn.sampled), (0.0, behind.ok_or_else(not_append_only)?)]);
            rest = before;
        }
        let is_trained: VecDeque<bool> = others.map(|index| trained[index]).collect();
        let mut all = match is_trained.contains(&true) {
            true => self.content_runs(messages, tools, first, done, &rest, is_trained)?,
            false => vec![(0.0, rest)],
        };
        all.append(&mut runs);
        Ok(all)
    }

    /// `new`, which the template has written from the message `first` on, with the contents that are trained. It is
    /// rendered once more with marks around them, which must change nothing else; or around them without white space,
    /// which some templates take away.
    fn content_runs(
        &self,
        messages: &[Message],
        tools: &[Value],
        first: usize,
        done: &[Piece],
        new: &[Piece],
        is_trained: VecDeque<bool>,
    ) -> Result<Vec<Run>, RenderError> {
        let runs = |space| self.marked_runs(messages, tools, first, done, new, is_trained.clone(), space);
        runs(OuterSpace::Content).or_else(|_| runs(OuterSpace::Outside))
    }

    #[expect(clippy::too_many_arguments, reason = "one step of two attempts")]
    fn marked_runs(
        &self,
        messages: &[Message],
        tools: &[Value],
        first: usize,
        done: &[Piece],
        new: &[Piece],
        is_trained: VecDeque<bool>,
        space: OuterSpace,
    ) -> Result<Vec<Run>, RenderError> {
        let message_index = messages.len() - 1;
        let not_found = || RenderError::Message {
            message_index,
            message: "this model's template does not write its content as it is, so it cannot be trained".to_owned(),
        };
        let spelled = |mark: char| messages.iter().any(|message| format!("{message:?}").contains(mark));
        let mut free = ('\u{100000}'..).filter(|mark| !occurring(new, *mark) && !spelled(*mark));
        let (Some(begin), Some(end)) = (free.next(), free.next()) else { return Err(not_found()) };
        let marks = ContentMarks { begin, end };
        let marked: Vec<Message> = messages
            .iter()
            .enumerate()
            .map(|(index, message)| match index >= first && !message.is_assistant() {
                true => marks.around(message, index, space),
                false => Ok(message.clone()),
            })
            .collect::<Result<_, _>>()?;
        let is_last_assistant = messages.last().is_some_and(Message::is_assistant);
        let pieces = match is_last_assistant {
            true => self.pieces(&marked[..message_index], tools, true)?,
            false => self.pieces(&marked, tools, false)?,
        };
        let pieces = without_prefix(&pieces, done).ok_or_else(not_found)?;
        let runs = self.runs_between(marks, pieces, is_trained).ok_or_else(not_found)?;
        let unmarked: Vec<Piece> = runs.iter().flat_map(|(_, pieces)| pieces.clone()).collect();
        let is_same = without_prefix(new, &unmarked).is_some_and(|rest| rest.is_empty());
        if is_same { Ok(runs) } else { Err(not_found()) }
    }

    /// Pieces with the weights of what their marks stand around, without the marks. `None` unless there are as many marks
    /// as there are in `is_trained`.
    fn runs_between(
        &self,
        marks: ContentMarks,
        pieces: Vec<Piece>,
        mut is_trained: VecDeque<bool>,
    ) -> Option<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        let mut weight = 0.0;
        let mut is_behind = false;
        for piece in pieces {
            let Piece::Text(text) = piece else {
                let ends = matches!(piece, Piece::Control(token) if self.ends_turn(token));
                push(&mut runs, if is_behind && !ends { 0.0 } else { weight }, piece);
                if is_behind {
                    (weight, is_behind) = (0.0, false);
                }
                continue;
            };
            let mut text = &*text;
            while let Some(at) = text.find([marks.begin, marks.end]) {
                let mark = text[at..].chars().next().unwrap_or(marks.end);
                push(&mut runs, if is_behind { 0.0 } else { weight }, Piece::Text(text[..at].to_owned()));
                is_behind = mark != marks.begin;
                if !is_behind {
                    weight = if is_trained.pop_front()? { 1.0 } else { 0.0 };
                }
                text = &text[at + mark.len_utf8()..];
            }
            if !text.is_empty() {
                push(&mut runs, if is_behind { 0.0 } else { weight }, Piece::Text(text.to_owned()));
                if is_behind {
                    (weight, is_behind) = (0.0, false);
                }
            }
        }
        is_trained.is_empty().then_some(runs)
    }
}

impl ContentMarks {
    /// A message with marks around its content.
    fn around(self, message: &Message, message_index: usize, space: OuterSpace) -> Result<Message, RenderError> {
        let Self { begin, end } = self;
        let text = message.plain_text(message_index)?;
        let inner = if space == OuterSpace::Content { &*text } else { text.trim() };
        let (before, after) = text.split_once(inner).unwrap_or_default();
        let content = Content::Text(format!("{before}{begin}{inner}{end}{after}"));
        Ok(Message { content: Some(content), ..message.clone() })
    }
}

/// Whether a character occurs in the text of some pieces.
pub(super) fn occurring(pieces: &[Piece], character: char) -> bool {
    pieces.iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains(character)))
}

fn push(runs: &mut Vec<Run>, weight: f32, piece: Piece) {
    if piece == Piece::Text(String::new()) {
        return;
    }
    match runs.last_mut() {
        Some((last, pieces)) if *last == weight => pieces.push(piece),
        _ => runs.push((weight, vec![piece])),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::renderer;
    use super::*;
    use crate::testing::{family_renderer, supervised, trained_text};
    use crate::{CHATML_TEMPLATE, ChatMlRenderer};

    fn conversation() -> Vec<Message> {
        vec![
            Message::text("system", "be kind"),
            Message::text("user", "one <|im_end|>"),
            Message::text("assistant", "two"),
            Message::text("user", "\nthree"),
            Message::text("assistant", "four"),
        ]
    }

    #[test]
    fn every_way_to_train_is_that_of_chatml_in_chatmls_template() {
        let template = renderer(CHATML_TEMPLATE);
        let named = ChatMlRenderer::new(template.tokenizer().clone()).unwrap();
        for way in [
            TrainOnWhat::AllMessages,
            TrainOnWhat::AllUserAndSystemMessages,
            TrainOnWhat::AllTokens,
            TrainOnWhat::Customized(vec![false, true, false, false, true]),
        ] {
            let ours = supervised(&template, &conversation(), way.clone());
            assert_eq!(trained_text(&template, &ours), trained_text(&named, &supervised(&named, &conversation(), way)));
        }
    }

    #[test]
    fn a_template_that_only_appends_trains_every_message() {
        for (family, expected) in [
            ("qwen2_5", "be kind<|im_end|>one <|im_end|><|im_end|>two<|im_end|>\nthree<|im_end|>four<|im_end|>"),
            ("llama3_1", "be kind<|eot_id|>one <|im_end|><|eot_id|>two<|eot_id|>three<|eot_id|>four<|eot_id|>"),
        ] {
            let renderer = family_renderer(family);
            let messages = conversation();
            let all = supervised(&renderer, &messages, TrainOnWhat::AllMessages);
            assert_eq!(trained_text(&renderer, &all), expected, "{family}");
            let tokens = supervised(&renderer, &messages, TrainOnWhat::AllTokens);
            assert_eq!(tokens.weights, vec![1.0; tokens.tokens.len()]);
        }
    }

    #[test]
    fn a_template_that_rewrites_history_is_refused_with_the_message() {
        let dropping = "\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content if loop.last else 'x') + '<|im_end|>\\n' }}
{%- endfor %}";
        let refused = renderer(dropping).render_supervised(&conversation(), &[], &TrainOnWhat::AllMessages);
        assert!(matches!(refused, Err(RenderError::NotAppendOnly { message_index: 1 })), "{refused:?}");
    }
}
