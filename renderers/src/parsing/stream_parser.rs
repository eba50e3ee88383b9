use std::sync::Arc;

use serde_json::Value;

use crate::parsing::calls::parameter_types::ParameterTypes;
use crate::parsing::dialect::Dialect;
use crate::parsing::dialects::harmony::Harmony;
use crate::parsing::dialects::llama::Llama;
use crate::parsing::dialects::marked::{CallForm, Marked};
use crate::parsing::dialects::plain::Plain;
use crate::parsing::dialects::tagged::{Rules, Tagged};
use crate::parsing::draft::Draft;
use crate::parsing::mark_lexer::{Lexeme, Mark, MarkLexer};
use crate::parsing::parse_event::ParseEvent;
use crate::parsing::parsed_message::{ParsedMessage, Termination};
use crate::{ResponseFormat, Tokenizer};

/// Reads a message while it is sampled. Reading all tokens at once or one by one gives the same.
#[derive(Debug)]
pub struct StreamParser {
    lexer: MarkLexer,
    ends: Vec<(u32, Termination)>,
    dialect: Box<dyn Dialect>,
    draft: Draft,
    termination: Option<Termination>,
    tokens_after_stop: usize,
}

/// What ends a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnEnds<'r> {
    /// Tokens.
    pub(crate) tokens: &'r [u32],
    /// A text, in formats that have no token for it; then the tokenizer's end of text ends a turn as well.
    pub(crate) text: Option<&'r str>,
}

impl StreamParser {
    /// A parser of what is sampled after `prompt`. What the prompt's last tokens opened (a `<think>`, a header, even a
    /// call) is open. `tools` are the request's: they give the types of parameters in formats that do not.
    pub(crate) fn new(
        tokenizer: &Arc<Tokenizer>,
        format: ResponseFormat,
        turn_ends: TurnEnds<'_>,
        prompt: &[u32],
        tools: &[Value],
    ) -> Self {
        let mut ends: Vec<(u32, Termination)> =
            turn_ends.tokens.iter().map(|token| (*token, Termination::StopSequence)).collect();
        if turn_ends.text.is_some() {
            ends.extend(tokenizer.eos_ids().iter().map(|token| (*token, Termination::Eos)));
        }
        let mut this = Self {
            lexer: MarkLexer::new(tokenizer.clone(), format, turn_ends.text),
            ends,
            dialect: dialect(format, tools),
            draft: Draft::default(),
            termination: None,
            tokens_after_stop: 0,
        };
        if this.lexer.has_marks() {
            let opened = this.lexer.opened_by(tokenizer, prompt);
            if !opened.is_empty() {
                let (_, mut reading) = this.parts();
                opened.iter().for_each(|lexeme| reading.read(lexeme.as_str()));
                this.draft.begin_sampled();
            }
        }
        this
    }

    /// Takes tokens and gives what they make certain.
    pub fn feed(&mut self, tokens: &[u32]) -> Vec<ParseEvent> {
        self.events_of(tokens).collect()
    }

    /// Takes tokens and gives what they make certain, one by one. What is not taken of it is lost.
    pub fn events_of(&mut self, tokens: &[u32]) -> impl Iterator<Item = ParseEvent> {
        for token in tokens {
            self.take(*token);
        }
        self.draft.drain_events()
    }

    /// Ends the message: what was held back, and all of it.
    pub fn finish(mut self) -> (Vec<ParseEvent>, ParsedMessage) {
        if self.termination.is_none() {
            self.flush();
        }
        self.dialect.finish(self.termination.is_none(), &mut self.draft);
        let events = self.draft.drain_events().collect();
        let (text, parts) = self.draft.into_parts();
        let termination = self.termination.unwrap_or(Termination::Malformed);
        (events, ParsedMessage { text, parts, termination, tokens_after_stop: self.tokens_after_stop })
    }

    /// Whether the message has ended; what is fed from now on is only counted.
    pub fn has_ended(&self) -> bool {
        self.termination.is_some()
    }

    fn take(&mut self, token: u32) {
        if self.termination.is_some() {
            self.tokens_after_stop += 1;
            return;
        }
        match self.ends.iter().find(|(end, _)| *end == token).copied() {
            Some((_, termination)) => {
                self.flush();
                // What was held back may have been the text that ends the turn.
                self.termination.get_or_insert(termination);
            }
            None => {
                let (lexer, mut reading) = self.parts();
                lexer.feed(token, &mut |lexeme| reading.read(lexeme));
            }
        }
    }

    fn flush(&mut self) {
        let (lexer, mut reading) = self.parts();
        lexer.flush(&mut |lexeme| reading.read(lexeme));
    }

    fn parts(&mut self) -> (&mut MarkLexer, Reading<'_>) {
        let Self { lexer, dialect, draft, termination, .. } = self;
        (lexer, Reading { dialect: &mut **dialect, draft, termination })
    }
}

/// What reads the lexer's pieces.
struct Reading<'p> {
    dialect: &'p mut dyn Dialect,
    draft: &'p mut Draft,
    termination: &'p mut Option<Termination>,
}

impl Reading<'_> {
    fn read(&mut self, lexeme: Lexeme<&str>) {
        match lexeme {
            _ if self.termination.is_some() => {}
            Lexeme::Mark(Mark::Stop, _) => *self.termination = Some(Termination::StopSequence),
            Lexeme::Text(text) => {
                let range = self.draft.push(text);
                self.dialect.text(range, self.draft);
            }
            Lexeme::Mark(mark, text) => {
                let range = self.draft.push(text);
                self.dialect.mark(mark, range, self.draft);
            }
        }
    }
}

fn dialect(format: ResponseFormat, tools: &[Value]) -> Box<dyn Dialect> {
    let marked = |form, tools: &[Value]| Box::new(Marked::new(form, ParameterTypes::of(tools)));
    let tagged = |rules, tools: &[Value]| Box::new(Tagged::new(rules, ParameterTypes::of(tools)));
    match format {
        ResponseFormat::Text => Box::new(Plain::new()),
        ResponseFormat::RoleColon => Box::new(Plain::role_colon()),
        ResponseFormat::QwenJson => tagged(Rules::QWEN_JSON, &[]),
        ResponseFormat::QwenXml => tagged(Rules::QWEN_XML, tools),
        ResponseFormat::Glm => tagged(Rules::GLM, tools),
        ResponseFormat::DeepSeek => tagged(Rules::DEEPSEEK, &[]),
        ResponseFormat::Dsml => tagged(Rules::DSML, &[]),
        ResponseFormat::Kimi => tagged(Rules::KIMI, &[]),
        ResponseFormat::Harmony => Box::new(Harmony::new()),
        ResponseFormat::LlamaJson => Box::new(Llama::new()),
        ResponseFormat::Mistral => marked(CallForm::ListOrNamed, &[]),
        ResponseFormat::Phi => marked(CallForm::List, &[]),
        ResponseFormat::Gemma => marked(CallForm::Braces, tools),
    }
}
