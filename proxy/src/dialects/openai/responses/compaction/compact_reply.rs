use fulgurite_types::Message;

use super::compacted::compacted_response;
use crate::dialects::json_text::write_json;
use crate::dialects::openai::error::body;
use crate::dialects::openai::responses::response_object::usage;
use crate::error::ProxyError;
use crate::reply::answer_token::AnswerToken;
use crate::reply::assistant_message::Delta;
use crate::reply::call_event::Finished;
use crate::reply::finish_reason::FinishReason;
use crate::reply::reply_writer::{ReplyContext, ReplyWriter, WholeChoice};
use crate::requests::model_request::ReplyFormat;

/// How a compaction is written, which is always whole.
#[derive(Debug)]
pub(super) struct CompactReply {
    /// What stays as it is of the conversation.
    pub(super) kept: Vec<Message>,
}

impl ReplyFormat for CompactReply {
    fn writer(self: Box<Self>, context: ReplyContext) -> Box<dyn ReplyWriter> {
        Box::new(CompactWriter { kept: self.kept, context })
    }
}

struct CompactWriter {
    kept: Vec<Message>,
    context: ReplyContext,
}

impl ReplyWriter for CompactWriter {
    /// Refuses a summary in whose place the conversation would be lost.
    fn refused(&self, choices: &[WholeChoice]) -> Option<ProxyError> {
        let finished = &choices.first()?.finished;
        let why = match finished.reason {
            FinishReason::Length => "the model's summary did not end",
            _ if summary_of(finished).trim().is_empty() => "the model wrote no summary",
            FinishReason::Stop | FinishReason::ToolCalls => return None,
        };
        let message = format!(
            "input: {why} within {} tokens; go on with the conversation as it is, or compact it while it is shorter",
            finished.sampled_tokens
        );
        Some(ProxyError::invalid("input", message))
    }

    fn whole(&mut self, choices: &[WholeChoice], out: &mut Vec<u8>) {
        let ReplyContext { id, created, .. } = &self.context;
        for choice in choices {
            let finished = &choice.finished;
            let usage = usage(finished, reasoning_tokens(choice));
            write_json(out, &compacted_response(id, *created, &self.kept, &summary_of(finished), &usage));
        }
    }

    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn token(&mut self, _choice: usize, _sampled: &AnswerToken, _out: &mut Vec<u8>) {}

    fn finish(&mut self, _choice: usize, _finished: &Finished, _out: &mut Vec<u8>) {}

    fn end(&mut self, _out: &mut Vec<u8>) {}

    fn fail(&mut self, error: &ProxyError, out: &mut Vec<u8>) {
        write_json(out, &body(error));
    }

    fn keep_alive(&mut self, _out: &mut Vec<u8>) {}
}

fn summary_of(finished: &Finished) -> String {
    finished.message.plain_text(0).unwrap_or_default()
}

/// How many tokens were reasoning: those since something was said last, where reasoning was said next.
fn reasoning_tokens(choice: &WholeChoice) -> usize {
    let (mut silent, mut reasoning) = (0, 0);
    for sampled in choice.tokens() {
        silent += 1;
        for delta in sampled.deltas.iter() {
            let silent_tokens = std::mem::take(&mut silent);
            reasoning += if matches!(delta, Delta::Reasoning(_)) { silent_tokens } else { 0 };
        }
    }
    reasoning
}
