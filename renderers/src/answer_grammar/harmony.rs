use super::answer_shape::{AnswerGrammar, AnswerShape};
use super::grammar_writer::GrammarWriter;
use super::lark::{self, Rules};
use crate::RenderError;
use crate::parsing::{Lexeme, Mark};

impl GrammarWriter<'_> {
    /// Harmony: perhaps a message of analysis, then one that is the answer or a call. A turn has one call: its end is
    /// the turn's.
    pub(super) fn harmony(&self, prompt: &[u32], shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
        let opened = self.opened(prompt);
        if !matches!(&opened[..], [Lexeme::Mark(Mark::Start, _), Lexeme::Text(role)] if role == "assistant") {
            return Err(self.unsupported("the prompt does not end where a message of the assistant begins"));
        }
        let [channel, body, end, start, end_of_turn] =
            ["<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>"].map(|mark| self.mark(mark));
        let (channel, body, end, start, end_of_turn) = (channel?, body?, end?, start?, end_of_turn?);
        let mut rules = Rules::default();
        let analysis = format!("({channel} \"analysis\" {body} {} {end} {start} \"assistant\")?", rules.thought());
        let answer = match shape {
            AnswerShape::Json { schema, .. } => {
                Some(format!("{channel} \"final\" {body} {} {end_of_turn}", lark::json(schema)))
            }
            AnswerShape::Calls { .. } => None,
        };
        let tools = match shape {
            AnswerShape::Json { tools, .. } | AnswerShape::Calls { tools, .. } => self.tools(tools)?,
        };
        let calls = if tools.is_empty() { None } else { Some(self.calls(&tools, true, &mut rules)?) };
        let bodies: Vec<String> = answer.into_iter().chain(calls).collect();
        rules.add("body", &bodies.join(" | "));
        rules.add("start", &format!("{analysis} body"));
        Ok(AnswerGrammar::Lark { grammar: rules.into_text(), without_reasoning: None })
    }
}
