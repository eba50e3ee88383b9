use serde_json::Value;

use super::grammar_writer::{CalledTool, GrammarWriter};
use super::lark::{self, Rules};
use crate::{RenderError, ResponseFormat};

impl GrammarWriter<'_> {
    /// Calls of some of the tools, as the format's parser reads them. `single`: one and no more.
    pub(super) fn calls(
        &self,
        tools: &[CalledTool<'_>],
        single: bool,
        rules: &mut Rules,
    ) -> Result<String, RenderError> {
        if tools.is_empty() {
            return Err(self.unsupported("there is no tool that could be called"));
        }
        let calls = tools.iter().map(|tool| self.call(tool, rules)).collect::<Result<Vec<String>, _>>()?;
        rules.add("call", &calls.join(" | "));
        let one_or_more = |separator: &str| match single {
            true => "call".to_owned(),
            false => format!("call ({separator} call)*"),
        };
        Ok(match self.format {
            ResponseFormat::QwenJson | ResponseFormat::QwenXml => one_or_more(&lark::text("\n")),
            ResponseFormat::DeepSeek => {
                let (open, close) = (self.mark("<｜tool▁calls▁begin｜>")?, self.mark("<｜tool▁calls▁end｜>")?);
                format!("{open} {} {close}", one_or_more(""))
            }
            ResponseFormat::Dsml => self.dsml_section(&one_or_more(""))?,
            ResponseFormat::Kimi => {
                let (open, close) =
                    (self.mark("<|tool_calls_section_begin|>")?, self.mark("<|tool_calls_section_end|>")?);
                format!("{open} {} {close}", one_or_more(""))
            }
            // A call is the whole turn.
            ResponseFormat::Harmony | ResponseFormat::LlamaJson | ResponseFormat::Text | ResponseFormat::RoleColon => {
                "call".to_owned()
            }
            ResponseFormat::Mistral if self.optional_mark("[ARGS]").is_some() => one_or_more(""),
            ResponseFormat::Mistral | ResponseFormat::Phi => {
                let (open, close) = match self.format {
                    ResponseFormat::Mistral => (self.mark("[TOOL_CALLS]")?, String::new()),
                    _ => (self.mark("<|tool_call|>")?, self.mark("<|/tool_call|>")?),
                };
                let calls = one_or_more(&lark::text(", "));
                format!("{open} {} {calls} {} {close}", lark::text("["), lark::text("]"))
            }
            ResponseFormat::Gemma | ResponseFormat::Glm => {
                return Err(self.unsupported("its arguments are no JSON"));
            }
        })
    }

    fn call(&self, tool: &CalledTool<'_>, rules: &mut Rules) -> Result<String, RenderError> {
        let name = tool.name;
        let arguments = lark::json(&tool.parameters);
        let json_call = |key: &str| {
            let head = format!("{{\"name\": {}, \"{key}\": ", Value::from(name));
            format!("{} {arguments} {}", lark::text(&head), lark::text("}"))
        };
        Ok(match self.format {
            ResponseFormat::QwenJson => {
                let (open, close) = (self.mark("<tool_call>")?, self.mark("</tool_call>")?);
                format!("{open} {} {} {} {close}", lark::text("\n"), json_call("arguments"), lark::text("\n"))
            }
            ResponseFormat::QwenXml => {
                let (open, close) = (self.mark("<tool_call>")?, self.mark("</tool_call>")?);
                format!("{open} {} {close}", self.xml_call(tool, rules)?)
            }
            ResponseFormat::DeepSeek => {
                let (open, separator, close) = (
                    self.mark("<｜tool▁call▁begin｜>")?,
                    self.mark("<｜tool▁sep｜>")?,
                    self.mark("<｜tool▁call▁end｜>")?,
                );
                format!("{open} {} {separator} {arguments} {close}", lark::text(name))
            }
            ResponseFormat::Dsml => self.dsml_call(tool, rules)?,
            ResponseFormat::Kimi => {
                let (open, arguments_begin, close) = (
                    self.mark("<|tool_call_begin|>")?,
                    self.mark("<|tool_call_argument_begin|>")?,
                    self.mark("<|tool_call_end|>")?,
                );
                let id = format!("{} /[0-9]{{1,3}}/", lark::text(&format!("functions.{name}:")));
                format!("{open} {id} {arguments_begin} {arguments} {close}")
            }
            ResponseFormat::Harmony => {
                let (channel, constrain) = (self.mark("<|channel|>")?, self.mark("<|constrain|>")?);
                let (body, close) = (self.mark("<|message|>")?, self.mark("<|call|>")?);
                let recipient = lark::text(&format!("commentary to=functions.{name} "));
                format!("{channel} {recipient} {constrain} \"json\" {body} {arguments} {close}")
            }
            ResponseFormat::LlamaJson => json_call("parameters"),
            ResponseFormat::Mistral if self.optional_mark("[ARGS]").is_some() => {
                let (open, separator) = (self.mark("[TOOL_CALLS]")?, self.mark("[ARGS]")?);
                format!("{open} {} {separator} {arguments}", lark::text(name))
            }
            ResponseFormat::Mistral | ResponseFormat::Phi => json_call("arguments"),
            ResponseFormat::Gemma | ResponseFormat::Glm => {
                return Err(self.unsupported("its arguments are no JSON"));
            }
            ResponseFormat::Text | ResponseFormat::RoleColon => return Err(self.unsupported("it has no tool calls")),
        })
    }
}
