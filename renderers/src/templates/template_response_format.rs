use fulgurite_types::{FunctionCall, Message};
use serde_json::Value;

use crate::parsing::TurnEnds;
use crate::templates::template_conversations::{REASONING, a_user, an_answer, calling, declared, reasoning};
use crate::tokenizer::piece::Piece;
use crate::{RenderError, Renderer, ResponseFormat, StreamParser, TemplateRenderer};

/// Formats that might read what a template writes; the first counts where several read as much.
const CANDIDATES: [ResponseFormat; 12] = [
    ResponseFormat::Text,
    ResponseFormat::QwenJson,
    ResponseFormat::QwenXml,
    ResponseFormat::DeepSeek,
    ResponseFormat::Kimi,
    ResponseFormat::Harmony,
    ResponseFormat::LlamaJson,
    ResponseFormat::Mistral,
    ResponseFormat::Phi,
    ResponseFormat::Gemma,
    ResponseFormat::Glm,
    ResponseFormat::Dsml,
];

impl TemplateRenderer {
    /// How replies are read: by the format that reads back most of what the template writes.
    pub(crate) fn detected_response_format(&self) -> ResponseFormat {
        let mut best = (0, ResponseFormat::Text);
        for format in CANDIDATES {
            let read = turns().iter().filter(|(_, turn)| self.reads_back(format, turn) == Some(true)).count();
            if read > best.0 {
                best = (read, format);
            }
        }
        best.1
    }

    /// Whether a format reads a turn back just as the template was given it; `None` where the template refuses the turn
    /// or leaves some of it out.
    pub(crate) fn reads_back(&self, format: ResponseFormat, turn: &Message) -> Option<bool> {
        let (prompt, sampled) = self.written(turn).or_else(|_| self.written(&with_short_ids(turn))).ok()?;
        if !turn.extra.is_empty() && !self.tokenizer().decode(&sampled).contains(REASONING) {
            return None;
        }
        let ends: Vec<u32> = self.stop_tokens().iter().copied().chain(self.turn_end).collect();
        let ends = TurnEnds { tokens: &ends, text: None };
        let mut parser = StreamParser::new(self.tokenizer(), format, ends, &prompt, &[declared("probe")]);
        parser.feed(&sampled);
        Some(means_the_same(&parser.finish().1.message(), turn))
    }

    /// The tokens of a prompt, and those that a model would sample to answer it with `turn`.
    fn written(&self, turn: &Message) -> Result<(Vec<u32>, Vec<u32>), RenderError> {
        let tools = [declared("probe")];
        let prompt = self.pieces(&[a_user()], &tools, true)?;
        let turn = self.sampled_turn(&prompt, &[a_user(), turn.clone()], &tools)?;
        let sampled: Vec<Piece> = [turn.unsampled, turn.sampled].concat();
        Ok((self.tokenizer().encode_pieces(&prompt)?, self.tokenizer().encode_pieces(&sampled)?))
    }
}

/// Turns of every kind, each with what it is.
pub(crate) fn turns() -> Vec<(&'static str, Message)> {
    let (one, two) = (["functions.probe:0"], ["functions.probe:0", "functions.probe:1"]);
    let with_text = |call: Message| Message { content: an_answer().content, ..call };
    vec![
        ("text", an_answer()),
        ("reasoning and text", reasoning(an_answer())),
        ("a tool call", calling(&one)),
        ("text and a tool call", with_text(calling(&one))),
        ("reasoning and a tool call", reasoning(calling(&one))),
        ("two tool calls", calling(&two)),
    ]
}

/// The turn with ids that templates accept which count their characters.
fn with_short_ids(turn: &Message) -> Message {
    let mut turn = turn.clone();
    for (number, call) in turn.tool_calls.iter_mut().enumerate() {
        call.id = Some(format!("fulgurit{number}"));
    }
    turn
}

/// Text and reasoning but for white space around them, and the calls without their ids, which few formats write.
fn means_the_same(read: &Message, given: &Message) -> bool {
    let text = |message: &Message| message.plain_text(0).unwrap_or_default().trim().to_owned();
    let reasoning = |message: &Message| {
        message.extra.get("reasoning_content").and_then(Value::as_str).unwrap_or_default().trim().to_owned()
    };
    let call = |function: &FunctionCall| {
        let arguments = function.arguments.as_str().and_then(|text| serde_json::from_str(text).ok());
        (function.name.clone(), arguments.unwrap_or_else(|| function.arguments.clone()))
    };
    let calls = |message: &Message| message.tool_calls.iter().map(|each| call(&each.function)).collect::<Vec<_>>();
    text(read) == text(given) && reasoning(read) == reasoning(given) && calls(read) == calls(given)
}
