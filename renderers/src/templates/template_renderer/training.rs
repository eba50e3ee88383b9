//! Sequences to train on, as a model's own template writes them.

use fulgurite_types::Message;
use serde_json::Value;

use super::TemplateRenderer;
use super::whole_conversation::occurring;
use crate::supervised::train_on_what::sampled_messages;
use crate::templates::pieces::{split_at_last, without_prefix};
use crate::templates::template_conversations::a_user;
use crate::tokenizer::piece::Piece;
use crate::{RenderError, Renderer, TrainOnWhat, WeightedTokens};

/// A turn in a training sequence.
pub(crate) struct SampledTurn {
    /// What stands before the words to be trained and is no part of the prompt.
    pub(crate) unsampled: Vec<Piece>,
    /// The words to be trained, with the end of the turn.
    pub(crate) sampled: Vec<Piece>,
}

impl TemplateRenderer {
    /// Each trained message is cut where its prompt ends and where its turn does, and the parts are encoded apart, as
    /// they are when the model is prompted and samples. A template that rewrites earlier turns makes several sequences.
    pub(super) fn training_sequences(
        &self,
        messages: &[Message],
        tools: &[Value],
        train_on: &TrainOnWhat,
    ) -> Result<Vec<WeightedTokens>, RenderError> {
        let marked = train_on.trained_messages(messages)?;
        let Some(trained) = sampled_messages(messages, &marked).filter(|_| !train_on.trains_headers()) else {
            return self.whole_conversation(messages, tools, train_on, &marked);
        };
        let mut examples: Vec<WeightedTokens> = Vec::new();
        // What the last of them holds.
        let mut done: Vec<Piece> = Vec::new();
        for message_index in trained {
            let prompt = match message_index {
                0 => self.prompt_of_nothing(&messages[..1], tools)?,
                _ => self.pieces(&messages[..message_index], tools, true)?,
            };
            let turn = self.sampled_turn(&prompt, &messages[..=message_index], tools)?;
            let before = [prompt, turn.unsampled].concat();
            let extended = without_prefix(&before, &done).and_then(|new| Some((examples.pop()?, new)));
            let (mut example, new) = extended.unwrap_or_else(|| (WeightedTokens::default(), before.clone()));
            example.extend(&self.tokenizer().encode_pieces(&new)?, 0.0);
            example.extend(&self.tokenizer().encode_pieces(&turn.sampled)?, 1.0);
            examples.push(example);
            done = [before, turn.sampled].concat();
        }
        Ok(examples)
    }

    /// The prompt that a conversation's first message answers where that is the assistant's. Many templates refuse a
    /// conversation without messages; what they write before the turn is the same.
    fn prompt_of_nothing(&self, first: &[Message], tools: &[Value]) -> Result<Vec<Piece>, RenderError> {
        self.pieces(&[], tools, true).or_else(|error| {
            let (without_generation, prompt) =
                (self.pieces(&[a_user()], tools, false)?, self.pieces(&[a_user()], tools, true)?);
            let Some(generation) = without_prefix(&prompt, &without_generation) else { return Err(error) };
            let whole = self.pieces(first, tools, false)?;
            let begins = |from: &usize| without_prefix(&whole[*from..], &generation).is_some();
            let from = (0..whole.len()).find(begins).ok_or(error)?;
            Ok([&whole[..from], &generation].concat())
        })
    }

    /// The last message of `messages` as it is trained: what a model would sample after `prompt`, up to the end of the
    /// turn, or where the template says itself what an assistant's own words are, those.
    pub(crate) fn sampled_turn(
        &self,
        prompt: &[Piece],
        messages: &[Message],
        tools: &[Value],
    ) -> Result<SampledTurn, RenderError> {
        let message_index = messages.len() - 1;
        let not_append_only = RenderError::NotAppendOnly { message_index };
        let whole = self.pieces(messages, tools, false)?;
        if let Some(marked) = self.marked_words(&whole, messages, tools)? {
            if let Some(unsampled) = without_prefix(&marked.unsampled, prompt) {
                return Ok(SampledTurn { unsampled, sampled: marked.sampled });
            }
            // The prompt ends within the words: it makes the model begin with some of them.
            let sampled =
                without_prefix(&[marked.unsampled, marked.sampled].concat(), prompt).ok_or(not_append_only)?;
            return Ok(SampledTurn { unsampled: Vec::new(), sampled });
        }
        let mut sampled = without_prefix(&whole, prompt).ok_or(not_append_only)?;
        let ends_turn = |piece: &Piece| matches!(piece, Piece::Control(id) if self.ends_turn(*id));
        let end = sampled.iter().rposition(ends_turn).ok_or(RenderError::NoStop { message_index })?;
        sampled.truncate(end + 1);
        Ok(SampledTurn { unsampled: Vec::new(), sampled })
    }

    /// The last words that the template marks by `{% generation %}`, and all that stands before them.
    fn marked_words(
        &self,
        whole: &[Piece],
        messages: &[Message],
        tools: &[Value],
    ) -> Result<Option<SampledTurn>, RenderError> {
        if !self.template_for(tools).marks_generation() {
            return Ok(None);
        }
        let mut marks = ('\u{100000}'..).filter(|mark| !occurring(whole, *mark));
        let (Some(begin), Some(end)) = (marks.next(), marks.next()) else { return Ok(None) };
        let marks = format!("{begin}{end}");
        let marked = self.rendered(messages, tools, false, Some(&marks))?.pieces(self.tokenizer());
        let Some((head, rest)) = split_at_last(marked, begin) else { return Ok(None) };
        let Some((sampled, _)) = split_at_last(rest, end) else { return Ok(None) };
        let unmarked = |piece| match piece {
            Piece::Text(text) => Piece::Text(text.replace([begin, end], "")),
            control => control,
        };
        Ok(Some(SampledTurn { unsampled: head.into_iter().map(unmarked).collect(), sampled }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{THINKING_TEMPLATE, prompt, renderer};
    use super::*;
    use crate::CHATML_TEMPLATE;
    use crate::testing::{supervised, trained_text};

    #[test]
    fn supervised_tokens_train_what_the_model_would_sample() {
        let renderer = renderer(CHATML_TEMPLATE);
        let messages = [
            Message::text("user", "a?"),
            Message::text("assistant", "\nb."),
            Message::text("user", "c?"),
            Message::text("assistant", "d <|im_end|>."),
            Message::text("user", "e?"),
        ];
        let all = supervised(&renderer, &messages, TrainOnWhat::AllAssistantMessages);
        assert_eq!(trained_text(&renderer, &all), "\nb.<|im_end|>d <|im_end|>.<|im_end|>");
        let last = supervised(&renderer, &messages, TrainOnWhat::LastAssistantMessage);
        assert_eq!(trained_text(&renderer, &last), "d <|im_end|>.<|im_end|>");
        let first = prompt(&renderer, &messages[..1]);
        assert_eq!(all.tokens[..first.len()], first);
        assert_eq!(all.weights[..=first.len()], [vec![0.0; first.len()], vec![1.0]].concat());
        assert!(renderer.tokenizer().decode(&all.tokens).ends_with("d <|im_end|>.<|im_end|>"));
        assert!(last.tokens.starts_with(&prompt(&renderer, &messages[..3])[..3]));
    }

    #[test]
    fn a_conversation_may_begin_with_the_assistant() {
        let reads_first = "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}".to_owned();
        let renderer = renderer(&(reads_first + CHATML_TEMPLATE));
        let messages =
            [Message::text("assistant", "Hello."), Message::text("user", "a?"), Message::text("assistant", "b.")];
        assert!(renderer.render_prompt(&[], &[]).is_err());
        let all = supervised(&renderer, &messages, TrainOnWhat::AllAssistantMessages);
        assert_eq!(trained_text(&renderer, &all), "Hello.<|im_end|>b.<|im_end|>");
        let text = "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\na?<|im_end|>\n<|im_start|>assistant\nb.<|im_end|>";
        assert_eq!(renderer.tokenizer().decode(&all.tokens), text);
        let cold = prompt(&renderer, &messages[..2]);
        assert_eq!(all.tokens[..cold.len()], cold);
    }

    #[test]
    fn a_template_that_rewrites_history_trains_each_message_where_it_is_sampled() {
        let renderer = renderer(THINKING_TEMPLATE);
        let messages = [
            Message::text("user", "a?"),
            Message::text("assistant", "<think>x</think>b"),
            Message::text("user", "c?"),
            Message::text("assistant", "<think>y</think>d"),
        ];
        let last = supervised(&renderer, &messages, TrainOnWhat::LastAssistantMessage);
        assert_eq!(trained_text(&renderer, &last), "<think>y</think>d<|im_end|>");
        let all = renderer.render_supervised(&messages, &[], &TrainOnWhat::AllAssistantMessages).unwrap();
        let trained: Vec<String> = all.iter().map(|example| trained_text(&renderer, example)).collect();
        assert_eq!(trained, ["<think>x</think>b<|im_end|>", "<think>y</think>d<|im_end|>"]);
        assert_eq!(all[1], last);
        // Both answers have the marks as tokens, as they are sampled.
        let real = |text: &str| renderer.tokenizer().encode_with_specials(text).unwrap();
        for (example, answer) in all.iter().zip(["<think>x</think>b<|im_end|>", "<think>y</think>d<|im_end|>"]) {
            let run: Vec<u32> =
                example.runs().filter(|(weight, _)| *weight > 0.0).flat_map(|(_, run)| run.to_vec()).collect();
            assert_eq!(run, real(answer));
        }
        let unclosed = renderer_without_stop();
        assert!(matches!(
            unclosed.render_supervised(&messages[..2], &[], &TrainOnWhat::AllAssistantMessages),
            Err(RenderError::NoStop { message_index: 1 })
        ));
    }

    #[test]
    fn a_template_may_say_itself_what_an_assistants_words_are() {
        let marking = "\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{- message.content + '<|im_end|>\\n' }}{%- endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";
        let messages = [
            Message::text("user", "a?"),
            Message::text("assistant", "b<|im_end|>\u{100000}"),
            Message::text("user", "c?"),
            Message::text("assistant", "d"),
        ];
        let all = supervised(&renderer(marking), &messages, TrainOnWhat::AllAssistantMessages);
        let trained = "b<|im_end|>\u{100000}<|im_end|>\nd<|im_end|>\n";
        assert_eq!(trained_text(&renderer(marking), &all), trained);
        assert_eq!(renderer(CHATML_TEMPLATE).tokenizer().decode(&all.tokens), {
            let whole = supervised(&renderer(CHATML_TEMPLATE), &messages, TrainOnWhat::AllAssistantMessages);
            renderer(CHATML_TEMPLATE).tokenizer().decode(&whole.tokens) + "\n"
        });
        // A prompt that makes the model begin is not trained; neither is what stands before the words.
        let opened = marking.replace("assistant\\n' }}{%- endif", "assistant\\nd' }}{%- endif");
        let last = supervised(&renderer(&opened), &messages, TrainOnWhat::LastAssistantMessage);
        assert_eq!(trained_text(&renderer(&opened), &last), "<|im_end|>\n");
        let headed = marking.replace("{%- generation %}", "{{- '>' }}{%- generation %}");
        let last = supervised(&renderer(&headed), &messages, TrainOnWhat::LastAssistantMessage);
        assert_eq!(trained_text(&renderer(&headed), &last), "d<|im_end|>\n");
    }

    fn renderer_without_stop() -> TemplateRenderer {
        renderer(
            "{% for message in messages %}{{ message.role + ': ' + message.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}",
        )
    }

    #[test]
    fn a_generation_prompt_that_is_not_in_the_history_is_named() {
        let template = CHATML_TEMPLATE.replace("assistant\\n' }}", "assistant\\n<think>\\n' }}");
        let messages = [Message::text("user", "a?"), Message::text("assistant", "b")];
        let error = renderer(&template).render_supervised(&messages, &[], &TrainOnWhat::AllAssistantMessages);
        assert!(matches!(error, Err(RenderError::NotAppendOnly { message_index: 1 })));
    }
}
