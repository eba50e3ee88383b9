//! Conversations of a corpus as rows for cross entropy.

use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::{Notation, derive_seed, plain_words};
use fulgurite_renderers::{Renderer, TrainOnWhat, WeightedTokens};
use fulgurite_types::{Datum, Message, mended_json};
use serde::Deserialize;
use serde_json::Value;

use super::source::{DataPosition, Source};
use super::task_order::tasks_at;
use crate::{Reporter, TrainError};

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
pub(crate) struct Corpus {
    pub(crate) train: Vec<Datum>,
    pub(crate) validation: Arc<[Datum]>,
}

impl Corpus {
    /// Reads JSON lines.
    ///
    /// # Errors
    /// [`TrainError::Corpus`] with the line that cannot be trained on, or if there is none to train on.
    pub(crate) fn read(text: &str, renderer: &dyn Renderer, train_on: &TrainOnWhat) -> Result<Self, TrainError> {
        let (mut train, mut validation) = (Vec::new(), Vec::new());
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |message: String| TrainError::Corpus { line: index + 1, message };
            let line: CorpusLine = serde_json::from_str(&mended_json(line))
                .map_err(|error| wrong(plain_words(&error.to_string(), "", Notation::Json)))?;
            let rendered = renderer
                .render_supervised(&line.messages, &line.tools, train_on)
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
        Ok(Self { train, validation: validation.into() })
    }
}

/// Rows of a corpus, each epoch in an order of its own that follows from the seed.
pub(crate) struct CorpusRows {
    rows: Vec<Datum>,
    order_seed: u64,
    batch_size: usize,
}

impl CorpusRows {
    pub(crate) fn new(rows: Vec<Datum>, seed: u64, batch_size: usize) -> Self {
        Self { rows, order_seed: derive_seed(seed, &["supervised"]), batch_size }
    }
}

#[async_trait]
impl Source<Vec<Datum>> for CorpusRows {
    async fn next(
        &mut self,
        _: u64,
        position: &mut DataPosition,
        _: &mut dyn Reporter,
    ) -> Result<Vec<Datum>, TrainError> {
        let indices = tasks_at(self.order_seed, self.rows.len(), position.data_cursor, self.batch_size);
        position.data_cursor += self.batch_size as u64;
        Ok(indices.into_iter().map(|index| self.rows[index].clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::LossInputs;

    use super::*;
    use crate::TrainedMessages;

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
            Corpus::read(&line, renderer.as_ref(), &trained.train_on()).unwrap().train
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
}
