//! Conversations as sequences of tokens with weights.

use std::sync::Arc;

use fulgurite_renderers::{RenderError, Renderer, Tokenizer, TrainOnWhat, WeightedTokens};

use super::reasoning::{Reasoning, leaves_nothing};
use super::rows::conversation::{Conversation, Marks};
use super::rows::row_form::RowForm;
use super::split::sequences::{CutCount, Unusable};
use crate::{TrainOn, Truncation};

/// How conversations are made sequences.
#[derive(Clone)]
pub(crate) struct Rendering {
    /// How their rows are written.
    pub(crate) form: RowForm,
    pub(crate) renderer: Arc<dyn Renderer>,
    pub(crate) train_on: TrainOn,
    /// Tokens of a sequence at most.
    pub(crate) max_tokens: Option<usize>,
    /// What becomes of what is longer.
    pub(crate) truncate: Truncation,
    /// What was cut off so far.
    pub(crate) cut: CutCount,
    pub(crate) reasoning: Reasoning,
}

/// Why a conversation is not made sequences.
#[derive(Debug, PartialEq)]
pub(crate) enum RenderRefusal {
    /// The row is wrong.
    Wrong(String),
    /// The row is right, and cannot be trained.
    Unusable(Unusable, String),
}

impl From<RenderError> for RenderRefusal {
    fn from(error: RenderError) -> Self {
        let cause = match error {
            RenderError::NothingToTrain => Unusable::NothingToTrain,
            _ => Unusable::NotRenderable,
        };
        Self::Unusable(cause, error.to_string())
    }
}

impl Rendering {
    /// Control tokens that trained words spell as text, as `<think>` in the middle of an answer does.
    pub(crate) fn marks_as_text(&self, sequences: &[WeightedTokens]) -> u64 {
        marks_as_text(self.renderer.tokenizer(), sequences)
    }

    /// Marks the assistant's messages of a prompt as read, where the completion behind it is what is trained.
    pub(super) fn leave_out_prompt(&self, conversation: &mut Conversation) {
        if self.train_on != TrainOn::AllAssistantMessages {
            return;
        }
        let prompt = conversation.messages.iter().zip(&mut conversation.marks).take(conversation.prompt_length);
        for (_, marks) in prompt.filter(|(message, _)| message.is_assistant()) {
            marks.weight = Some(0.0);
        }
    }

    /// The sequences of a conversation. The weight of a token is 1, or its message's, where it is trained, and else 0.
    pub(crate) fn sequences(&self, conversation: &Conversation) -> Result<Vec<WeightedTokens>, RenderRefusal> {
        if !conversation.tools.is_empty() && !self.renderer.shows_tools() {
            let message = "declares tools, which this model's template does not show: tools = \"preamble\" of [[models]] \
                           tells of them in words";
            return Err(RenderRefusal::Unusable(Unusable::NotRenderable, message.to_owned()));
        }
        let divided = self.reasoning.divided(self.renderer.as_ref(), &conversation.messages);
        if divided.as_ref().is_some_and(|messages| leaves_nothing(&conversation.messages, messages)) {
            let message =
                "has an answer that is nothing but reasoning, which reasoning = \"drop\" leaves out".to_owned();
            return Err(RenderRefusal::Unusable(Unusable::NothingToTrain, message));
        }
        let divided = divided.map(|messages| Conversation { messages, ..conversation.clone() });
        let conversation = divided.as_ref().unwrap_or(conversation);
        let mut sequences = match self.marked(conversation)? {
            Training::AsNamed(train_on) => {
                self.renderer.render_supervised(&conversation.messages, &conversation.tools, &train_on)?
            }
            Training::ByWeight(weights) => self.weighted(conversation, &weights)?,
        };
        if !self.reasoning.keep_trained(self.renderer.as_ref(), &mut sequences) {
            let message = "has reasoning that cannot be told from the answer: this model's template has no token that ends \
                           it, as reasoning = \"only\" needs";
            return Err(RenderRefusal::Wrong(message.to_owned()));
        }
        trainable(sequences, self.max_tokens, self.truncate, &self.cut)
    }

    /// What of a conversation is trained, its own marks among it.
    fn marked(&self, conversation: &Conversation) -> Result<Training, RenderRefusal> {
        let wrong = |index: usize, words: &str| Err(RenderRefusal::Wrong(format!("message {index} {words}")));
        let Conversation { messages, marks, .. } = conversation;
        let is_customized = self.train_on == TrainOn::Customized;
        if let Some(index) = marks.iter().position(|marks| marks.trainable.is_some() != is_customized) {
            return match is_customized {
                true => wrong(index, "does not say `trainable`, as train_on = \"customized\" wants of every one"),
                false => wrong(index, "says `trainable`, which is for train_on = \"customized\""),
            };
        }
        let train_on = train_on_what(self.train_on, marks);
        if marks.iter().all(|marks| marks.weight.is_none()) {
            return Ok(Training::AsNamed(train_on));
        }
        if self.train_on == TrainOn::AllTokens {
            let index = marks.iter().position(|marks| marks.weight.is_some()).unwrap_or_default();
            return wrong(index, "has a weight, and train_on = \"all_tokens\" trains more than messages");
        }
        let trained = train_on.trained_messages(messages)?;
        for (index, marks) in marks.iter().enumerate() {
            let of_assistant = !matches!(
                self.train_on,
                TrainOn::AllMessages | TrainOn::AllUserAndSystemMessages | TrainOn::Customized
            );
            // An earlier answer may have one for other ways to train; a message that no such way trains may not.
            let is_weighted =
                trained[index] || marks.weight == Some(0.0) || of_assistant && messages[index].is_assistant();
            if marks.weight.is_some() && !is_weighted {
                let words = format!("has a weight, and train_on = \"{}\" does not train it", self.train_on.as_str());
                return wrong(index, &words);
            }
        }
        let weight = |(trained, marks): (bool, &Marks)| if trained { marks.weight.unwrap_or(1.0) } else { 0.0 };
        Ok(Training::ByWeight(trained.into_iter().zip(marks).map(weight).collect()))
    }

    /// Sequences in which each message has its weight. Those of one weight are told from the others by rendering them
    /// alone: each of their sequences begins one of all messages, and trains what they train of it.
    fn weighted(&self, conversation: &Conversation, weights: &[f32]) -> Result<Vec<WeightedTokens>, RenderRefusal> {
        let Conversation { messages, tools, .. } = conversation;
        let rendered = |is_marked: &dyn Fn(f32) -> bool| {
            let marks = weights.iter().map(|weight| is_marked(*weight)).collect();
            self.renderer.render_supervised(messages, tools, &TrainOnWhat::Customized(marks))
        };
        let mut all = rendered(&|weight| weight > 0.0)?;
        let mut values: Vec<f32> = weights.iter().copied().filter(|weight| *weight > 0.0 && *weight != 1.0).collect();
        values.sort_by(f32::total_cmp);
        values.dedup();
        for value in values {
            for part in rendered(&|weight| weight == value)? {
                let positions: Vec<usize> =
                    (0..part.weights.len()).filter(|place| part.weights[*place] > 0.0).collect();
                let whole = all.iter_mut().find(|whole| {
                    let trains = |place: &usize| whole.weights.get(*place).is_some_and(|weight| *weight > 0.0);
                    let length = part.tokens.len().min(whole.tokens.len());
                    whole.tokens[..length] == part.tokens[..length] && positions.iter().all(trains)
                });
                let Some(whole) = whole else {
                    let message = "messages of different weights cannot be told apart in this model's format";
                    return Err(RenderRefusal::Unusable(Unusable::NotRenderable, message.to_owned()));
                };
                positions.into_iter().for_each(|place| whole.weights[place] = value);
            }
        }
        Ok(all)
    }
}

/// Control tokens that the trained words of sequences spell as text.
pub(super) fn marks_as_text(tokenizer: &Tokenizer, sequences: &[WeightedTokens]) -> u64 {
    let trained = sequences.iter().flat_map(WeightedTokens::runs).filter(|(weight, _)| *weight > 0.0);
    trained.map(|(_, run)| tokenizer.spelled_control_tokens(run) as u64).sum()
}

/// Sequences of which something is trained, each of so many tokens at most.
pub(super) fn trainable(
    mut sequences: Vec<WeightedTokens>,
    most: Option<usize>,
    truncate: Truncation,
    cut: &CutCount,
) -> Result<Vec<WeightedTokens>, RenderRefusal> {
    if let Some(most) = most {
        for sequence in &mut sequences {
            let kept = keep_within_length(sequence, most, truncate, cut);
            kept.map_err(|(cause, message)| RenderRefusal::Unusable(cause, message))?;
        }
    }
    let is_trained = |sequence: &WeightedTokens| sequence.weights.iter().skip(1).any(|weight| *weight > 0.0);
    match sequences.iter().any(is_trained) {
        true => Ok(sequences),
        false => Err(RenderRefusal::from(RenderError::NothingToTrain)),
    }
}

/// Cuts a sequence that is too long, and counts what it loses; or says that it is.
pub(super) fn keep_within_length(
    sequence: &mut WeightedTokens,
    most: usize,
    truncate: Truncation,
    cut: &CutCount,
) -> Result<(), (Unusable, String)> {
    let length = sequence.tokens.len();
    if length <= most {
        return Ok(());
    }
    match truncate {
        Truncation::Refuse => {
            let message = format!("has a sequence of {length} tokens, and {most} is the most that is trained");
            return Err((Unusable::TooLong, message));
        }
        Truncation::Right => {
            sequence.tokens.truncate(most);
            sequence.weights.truncate(most);
        }
        Truncation::Left => {
            sequence.tokens.drain(..length - most);
            sequence.weights.drain(..length - most);
        }
    }
    cut.add(length - most);
    Ok(())
}

/// What of a conversation is trained.
enum Training {
    /// As the renderer knows it.
    AsNamed(TrainOnWhat),
    /// Each message by its weight; 0 is not trained.
    ByWeight(Vec<f32>),
}

fn train_on_what(train_on: TrainOn, marks: &[Marks]) -> TrainOnWhat {
    match train_on {
        TrainOn::LastAssistantMessage => TrainOnWhat::LastAssistantMessage,
        TrainOn::LastAssistantTurn => TrainOnWhat::LastAssistantTurn,
        TrainOn::AllAssistantMessages => TrainOnWhat::AllAssistantMessages,
        TrainOn::AllMessages => TrainOnWhat::AllMessages,
        TrainOn::AllTokens => TrainOnWhat::AllTokens,
        TrainOn::AllUserAndSystemMessages => TrainOnWhat::AllUserAndSystemMessages,
        TrainOn::Customized => {
            TrainOnWhat::Customized(marks.iter().map(|marks| marks.trainable == Some(true)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rendering(directory: &std::path::Path, train_on: TrainOn) -> Rendering {
        let texts = ["be kind one two three four"; 2];
        let tokenizer = fulgurite_renderers::train_byte_level_tokenizer(texts, 280, &[]).unwrap();
        fulgurite_renderers::write_tokenizer_directory(directory, &tokenizer).unwrap();
        let renderer = fulgurite_renderers::open_renderer(directory, "qwen3_instruct").unwrap();
        Rendering {
            form: RowForm::default(),
            renderer,
            train_on,
            max_tokens: None,
            truncate: Truncation::default(),
            cut: CutCount::default(),
            reasoning: Reasoning::default(),
        }
    }

    fn conversation(mark: impl Fn(usize) -> Value) -> Conversation {
        let turns =
            [("system", "be kind"), ("user", "one"), ("assistant", "two"), ("user", "three"), ("assistant", "four")];
        let messages: Vec<Value> = turns
            .iter()
            .enumerate()
            .map(|(index, (role, text))| {
                let mut message = json!({ "role": role, "content": text });
                if let (Some(message), Value::Object(marks)) = (message.as_object_mut(), mark(index)) {
                    message.extend(marks);
                }
                message
            })
            .collect();
        Conversation::read(json!({ "messages": messages }).to_string().as_bytes()).unwrap()
    }

    /// The text of the tokens that have each weight but 0, with that weight.
    fn trained(rendering: &Rendering, conversation: &Conversation) -> Result<Vec<(f32, String)>, RenderRefusal> {
        let sequences = rendering.sequences(conversation)?;
        let runs = sequences.iter().flat_map(WeightedTokens::runs).filter(|(weight, _)| *weight > 0.0);
        Ok(runs.map(|(weight, tokens)| (weight, rendering.renderer.tokenizer().decode(tokens))).collect())
    }

    #[test]
    fn each_way_trains_the_messages_that_it_names() {
        let directory = tempfile::tempdir().unwrap();
        let ways: [(TrainOn, &[&str], &[&str]); 7] = [
            (TrainOn::LastAssistantMessage, &["four"], &["two", "three"]),
            (TrainOn::LastAssistantTurn, &["four"], &["two", "three"]),
            (TrainOn::AllAssistantMessages, &["two", "four"], &["one", "three", "user"]),
            (TrainOn::AllMessages, &["be kind", "one", "two", "three", "four"], &["user", "assistant"]),
            (TrainOn::AllTokens, &["be kind", "user", "one", "assistant", "four"], &[]),
            (TrainOn::AllUserAndSystemMessages, &["be kind", "one", "three"], &["two", "four"]),
            (TrainOn::Customized, &["one", "four"], &["two", "three"]),
        ];
        for (train_on, are, are_not) in ways {
            let mark = |index: usize| match train_on {
                TrainOn::Customized => json!({ "trainable": matches!(index, 1 | 4) }),
                _ => Value::Null,
            };
            let parts = trained(&rendering(directory.path(), train_on), &conversation(mark)).unwrap();
            let text: String = parts.iter().map(|(_, text)| text.as_str()).collect();
            assert!(are.iter().all(|part| text.contains(part)), "{train_on:?}: {text}");
            assert!(!are_not.iter().any(|part| text.contains(part)), "{train_on:?}: {text}");
            assert!(parts.iter().all(|(weight, _)| *weight == 1.0));
        }
    }

    #[test]
    fn a_weight_is_its_messages_and_nobody_elses() {
        let directory = tempfile::tempdir().unwrap();
        let rendering = rendering(directory.path(), TrainOn::AllAssistantMessages);
        let weighted = |weights: [Value; 2]| {
            let mark = |index: usize| match index {
                2 => json!({ "weight": weights[0] }),
                4 => json!({ "weight": weights[1] }),
                _ => Value::Null,
            };
            trained(&rendering, &conversation(mark))
        };
        let end = "<|im_end|>";
        let both = weighted([json!(0.5), json!(2)]).unwrap();
        assert_eq!(both, [(0.5, format!("two{end}")), (2.0, format!("four{end}"))]);
        assert_eq!(weighted([json!(0), json!(1)]).unwrap(), [(1.0, format!("four{end}"))]);
        let nothing = weighted([json!(0), json!(0)]).unwrap_err();
        assert!(matches!(nothing, RenderRefusal::Unusable(Unusable::NothingToTrain, _)), "{nothing:?}");
    }

    #[test]
    fn a_long_sequence_loses_its_end_or_its_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let whole = rendering(directory.path(), TrainOn::AllAssistantMessages);
        let all = whole.sequences(&conversation(|_| Value::Null)).unwrap().remove(0);
        let most = all.tokens.len() - 3;
        let cut = |truncate| Rendering { max_tokens: Some(most), truncate, cut: CutCount::default(), ..whole.clone() };
        let (right, left) = (cut(Truncation::Right), cut(Truncation::Left));
        let of = |rendering: &Rendering| rendering.sequences(&conversation(|_| Value::Null)).unwrap().remove(0);
        assert_eq!(
            (of(&right).tokens, of(&right).weights),
            (all.tokens[..most].to_vec(), all.weights[..most].to_vec())
        );
        assert_eq!((of(&left).tokens, of(&left).weights), (all.tokens[3..].to_vec(), all.weights[3..].to_vec()));
        assert_eq!((left.cut.so_far().sequences, left.cut.so_far().tokens), (2, 6));
        let refused = cut(Truncation::Refuse).sequences(&conversation(|_| Value::Null)).unwrap_err();
        assert!(matches!(refused, RenderRefusal::Unusable(Unusable::TooLong, _)), "{refused:?}");
    }

    #[test]
    fn marks_that_mean_nothing_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |train_on, marked: usize, mark: Value| {
            let of = |index: usize| if index == marked { mark.clone() } else { Value::Null };
            match rendering(directory.path(), train_on).sequences(&conversation(of)) {
                Err(RenderRefusal::Wrong(message)) => message,
                other => panic!("{other:?}"),
            }
        };
        let assistant = TrainOn::AllAssistantMessages;
        assert!(refused(assistant, 1, json!({ "weight": 1 })).starts_with("message 1 has a weight, and train_on"));
        assert!(refused(assistant, 2, json!({ "trainable": true })).starts_with("message 2 says `trainable`"));
        assert!(refused(TrainOn::Customized, 2, json!({ "trainable": true })).starts_with("message 0 does not say"));
        assert!(refused(TrainOn::AllTokens, 2, json!({ "weight": 1 })).contains("trains more than messages"));
    }
}
