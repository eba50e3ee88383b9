use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;

use minijinja::Value;
use regex::Regex;

use crate::python::python_repr::STAND_INS;
use crate::reasoning_marks::{LeadingReasoning, ReasoningMarks};
use crate::templates::message_values::{TextPlace, TextValue};
use crate::templates::template_literals::literals;
use crate::tokenizer::piece::Piece;
use crate::{RenderError, Tokenizer};

/// Keeps what messages say apart from what a template writes, so that no text of a message becomes a control token.
///
/// A template only sees text. So every character that begins or ends a control token (usually `<` and `>`) is written
/// as a private-use character wherever it stands in a message, when the message is made the template's value. In the result, a control
/// token that is spelled with real characters was spelled by the template. The stand-ins are turned back when the
/// tokens are cut.
///
/// Two things keep their characters: the marks of reasoning with which an answer begins, which are what the model said and
/// no text; and texts that the template looks for and of which no control token can be made.
///
/// A template that looks into text (for `</think>`, say) may take another way when it sees stand-ins. The text with
/// stand-ins turned back is therefore held against the text rendered without them: only if both are equal do the
/// stand-ins tell where the message's text went.
#[derive(Debug)]
pub(crate) struct ContentProtection {
    marks: ReasoningMarks,
    /// Control tokens whose meaning the template may read from an assistant's text: the marks of reasoning that are not
    /// special.
    readable: Vec<String>,
    /// What the template looks for in text, and of which no control token can be made.
    harmless: Option<Regex>,
    /// The characters that begin or end a control token; few, and each but once.
    edges: Vec<char>,
}

/// What a template wrote.
#[derive(Debug)]
pub(crate) struct Rendered<'p> {
    /// The text, in which a message's text cannot be distinguished from the template's own.
    pub(crate) text: String,
    /// The text with stand-ins, where messages hold characters that need some.
    protected: Option<(StandIns<'p>, String)>,
}

/// A stand-in for every edge, none of which occurs in the text that is to be told apart.
#[derive(Debug)]
struct StandIns<'p> {
    protection: &'p ContentProtection,
    of_edges: Replacement,
    of_stand_ins: Replacement,
}

/// Characters, each with the one that takes its place.
#[derive(Debug)]
struct Replacement {
    pairs: Vec<(char, char)>,
    /// Whether a byte begins one of them in UTF-8.
    begins: [bool; 256],
}

impl ContentProtection {
    /// The protection that a tokenizer's control tokens need.
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        let edges = |(text, _): (&str, bool)| [text.chars().next(), text.chars().next_back()];
        let marks = ReasoningMarks::of(tokenizer);
        let is_special = |text: &str| tokenizer.control_tokens().any(|(token, special)| special && token == text);
        let readable = marks.texts().filter(|text| !is_special(text)).map(str::to_owned).collect();
        let edges: BTreeSet<char> = tokenizer.control_tokens().flat_map(edges).flatten().collect();
        let config = tokenizer.config();
        let sources = config.chat_template.iter().chain(&config.tool_use_template);
        let has_edge = |text: &String| text.contains(|character| edges.contains(&character));
        let mut harmless: Vec<String> = sources.flat_map(|source| literals(source)).filter(has_edge).collect();
        harmless.retain(|text| !tokenizer.control_tokens().any(|(token, _)| may_begin(token, text)));
        harmless.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let any_of = harmless.iter().map(|text| regex::escape(text)).collect::<Vec<_>>().join("|");
        let harmless = (!harmless.is_empty()).then(|| Regex::new(&any_of).ok()).flatten();
        Self { marks, readable, harmless, edges: edges.into_iter().collect() }
    }

    /// What a template writes, by `render`, which is given a way to make the values of the texts of messages and tools.
    pub(crate) fn render(
        &self,
        render: impl Fn(TextValue<'_>) -> Result<String, RenderError>,
    ) -> Result<Rendered<'_>, RenderError> {
        let needed = Cell::new(false);
        let text = render(&|text, _| {
            needed.set(needed.get() || self.has_edge(text));
            Value::from(text)
        })?;
        if !needed.get() {
            return Ok(Rendered { text, protected: None });
        }
        let stand_ins = self.stand_ins(&text).ok_or(RenderError::ContentNotSeparable)?;
        // Second attempt, for templates that read an assistant's text: its `<think>` and the like are left to them.
        for assistant_is_readable in [false, true] {
            let protected = render(&|text, place| {
                let readable = assistant_is_readable && place != TextPlace::Other;
                let protected = match (readable, place) {
                    (false, TextPlace::Answer) => stand_ins.protect_answer(text),
                    (readable, _) => stand_ins.protect(text, readable),
                };
                Value::from(protected.as_ref())
            });
            // A template that trips over stand-ins has looked into the text too.
            let Ok(protected) = protected else { continue };
            if stand_ins.restore(&protected) == text {
                return Ok(Rendered { text, protected: Some((stand_ins, protected)) });
            }
        }
        Err(RenderError::ContentNotSeparable)
    }

    /// Whether a text holds a character that begins or ends a control token.
    fn has_edge(&self, text: &str) -> bool {
        self.edges.iter().any(|edge| match u8::try_from(*edge) {
            // Without a way out, so that many bytes are looked at in one step.
            Ok(edge) if edge.is_ascii() => text.bytes().fold(false, |found, byte| found | (byte == edge)),
            _ => text.contains(*edge),
        })
    }

    /// Private-use characters that do not occur in `text`; `None` where it holds nearly all that there are.
    fn stand_ins(&self, text: &str) -> Option<StandIns<'_>> {
        let used: BTreeSet<char> = text.chars().filter(|character| STAND_INS.contains(character)).collect();
        let free = STAND_INS.filter(|character| !used.contains(character));
        let pairs: Vec<(char, char)> = self.edges.iter().copied().zip(free).collect();
        if pairs.len() < self.edges.len() {
            return None;
        }
        let back = pairs.iter().map(|(edge, stand_in)| (*stand_in, *edge)).collect();
        Some(StandIns { protection: self, of_edges: Replacement::new(pairs), of_stand_ins: Replacement::new(back) })
    }
}

impl Rendered<'_> {
    /// A text in which a control token is one, whoever spelled it.
    pub(crate) fn unprotected(text: String) -> Self {
        Self { text, protected: None }
    }

    /// The text cut at the control tokens that the template wrote.
    pub(crate) fn pieces(&self, tokenizer: &Tokenizer) -> Vec<Piece> {
        let Some((stand_ins, protected)) = &self.protected else { return tokenizer.split_control(&self.text) };
        let restore = |piece| match piece {
            Piece::Text(text) => Piece::Text(stand_ins.restore(&text).into_owned()),
            control => control,
        };
        tokenizer.split_control(protected).into_iter().map(restore).collect()
    }
}

impl StandIns<'_> {
    /// Puts stand-ins into a text. `readable` leaves the readable control tokens as they are, up to the last end of
    /// reasoning: what begins after it ends nowhere, and is text.
    fn protect<'t>(&self, text: &'t str, readable: bool) -> Cow<'t, str> {
        let last_end = if readable { self.last_end_of_reasoning(text) } else { 0 };
        if last_end == 0 {
            return self.stand_in(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        while let Some((at, token)) = self.first_readable(&text[done..last_end]) {
            out.push_str(&self.stand_in(&text[done..][..at]));
            out.push_str(token);
            done += at + token.len();
        }
        out.push_str(&self.stand_in(&text[done..]));
        out.into()
    }

    /// Puts stand-ins into an answer, but for the marks of reasoning with which it begins.
    fn protect_answer<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(LeadingReasoning { open, close }) = self.protection.marks.leading(text) else {
            return self.stand_in(text);
        };
        let (reasoning, answer) = (&text[open.end..close.start], &text[close.end..]);
        let marks = [&text[..open.end], &text[close.start..close.end]];
        [marks[0], &self.stand_in(reasoning), marks[1], &self.stand_in(answer)].concat().into()
    }

    /// Puts stand-ins into a text, but for what is harmless in it.
    fn stand_in<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut found = self.protection.harmless.iter().flat_map(|harmless| harmless.find_iter(text)).peekable();
        if found.peek().is_none() {
            return self.of_edges.apply(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for found in found {
            out.push_str(&self.of_edges.apply(&text[done..found.start()]));
            out.push_str(found.as_str());
            done = found.end();
        }
        out.push_str(&self.of_edges.apply(&text[done..]));
        out.into()
    }

    /// The first readable token and where it begins.
    fn first_readable(&self, text: &str) -> Option<(usize, &str)> {
        let places =
            self.protection.readable.iter().filter_map(|token| Some((text.find(token.as_str())?, token.as_str())));
        places.min_by_key(|(at, _)| *at)
    }

    /// Where the last mark ends that closes reasoning; 0 where there is none.
    fn last_end_of_reasoning(&self, text: &str) -> usize {
        let closing = self.protection.readable.iter().filter(|token| token.contains('/'));
        closing.filter_map(|token| Some(text.rfind(token.as_str())? + token.len())).max().unwrap_or(0)
    }

    /// Turns stand-ins back.
    fn restore<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.of_stand_ins.apply(text)
    }
}

/// Whether a control token may begin somewhere in a text, and end in it or behind it.
fn may_begin(token: &str, text: &str) -> bool {
    text.char_indices().any(|(start, _)| text[start..].starts_with(token) || token.starts_with(&text[start..]))
}

impl Replacement {
    fn new(pairs: Vec<(char, char)>) -> Self {
        let mut begins = [false; 256];
        for (character, _) in &pairs {
            begins[usize::from(character.encode_utf8(&mut [0; 4]).as_bytes()[0])] = true;
        }
        Self { pairs, begins }
    }

    fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = String::new();
        // What stands before `copied` is in `out`.
        let (mut copied, mut looked) = (0, 0);
        while let Some(found) = text.as_bytes()[looked..].iter().position(|byte| self.begins[usize::from(*byte)]) {
            let at = looked + found;
            let Some(character) = text[at..].chars().next() else { break };
            looked = at + character.len_utf8();
            let Some((_, other)) = self.pairs.iter().find(|(from, _)| *from == character) else { continue };
            if out.is_empty() {
                out.reserve(text.len() + text.len() / 8);
            }
            out.push_str(&text[copied..at]);
            out.push(*other);
            copied = looked;
        }
        if copied == 0 {
            return text.into();
        }
        out.push_str(&text[copied..]);
        out.into()
    }
}
