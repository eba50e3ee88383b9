use serde_json::Value;

use super::answer_shape::{AnswerGrammar, AnswerShape};
use super::grammar_writer::GrammarWriter;
use super::lark::{self, Rules};
use crate::RenderError;

impl GrammarWriter<'_> {
    /// `start` is what comes before the body, and `rules` what it needs.
    pub(super) fn lark(
        &self,
        start: &str,
        mut rules: Rules,
        shape: &AnswerShape<'_>,
        without_reasoning: Option<Value>,
    ) -> Result<AnswerGrammar, RenderError> {
        let body = match shape {
            AnswerShape::Json { schema, tools: [] } => lark::json(schema),
            AnswerShape::Json { schema, tools } => {
                format!("{} | {}", lark::json(schema), self.calls(&self.tools(tools)?, false, &mut rules)?)
            }
            AnswerShape::Calls { tools, single } => self.calls(&self.tools(tools)?, *single, &mut rules)?,
        };
        rules.add("body", &body);
        rules.add("start", &format!("{start} body"));
        Ok(AnswerGrammar::Lark { grammar: rules.into_text(), without_reasoning })
    }
}
