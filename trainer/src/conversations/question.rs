//! A comparison as a question: which of two answers is better. Its answer is one letter, so that a model needs no new head to
//! give it.

use fulgurite_renderers::WeightedTokens;
use fulgurite_types::Message;
use serde_json::Value;

use super::comparison::{Answers, Comparison, no_difference};
use super::file::RowReader;
use super::rendering::{RenderRefusal, Rendering};
use super::rows::conversation::{Conversation, Marks};
use super::split::sequences::{CutOff, Example, Unusable};
use crate::ConversationForm;

/// What is said when the first of two answers is better.
pub(crate) const FIRST: &str = "A";
/// What is said when the second one is.
pub(crate) const SECOND: &str = "B";
/// What is said when none is; of it the first token is trained, which is neither of the letters.
pub(crate) const TIE: &str = "Tie";

/// The conversation that ends in the question, as tinker-cookbook writes it.
pub(crate) fn question(prompt: &[Message], first: &[Message], second: &[Message]) -> Vec<Message> {
    let mut messages = prompt.to_vec();
    for (heading, answer) in [("A", first), ("B", second)] {
        messages.push(Message::text("system", format!("==== Completion {heading} ====")));
        messages.extend_from_slice(answer);
    }
    messages.push(Message::text("system", "==== Preference ===="));
    messages
}

/// Reads comparisons as questions in both orders, with what is to be answered; its rendering trains those messages that say so.
#[derive(Clone)]
pub(crate) struct QuestionReader(pub(crate) Rendering);

impl RowReader for QuestionReader {
    type Item = Example;
    const WHAT: &'static str = "comparison";

    fn read(&self, json: &[u8]) -> Result<Example, RenderRefusal> {
        let comparison = Comparison::read(json, &self.0.form, false).map_err(RenderRefusal::Wrong)?;
        let both_ways = match &comparison.answers {
            Answers::Pair { chosen, rejected } if chosen == rejected => return Err(no_difference()),
            Answers::Pair { chosen, rejected } => [(chosen, rejected, FIRST), (rejected, chosen, SECOND)],
            Answers::Tie { first, second } => [(first, second, TIE), (second, first, TIE)],
            Answers::Good(_) | Answers::Bad(_) => {
                return Err(RenderRefusal::Wrong("has one answer, and nothing to compare it with".to_owned()));
            }
        };
        let sequences = both_ways
            .into_iter()
            .map(|(first, second, label)| {
                let mut messages = question(&comparison.prompt, first, second);
                messages.push(Message::text("assistant", label));
                self.labelled(messages, comparison.tools.clone())
            })
            .collect::<Result<_, _>>()?;
        Ok(Example { sequences, ..Example::default() })
    }

    /// In the answers that are compared, which stand before the trained letter: in one order, as both have the same.
    fn marks_as_text(&self, example: &Example) -> u64 {
        let tokenizer = self.0.renderer.tokenizer();
        example.sequences.first().map_or(0, |sequence| tokenizer.spelled_control_tokens(&sequence.tokens) as u64)
    }

    fn found_form(&self) -> Option<ConversationForm> {
        self.0.form.found()
    }

    fn cut(&self) -> CutOff {
        self.0.cut.so_far()
    }
}

impl QuestionReader {
    /// A conversation of which the first token of the last message is trained: the letter, and not the end of the turn.
    fn labelled(&self, messages: Vec<Message>, tools: Vec<Value>) -> Result<WeightedTokens, RenderRefusal> {
        let mut conversation = Conversation::of(messages, tools).map_err(RenderRefusal::Wrong)?;
        if let Some(index) = conversation.marks.iter().position(|marks| *marks != Marks::default()) {
            let words = format!("message {index} says what it counts, and of a comparison the label is trained");
            return Err(RenderRefusal::Wrong(words));
        }
        let last = conversation.marks.len().saturating_sub(1);
        for (index, marks) in conversation.marks.iter_mut().enumerate() {
            marks.trainable = Some(index == last);
        }
        let mut sequences = self.0.sequences(&conversation)?;
        let Some(mut sequence) = sequences.pop() else {
            let message = "is written as nothing".to_owned();
            return Err(RenderRefusal::Unusable(Unusable::NothingToTrain, message));
        };
        let letter = sequence.weights.iter().position(|weight| *weight > 0.0).unwrap_or_default();
        sequence.tokens.truncate(letter + 1);
        sequence.weights.truncate(letter + 1);
        Ok(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainOn;

    #[test]
    fn both_orders_are_asked_and_the_letter_alone_is_trained() {
        let directory = tempfile::tempdir().unwrap();
        let json = fulgurite_renderers::train_byte_level_tokenizer(["a b"; 2], 280, &[]).unwrap();
        fulgurite_renderers::write_tokenizer_directory(directory.path(), &json).unwrap();
        let renderer = fulgurite_renderers::open_renderer(directory.path(), "qwen3_instruct").unwrap();
        let rendering = Rendering {
            form: ConversationForm::default().into(),
            renderer: renderer.clone(),
            train_on: TrainOn::Customized,
            max_tokens: None,
            truncate: Default::default(),
            cut: Default::default(),
            reasoning: Default::default(),
        };
        let row = br#"{"prompt": "which?", "chosen": "good", "rejected": "bad"}"#;
        let reader = QuestionReader(rendering);
        let parts_of = |sequence: &WeightedTokens| {
            let text = |trained: bool| {
                let tokens = sequence.tokens.iter().zip(&sequence.weights);
                let tokens: Vec<u32> =
                    tokens.filter(|(_, weight)| (**weight > 0.0) == trained).map(|(token, _)| *token).collect();
                renderer.tokenizer().decode(&tokens)
            };
            (text(false), text(true))
        };
        let parts: Vec<(String, String)> = reader.read(row).unwrap().sequences.iter().map(parts_of).collect();
        assert_eq!((parts[0].1.as_str(), parts[1].1.as_str()), ("A", "B"));
        let place = |text: &str, word: &str| text.find(word).unwrap();
        assert!(place(&parts[0].0, "good") < place(&parts[0].0, "bad"));
        assert!(place(&parts[1].0, "bad") < place(&parts[1].0, "good"));
        let tie = br#"{"prompt": "which?", "completion_A": "good", "completion_B": "bad", "label": "Tie"}"#;
        // In a file of its own.
        let others = QuestionReader(Rendering { form: Default::default(), ..reader.0.clone() });
        let tie: Vec<(String, String)> = others.read(tie).unwrap().sequences.iter().map(parts_of).collect();
        // Of this tokenizer the first token is a letter of its own.
        let questions =
            |parts: &[(String, String)]| parts.iter().map(|(question, _)| question.clone()).collect::<Vec<_>>();
        assert_eq!((questions(&tie), [&tie[0].1, &tie[1].1]), (questions(&parts), [&"T".to_owned(), &"T".to_owned()]));
        // Answers that spell a control token are counted, once for both orders.
        let spelled = br#"{"prompt": "which?", "chosen": "good <|im_end|>", "rejected": "bad"}"#;
        let marks = |row: &[u8]| reader.marks_as_text(&reader.read(row).unwrap());
        assert_eq!((marks(row), marks(spelled)), (0, 1));
        // What is asked when a pair is judged is what was trained.
        let (prompt, good, bad) =
            (Message::text("user", "which?"), Message::text("assistant", "good"), Message::text("assistant", "bad"));
        let rendered = renderer.render_prompt(&question(&[prompt], &[good], &[bad]), &[]).unwrap();
        assert_eq!(renderer.tokenizer().decode(&rendered.tokens), parts[0].0);
    }
}
