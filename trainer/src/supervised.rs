use std::sync::Arc;

use fulgurite_backends::{
    AdamParameters, Datum, Learner, LossFunction, LossInputs, Notation, derive_seed, plain_words,
};
use fulgurite_renderers::{Message, Renderer, TrainOnWhat, WeightedTokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::task_order::tasks_at;
use crate::{Reporter, TrainError, TrainEvent};

/// How a base model is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SupervisedOptions {
    /// Conversations per step.
    pub batch_size: usize,
    /// Adam's step size between warm-up and cool-down.
    pub learning_rate: f64,
    /// Steps over which the step size grows from 0.
    pub warmup_steps: u64,
    /// Last steps, over which it falls to 0 again.
    pub cooldown_steps: u64,
    /// Greatest norm of the gradient of the mean loss; 0 does not clip.
    pub gradient_clip_norm: f64,
    /// Steps at most.
    pub max_steps: u64,
    /// Validation rows are scored after every this many steps.
    pub validate_every: u64,
    /// The stop rule: the cool-down begins once this share of the validation rows' trained tokens has more than half
    /// of the model's probability. If the model does not get there, or is not there at the end, it is an error.
    /// Without it all of `max_steps` are made.
    pub validation_accuracy: Option<f64>,
    /// Which messages of a conversation are trained.
    pub train_on: TrainedMessages,
}

/// Which messages of a conversation a base model is trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainedMessages {
    /// Every one of the assistant's.
    #[default]
    AllAssistantMessages,
    /// Those of the assistant after the last one of the user.
    LastAssistantTurn,
    /// The last one of the assistant; what follows it is left out.
    LastAssistantMessage,
}

impl TrainedMessages {
    fn train_on(self) -> TrainOnWhat {
        match self {
            Self::AllAssistantMessages => TrainOnWhat::AllAssistantMessages,
            Self::LastAssistantTurn => TrainOnWhat::LastAssistantTurn,
            Self::LastAssistantMessage => TrainOnWhat::LastAssistantMessage,
        }
    }
}

impl Default for SupervisedOptions {
    fn default() -> Self {
        Self {
            batch_size: 64,
            learning_rate: 5e-3,
            warmup_steps: 20,
            cooldown_steps: 200,
            gradient_clip_norm: 1.0,
            max_steps: 1000,
            validate_every: 25,
            validation_accuracy: None,
            train_on: TrainedMessages::default(),
        }
    }
}

/// What supervised training came to.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisedResult {
    /// Steps made.
    pub steps: u64,
    /// Mean negative logprob of the last batch's trained tokens.
    pub loss: f64,
    /// As [`SupervisedOptions::validation_accuracy`]; `None` without validation rows.
    pub validation_accuracy: Option<f64>,
}

/// A line of a corpus.
#[derive(Deserialize)]
struct CorpusLine {
    messages: Vec<Message>,
    /// OpenAI's declarations of the tools that the assistant had.
    #[serde(default)]
    tools: Vec<Value>,
    /// `validation` keeps the row from being trained on.
    #[serde(default)]
    split: Option<String>,
}

/// A corpus as datums.
struct Corpus {
    train: Vec<Datum>,
    validation: Arc<[Datum]>,
}

/// Trains the learner's model on a corpus of JSON lines
/// (`{"messages": [...], "tools": [...], "split": "train" | "validation"}`), on those messages that `options` say. The
/// order of the rows follows from `seed`.
pub async fn train_supervised(
    learner: &dyn Learner,
    renderer: &dyn Renderer,
    corpus: &str,
    options: &SupervisedOptions,
    seed: u64,
    reporter: &mut dyn Reporter,
) -> Result<SupervisedResult, TrainError> {
    options.check()?;
    let corpus = read_corpus(corpus, renderer, options.train_on)?;
    let order_seed = derive_seed(seed, &["supervised"]);
    let mut result = SupervisedResult { steps: 0, loss: f64::NAN, validation_accuracy: None };
    let mut schedule = Schedule::new(options);
    while let Some(share) = schedule.next_step() {
        let cursor = result.steps * options.batch_size as u64;
        let indices = tasks_at(order_seed, corpus.train.len(), cursor, options.batch_size);
        let batch = per_token(indices.iter().map(|index| corpus.train[*index].clone()).collect());
        let pass = learner.forward_backward(batch, LossFunction::CrossEntropy).await?;
        let adam = AdamParameters {
            learning_rate: options.learning_rate * share,
            gradient_clip_norm: options.gradient_clip_norm,
            ..AdamParameters::default()
        };
        learner.optimizer_step(adam).await?;
        result.steps += 1;
        result.loss = pass.loss_sum;
        let mut validated = None;
        let is_due = result.steps.is_multiple_of(options.validate_every.max(1)) || schedule.is_over();
        if is_due && !corpus.validation.is_empty() {
            validated = Some(validation_accuracy(learner, &corpus.validation).await?);
            result.validation_accuracy = validated;
        }
        if is_reached(validated, options) {
            schedule.cool_down();
        }
        reporter.report(TrainEvent::SupervisedStep {
            step: result.steps,
            max_steps: options.max_steps,
            loss: result.loss,
            validation_accuracy: validated,
        });
    }
    match options.validation_accuracy {
        Some(wanted) if !is_reached(result.validation_accuracy, options) => Err(TrainError::BaseNotLearnt {
            steps: result.steps,
            accuracy: result.validation_accuracy.unwrap_or(0.0),
            wanted,
        }),
        _ => Ok(result),
    }
}

/// Whether the stop rule is met.
fn is_reached(validated: Option<f64>, options: &SupervisedOptions) -> bool {
    validated.zip(options.validation_accuracy).is_some_and(|(is, wanted)| is >= wanted)
}

/// The step size over time, as a share of its greatest value: up, level, down.
struct Schedule {
    step: u64,
    /// Steps in all; falls when the cool-down begins early.
    end: u64,
    warmup: u64,
    cooldown: u64,
}

impl Schedule {
    fn new(options: &SupervisedOptions) -> Self {
        Self { step: 0, end: options.max_steps, warmup: options.warmup_steps.max(1), cooldown: options.cooldown_steps }
    }

    /// Ends training after the cool-down, which begins now unless it has begun already.
    fn cool_down(&mut self) {
        self.end = self.end.min(self.step + self.cooldown);
    }

    fn is_over(&self) -> bool {
        self.step >= self.end
    }

    fn next_step(&mut self) -> Option<f64> {
        if self.is_over() {
            return None;
        }
        let up = (self.step + 1) as f64 / self.warmup as f64;
        let down = (self.end - self.step) as f64 / (self.cooldown + 1) as f64;
        self.step += 1;
        Some(up.min(down).min(1.0))
    }
}

fn read_corpus(text: &str, renderer: &dyn Renderer, trained: TrainedMessages) -> Result<Corpus, TrainError> {
    let train_on = trained.train_on();
    let (mut train, mut validation) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |message: String| TrainError::Corpus { line: index + 1, message };
        let line: CorpusLine =
            serde_json::from_str(line).map_err(|error| wrong(plain_words(&error.to_string(), "", Notation::Json)))?;
        let rendered = renderer
            .render_supervised(&line.messages, &line.tools, &train_on)
            .map_err(|error| wrong(error.to_string()))?;
        let data = match line.split.as_deref() {
            None | Some("train") => &mut train,
            Some("validation") => &mut validation,
            Some(other) => return Err(wrong(format!("split `{other}` is neither train nor validation"))),
        };
        for WeightedTokens { tokens, weights } in rendered {
            let reduction = fulgurite_adapters::Reduction::None;
            data.push(fulgurite_adapters::supervised_datum(&tokens, &weights, None, reduction)?);
        }
    }
    if train.is_empty() {
        return Err(TrainError::Corpus { line: 1, message: "the corpus has no rows to train on".to_owned() });
    }
    Ok(Corpus { train, validation: validation.into() })
}

/// Divides every weight by their sum, so that the summed loss is the mean over the batch's trained tokens.
fn per_token(mut batch: Vec<Datum>) -> Arc<[Datum]> {
    let weights = |datum: &Datum| match &datum.loss_inputs {
        LossInputs::Supervised { weights } => weights.iter().sum::<f32>(),
        LossInputs::Policy { .. } => 0.0,
    };
    let total: f32 = batch.iter().map(weights).sum();
    for datum in &mut batch {
        if let LossInputs::Supervised { weights } = &mut datum.loss_inputs {
            weights.iter_mut().for_each(|weight| *weight /= total);
        }
    }
    batch.into()
}

/// Share of the trained tokens with more than half of the probability: each of them is the model's first choice.
async fn validation_accuracy(learner: &dyn Learner, data: &Arc<[Datum]>) -> Result<f64, TrainError> {
    let logprobs = learner.forward(Arc::clone(data)).await?;
    let (mut right, mut all) = (0usize, 0usize);
    for (datum, logprobs) in data.iter().zip(&logprobs) {
        let LossInputs::Supervised { weights } = &datum.loss_inputs else { continue };
        for (_, logprob) in weights.iter().zip(logprobs).filter(|(weight, _)| **weight != 0.0) {
            all += 1;
            right += usize::from(*logprob > -std::f32::consts::LN_2);
        }
    }
    Ok(right as f64 / all.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_size_goes_up_stays_and_goes_down() {
        let options =
            SupervisedOptions { warmup_steps: 2, cooldown_steps: 3, max_steps: 8, ..SupervisedOptions::default() };
        let shares = |mut schedule: Schedule| std::iter::from_fn(move || schedule.next_step()).collect::<Vec<_>>();
        assert_eq!(shares(Schedule::new(&options)), [0.5, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]);

        let mut early = Schedule::new(&options);
        (0..3).for_each(|_| assert!(early.next_step().is_some()));
        early.cool_down();
        assert_eq!(early.next_step(), Some(0.75));
        early.cool_down();
        assert_eq!(shares(early), [0.5, 0.25], "the second call does not begin it anew");
    }

    #[test]
    fn every_answer_is_trained_unless_told_otherwise_and_tools_are_part_of_the_prompt() {
        let directory = tempfile::tempdir().unwrap();
        let tokenizer = fulgurite_renderers::train_byte_level_tokenizer(["a b c"; 2], 280, &[]).unwrap();
        fulgurite_renderers::write_tokenizer_directory(directory.path(), &tokenizer).unwrap();
        let renderer = fulgurite_renderers::open_renderer(directory.path(), "qwen3_instruct").unwrap();
        let message = |role: &str, text: &str| serde_json::json!({ "role": role, "content": text });
        let conversation =
            [message("user", "?"), message("assistant", "one"), message("user", "?"), message("assistant", "two")];
        let tool = serde_json::json!({ "type": "function", "function": { "name": "look", "parameters": {} } });
        let rows = |tools: &[Value], trained: TrainedMessages| {
            let line = serde_json::json!({ "messages": conversation, "tools": tools }).to_string();
            read_corpus(&line, renderer.as_ref(), trained).unwrap().train
        };
        let trained_text = |rows: &[Datum]| {
            let tokens = rows.iter().flat_map(|row| {
                let LossInputs::Supervised { weights } = &row.loss_inputs else { panic!("supervised") };
                row.target_tokens.iter().zip(weights).filter(|(_, weight)| **weight > 0.0).map(|(token, _)| *token)
            });
            renderer.tokenizer().decode(&tokens.collect::<Vec<_>>())
        };
        let all = trained_text(&rows(&[], TrainedMessages::default()));
        assert!(all.contains("one") && all.contains("two"), "{all}");
        let last = trained_text(&rows(&[], TrainedMessages::LastAssistantMessage));
        assert!(!last.contains("one") && last.contains("two"), "{last}");
        let length = |tools: &[Value]| rows(tools, TrainedMessages::default())[0].target_tokens.len();
        assert!(length(&[tool]) > length(&[]));
    }

    #[test]
    fn weights_of_a_batch_sum_to_one() {
        let datum = |weights: Vec<f32>| Datum {
            model_input: vec![fulgurite_backends::Chunk::Tokens(vec![0; weights.len()])],
            target_tokens: vec![0; weights.len()],
            loss_inputs: LossInputs::Supervised { weights },
        };
        let batch = per_token(vec![datum(vec![0.0, 1.0, 1.0]), datum(vec![1.0, 1.0])]);
        let LossInputs::Supervised { weights } = &batch[0].loss_inputs else { panic!("supervised") };
        assert_eq!(weights, &[0.0, 0.25, 0.25]);
    }
}
