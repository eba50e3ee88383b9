use serde_json::Value;

use super::answer_shape::{AnswerGrammar, AnswerShape};
use super::grammar_writer::{GrammarWriter, Reasoning, reasoning};
use super::lark::{self, Rules};
use crate::{RenderError, ResponseFormat};

const THINK_OPEN: &str = "<think>";
const THINK_CLOSE: &str = "</think>";

impl GrammarWriter<'_> {
    /// Families that put reasoning between `<think>` and `</think>`.
    pub(super) fn tagged(&self, prompt: &[u32], shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
        let space = match self.format {
            ResponseFormat::QwenJson | ResponseFormat::QwenXml => lark::text("\n\n"),
            _ => String::new(),
        };
        let answer_alone = match shape {
            AnswerShape::Json { schema, tools: [] } => Some((*schema).clone()),
            _ => None,
        };
        let mut rules = Rules::default();
        let (open, close) = (self.optional_mark(THINK_OPEN), self.optional_mark(THINK_CLOSE));
        match (reasoning(&self.opened(prompt)), open, close) {
            (Reasoning::Started, _, Some(close)) => {
                let start = format!("{} {close} {space}", rules.thought());
                self.lark(&start, rules, shape, None)
            }
            (Reasoning::Started, _, None) => {
                let start = format!("{} {space}", rules.terminal(lark::up_to("*", "", THINK_CLOSE, "")));
                self.lark(&start, rules, shape, None)
            }
            (Reasoning::Possible, Some(open), Some(close)) => {
                let start = format!("({open} {} {close} {space})?", rules.thought());
                self.lark(&start, rules, shape, answer_alone)
            }
            (Reasoning::Possible | Reasoning::Over, ..) => self.without_reasoning(shape, answer_alone),
        }
    }

    fn without_reasoning(
        &self,
        shape: &AnswerShape<'_>,
        answer_alone: Option<Value>,
    ) -> Result<AnswerGrammar, RenderError> {
        match answer_alone {
            Some(schema) => Ok(AnswerGrammar::JsonSchema(schema)),
            None => self.lark("", Rules::default(), shape, None),
        }
    }
}
