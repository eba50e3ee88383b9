use std::borrow::Cow;

use fulgurite_types::{Message, Tool};

use crate::chat_message::{ChatContent, ChatMessage, ChatPart};
use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::python_strip::{trimmed, trimmed_cow, trimmed_end_cow};
use crate::formats::qwen::im_start::{self, END, ToolResponses, TurnPart, header};
use crate::formats::qwen::qwen_tools::{ValueStyle, json_lines, xml_calls, xml_tools};
use crate::formats::reasoning::{has_reasoning, single_text, split_reasoning};
use crate::python::python_strings::is_space;
use crate::{RenderError, ResponseFormat};

const EMPTY_FRAME: &str = "<think>\n\n</think>\n\n";

const XHIGH_EFFORT: &str = "Reasoning effort is set to xhigh. Please think carefully through the task, validate key \
                            assumptions, consider plausible alternatives, and prioritize correctness, consistency, and \
                            clarity in the final answer.";

const LOW_EFFORT: &str = "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly to the \
                          conclusion without unnecessary elaboration.";

/// Qwen3.5 and Qwen3.6, which leave earlier reasoning out unless told otherwise, and Qwen3.8, which keeps it: the prompt opens `<think>`, calls
/// are XML in `<tool_call>`, and results of tools that follow each other share one message of the user.
#[derive(Debug)]
pub(crate) struct Qwen35 {
    generation: Generation,
    disables_thinking: bool,
    /// What the system message begins with, to say how much to reason.
    effort: &'static str,
    /// Reasoning up to the last message of the user is left out.
    strip_thinking: bool,
    /// Write what tinker-cookbook writes, not what the model's chat template does.
    cookbook_exact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    Qwen35,
    Qwen38,
}

impl Qwen35 {
    /// Qwen3.8 keeps reasoning whatever `strip_thinking` says.
    pub(crate) fn named(name: &str, strip_thinking: bool, cookbook_exact: bool) -> Option<Self> {
        use Generation::{Qwen35, Qwen38};
        let (generation, effort, disables_thinking) = match name {
            "qwen3_5" => (Qwen35, "", false),
            "qwen3_5_disable_thinking" => (Qwen35, "", true),
            // A name that says that reasoning is preserved cannot say so twice.
            "qwen3_5_preserve_thinking" if strip_thinking => (Qwen35, "", false),
            "qwen3_8_xhigh_reasoning" => (Qwen38, XHIGH_EFFORT, false),
            "qwen3_8_medium_reasoning" => (Qwen38, "", false),
            "qwen3_8_low_reasoning" => (Qwen38, LOW_EFFORT, false),
            "qwen3_8_disable_thinking" => (Qwen38, "", true),
            _ => return None,
        };
        let strip_thinking = strip_thinking && generation == Qwen35 && name != "qwen3_5_preserve_thinking";
        Some(Self { generation, disables_thinking, effort, strip_thinking, cookbook_exact })
    }

    fn value_style(&self) -> ValueStyle {
        ValueStyle { cookbook_exact: self.cookbook_exact, python_scalars: self.generation == Generation::Qwen35 }
    }

    /// What the model is made to begin with.
    fn prefill(&self) -> &'static str {
        if self.disables_thinking { EMPTY_FRAME } else { "<think>\n" }
    }

    /// The parts of a turn. The chat template reads reasoning in a text, and writes it before all text.
    fn parts<'m>(&self, message: &ChatMessage<'m>) -> Vec<TurnPart<'m>> {
        if self.cookbook_exact {
            return match &message.content {
                ChatContent::Text(text) => vec![TurnPart::Text(Cow::Borrowed(trimmed(text)))],
                ChatContent::Parts(parts) => trimmed_parts(parts).into_iter().map(TurnPart::from).collect(),
            };
        }
        let (reasoning, text) = match single_text(&message.content).map(trimmed) {
            Some(text) => match split_reasoning(text) {
                Some((reasoning, rest)) => (trimmed(reasoning).into(), rest.trim_start_matches('\n').into()),
                None => ("".into(), text.into()),
            },
            None => (trimmed_cow(message.reasoning()), trimmed_cow(message.visible_text())),
        };
        let reasoning = (!reasoning.is_empty()).then_some(TurnPart::Thinking(reasoning));
        reasoning.into_iter().chain([TurnPart::Text(text)]).collect()
    }

    /// Whether the turn's reasoning is written. Qwen3.5's template leaves it out up to the last message of the user, the
    /// cookbook in every turn but the last.
    fn shows_reasoning(&self, conversation: &Conversation<'_>, index: usize) -> bool {
        !self.strip_thinking
            || match self.cookbook_exact {
                true => conversation.is_last(index),
                false => answers_last_user(conversation, index),
            }
    }

    /// Whether a turn without reasoning is written with an empty frame for it.
    fn frames_nothing(&self, conversation: &Conversation<'_>, index: usize, parts: &[TurnPart<'_>]) -> bool {
        let reasons = parts.iter().any(|part| matches!(part, TurnPart::Thinking(_)));
        match self.generation {
            Generation::Qwen38 => !reasons,
            Generation::Qwen35 if self.cookbook_exact => {
                answers_last_user(conversation, index) && !has_reasoning(&conversation.at(index).content)
            }
            Generation::Qwen35 => answers_last_user(conversation, index) && !reasons,
        }
    }

    fn assistant<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let parts = self.parts(message);
        let frames_nothing = self.frames_nothing(conversation, index, &parts);
        let (header, frame) = match (frames_nothing, conversation.is_last(index)) {
            (false, _) => (header("assistant", index), ""),
            (true, false) => (header("assistant", index).format(EMPTY_FRAME), ""),
            // What the generation prompt has of the frame is cut into tokens apart from the rest, as where it is given.
            (true, true) => {
                let rest = EMPTY_FRAME.strip_prefix(self.prefill()).unwrap_or(EMPTY_FRAME);
                (header("assistant", index).format(self.prefill()), rest)
            }
        };
        let has_text = parts.iter().any(|part| matches!(part, TurnPart::Text(text) if !trimmed(text).is_empty()));
        let mut content = Chunk::default();
        for part in parts {
            content = match part {
                TurnPart::Thinking(_) if !self.shows_reasoning(conversation, index) => content,
                TurnPart::Thinking(reasoning) => {
                    content.format("<think>\n").content(reasoning).format("\n</think>\n\n")
                }
                TurnPart::Text(text) => content.content(text),
            };
        }
        for (place, call) in xml_calls(message, index, self.value_style())?.into_iter().enumerate() {
            let separator = match place {
                0 if has_text => "\n\n",
                0 => "",
                _ => "\n",
            };
            content = content.format(separator).join(call);
        }
        let output = vec![Chunk::of_format(frame), content.format(END)];
        Ok(RenderedMessage { header, output, ..RenderedMessage::default() })
    }

    /// The system message: how much to reason, the tools, and what it says itself, with empty lines between them.
    fn system<'m>(&self, message: &ChatMessage<'m>, tools: &[Tool<'m>]) -> Chunk<'m> {
        let text = match (self.cookbook_exact, tools) {
            (false, _) | (true, []) => trimmed_cow(message.visible_text()),
            // The cookbook trims what the system message says together with the tools that it puts before.
            (true, _) => trimmed_end_cow(message.visible_text()),
        };
        let sets_effort =
            text.strip_prefix(self.effort).is_some_and(|rest| rest.is_empty() || rest.starts_with("\n\n"));
        let effort = if sets_effort { "" } else { self.effort };
        let tools = match tools {
            [] => Chunk::default(),
            tools => xml_tools(json_lines(tools, self.value_style())),
        };
        let sections = [Chunk::of_format(effort), tools, Chunk::default().content(text)];
        sections.into_iter().filter(|section| !section.is_empty()).fold(Chunk::default(), |all, section| {
            let separator = if all.is_empty() { "" } else { "\n\n" };
            all.format(separator).join(section)
        })
    }
}

/// Parts with the white space around all their text left out: before the first text that says something, and behind the
/// last.
fn trimmed_parts<'m>(parts: &[ChatPart<'m>]) -> Vec<ChatPart<'m>> {
    let mut parts = parts.to_vec();
    let trim = |part: &mut ChatPart<'m>, strip: fn(&'m str) -> &'m str| {
        let ChatPart::Text(text) = *part else { return false };
        let rest = strip(text);
        *part = ChatPart::Text(rest);
        !rest.is_empty()
    };
    let _ = parts.iter_mut().any(|part| trim(part, |text| text.trim_start_matches(is_space)));
    let _ = parts.iter_mut().rev().any(|part| trim(part, |text| text.trim_end_matches(is_space)));
    parts
}

fn answers_last_user(conversation: &Conversation<'_>, index: usize) -> bool {
    conversation.last_user().is_none_or(|last_user| index > last_user)
}

impl Format for Qwen35 {
    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        match message.role {
            "assistant" => self.assistant(conversation, index),
            "tool" => {
                let responses = ToolResponses { grouped: true, separator: "\n", closing: "\n</tool_response>" };
                Ok(responses.message(conversation, index, trimmed_cow(message.visible_text())))
            }
            "system" if index == 0 => {
                Ok(im_start::plain_message(message, index, self.system(message, conversation.tools())))
            }
            _ => Ok(im_start::plain_message(
                message,
                index,
                Chunk::default().content(trimmed_cow(message.visible_text())),
            )),
        }
    }

    fn generation_prompt(&self, conversation: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        Ok(im_start::generation_prompt(conversation, self.prefill()))
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        im_start::STOP_TOKENS
    }

    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::of_format(END)
    }

    /// Qwen3.8 says how much to reason even without a system message, and writes no system message that is
    /// empty.
    fn complete<'m>(&self, mut messages: Vec<Cow<'m, Message>>, declares_tools: bool) -> Vec<Cow<'m, Message>> {
        let has_system = messages.first().is_some_and(|message| message.role == "system");
        if self.generation == Generation::Qwen38 && !has_system && !self.effort.is_empty() {
            messages.insert(0, Cow::Owned(Message::text("system", "")));
        }
        let is_blank = || messages[0].plain_text(0).is_ok_and(|text| trimmed(&text).is_empty());
        let is_needed = declares_tools || !self.effort.is_empty();
        if self.generation == Generation::Qwen38 && has_system && !is_needed && is_blank() {
            messages.remove(0);
        }
        messages
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::QwenXml
    }

    fn cookbook_split(&self) -> CookbookSplit {
        CookbookSplit::ByMessage
    }

    fn disables_thinking(&self) -> bool {
        self.disables_thinking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_trimmed_as_the_one_text_that_they_are() {
        use ChatPart::{Text, Thinking};
        for (given, trimmed) in [
            (vec![Text(" a "), Text(" b ")], vec![Text("a "), Text(" b")]),
            (vec![Text(" "), Thinking(" t "), Text("\n a")], vec![Text(""), Thinking(" t "), Text("a")]),
            (vec![Text("a\n"), Text(" \t")], vec![Text("a"), Text("")]),
            (vec![Text(" "), Text(" ")], vec![Text(""), Text("")]),
            (vec![Thinking(" t ")], vec![Thinking(" t ")]),
        ] {
            assert_eq!(trimmed_parts(&given), trimmed, "{given:?}");
        }
    }
}
