use crate::template_conversations::{a_user, calling, declared, reasoning, result_of, said};
use crate::tokenizer::Piece;
use crate::{RenderError, Renderer, ResponseFormat, TemplateRenderer};

/// What a template writes around a call, and the format that reads it.
const CALL_MARKS: [(&str, ResponseFormat); 6] = [
    ("<function=probe>", ResponseFormat::QwenXml),
    ("<tool_call>", ResponseFormat::QwenJson),
    ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>probe", ResponseFormat::DeepSeek),
    ("<|tool_calls_section_begin|>", ResponseFormat::Kimi),
    ("<|channel|>", ResponseFormat::Harmony),
    ("{\"name\": \"probe\", \"parameters\": ", ResponseFormat::LlamaJson),
];

impl TemplateRenderer {
    /// How replies are read, told by how the template writes a call, or where it writes none, reasoning.
    pub(crate) fn written_response_format(&self) -> ResponseFormat {
        let id = "functions.probe:0";
        let ids = [id, "fulgurit1"];
        let calls = ids.iter().filter_map(|id| self.text_of(&[a_user(), calling(&[id]), result_of(id)]).ok());
        let by_call = calls.filter_map(|text| CALL_MARKS.iter().find(|(mark, _)| text.contains(mark))).next();
        let thinks = || self.text_of(&[a_user(), reasoning(said())]).is_ok_and(|text| text.contains("<think>"));
        match by_call {
            Some((_, format)) => *format,
            None if thinks() => ResponseFormat::QwenJson,
            None => ResponseFormat::Text,
        }
    }

    fn text_of(&self, messages: &[crate::Message]) -> Result<String, RenderError> {
        let text = |piece: Piece| match piece {
            Piece::Text(text) => text,
            Piece::Control(id) => self.tokenizer().decode(&[id]),
        };
        Ok(self.pieces(messages, &[declared("probe")], false)?.into_iter().map(text).collect())
    }
}
