use crate::chat_message::{ChatContent, ChatMessage, ChatPart};
use crate::formats::chunk::{Chunk, ContentEncoding};
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::qwen::im_start::{self, END, ToolResponses, has_text, header};
use crate::formats::qwen::qwen_tools::{ValueStyle, json_calls, json_tools};
use crate::formats::reasoning::{has_reasoning, is_reasoning, single_text, split_reasoning};
use crate::{RenderError, ResponseFormat};
use fulgurite_types::Tool;

const EMPTY_FRAME: &str = "<think>\n\n</think>\n\n";

/// Whether a model of the Qwen3 family reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thinking {
    /// It opens `<think>` itself.
    On,
    /// The prompt opens and closes `<think>`.
    Off,
    /// It knows no reasoning: the instruct models of 2507 and Qwen3-VL Instruct.
    Unknown,
}

/// Qwen3 and Qwen3-VL: reasoning in `<think>`, calls as JSON in `<tool_call>`, results of tools as the user's words.
#[derive(Debug)]
pub(crate) struct Qwen3 {
    thinking: Thinking,
    /// Qwen3-VL, which writes no frame around the reasoning.
    vision: bool,
    /// Reasoning of earlier turns is left out.
    strip_thinking: bool,
    /// Write what tinker-cookbook writes, not what the model's chat template does.
    cookbook_exact: bool,
}

impl Qwen3 {
    pub(crate) fn named(name: &str, strip_thinking: bool, cookbook_exact: bool) -> Option<Self> {
        let (thinking, vision) = match name {
            "qwen3" => (Thinking::On, false),
            "qwen3_disable_thinking" => (Thinking::Off, false),
            "qwen3_instruct" => (Thinking::Unknown, false),
            "qwen3_vl" => (Thinking::On, true),
            "qwen3_vl_instruct" => (Thinking::Unknown, true),
            _ => return None,
        };
        Some(Self { thinking, vision, strip_thinking, cookbook_exact })
    }

    fn value_style(&self) -> ValueStyle {
        ValueStyle { cookbook_exact: self.cookbook_exact, python_scalars: false }
    }

    /// Whether the turn is written with a frame for reasoning even where it has none.
    fn frames(&self, conversation: &Conversation<'_>, index: usize) -> bool {
        let family_frames = !self.vision && self.thinking != Thinking::Unknown;
        family_frames && conversation.last_user().is_some() && (conversation.is_last(index) || !self.strip_thinking)
    }

    /// Whether the turn's reasoning is written. The chat template leaves it out up to the last message of the user,
    /// the cookbook in every turn but the last.
    fn shows_reasoning(&self, conversation: &Conversation<'_>, index: usize) -> bool {
        let answers_last_user =
            self.thinking != Thinking::Unknown && conversation.last_user().is_some_and(|last_user| index > last_user);
        !self.strip_thinking || conversation.is_last(index) || (!self.cookbook_exact && answers_last_user)
    }

    /// The parts of a turn. Text that holds reasoning is taken apart, by the cookbook only where it is framed.
    fn parts<'m>(&self, message: &ChatMessage<'m>, framed: bool) -> Vec<ChatPart<'m>> {
        let text = match (&message.content, self.cookbook_exact) {
            (ChatContent::Text(text), true) if framed => Some(*text),
            (content, false) if self.thinking != Thinking::Unknown => single_text(content),
            _ => None,
        };
        match text.and_then(split_reasoning) {
            Some((reasoning, rest)) => {
                vec![ChatPart::Thinking(reasoning.trim_matches('\n')), ChatPart::Text(rest.trim_start_matches('\n'))]
            }
            None => message.parts(),
        }
    }

    fn assistant<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<Chunk<'m>, RenderError> {
        let message = conversation.at(index);
        let framed = self.frames(conversation, index);
        let mut parts = self.parts(message, framed);
        let reasons = if self.cookbook_exact {
            has_reasoning(&message.content)
        } else {
            parts.retain(|part| part.thinking().is_none_or(|reasoning| !reasoning.trim_matches('\n').is_empty()));
            parts.iter().any(is_reasoning)
        };
        if !self.shows_reasoning(conversation, index) {
            parts.retain(|part| !is_reasoning(part));
        }
        let chunk = self.content(&parts, framed, reasons);
        if message.tool_calls.is_empty() {
            return Ok(chunk);
        }
        let separator = if self.separates_calls(&parts) { "\n" } else { "" };
        Ok(chunk.format(separator).join(json_calls(message, index, self.value_style())?))
    }

    /// Reasoning and text in their order. What follows a frame loses the line breaks that it begins with.
    fn content<'m>(&self, parts: &[ChatPart<'m>], framed: bool, reasons: bool) -> Chunk<'m> {
        let mut after_frame = framed && !reasons;
        let mut chunk = Chunk::of_format(if after_frame { EMPTY_FRAME } else { "" });
        for part in parts {
            match part {
                ChatPart::Thinking(reasoning) => {
                    after_frame = self.pads_reasoning(framed);
                    chunk = chunk.join(match after_frame {
                        true => {
                            Chunk::of_format("<think>\n").content(reasoning.trim_matches('\n')).format("\n</think>\n\n")
                        }
                        false => Chunk::of_format("<think>").content(*reasoning).format("</think>"),
                    });
                }
                ChatPart::Text(text) => {
                    let text = if after_frame { text.trim_start_matches('\n') } else { text };
                    after_frame &= !reasons && text.is_empty();
                    chunk = chunk.content(text);
                }
            }
        }
        chunk
    }

    fn pads_reasoning(&self, framed: bool) -> bool {
        if self.cookbook_exact { framed } else { !self.vision && self.thinking != Thinking::Unknown }
    }

    /// Whether a line break stands before the first call. In the chat template it does after text, in the cookbook
    /// after reasoning too, and in Qwen3-VL always.
    fn separates_calls(&self, parts: &[ChatPart<'_>]) -> bool {
        has_text(parts) || (self.cookbook_exact && (self.vision || parts.iter().any(is_reasoning)))
    }

    fn system_with_tools<'m>(&self, message: &ChatMessage<'m>, tools: &[Tool<'m>]) -> Chunk<'m> {
        let system = message.visible_text();
        let separator = if system.is_empty() { "" } else { "\n\n" };
        Chunk::default().content(system).format(separator).join(json_tools(tools, self.value_style()))
    }

    /// The cookbook refuses a turn without a question where the prompt closes the reasoning, since it writes no frame
    /// for it then.
    fn refuse_without_question(&self, conversation: &Conversation<'_>, index: usize) -> Result<(), RenderError> {
        let lacks_question = self.thinking == Thinking::Off
            && conversation.is_last(index)
            && conversation.last_user().is_none()
            && !conversation.at(index).parts().is_empty();
        if self.cookbook_exact && lacks_question {
            return Err(RenderError::Message {
                message_index: index,
                message: "there is no message of the user before this one, so that it has no frame for reasoning, \
                          but the prompt has"
                    .to_owned(),
            });
        }
        Ok(())
    }
}

impl Format for Qwen3 {
    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        match message.role {
            "assistant" => {
                self.refuse_without_question(conversation, index)?;
                let content = self.assistant(conversation, index)?;
                let output = vec![content.format(END)];
                Ok(RenderedMessage { header: header("assistant", index), output, ..RenderedMessage::default() })
            }
            "tool" => {
                let grouped = !self.cookbook_exact;
                let responses = ToolResponses { grouped, separator: "\n", closing: "\n</tool_response>" };
                Ok(responses.message(conversation, index, message.visible_text()))
            }
            _ => {
                let content = match conversation.tools() {
                    tools if index == 0 && !tools.is_empty() => self.system_with_tools(message, tools),
                    _ => Chunk::default().content(message.visible_text()),
                };
                Ok(im_start::plain_message(message, index, content))
            }
        }
    }

    fn generation_prompt(&self, conversation: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        let prefill = if self.thinking == Thinking::Off { EMPTY_FRAME } else { "" };
        Ok(im_start::generation_prompt(conversation, prefill))
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        im_start::STOP_TOKENS
    }

    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::of_format(END)
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::QwenJson
    }

    fn cookbook_content_encoding(&self) -> ContentEncoding {
        if self.vision { ContentEncoding::ControlTokens } else { ContentEncoding::SpecialAsText }
    }

    fn cookbook_split(&self) -> CookbookSplit {
        let keeps_turns = !self.strip_thinking || (self.thinking == Thinking::Unknown && !self.vision);
        if keeps_turns { CookbookSplit::Whole } else { CookbookSplit::ByMessage }
    }

    fn disables_thinking(&self) -> bool {
        self.thinking == Thinking::Off
    }
}
