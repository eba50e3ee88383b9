use fulgurite_types::{FunctionCall, Message};
use serde_json::Value;

use crate::parsing::TurnEnds;
use crate::templates::interpreter::program::UnknownName;
use crate::templates::pieces::after_common;
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
        let written: Vec<WrittenTurn> = turns().iter().filter_map(|(_, turn)| self.written(turn).ok()).collect();
        let mut best = (0, ResponseFormat::Text);
        for format in CANDIDATES {
            let read = written.iter().filter(|turn| self.reads(format, turn) == ReadBack::Same).count();
            if read > best.0 {
                best = (read, format);
            }
        }
        best.1
    }

    /// Whether a format reads a turn back just as the template was given it.
    pub(crate) fn reads_back(&self, format: ResponseFormat, turn: &Message) -> ReadBack {
        match self.written(turn) {
            Ok(written) => self.reads(format, &written),
            Err(error) => ReadBack::Unwritten(error),
        }
    }

    fn reads(&self, format: ResponseFormat, written: &WrittenTurn) -> ReadBack {
        let WrittenTurn { prompt, sampled, turn } = written;
        if !turn.extra.is_empty() && !self.tokenizer().decode(sampled).contains(REASONING) {
            return ReadBack::LeftOut;
        }
        let ends: Vec<u32> = self.stop_tokens().iter().copied().chain(self.turn_end).collect();
        let ends = TurnEnds { tokens: &ends, text: None };
        let mut parser = StreamParser::new(self.tokenizer(), format, ends, prompt, &[declared("probe")]);
        parser.feed(sampled);
        match means_the_same(&parser.finish().1.message(), turn) {
            true => ReadBack::Same,
            false => ReadBack::Otherwise,
        }
    }

    /// The tokens of a prompt, and those that a model would sample to answer it with `turn`. What one way of writing a
    /// turn fails at, the next may do: with shorter ids, and where the prompt opens the reasoning that the history leaves
    /// out, with reasoning that is closed first. The first way's error is the answer where all fail.
    fn written(&self, turn: &Message) -> Result<WrittenTurn, RenderError> {
        let short = with_short_ids(turn);
        let as_given = self.written_as_given(turn);
        as_given.or_else(|error| {
            let others = || {
                let alone = self.written_as_given(&short);
                alone
                    .or_else(|_| self.written_behind_reasoning(turn))
                    .or_else(|_| self.written_behind_reasoning(&short))
            };
            others().map_err(|_| error)
        })
    }

    fn written_as_given(&self, turn: &Message) -> Result<WrittenTurn, RenderError> {
        let tools = [declared("probe")];
        let prompt = self.pieces(&[a_user()], &tools, true)?;
        let written = self.sampled_turn(&prompt, &[a_user(), turn.clone()], &tools)?;
        let sampled: Vec<Piece> = [written.unsampled, written.sampled].concat();
        Ok(WrittenTurn {
            prompt: self.tokenizer().encode_pieces(&prompt)?,
            sampled: self.tokenizer().encode_pieces(&sampled)?,
            turn: turn.clone(),
        })
    }

    /// A turn after a prompt that opens its reasoning, in a template that leaves reasoning out of the history.
    fn written_behind_reasoning(&self, turn: &Message) -> Result<WrittenTurn, RenderError> {
        let tools = [declared("probe")];
        let prompt = self.pieces(&[a_user()], &tools, true)?;
        let whole = self.pieces(&[a_user(), turn.clone()], &tools, false)?;
        let (opened, answer) = after_common(&prompt, &whole);
        let not_append_only = RenderError::NotAppendOnly { message_index: 1 };
        let opened = self.tokenizer().decode(&self.tokenizer().encode_pieces(&opened)?);
        let Some(close) = closing_mark(opened.trim()) else { return Err(not_append_only) };
        let ends_turn = |piece: &Piece| matches!(piece, Piece::Control(id) if self.ends_turn(*id));
        let end = answer.iter().rposition(ends_turn).ok_or(RenderError::NoStop { message_index: 1 })?;
        let mut sampled = vec![Piece::Text(REASONING.to_owned() + "\n")];
        sampled.extend(self.tokenizer().split_control(&close));
        sampled.push(Piece::Text("\n\n".to_owned()));
        sampled.extend_from_slice(&answer[..=end]);
        let turn = if turn.extra.is_empty() { reasoning(turn.clone()) } else { turn.clone() };
        Ok(WrittenTurn {
            prompt: self.tokenizer().encode_pieces(&prompt)?,
            sampled: self.tokenizer().encode_pieces(&sampled)?,
            turn,
        })
    }

    /// What the template cannot do that conversations may need, as far as it can be found out without one.
    pub(crate) fn template_warnings(&self) -> Vec<String> {
        let unknown = self.unknown_names().map(|unknown| {
            let UnknownName { kind, name, line } = unknown;
            format!("its template uses the {kind} `{name}` (line {line}), which is not known here: prompts that need it are refused")
        });
        let failed = turns().into_iter().filter_map(|(what, turn)| {
            let error = self.written(&turn).err()?;
            // What templates say themselves, or leave out, is no fault of theirs.
            matches!(error, RenderError::Template { .. } | RenderError::NotAppendOnly { .. }).then(|| {
                format!(
                    "how it writes {what} could not be found out, so replies of that kind may be read as text: {error}"
                )
            })
        });
        unknown.chain(failed).collect()
    }
}

/// A turn as a model samples it.
struct WrittenTurn {
    prompt: Vec<u32>,
    sampled: Vec<u32>,
    /// What is to be read of it.
    turn: Message,
}

/// What becomes of a turn that a template writes and a format reads.
#[derive(Debug)]
pub(crate) enum ReadBack {
    /// It is read as the template was given it.
    Same,
    /// Something else is read.
    Otherwise,
    /// The template leaves some of it out.
    LeftOut,
    /// The template does not write it.
    Unwritten(RenderError),
}

impl PartialEq for ReadBack {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What closes that which a prompt has opened: `</think>` for `<think>`.
fn closing_mark(opened: &str) -> Option<String> {
    let pairs = [('<', '>'), ('[', ']')];
    pairs.iter().find_map(|(begin, end)| {
        let name = opened.strip_prefix(*begin)?.strip_suffix(*end)?;
        let is_name =
            !name.is_empty() && name.chars().all(|character| character.is_alphanumeric() || "_|".contains(character));
        is_name.then(|| format!("{begin}/{name}{end}"))
    })
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::directory_with_template;
    use crate::{ParsedMessage, Tokenizer, TrainOnWhat};

    fn renderer(template: &str) -> TemplateRenderer {
        let dir = directory_with_template("qwen3", template, "<|im_end|>");
        let tokenizer = Arc::new(Tokenizer::open(dir.path()).unwrap());
        TemplateRenderer::open(tokenizer, Default::default()).unwrap().unwrap()
    }

    fn think_opened() -> TemplateRenderer {
        renderer(include_str!("../../tests/vectors/templates/think_opened.jinja"))
    }

    fn read(renderer: &TemplateRenderer, sampled: &str) -> ParsedMessage {
        let tools = [declared("f")];
        let prompt = renderer.render_prompt(&[a_user()], &tools).unwrap().tokens;
        renderer.parse(&prompt, &renderer.tokenizer().encode_with_specials(sampled).unwrap(), &tools)
    }

    #[test]
    fn replies_are_read_where_the_prompt_opens_reasoning_that_the_history_leaves_out() {
        let renderer = think_opened();
        assert_eq!(renderer.response_format(), ResponseFormat::QwenJson);
        assert_eq!(renderer.warnings(), [""; 0]);
        let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}\n</tool_call><|im_end|>";
        let message = read(&renderer, &format!("r\n</think>\n\n{call}")).message();
        assert_eq!(message.extra["reasoning_content"].as_str().map(str::trim), Some("r"));
        assert_eq!(message.tool_calls.len(), 1);
        assert_eq!(message.tool_calls[0].function.name, "f");
        assert_eq!(message.plain_text(0).unwrap_or_default().trim(), "");
        // Other marks, and a template whose calls nothing reads.
        let other = include_str!("../../tests/vectors/templates/think_opened.jinja")
            .replace("assistant\\n<think>\\n", "assistant\\n<think>");
        assert_eq!(self::renderer(&other).response_format(), ResponseFormat::QwenJson);
        let messages = [a_user(), an_answer()];
        assert!(renderer.render_supervised(&messages, &[], &TrainOnWhat::AllAssistantMessages).is_err());
    }

    #[test]
    fn a_probe_that_fails_is_told_when_the_model_is_opened() {
        let broken = include_str!("../../tests/vectors/templates/think_opened.jinja")
            .replace("{{- tool_call.name }}", "{{- tool_call.name | nosuch }}{{ x.frobnicate() if x }}");
        let warnings = renderer(&broken).warnings();
        assert!(warnings.iter().any(|warning| warning.contains("the filter `nosuch` (line 34)")), "{warnings:#?}");
        assert!(warnings.iter().any(|warning| warning.contains("the method `frobnicate`")), "{warnings:#?}");
        assert!(warnings.iter().any(|warning| warning.contains("how it writes a tool call could not be found out")));
    }

    #[test]
    fn arguments_may_be_read_by_the_template_itself() {
        let template = "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{% set a = c.function.arguments|fromjson %}{% for k, v in a.items() %}<k>{{k}}</k><v>{{v}}</v>{% endfor %}{% endfor %}{% else %}{{m.role}}:{{m.content}}{% endif %}<|im_end|>{% endfor %}";
        let renderer = renderer(template);
        assert!(renderer.unknown_names().next().is_none());
        let text = renderer.render_text(&[a_user(), calling(&["fulgurit1"]), a_user()], &[]).unwrap();
        assert_eq!(text, "user:a<|im_end|><k>city</k><v>Paris</v><|im_end|>user:a<|im_end|>");
    }
}
