use std::ops::Range;

use serde_json::Value;

use crate::parsing::calls::dsml_call::DsmlCall;
use crate::parsing::calls::json_call::{JsonCall, Keys};
use crate::parsing::calls::pair_call::PairCall;
use crate::parsing::calls::parameter_types::ParameterTypes;
use crate::parsing::calls::section_call::{CallHead, SectionCall};
use crate::parsing::calls::xml_call::XmlCall;
use crate::parsing::dialect::Dialect;
use crate::parsing::draft::{Draft, Ending, Prose, Space};
use crate::parsing::mark_lexer::Mark;

/// The keys of a call in Qwen's JSON.
const QWEN_KEYS: Keys = Keys { arguments: &["arguments"], others: None };

/// Reads families that put reasoning between `<think>` and `</think>` and calls between marks of their own: Qwen,
/// Nemotron, GLM, DeepSeek, Kimi.
#[derive(Debug)]
pub(crate) struct Tagged {
    rules: Rules,
    types: ParameterTypes,
    state: State,
    is_reasoning: bool,
    /// White space at the beginning of the text that comes next that is the format's.
    leading: Space,
}

/// What differs between the families.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// White space inside `<think>` and `</think>` that belongs to them.
    reasoning: Space,
    /// White space behind `</think>` that belongs to it.
    after_reasoning: Space,
    /// What becomes of white space before a call.
    before_call: Ending,
    /// How a call is written.
    call: CallForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallForm {
    /// JSON in `<tool_call>`.
    Json,
    /// XML in `<tool_call>`, or JSON.
    Xml,
    /// Pairs of keys and values in `<tool_call>`, or JSON.
    Pairs,
    /// In a section, head and arguments parted by a mark.
    Section(CallHead),
    /// In a section, elements of DeepSeek's markup.
    Dsml,
}

impl Rules {
    pub(crate) const QWEN_JSON: Self = Self {
        reasoning: Space::Newlines,
        after_reasoning: Space::Newlines,
        before_call: Ending::Without("\n"),
        call: CallForm::Json,
    };
    pub(crate) const QWEN_XML: Self = Self {
        reasoning: Space::All,
        after_reasoning: Space::Newlines,
        before_call: Ending::Stripped,
        call: CallForm::Xml,
    };
    pub(crate) const GLM: Self = Self {
        reasoning: Space::None,
        after_reasoning: Space::Newlines,
        before_call: Ending::Stripped,
        call: CallForm::Pairs,
    };
    pub(crate) const DEEPSEEK: Self = Self {
        reasoning: Space::None,
        after_reasoning: Space::None,
        before_call: Ending::Stripped,
        call: CallForm::Section(CallHead::Name),
    };
    pub(crate) const DSML: Self = Self {
        reasoning: Space::None,
        after_reasoning: Space::None,
        before_call: Ending::Without("\n\n"),
        call: CallForm::Dsml,
    };
    pub(crate) const KIMI: Self = Self {
        reasoning: Space::None,
        after_reasoning: Space::None,
        before_call: Ending::KeptUnlessBlank,
        call: CallForm::Section(CallHead::Id),
    };

    /// Whether a call may stand inside reasoning. Where it is written between two marks that reasoning may quote, it
    /// counts as quoted if the reasoning goes on to its end.
    fn calls_while_reasoning(&self) -> bool {
        matches!(self.call, CallForm::Section(_) | CallForm::Dsml)
    }
}

#[derive(Debug)]
enum State {
    /// Reasoning or text.
    Prose,
    /// In a call.
    Call(Call),
    /// Behind `<tool_call>` in reasoning: whether this is quoted turns out when the reasoning ends, or does not.
    Undecided { start: usize, since: Vec<(Option<Mark>, Range<usize>)> },
}

#[derive(Debug)]
enum Call {
    /// Between `<tool_call>` and its end, before it is clear in which form.
    Unclear {
        start: usize,
    },
    Json(Box<JsonCall>),
    Xml(XmlCall),
    Pairs(PairCall),
    Section(SectionCall),
    Dsml(DsmlCall),
}

impl Call {
    fn read(&mut self, end: usize, form: CallForm, types: &ParameterTypes, draft: &mut Draft) {
        if let Self::Unclear { start } = self {
            match draft.text()[*start..end].trim_start().chars().next() {
                None => return,
                Some('<') if form == CallForm::Xml => *self = Self::Xml(XmlCall::new(*start)),
                Some(character) if form == CallForm::Pairs && character != '{' => {
                    *self = Self::Pairs(PairCall::new(*start));
                }
                Some(_) => *self = Self::Json(Box::new(JsonCall::new(*start, &QWEN_KEYS))),
            }
        }
        match self {
            // Marks alone move these.
            Self::Unclear { .. } | Self::Pairs(_) | Self::Dsml(_) => {}
            Self::Json(call) => call.read(end, draft),
            Self::Xml(call) => call.read(end, types, draft),
            Self::Section(call) => call.read(end, draft),
        }
    }

    fn arguments(&self, end: usize, text: &str) -> Result<Value, String> {
        match self {
            Self::Unclear { .. } => Err("the call is empty".to_owned()),
            Self::Json(call) => call.arguments(end, text),
            Self::Xml(call) => call.arguments(),
            Self::Pairs(call) => call.arguments(),
            Self::Section(call) => call.arguments(text),
            Self::Dsml(call) => call.arguments(),
        }
    }
}

impl Tagged {
    /// A reader of a message that begins with text.
    pub(crate) fn new(rules: Rules, types: ParameterTypes) -> Self {
        Self { rules, types, state: State::Prose, is_reasoning: false, leading: Space::None }
    }

    fn prose(&mut self, range: Range<usize>, draft: &mut Draft) {
        match (self.is_reasoning, self.rules.call) {
            // Between the marks of a section and of its calls stand line feeds.
            (true, CallForm::Dsml) => draft.prose(Prose::Reasoning, range, self.leading, Space::None),
            (true, _) => draft.prose(Prose::Reasoning, range, self.rules.reasoning, self.rules.reasoning),
            (false, _) => draft.prose(Prose::Text, range, self.leading, Space::All),
        }
    }

    fn close_reasoning(&mut self, draft: &mut Draft) {
        draft.close_prose(Ending::Stripped);
        self.is_reasoning = false;
        self.leading = self.rules.after_reasoning;
    }

    fn close_prose_before_call(&mut self, draft: &mut Draft) {
        draft.close_prose(if self.is_reasoning { Ending::Stripped } else { self.rules.before_call });
        self.leading = Space::All;
    }

    fn open_call(&mut self, mark: Range<usize>, draft: &mut Draft) {
        self.close_prose_before_call(draft);
        draft.open_call(mark.start);
        self.state = State::Call(match self.rules.call {
            CallForm::Json | CallForm::Xml | CallForm::Pairs => Call::Unclear { start: mark.end },
            CallForm::Section(head) => Call::Section(SectionCall::new(mark.end, head)),
            CallForm::Dsml => Call::Dsml(DsmlCall::new(mark.end)),
        });
    }

    fn mark_in_prose(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        match (mark, self.is_reasoning) {
            (Mark::ThinkOpen, false) => {
                draft.close_prose(Ending::KeptUnlessBlank);
                self.is_reasoning = true;
                self.leading = Space::None;
            }
            // The prompt may have opened it already.
            (Mark::ThinkOpen, true) if !draft.has_open_text() => {}
            (Mark::ThinkClose, true) => self.close_reasoning(draft),
            (Mark::CallOpen, true) if !self.rules.calls_while_reasoning() => {
                self.state = State::Undecided { start: range.start, since: vec![(Some(mark), range)] };
            }
            (Mark::CallOpen, _) => self.open_call(range, draft),
            (Mark::SectionOpen | Mark::SectionClose, _) => self.close_prose_before_call(draft),
            _ => self.prose(range, draft),
        }
    }

    fn mark_in_call(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        let State::Call(call) = &mut self.state else { return };
        let is_in_section = matches!(call, Call::Section(_) | Call::Dsml(_));
        match (mark, call) {
            (Mark::CallClose, call) => {
                match call {
                    Call::Pairs(call) => call.close(range.start, draft),
                    Call::Dsml(call) => call.close(range.start, draft),
                    _ => {}
                }
                let arguments = call.arguments(range.start, draft.text());
                draft.close_call(range.end, arguments);
                self.state = State::Prose;
            }
            (Mark::Arguments, Call::Section(call)) => call.begin_arguments(range, draft),
            (Mark::CallOpen | Mark::SectionOpen | Mark::SectionClose, _) if is_in_section => {
                self.break_call(range.start, draft);
                self.mark_in_prose(mark, range, draft);
            }
            (mark, Call::Pairs(call)) => call.mark(mark, range, &self.types, draft),
            (mark, Call::Dsml(call)) => call.mark(mark, range, draft),
            (_, call) => call.read(range.end, self.rules.call, &self.types, draft),
        }
    }

    fn break_call(&mut self, end: usize, draft: &mut Draft) {
        draft.close_call(end, Err("nothing ends the call".to_owned()));
        self.state = State::Prose;
    }
}

impl Dialect for Tagged {
    fn text(&mut self, range: Range<usize>, draft: &mut Draft) {
        match &mut self.state {
            State::Prose => self.prose(range, draft),
            State::Call(call) => call.read(range.end, self.rules.call, &self.types, draft),
            State::Undecided { since, .. } => since.push((None, range)),
        }
    }

    fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        match &mut self.state {
            State::Prose => self.mark_in_prose(mark, range, draft),
            State::Call(_) => self.mark_in_call(mark, range, draft),
            State::Undecided { start, .. } if mark == Mark::ThinkClose => {
                let quoted = *start..range.start;
                self.state = State::Prose;
                self.prose(quoted, draft);
                self.close_reasoning(draft);
            }
            State::Undecided { since, .. } => since.push((Some(mark), range)),
        }
    }

    fn finish(&mut self, _: bool, draft: &mut Draft) {
        // Reasoning that begins behind the first call may leave another one undecided.
        while let State::Undecided { since, .. } = &mut self.state {
            let since = std::mem::take(since);
            self.state = State::Prose;
            self.close_reasoning(draft);
            for (mark, range) in since {
                match mark {
                    Some(mark) => self.mark(mark, range, draft),
                    None => self.text(range, draft),
                }
            }
        }
        match &self.state {
            State::Call(_) => self.break_call(draft.text().len(), draft),
            _ if self.is_reasoning => draft.close_prose(Ending::Stripped),
            _ => draft.close_prose(Ending::Kept),
        }
    }
}
