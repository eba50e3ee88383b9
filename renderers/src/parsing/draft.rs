use std::ops::Range;

use serde_json::Value;

use crate::parsing::parse_event::ParseEvent;
use crate::parsing::parsed_message::{ParsedPart, PartContent};

/// White space that a format writes beside its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// None: all white space is content.
    None,
    /// Newlines.
    Newlines,
    /// All white space.
    All,
}

impl Space {
    fn has(self, character: char) -> bool {
        match self {
            Self::None => false,
            Self::Newlines => character == '\n',
            Self::All => character.is_whitespace(),
        }
    }
}

impl Space {
    /// The white space behind a call that is the format's. A broken call is text, and keeps what separates it from text.
    pub(crate) fn behind_call(is_call: bool) -> Self {
        if is_call { Self::All } else { Self::None }
    }
}

/// The kind of prose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prose {
    /// Reasoning.
    Reasoning,
    /// Text for everybody.
    Text,
}

/// What becomes of white space at the end of prose, as far as it was held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is content.
    Kept,
    /// It is content, unless there is nothing else.
    KeptUnlessBlank,
    /// It is the format's, up to this at the very end; all of it where there is nothing else.
    Without(&'static str),
    /// It is the format's.
    Stripped,
}

/// What has been read so far: the text, its parts, and the events that have not left yet.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    text: String,
    /// Where what was sampled begins; the prompt's end may stand before it.
    origin: usize,
    parts: Vec<ParsedPart>,
    /// Where the last part ended, if it is shown as text.
    shown_end: Option<usize>,
    events: Vec<ParseEvent>,
    prose: Option<OpenProse>,
    call: Option<OpenCall>,
    /// How many calls have been named.
    calls: usize,
}

/// Prose that may go on.
#[derive(Debug)]
struct OpenProse {
    kind: Prose,
    /// Its first character.
    start: usize,
    /// Up to here it has left.
    given: usize,
    /// Up to here it goes.
    end: usize,
    /// Whether it is more than white space that may be the format's.
    has_text: bool,
}

/// A call that may go on.
#[derive(Debug)]
struct OpenCall {
    start: usize,
    named: Option<NamedCall>,
}

#[derive(Debug)]
struct NamedCall {
    index: usize,
    id: Option<String>,
    name: String,
    raw_arguments: String,
}

impl Draft {
    /// Adds text, and says where it stands.
    pub(crate) fn push(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// All text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// A range without what the prompt ended with.
    pub(crate) fn sampled_range(&self, range: Range<usize>) -> Range<usize> {
        range.start.max(self.origin)..range.end.max(self.origin)
    }

    /// Whether prose is open that has some text.
    pub(crate) fn has_open_text(&self) -> bool {
        self.prose.is_some()
    }

    /// Whether what is shown as text has ended, and nothing has followed it.
    pub(crate) fn is_behind_text(&self) -> bool {
        self.prose.is_none() && self.shown_end.is_some()
    }

    /// Adds prose. `leading` white space at its beginning is the format's; `held` white space at its end is held back
    /// until it is clear what follows.
    pub(crate) fn prose(&mut self, kind: Prose, range: Range<usize>, leading: Space, held: Space) {
        let text = &self.text[range.clone()];
        if self.prose.is_none() {
            let start = range.end - text.trim_start_matches(|character| leading.has(character)).len();
            if start == range.end {
                return;
            }
            self.prose = Some(OpenProse { kind, start, given: start, end: start, has_text: false });
        }
        let certain = text.trim_end_matches(|character| held.has(character)).len();
        if let Some(prose) = &mut self.prose {
            prose.end = range.end;
            prose.has_text |= certain > 0;
        }
        if certain > 0 {
            self.give_prose(range.start + certain);
        }
    }

    /// Lets open prose leave up to `end`.
    fn give_prose(&mut self, end: usize) {
        let Some(prose) = &mut self.prose else { return };
        let new = std::mem::replace(&mut prose.given, end)..end;
        let kind = prose.kind;
        let delta = self.text[self.sampled_range(new)].to_owned();
        if !delta.is_empty() {
            self.push_event(match kind {
                Prose::Reasoning => ParseEvent::Reasoning(delta),
                Prose::Text => ParseEvent::Text(delta),
            });
        }
    }

    /// Ends prose.
    pub(crate) fn close_prose(&mut self, ending: Ending) {
        let Some(prose) = &self.prose else { return };
        let held = &self.text[prose.given..prose.end];
        let kept = match ending {
            Ending::Kept => held.len(),
            _ if !prose.has_text => 0,
            Ending::KeptUnlessBlank => held.len(),
            Ending::Without(suffix) => held.strip_suffix(suffix).unwrap_or(held).len(),
            Ending::Stripped => 0,
        };
        self.give_prose(prose.given + kept);
        if let Some(prose) = self.prose.take() {
            let content = match prose.kind {
                Prose::Reasoning => PartContent::Reasoning,
                Prose::Text => PartContent::Text,
            };
            self.push_part(prose.start..prose.given, content);
        }
    }

    fn push_part(&mut self, range: Range<usize>, content: PartContent) {
        let is_shown = matches!(content, PartContent::Text | PartContent::BrokenToolCall { .. });
        self.shown_end = is_shown.then_some(range.end);
        let range = self.sampled_range(range);
        // Of prose that the prompt ends with nothing was sampled; a call is made even if the prompt wrote all of it.
        if !range.is_empty() || !matches!(content, PartContent::Reasoning | PartContent::Text) {
            self.parts.push(ParsedPart { range, content });
        }
    }

    /// Begins a call; prose must have been closed.
    pub(crate) fn open_call(&mut self, start: usize) {
        self.call = Some(OpenCall { start, named: None });
    }

    /// Whether a call is open.
    pub(crate) fn has_open_call(&self) -> bool {
        self.call.is_some()
    }

    /// Takes a call back that turns out to be none, and says where it began. It must not have been named.
    pub(crate) fn cancel_call(&mut self) -> Option<usize> {
        self.call.take().map(|call| call.start)
    }

    /// Says what is called.
    pub(crate) fn name_call(&mut self, id: Option<String>, name: String) {
        let Some(call) = &mut self.call else { return };
        let index = self.calls;
        self.calls += 1;
        let named = NamedCall { index, id: id.clone(), name: name.clone(), raw_arguments: String::new() };
        call.named = Some(named);
        self.push_event(ParseEvent::ToolCall { index, id, name });
    }

    /// Adds to the JSON text of the arguments of the call that was named.
    pub(crate) fn push_arguments(&mut self, delta: String) {
        let named = self.call.as_mut().and_then(|call| call.named.as_mut());
        if let Some(named) = named.filter(|_| !delta.is_empty()) {
            named.raw_arguments.push_str(&delta);
            let index = named.index;
            self.push_event(ParseEvent::Arguments { index, delta });
        }
    }

    /// Ends a call with its arguments, or with what is wrong with it; false where it is broken.
    pub(crate) fn close_call(&mut self, end: usize, arguments: Result<Value, String>) -> bool {
        let Some(OpenCall { start, named }) = self.call.take() else { return false };
        match (arguments, named) {
            (Ok(arguments), Some(NamedCall { index, id, name, raw_arguments })) => {
                self.push_event(ParseEvent::ToolCallEnd { index });
                self.push_part(start..end, PartContent::ToolCall { id, name, arguments, raw_arguments });
                true
            }
            (arguments, named) => {
                let error = arguments.err().unwrap_or_else(|| "nothing is called".to_owned());
                let range = self.with_space_before(start)..end;
                let text = self.text[self.sampled_range(range.clone())].to_owned();
                let index = named.map(|named| named.index);
                self.push_event(ParseEvent::BrokenToolCall { index, text, error: error.clone() });
                self.push_part(range, PartContent::BrokenToolCall { error });
                false
            }
        }
    }

    /// Where the white space begins that stands between text and `start`. What is broken is shown as text, so it keeps
    /// what separated it from text.
    fn with_space_before(&self, start: usize) -> usize {
        self.shown_end.filter(|end| self.text[*end..start].trim().is_empty()).unwrap_or(start)
    }

    /// Forgets what has been read, but not what is open: what follows is sampled. Of a call that is open, its events
    /// are told again.
    pub(crate) fn begin_sampled(&mut self) {
        self.origin = self.text.len();
        self.parts.clear();
        self.events.clear();
        self.calls = 0;
        if let Some(named) = self.call.as_mut().and_then(|call| call.named.take()) {
            self.name_call(named.id, named.name);
            self.push_arguments(named.raw_arguments);
        }
    }

    /// Adds an event, to its neighbour if that is of the same kind.
    fn push_event(&mut self, event: ParseEvent) {
        match (self.events.last_mut(), event) {
            (Some(ParseEvent::Reasoning(text)), ParseEvent::Reasoning(delta))
            | (Some(ParseEvent::Text(text)), ParseEvent::Text(delta)) => text.push_str(&delta),
            (Some(ParseEvent::Arguments { index: open, delta: text }), ParseEvent::Arguments { index, delta })
                if *open == index =>
            {
                text.push_str(&delta)
            }
            (_, event) => self.events.push(event),
        }
    }

    /// The events since the last time.
    pub(crate) fn drain_events(&mut self) -> std::vec::Drain<'_, ParseEvent> {
        self.events.drain(..)
    }

    /// What was sampled, and its parts.
    pub(crate) fn into_parts(mut self) -> (String, Vec<ParsedPart>) {
        for part in &mut self.parts {
            part.range = part.range.start - self.origin..part.range.end - self.origin;
        }
        (self.text.split_off(self.origin), self.parts)
    }
}
