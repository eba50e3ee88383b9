use std::ops::Range;

use crate::parsing::calls::dsml_call::DsmlCall;
use crate::parsing::calls::json_call::{JsonCall, Keys};
use crate::parsing::calls::pair_call::PairCall;
use crate::parsing::calls::parameter_types::ParameterTypes;
use crate::parsing::calls::section_call::{CallHead, SectionCall};
use crate::parsing::calls::written_arguments::Ended;
use crate::parsing::calls::xml_call::XmlCall;
use crate::parsing::dialect::Dialect;
use crate::parsing::doubt::{Doubt, MOST_DOUBTS};
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
    state: TaggedState,
    is_reasoning: bool,
    /// White space at the beginning of the text that comes next that is the format's.
    leading: Space,
    /// Whether a mark has ended the call that is open, or stands in it.
    doubt: Option<Doubt>,
    doubts_left: usize,
    /// Marks of calls that were opened, and not ended, in the texts of the call that is open.
    quoted_calls: usize,
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
enum TaggedState {
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

    /// Takes a mark that does not end the call.
    fn mark(&mut self, mark: Mark, range: Range<usize>, rules: Rules, types: &ParameterTypes, draft: &mut Draft) {
        match (self, mark) {
            (Self::Pairs(call), _) => call.mark(mark, range, types, draft),
            (Self::Dsml(call), _) => call.mark(mark, range, draft),
            (Self::Section(call), Mark::Arguments) => call.begin_arguments(range, draft),
            (call, _) => call.read(range.end, rules.call, types, draft),
        }
    }

    /// What the call is at `end`, where a mark stands that would end it.
    fn ended(&mut self, end: usize, types: &ParameterTypes, draft: &mut Draft) -> Ended {
        match self {
            Self::Unclear { .. } => Ended::Broken("the call is empty".to_owned()),
            Self::Json(call) => call.ended(end, draft.text()),
            Self::Xml(call) => call.ended(&draft.text()[..end], types),
            Self::Pairs(call) => call.ended(end, types, draft),
            Self::Section(call) => call.ended(draft.text()),
            Self::Dsml(call) => call.ended(end, draft),
        }
    }

    fn is_wrong(&self) -> bool {
        match self {
            Self::Unclear { .. } => false,
            Self::Json(call) => call.is_wrong(),
            Self::Xml(call) => call.is_wrong(),
            Self::Pairs(call) => call.is_wrong(),
            Self::Section(call) => call.is_wrong(),
            Self::Dsml(call) => call.is_wrong(),
        }
    }

    /// Whether what follows may be a text's of the arguments, in which anything may stand.
    fn is_in_text(&self, draft: &Draft) -> bool {
        match self {
            Self::Unclear { .. } => false,
            Self::Json(call) => call.is_in_string(),
            Self::Xml(call) => call.is_in_text(),
            Self::Pairs(call) => call.is_in_text(),
            Self::Section(call) => call.is_in_string(),
            Self::Dsml(call) => call.is_in_text(draft),
        }
    }

    /// Whether texts of the arguments stand there without quotes, so that nothing but what follows tells where they end.
    fn has_bare_texts(&self) -> bool {
        matches!(self, Self::Xml(_) | Self::Pairs(_) | Self::Dsml(_))
    }

    fn is_in_section(&self) -> bool {
        matches!(self, Self::Section(_) | Self::Dsml(_))
    }

    /// The text of the arguments that has not left yet; of JSON all that is certain has.
    fn take_pieces(&mut self) -> String {
        match self {
            Self::Xml(call) => call.take_pieces(),
            Self::Pairs(call) => call.take_pieces(),
            Self::Dsml(call) => call.take_pieces(),
            Self::Unclear { .. } | Self::Json(_) | Self::Section(_) => String::new(),
        }
    }
}

impl Tagged {
    /// A reader of a message that begins with text.
    pub(crate) fn new(rules: Rules, types: ParameterTypes) -> Self {
        Self {
            rules,
            types,
            state: TaggedState::Prose,
            is_reasoning: false,
            leading: Space::None,
            doubt: None,
            doubts_left: MOST_DOUBTS,
            quoted_calls: 0,
        }
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
        self.quoted_calls = 0;
        self.state = TaggedState::Call(match self.rules.call {
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
                self.state = TaggedState::Undecided { start: range.start, since: vec![(Some(mark), range)] };
            }
            (Mark::CallOpen, _) => self.open_call(range, draft),
            (Mark::SectionClose, _) if draft.is_behind_text() => {}
            (Mark::SectionOpen | Mark::SectionClose, _) => self.close_prose_before_call(draft),
            _ => self.prose(range, draft),
        }
    }

    /// Reads text of a call, or a mark that does not end it.
    fn read_call(&mut self, mark: Option<Mark>, range: Range<usize>, draft: &mut Draft) {
        let TaggedState::Call(call) = &mut self.state else { return };
        match mark {
            Some(mark) => call.mark(mark, range, self.rules, &self.types, draft),
            None => call.read(range.end, self.rules.call, &self.types, draft),
        }
        if self.doubt.as_ref().is_none_or(Doubt::may_break) {
            draft.push_arguments(call.take_pieces());
        }
        if self.doubt.is_some() && call.is_wrong() {
            self.refute(draft);
        }
    }

    fn mark_in_call(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        let TaggedState::Call(call) = &mut self.state else { return };
        let begins_other = matches!(mark, Mark::CallOpen | Mark::SectionOpen | Mark::SectionClose);
        if let Some(doubt) = &mut self.doubt {
            doubt.push(Some(mark), range.clone());
            if begins_other && call.has_bare_texts() && doubt.is_followed_at(range.start, draft) {
                return self.refute(draft);
            }
        }
        match mark {
            Mark::CallClose => self.end_call(range, draft),
            _ if begins_other && call.is_in_section() => self.end_call_by_other(mark, range, draft),
            _ => {
                self.quoted_calls +=
                    usize::from(mark == Mark::CallOpen && call.has_bare_texts() && call.is_in_text(draft));
                self.read_call(Some(mark), range, draft);
            }
        }
    }

    /// Takes the mark that ends a call, or stands in a text of it.
    fn end_call(&mut self, mark: Range<usize>, draft: &mut Draft) {
        let TaggedState::Call(call) = &mut self.state else { return };
        let ended = call.ended(mark.start, &self.types, draft);
        // It ends a call that such a text quotes.
        let is_quoted = self.quoted_calls > 0 && call.has_bare_texts() && call.is_in_text(draft);
        self.quoted_calls = self.quoted_calls.saturating_sub(1);
        match &ended {
            Ended::Broken(_) if self.doubt.is_some() => self.refute(draft),
            Ended::Whole { .. } if !is_quoted => {
                self.doubt = None;
                self.close_call(mark.end, ended, draft);
            }
            Ended::Whole { .. } | Ended::InText(_) if self.doubt.is_some() => {
                self.read_call(Some(Mark::CallClose), mark, draft);
            }
            Ended::Whole { .. } | Ended::InText(_) if self.doubts_left > 0 => {
                self.begin_doubt(Doubt::new(mark.end, ended).quoted(is_quoted));
                self.read_call(Some(Mark::CallClose), mark, draft);
            }
            _ => self.close_call(mark.end, ended, draft),
        }
    }

    /// Takes a mark that begins another call or section, or ends the section, or stands in a text of the call.
    fn end_call_by_other(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        let TaggedState::Call(call) = &mut self.state else { return };
        let is_in_text = call.is_in_text(draft);
        match (self.doubt.is_some(), is_in_text) {
            (true, false) => self.refute(draft),
            (true, true) => self.read_call(Some(mark), range, draft),
            (false, true) if self.doubts_left > 0 => {
                let mut doubt = Doubt::new(range.start, Ended::InText("nothing ends the call".to_owned()));
                doubt.push(Some(mark), range.clone());
                self.begin_doubt(doubt);
                self.read_call(Some(mark), range, draft);
            }
            (false, _) => {
                self.break_call(range.start, draft);
                self.mark_in_prose(mark, range, draft);
            }
        }
    }

    fn begin_doubt(&mut self, doubt: Doubt) {
        self.doubts_left -= 1;
        self.doubt = Some(doubt);
    }

    /// The mark that was in doubt has ended the call: what has come since is read again.
    fn refute(&mut self, draft: &mut Draft) {
        let Some(doubt) = self.doubt.take() else { return };
        self.state = TaggedState::Prose;
        let refuted = doubt.refute(draft);
        self.leading = Space::behind_call(refuted.is_call);
        refuted.replay(self, draft);
    }

    fn close_call(&mut self, end: usize, ended: Ended, draft: &mut Draft) {
        self.leading = Space::behind_call(draft.end_call(end, ended));
        self.state = TaggedState::Prose;
    }

    fn break_call(&mut self, end: usize, draft: &mut Draft) {
        self.close_call(end, Ended::Broken("nothing ends the call".to_owned()), draft);
    }
}

impl Dialect for Tagged {
    fn text(&mut self, range: Range<usize>, draft: &mut Draft) {
        match &mut self.state {
            TaggedState::Prose => self.prose(range, draft),
            TaggedState::Call(_) => {
                if let Some(doubt) = &mut self.doubt {
                    doubt.push(None, range.clone());
                }
                self.read_call(None, range, draft);
            }
            TaggedState::Undecided { since, .. } => since.push((None, range)),
        }
    }

    fn mark(&mut self, mark: Mark, range: Range<usize>, draft: &mut Draft) {
        match &mut self.state {
            TaggedState::Prose => self.mark_in_prose(mark, range, draft),
            TaggedState::Call(_) => self.mark_in_call(mark, range, draft),
            TaggedState::Undecided { start, .. } if mark == Mark::ThinkClose => {
                let quoted = *start..range.start;
                self.state = TaggedState::Prose;
                self.prose(quoted, draft);
                self.close_reasoning(draft);
            }
            TaggedState::Undecided { since, .. } => since.push((Some(mark), range)),
        }
    }

    fn finish(&mut self, _: bool, draft: &mut Draft) {
        // What is read again may leave another call undecided, or in doubt.
        loop {
            if self.doubt.is_some() {
                self.refute(draft);
                continue;
            }
            let TaggedState::Undecided { since, .. } = &mut self.state else { break };
            let since = std::mem::take(since);
            self.state = TaggedState::Prose;
            self.close_reasoning(draft);
            for (mark, range) in since {
                match mark {
                    Some(mark) => self.mark(mark, range, draft),
                    None => self.text(range, draft),
                }
            }
        }
        match &self.state {
            TaggedState::Call(_) => self.break_call(draft.text().len(), draft),
            _ if self.is_reasoning => draft.close_prose(Ending::Stripped),
            _ => draft.close_prose(Ending::Kept),
        }
    }
}
