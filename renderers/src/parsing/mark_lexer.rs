use std::sync::Arc;

use crate::{ResponseFormat, StreamDecoder, Tokenizer};

/// What a format's own token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Reasoning begins and ends.
    ThinkOpen,
    ThinkClose,
    /// A section of calls begins and ends.
    SectionOpen,
    SectionClose,
    /// A call begins and ends.
    CallOpen,
    CallClose,
    /// What names a call ends, and its arguments begin.
    Arguments,
    /// GLM, DSML: the name of an argument begins; GLM: it ends.
    KeyOpen,
    KeyClose,
    /// GLM: the value of an argument begins; GLM, DSML: it ends.
    ValueOpen,
    ValueClose,
    /// Harmony: a message begins.
    Start,
    /// Harmony: the channel's name follows.
    Channel,
    /// Harmony: the type of the body follows.
    Constrain,
    /// Harmony: the body follows.
    Body,
    /// Harmony: the message ends.
    End,
    /// A list of calls, whose bracket the mark holds.
    ListOpen,
    /// Mistral: the call's id follows.
    CallId,
    /// Gemma: a text of the arguments begins or ends.
    Quote,
    /// Llama: a call follows.
    PythonTag,
    /// A text that ends the turn.
    Stop,
}

const THINK: [(Mark, &str); 2] = [(Mark::ThinkOpen, "<think>"), (Mark::ThinkClose, "</think>")];
const QWEN: [(Mark, &str); 2] = [(Mark::CallOpen, "<tool_call>"), (Mark::CallClose, "</tool_call>")];
const GLM: [(Mark, &str); 4] = [
    (Mark::KeyOpen, "<arg_key>"),
    (Mark::KeyClose, "</arg_key>"),
    (Mark::ValueOpen, "<arg_value>"),
    (Mark::ValueClose, "</arg_value>"),
];
const DEEPSEEK: [(Mark, &str); 5] = [
    (Mark::SectionOpen, "<｜tool▁calls▁begin｜>"),
    (Mark::SectionClose, "<｜tool▁calls▁end｜>"),
    (Mark::CallOpen, "<｜tool▁call▁begin｜>"),
    (Mark::Arguments, "<｜tool▁sep｜>"),
    (Mark::CallClose, "<｜tool▁call▁end｜>"),
];
const DSML: [(Mark, &str); 6] = [
    (Mark::SectionOpen, "<｜DSML｜ calls>"),
    (Mark::SectionClose, "</｜DSML｜ calls>"),
    (Mark::CallOpen, "<｜DSML｜ invoke"),
    (Mark::CallClose, "</｜DSML｜ invoke>"),
    (Mark::KeyOpen, "<｜DSML｜ parameter"),
    (Mark::ValueClose, "</｜DSML｜ parameter>"),
];
/// A token that stands within marks of DSML, which have none of their own.
const DSML_TOKEN: &str = "｜DSML｜";
const KIMI: [(Mark, &str); 7] = [
    (Mark::SectionOpen, "<|tool_calls_section_begin|>"),
    (Mark::SectionClose, "<|tool_calls_section_end|>"),
    (Mark::SectionOpen, "<|tool_call_section_begin|>"),
    (Mark::SectionClose, "<|tool_call_section_end|>"),
    (Mark::CallOpen, "<|tool_call_begin|>"),
    (Mark::Arguments, "<|tool_call_argument_begin|>"),
    (Mark::CallClose, "<|tool_call_end|>"),
];
const HARMONY: [(Mark, &str); 7] = [
    (Mark::Start, "<|start|>"),
    (Mark::Channel, "<|channel|>"),
    (Mark::Constrain, "<|constrain|>"),
    (Mark::Body, "<|message|>"),
    (Mark::End, "<|end|>"),
    (Mark::End, "<|call|>"),
    (Mark::End, "<|return|>"),
];
const LLAMA: [(Mark, &str); 1] = [(Mark::PythonTag, "<|python_tag|>")];
const MISTRAL: [(Mark, &str); 5] = [
    (Mark::ThinkOpen, "[THINK]"),
    (Mark::ThinkClose, "[/THINK]"),
    (Mark::CallOpen, "[TOOL_CALLS]"),
    (Mark::CallId, "[CALL_ID]"),
    (Mark::Arguments, "[ARGS]"),
];
const PHI: [(Mark, &str); 3] =
    [(Mark::CallOpen, "<|tool_call|>"), (Mark::CallClose, "<|/tool_call|>"), (Mark::ListOpen, "functools[")];
const GEMMA: [(Mark, &str); 6] = [
    (Mark::CallOpen, "<start_function_call>"),
    (Mark::CallClose, "<end_function_call>"),
    (Mark::Quote, "<escape>"),
    (Mark::CallOpen, "<|tool_call>"),
    (Mark::CallClose, "<tool_call|>"),
    (Mark::Quote, "<|\"|>"),
];

/// The texts of a format's marks.
#[cfg(any(test, fuzzing))]
pub(crate) fn mark_texts(format: ResponseFormat) -> Vec<&'static str> {
    marks(format).into_iter().map(|(_, text)| text).collect()
}

/// The marks of a format.
pub(crate) fn marks(format: ResponseFormat) -> Vec<(Mark, &'static str)> {
    match format {
        ResponseFormat::Text | ResponseFormat::RoleColon => Vec::new(),
        ResponseFormat::QwenJson | ResponseFormat::QwenXml => [THINK, QWEN].concat(),
        ResponseFormat::Glm => [&THINK[..], &QWEN, &GLM].concat(),
        ResponseFormat::DeepSeek => [&THINK[..], &DEEPSEEK].concat(),
        ResponseFormat::Dsml => [&THINK[..], &DSML].concat(),
        ResponseFormat::Kimi => [&THINK[..], &KIMI].concat(),
        ResponseFormat::Harmony => HARMONY.to_vec(),
        ResponseFormat::LlamaJson => LLAMA.to_vec(),
        ResponseFormat::Mistral => MISTRAL.to_vec(),
        ResponseFormat::Phi => PHI.to_vec(),
        ResponseFormat::Gemma => GEMMA.to_vec(),
    }
}

/// A piece of what was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lexeme<T = String> {
    /// Text; never empty.
    Text(T),
    /// A mark and its text.
    Mark(Mark, T),
}

impl Lexeme<&str> {
    fn into_owned(self) -> Lexeme {
        match self {
            Self::Text(text) => Lexeme::Text(text.to_owned()),
            Self::Mark(mark, text) => Lexeme::Mark(mark, text.to_owned()),
        }
    }
}

impl Lexeme {
    pub(crate) fn as_str(&self) -> Lexeme<&str> {
        match self {
            Self::Text(text) => Lexeme::Text(text),
            Self::Mark(mark, text) => Lexeme::Mark(*mark, text),
        }
    }
}

/// Receives pieces as they become certain.
pub(crate) type EmitLexeme<'t> = dyn FnMut(Lexeme<&str>) + 't;

/// Tells marks from text.
///
/// A mark that the tokenizer has as a control token is that token and nothing else: the same letters sampled as
/// ordinary tokens are text, as in a quotation. A mark that the tokenizer has no token for is recognised by its
/// letters, and text that may be its beginning is held back until that is clear. Where the tokenizer has a token for what
/// stands within a mark, that must be the token.
#[derive(Clone, Debug)]
pub(crate) struct MarkLexer {
    decoder: StreamDecoder,
    tokens: Vec<(u32, Mark, &'static str)>,
    spelled: Vec<(Mark, String)>,
    /// Text that may be the beginning of a spelled mark.
    held: String,
    /// The token that stands within spelled marks, if the tokenizer has it.
    inner: Option<u32>,
    /// Where that token stands in `held`.
    inner_at: Vec<usize>,
}

impl MarkLexer {
    /// A lexer for a format, with a text that ends the turn if it has one.
    pub(crate) fn new(tokenizer: Arc<Tokenizer>, format: ResponseFormat, stop: Option<&str>) -> Self {
        let mut this = Self {
            tokens: Vec::new(),
            spelled: stop.map(|stop| (Mark::Stop, stop.to_owned())).into_iter().collect(),
            held: String::new(),
            inner: (format == ResponseFormat::Dsml)
                .then(|| tokenizer.token_to_id(DSML_TOKEN).filter(|token| tokenizer.is_control(*token)))
                .flatten(),
            inner_at: Vec::new(),
            decoder: StreamDecoder::new(tokenizer.clone()),
        };
        for (mark, text) in marks(format) {
            match tokenizer.token_to_id(text).filter(|token| tokenizer.is_control(*token)) {
                Some(token) => this.tokens.push((token, mark, text)),
                None => this.spelled.push((mark, text.to_owned())),
            }
        }
        this
    }

    /// Whether the format has marks.
    pub(crate) fn has_marks(&self) -> bool {
        !self.tokens.is_empty() || self.spelled.iter().any(|(mark, _)| *mark != Mark::Stop)
    }

    /// The mark that a token is.
    pub(crate) fn mark_of(&self, token: u32) -> Option<Mark> {
        self.tokens.iter().find(|(id, ..)| *id == token).map(|(_, mark, _)| *mark)
    }

    /// What a prompt says of the turn that is now sampled: everything from the first mark behind the last control token
    /// that is none. (Harmony's `<|start|>` is a mark, and begins a message by itself.) Where a prompt has no control
    /// tokens at all, turns cannot be told apart, and nothing is taken to be open.
    pub(crate) fn opened_by(&self, tokenizer: &Tokenizer, prompt: &[u32]) -> Vec<Lexeme> {
        let is_bound = |token: &u32| match self.mark_of(*token) {
            Some(mark) => mark == Mark::Start,
            None => tokenizer.is_control(*token) && self.inner != Some(*token),
        };
        let bound = prompt.iter().rposition(is_bound);
        let first_mark = || prompt.iter().position(|token| self.mark_of(*token).is_some());
        let Some(bound) = bound.or_else(first_mark) else { return Vec::new() };
        let (mut lexer, mut lexemes) = (self.clone(), Vec::new());
        let mut keep = |lexeme: Lexeme<&str>| lexemes.push(lexeme.into_owned());
        prompt[bound..].iter().for_each(|token| lexer.feed(*token, &mut keep));
        lexer.flush(&mut keep);
        let is_opening = |lexeme: &Lexeme| matches!(lexeme, Lexeme::Mark(mark, _) if *mark != Mark::Stop);
        match lexemes.iter().position(is_opening) {
            Some(first_mark) => lexemes.split_off(first_mark),
            None => Vec::new(),
        }
    }

    /// Takes the next token and emits what is certain now.
    pub(crate) fn feed(&mut self, token: u32, emit: &mut EmitLexeme<'_>) {
        match self.tokens.iter().find(|(id, ..)| *id == token).copied() {
            Some((_, mark, text)) => {
                self.flush(emit);
                emit(Lexeme::Mark(mark, text));
            }
            None => {
                self.decoder.feed_into(token, &mut self.held);
                if self.inner == Some(token) {
                    self.inner_at.push(self.held.len() - DSML_TOKEN.len());
                }
                self.scan(emit);
            }
        }
    }

    /// Tells what was held back.
    pub(crate) fn flush(&mut self, emit: &mut EmitLexeme<'_>) {
        self.decoder.finish_into(&mut self.held);
        self.scan(emit);
        emit_text(&self.held, emit);
        self.held.clear();
        self.inner_at.clear();
    }

    /// Tells what is certain of the text that is held.
    fn scan(&mut self, emit: &mut EmitLexeme<'_>) {
        let Self { spelled, held, inner, inner_at, .. } = self;
        // Whether the letters at `at`, which are a mark's, were sampled as the mark's tokens.
        let is_sampled = |text: &str, at: usize| match text.find(DSML_TOKEN) {
            Some(offset) if inner.is_some() => inner_at.contains(&(at + offset)),
            _ => true,
        };
        // Up to where it has been emitted, and up to where it is certain.
        let (mut emitted, mut certain) = (0, 0);
        if spelled.is_empty() {
            certain = held.len();
        }
        while certain < held.len() {
            let rest = &held[certain..];
            let is_mark = |(_, text): &&(Mark, String)| rest.starts_with(text) && is_sampled(text, certain);
            if let Some((mark, text)) = spelled.iter().find(is_mark) {
                emit_text(&held[emitted..certain], emit);
                emit(Lexeme::Mark(*mark, text));
                certain += text.len();
                emitted = certain;
            } else if spelled.iter().any(|(_, text)| text.len() > rest.len() && text.starts_with(rest)) {
                break;
            } else {
                certain += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        emit_text(&held[emitted..certain], emit);
        held.drain(..certain);
        inner_at.retain_mut(|at| match at.checked_sub(certain) {
            Some(rest) => {
                *at = rest;
                true
            }
            None => false,
        });
    }
}

fn emit_text(text: &str, emit: &mut EmitLexeme<'_>) {
    if !text.is_empty() {
        emit(Lexeme::Text(text));
    }
}
