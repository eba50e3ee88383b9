//! What a model's chat template is good for: whether conversations stay append-only, what reads replies back, whether
//! text can forge control tokens, and where turns end.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use fulgurite_types::{Content, Message};
use serde::Serialize;
use serde_json::Value;

use crate::templates::interpreter::program::UnknownName;
use crate::templates::pieces::without_prefix;
use crate::templates::template_conversations::{REASONING, a_user, an_answer, calling, declared, reasoning, result_of};
use crate::templates::template_response_format::{ReadBack, turns};
use crate::templates::template_roles::LateSystem;
use crate::tokenizer::piece::Piece;
use crate::{RenderError, Renderer, ResponseFormat, TemplateOptions, TemplateRenderer, Tokenizer};

/// What [`check_template`] found out about a model directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TemplateReport {
    /// Whether what follows a turn is rendered without the history before it, at the cost of the new messages alone.
    pub continues_without_history: bool,
    /// The field from which the template reads an assistant's reasoning.
    pub reasoning_field: Option<&'static str>,
    /// How replies are read.
    pub response_format: ResponseFormat,
    /// Tokens at which a turn ends or sampling stops.
    pub stop_tokens: Vec<StopToken>,
    /// Everything that was checked, in words.
    pub findings: Vec<Finding>,
}

/// A token that ends a turn, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StopToken {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub text: String,
    /// Whether sampling stops at it: `generation_config.json` or the `eos_token` of `tokenizer_config.json`.
    pub stops_sampling: bool,
    /// Whether the template ends an assistant's text with it.
    pub written_by_template: bool,
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked: `append_only`, `continuation`, `round_trip`, `injection`, `stop_tokens`, `tools`, `roles`,
    /// `names` or `date`.
    pub check: &'static str,
    /// How it came out.
    pub verdict: TemplateVerdict,
    /// What was found, and what can be done about it.
    pub message: String,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplateVerdict {
    /// As it should be.
    Ok,
    /// It works, at a cost or within limits.
    Warning,
    /// Training or sampling with this directory goes wrong.
    Fault,
}

impl fmt::Display for TemplateVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Fault => "fault",
        })
    }
}

impl TemplateReport {
    /// The worst of the verdicts.
    pub fn verdict(&self) -> TemplateVerdict {
        self.findings.iter().map(|finding| finding.verdict).max().unwrap_or(TemplateVerdict::Ok)
    }
}

/// Checks the chat template and the tokenizer of a model directory. Fails where there is no template, or none that
/// compiles.
pub fn check_template(model_dir: &Path) -> Result<TemplateReport, RenderError> {
    let tokenizer = Arc::new(Tokenizer::open(model_dir)?);
    let open = |date: &str| {
        let options = TemplateOptions { current_date: Some(date.to_owned()), ..TemplateOptions::default() };
        let no_template = || RenderError::NoTemplate { path: model_dir.to_owned() };
        TemplateRenderer::open(tokenizer.clone(), options)?.ok_or_else(no_template)
    };
    let renderer = open("2001-02-03")?;
    let mut check = Check { renderer: &renderer, findings: Vec::new() };
    let stop_tokens = check.stop_tokens();
    check.append_only();
    check.continuation();
    check.round_trips();
    check.injection();
    check.tools();
    check.roles();
    check.names();
    check.date(&open("2004-05-06")?);
    Ok(TemplateReport {
        continues_without_history: !renderer.continues_by_history,
        reasoning_field: renderer.reasoning_field(),
        response_format: renderer.response_format(),
        stop_tokens,
        findings: check.findings,
    })
}

struct Check<'r> {
    renderer: &'r TemplateRenderer,
    findings: Vec<Finding>,
}

/// What becomes of a turn when the conversation goes on.
enum TurnInHistory {
    Whole,
    /// The prompt that the turn answers is not in the history.
    WithoutPrompt,
    /// The turn is written otherwise once messages follow.
    Rewritten,
    /// The turn is written without its reasoning even where it is the last.
    WithoutReasoning,
}

impl Check<'_> {
    fn found(&mut self, check: &'static str, verdict: TemplateVerdict, message: impl Into<String>) {
        self.findings.push(Finding { check, verdict, message: message.into() });
    }

    fn stop_tokens(&mut self) -> Vec<StopToken> {
        let renderer = self.renderer;
        let stops = renderer.stop_tokens();
        let extra = renderer.turn_end.filter(|end| !stops.contains(end));
        let token = |id: u32| StopToken {
            id,
            text: renderer.tokenizer().decode(&[id]),
            stops_sampling: stops.contains(&id),
            written_by_template: renderer.turn_end == Some(id),
        };
        let tokens: Vec<StopToken> = stops.iter().copied().chain(extra).map(token).collect();
        let texts: Vec<String> =
            tokens.iter().filter(|token| token.stops_sampling).map(|token| format!("`{}`", token.text)).collect();
        let texts = texts.join(", ");
        let (verdict, message) = match tokens.iter().find(|token| token.written_by_template) {
            None => (
                TemplateVerdict::Fault,
                "the template ends an assistant's text with no control token, so a model cannot learn to end its turn"
                    .to_owned(),
            ),
            Some(end) if end.stops_sampling => {
                (TemplateVerdict::Ok, format!("sampling stops at {texts}; the template ends turns with `{}`", end.text))
            }
            Some(end) if stops.is_empty() => (
                TemplateVerdict::Fault,
                format!(
                    "sampling stops at no token; add {} (`{}`), with which the template ends turns, to `eos_token_id` in generation_config.json",
                    end.id, end.text
                ),
            ),
            Some(end) => (
                TemplateVerdict::Warning,
                format!(
                    "the template ends earlier turns with `{}`, sampling stops only at {texts}; if the model ends its turns with `{}` too, add {} to `eos_token_id` in generation_config.json",
                    end.text, end.text, end.id
                ),
            ),
        };
        self.found("stop_tokens", verdict, message);
        tokens
    }

    fn append_only(&mut self) {
        let thinking = self.renderer.reasoning_field().is_some();
        for (what, history, turn, new) in conversations() {
            if what.contains("reasoning") && !thinking {
                continue;
            }
            match self.turn_in_history(&history, &turn, &new) {
                Err(error) => self.found("append_only", TemplateVerdict::Warning, format!("{what}: the template refuses this ({error})")),
                Ok(TurnInHistory::Whole) => self.found("append_only", TemplateVerdict::Ok, format!("{what}: later prompts begin with all that was said")),
                Ok(TurnInHistory::Rewritten) => self.found(
                    "append_only",
                    TemplateVerdict::Warning,
                    format!(
                        "{what}: the template writes the turn otherwise once messages follow; the `exact` policy keeps what was sampled, under `template_faithful` each turn starts a sequence of its own"
                    ),
                ),
                Ok(TurnInHistory::WithoutReasoning) => self.found(
                    "append_only",
                    TemplateVerdict::Warning,
                    format!("{what}: the template leaves the reasoning out; supervised training does not teach it"),
                ),
                Ok(TurnInHistory::WithoutPrompt) => self.found(
                    "append_only",
                    TemplateVerdict::Warning,
                    format!(
                        "{what}: the history does not hold the generation prompt that the turn answers; the `exact` policy keeps it, supervised training of this turn is refused"
                    ),
                ),
            }
        }
    }

    fn turn_in_history(
        &self,
        history: &[Message],
        turn: &Message,
        new: &[Message],
    ) -> Result<TurnInHistory, RenderError> {
        let renderer = self.renderer;
        let tools = if turn.tool_calls.is_empty() { Vec::new() } else { vec![declared("probe")] };
        let with_turn = [history, std::slice::from_ref(turn)].concat();
        let prompt = renderer.pieces(history, &tools, true)?;
        let whole = renderer.pieces(&with_turn, &tools, false)?;
        let next = renderer.pieces(&[with_turn.as_slice(), new].concat(), &tools, true)?;
        let Some(answered) = without_prefix(&whole, &prompt) else { return Ok(TurnInHistory::WithoutPrompt) };
        let ends_turn = |piece: &Piece| matches!(piece, Piece::Control(id) if renderer.ends_turn(*id));
        let reasons = |piece: &Piece| matches!(piece, Piece::Text(text) if text.contains(REASONING));
        if !turn.extra.is_empty() && !answered.iter().any(reasons) {
            return Ok(TurnInHistory::WithoutReasoning);
        }
        let end = answered.iter().rposition(ends_turn).ok_or(RenderError::NoTurnEnd)?;
        let sampled = [prompt.as_slice(), &answered[..=end]].concat();
        Ok(if without_prefix(&next, &sampled).is_some() { TurnInHistory::Whole } else { TurnInHistory::Rewritten })
    }

    fn continuation(&mut self) {
        let (_, history, turn, new) = conversations().swap_remove(0);
        let messages = [history.as_slice(), std::slice::from_ref(&turn), &new].concat();
        let new_from = history.len() + 1;
        let continuation = crate::Continuation { messages: &messages, new_from, sampled: &[], tools: &[] };
        let (verdict, message) = match (self.renderer.render_continuation(&continuation), self.renderer.continues_by_history) {
            (Err(error), _) => (TemplateVerdict::Fault, format!("no prompt can continue a sampled turn: {error}")),
            (Ok(_), false) => (TemplateVerdict::Ok, "new messages are rendered without the history before them".to_owned()),
            (Ok(_), true) => (
                TemplateVerdict::Warning,
                "what follows a turn depends on the history before it, so each call renders (but does not tokenise) the whole conversation".to_owned(),
            ),
        };
        self.found("continuation", verdict, message);
    }

    fn round_trips(&mut self) {
        let format = self.renderer.response_format();
        for (what, turn) in turns() {
            if what.contains("reasoning") && self.renderer.reasoning_field().is_none() {
                continue;
            }
            match self.renderer.reads_back(format, &turn) {
                ReadBack::Unwritten(error) => self.found("round_trip", TemplateVerdict::Warning, format!("{what}: it could not be found out how this is read: {error}")),
                ReadBack::LeftOut => self.found("round_trip", TemplateVerdict::Warning, format!("{what}: the template does not show this")),
                ReadBack::Same => self.found("round_trip", TemplateVerdict::Ok, format!("{what}: read back as {format:?}")),
                ReadBack::Otherwise => self.found(
                    "round_trip",
                    TemplateVerdict::Warning,
                    format!("{what}: {format:?}, which reads most of what this template writes, does not read this back; agents get it as text"),
                ),
            }
        }
    }

    fn injection(&mut self) {
        let renderer = self.renderer;
        // Not at the beginning: marks of reasoning that begin an answer are the model's.
        let mut forged = "x".to_owned();
        forged.extend(renderer.tokenizer().control_tokens().map(|(text, _)| text));
        let count = |text: &str, place: Place<'_>| {
            let (messages, tools) = place(text);
            let pieces = renderer.pieces(&messages, &tools, true)?;
            Ok::<_, RenderError>(pieces.iter().filter(|piece| matches!(piece, Piece::Control(_))).count())
        };
        let in_result = |text: &str| {
            let result = Message { content: Some(Content::Text(text.to_owned())), ..result_of("fulgurit1") };
            (vec![a_user(), calling(&["fulgurit1"]), result], vec![])
        };
        let in_tool = |text: &str| {
            let mut tool = declared("probe");
            tool["function"]["description"] = text.into();
            (vec![a_user()], vec![tool])
        };
        let places: [(&str, Place<'_>); 5] = [
            ("a message of the user", &|text| (vec![Message::text("user", text)], vec![])),
            ("a system message", &|text| (vec![Message::text("system", text), a_user()], vec![])),
            ("an earlier reply", &|text| (vec![a_user(), Message::text("assistant", text), a_user()], vec![])),
            ("a tool's result", &in_result),
            ("a tool's description", &in_tool),
        ];
        for (what, place) in places {
            let Ok(plain) = count("x", place) else { continue };
            match count(&forged, place) {
                Ok(forged) if forged == plain => {
                    self.found(
                        "injection",
                        TemplateVerdict::Ok,
                        format!("{what} that spells control tokens stays text"),
                    );
                }
                Ok(_) => self.found(
                    "injection",
                    TemplateVerdict::Fault,
                    format!("{what} that spells control tokens makes control tokens"),
                ),
                Err(error) => self.found(
                    "injection",
                    TemplateVerdict::Warning,
                    format!("{what} that spells control tokens is refused: {error}"),
                ),
            }
        }
    }

    fn tools(&mut self) {
        let shown = self.shows(&[a_user()], &[declared("fulgurite_tool")], "fulgurite_tool");
        let (verdict, message) = match shown {
            true => (TemplateVerdict::Ok, "tools are declared to the model"),
            false => (
                TemplateVerdict::Warning,
                "the template does not show tools to the model; agents with tools need another renderer",
            ),
        };
        self.found("tools", verdict, message);
    }

    fn roles(&mut self) {
        let roles = self.renderer.roles_for(&[]);
        for role in ["system", "developer"] {
            let shown = self.shows(&[Message::text(role, "fulgurite"), a_user()], &[], "fulgurite");
            let (verdict, what) = match (shown, roles.takes(role, true)) {
                (true, true) => (TemplateVerdict::Ok, "is shown"),
                (true, false) if role == "developer" && roles.takes("system", true) => {
                    (TemplateVerdict::Ok, "is written as the system's, for the template does not show it")
                }
                (true, false) => (TemplateVerdict::Ok, "is said to the user, for the template does not show it"),
                (false, _) => (TemplateVerdict::Warning, "is refused or left out"),
            };
            self.found("roles", verdict, format!("a first message of the {role} {what}"));
        }
        let (verdict, what) = match roles.late_system() {
            LateSystem::InPlace => (TemplateVerdict::Ok, "is shown where it stands"),
            LateSystem::Nowhere => (TemplateVerdict::Ok, "is said to the user, for the template does not show it"),
            LateSystem::InFront => (
                TemplateVerdict::Warning,
                "is shown before the whole conversation; after a turn that was sampled it is said to the user",
            ),
        };
        self.found("roles", verdict, format!("a later message of the system {what}"));
        let result = Message { content: Some(Content::Text("fulgurite".to_owned())), ..result_of("fulgurit1") };
        let shown = self.shows(&[a_user(), calling(&["fulgurit1"]), result], &[declared("probe")], "fulgurite");
        let (verdict, what) = if shown {
            (TemplateVerdict::Ok, "are shown")
        } else {
            (TemplateVerdict::Warning, "are refused or left out")
        };
        self.found("roles", verdict, format!("results of tools {what}"));
    }

    fn names(&mut self) {
        let unknown: Vec<_> = self.renderer.unknown_names().cloned().collect();
        if unknown.is_empty() {
            self.found(
                "names",
                TemplateVerdict::Ok,
                "every filter, test, function and method that the template names is known",
            );
        }
        for UnknownName { kind, name, line } in unknown {
            // A method may be that of a field which holds a macro, and a function is often called only where it is defined.
            let may_be_fine = ["method", "function"].contains(&kind);
            let verdict = if may_be_fine { TemplateVerdict::Warning } else { TemplateVerdict::Fault };
            self.found(
                "names",
                verdict,
                format!("line {line}: there is no {kind} `{name}`; prompts that need it are refused"),
            );
        }
    }

    fn date(&mut self, another_day: &TemplateRenderer) {
        let prompt = |renderer: &TemplateRenderer| renderer.pieces(&[a_user()], &[], true).ok();
        let (verdict, message) = match prompt(self.renderer) == prompt(another_day) {
            true => (TemplateVerdict::Ok, "prompts do not tell the date"),
            false => {
                (TemplateVerdict::Warning, "prompts tell today's date and change at midnight; `current_date` fixes it")
            }
        };
        self.found("date", verdict, message);
    }

    fn shows(&self, messages: &[Message], tools: &[Value], text: &str) -> bool {
        let holds = |piece: &Piece| matches!(piece, Piece::Text(written) if written.contains(text));
        self.renderer.pieces(messages, tools, true).is_ok_and(|pieces| pieces.iter().any(holds))
    }
}

/// A conversation with a text in one place of it, and its tools.
type Place<'p> = &'p dyn Fn(&str) -> (Vec<Message>, Vec<Value>);

/// A description, the history, the turn, and what follows it.
type Conversation = (&'static str, Vec<Message>, Message, Vec<Message>);

/// Conversations that templates are known to rewrite, each with a turn in its middle.
fn conversations() -> Vec<Conversation> {
    let (one, two) = ("fulgurit1", "fulgurit2");
    let results = || vec![result_of(one), result_of(two)];
    vec![
        ("turns", vec![a_user()], an_answer(), vec![a_user()]),
        ("turns behind a system message", vec![Message::text("system", "s"), a_user()], an_answer(), vec![a_user()]),
        ("a turn with reasoning, before the user speaks again", vec![a_user()], reasoning(an_answer()), vec![a_user()]),
        ("a tool call", vec![a_user()], calling(&[one]), vec![result_of(one)]),
        (
            "a tool call, before the user speaks again",
            vec![a_user()],
            calling(&[one]),
            vec![result_of(one), an_answer(), a_user()],
        ),
        ("a tool call with reasoning", vec![a_user()], reasoning(calling(&[one])), vec![result_of(one)]),
        ("two tool calls", vec![a_user()], calling(&[one, two]), results()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FAMILY_TEMPLATES, directory_with_template, family_directory, vector_dir};

    fn findings(report: &TemplateReport, check: &str, verdict: TemplateVerdict) -> Vec<String> {
        let found = report.findings.iter().filter(|finding| finding.check == check && finding.verdict == verdict);
        found.map(|finding| finding.message.clone()).collect()
    }

    #[test]
    fn every_familys_template_is_told_for_what_it_is() {
        for name in FAMILY_TEMPLATES {
            let report = check_template(family_directory(name).path()).unwrap();
            assert_eq!(findings(&report, "injection", TemplateVerdict::Fault), [""; 0], "{name}");
            let format = match name {
                "qwen2_5" | "qwen3" | "qwen3_2507" => ResponseFormat::QwenJson,
                "qwen3_5" => ResponseFormat::QwenXml,
                "kimi" => ResponseFormat::Kimi,
                "gpt_oss" => ResponseFormat::Harmony,
                "llama3_1" => ResponseFormat::LlamaJson,
                "mistral" => ResponseFormat::Mistral,
                // Its history has no trace of the `<think>` that its prompt opens.
                "deepseek_v3" => ResponseFormat::DeepSeek,
                // Gemma's and Phi's have no calls.
                _ => ResponseFormat::Text,
            };
            assert_eq!(report.response_format, format, "{name}");
            let tools = !matches!(name, "gemma" | "phi" | "deepseek_v3");
            assert_eq!(findings(&report, "tools", TemplateVerdict::Ok).len(), usize::from(tools), "{name}");
            assert_eq!(report.continues_without_history, !matches!(name, "deepseek_v3" | "mistral"), "{name}");
            let dated = matches!(name, "llama3_1" | "gpt_oss");
            assert_eq!(findings(&report, "date", TemplateVerdict::Warning).len(), usize::from(dated), "{name}");
            let verdict =
                if matches!(name, "qwen2_5" | "qwen3_2507") { TemplateVerdict::Ok } else { TemplateVerdict::Warning };
            assert_eq!(report.verdict(), verdict, "{name}");
            let roles = findings(&report, "roles", TemplateVerdict::Ok);
            let by_system =
                "a first message of the developer is written as the system's, for the template does not show it";
            let shows_developer = matches!(name, "gpt_oss" | "kimi" | "llama3_1" | "phi");
            assert_eq!(roles.iter().any(|role| role == by_system), !shows_developer, "{name}: {roles:?}");
            let to_user = "a later message of the system is said to the user, for the template does not show it";
            let shows_late = !matches!(name, "qwen3_5" | "mistral" | "gemma" | "gpt_oss");
            assert_eq!(roles.iter().any(|role| role == to_user), !shows_late, "{name}: {roles:?}");
            let json = serde_json::to_value(&report).unwrap();
            assert!(json["findings"].as_array().unwrap().len() > 10, "{json}");
        }
    }

    #[test]
    fn what_a_template_rewrites_is_named() {
        let qwen3 = check_template(family_directory("qwen3").path()).unwrap();
        let rewritten = findings(&qwen3, "append_only", TemplateVerdict::Warning);
        assert!(
            rewritten.iter().any(|message| message.starts_with("a turn with reasoning, before the user")),
            "{rewritten:?}"
        );
        assert_eq!(qwen3.reasoning_field, Some("reasoning_content"));
        let plain = check_template(family_directory("qwen3_2507").path()).unwrap();
        assert_eq!(findings(&plain, "append_only", TemplateVerdict::Warning), [""; 0]);
        assert_eq!(findings(&plain, "round_trip", TemplateVerdict::Ok).len(), 4, "{plain:?}");
        let mistral = check_template(family_directory("mistral").path()).unwrap();
        let unread = findings(&mistral, "round_trip", TemplateVerdict::Warning);
        assert!(unread.iter().any(|message| message.starts_with("text and a tool call: ")), "{unread:?}");
        let read = findings(&mistral, "round_trip", TemplateVerdict::Ok);
        assert!(read.iter().any(|message| message == "two tool calls: read back as Mistral"), "{read:?}");
    }

    #[test]
    fn a_turn_at_whose_end_sampling_does_not_stop_is_named() {
        let chatml = crate::CHATML_TEMPLATE;
        let dir = directory_with_template("qwen3", chatml, "<|endoftext|>");
        let report = check_template(dir.path()).unwrap();
        let warnings = findings(&report, "stop_tokens", TemplateVerdict::Warning);
        assert!(warnings[0].contains("ends earlier turns with `<|im_end|>`, sampling stops only at `<|endoftext|>`"));
        let texts: Vec<&str> = report.stop_tokens.iter().map(|token| token.text.as_str()).collect();
        assert_eq!(texts, ["<|endoftext|>", "<|im_end|>"]);

        let nowhere = check_template(directory_with_template("qwen3", chatml, "").path()).unwrap();
        assert!(
            findings(&nowhere, "stop_tokens", TemplateVerdict::Fault)[0]
                .contains("to `eos_token_id` in generation_config.json")
        );
        let endless = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}";
        let endless = check_template(directory_with_template("qwen3", endless, "<|im_end|>").path()).unwrap();
        assert_eq!(findings(&endless, "stop_tokens", TemplateVerdict::Fault).len(), 1);
        assert_eq!(findings(&endless, "continuation", TemplateVerdict::Fault).len(), 1);
        assert_eq!(endless.verdict(), TemplateVerdict::Fault);
    }

    #[test]
    fn a_directory_without_a_template_is_an_error() {
        assert!(matches!(check_template(&vector_dir("qwen3")), Err(RenderError::NoTemplate { .. })));
    }
}
