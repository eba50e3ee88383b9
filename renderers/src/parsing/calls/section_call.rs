use std::ops::Range;

use serde_json::Value;

use crate::parsing::calls::value_scan::{Step, ValueScan};
use crate::parsing::calls::written_arguments::{Ended, read_json};
use crate::parsing::draft::Draft;

/// JSON arguments that stand alone between two marks. They leave as they come, without the white space around them.
#[derive(Debug)]
pub(crate) struct Arguments {
    range: Range<usize>,
    /// Whether a fence of Markdown ends them.
    fenced: bool,
    /// Up to here they have left.
    given: usize,
    scan: ValueScan,
    is_wrong: bool,
}

impl Arguments {
    /// Arguments that begin at `start` of the draft's text.
    pub(crate) fn new(start: usize) -> Self {
        Self { range: start..start, given: start, fenced: false, scan: ValueScan::default(), is_wrong: false }
    }

    /// Arguments that begin at `start`, behind the line that opens a fence.
    fn fenced(start: usize) -> Self {
        Self { fenced: true, ..Self::new(start) }
    }

    /// Text without what may stand behind arguments. JSON of an object ends with none of it.
    fn without_end<'t>(&self, text: &'t str) -> &'t str {
        match self.fenced {
            true => text.trim_end_matches(|character: char| character == '`' || character.is_whitespace()),
            false => text.trim_end(),
        }
    }

    /// Takes text up to `end`.
    pub(crate) fn read(&mut self, end: usize, draft: &mut Draft) {
        if self.range.is_empty() {
            let new = &draft.text()[self.range.end..end];
            let start = end - new.trim_start().len();
            (self.range, self.given) = (start..start, start);
        }
        for byte in &draft.text().as_bytes()[self.range.end..end] {
            self.is_wrong |= self.scan.step(*byte) == Step::Wrong;
        }
        // From where the last delta ended: what stands behind arguments may come in several pieces.
        let certain = self.given + self.without_end(&draft.text()[self.given..end]).len();
        self.range.end = end;
        if certain > self.given {
            let delta = draft.text()[self.given..certain].to_owned();
            self.given = certain;
            draft.push_arguments(delta);
        }
    }

    /// Whether what follows stands in a string.
    pub(crate) fn is_in_string(&self) -> bool {
        self.scan.is_in_string()
    }

    /// Whether they can no longer become arguments.
    pub(crate) fn is_wrong(&self) -> bool {
        self.is_wrong
    }

    /// What the call is where a mark stands that would end it.
    pub(crate) fn ended(&self, text: &str) -> Ended {
        match self.parse(text) {
            Err(error) if self.is_in_string() => Ended::InText(error),
            arguments => arguments.into(),
        }
    }

    /// The arguments, or what is wrong with them.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        let text = &text[self.range.clone()];
        let text = if self.fenced { self.without_end(text) } else { text };
        if text.trim().is_empty() {
            return Err("the call has no arguments".to_owned());
        }
        let arguments = read_json(text).map_err(|error| format!("the arguments are not JSON: {error}"))?;
        if !arguments.is_object() {
            return Err("the arguments are not an object".to_owned());
        }
        Ok(arguments)
    }
}

/// How the head of a call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallHead {
    /// By its name.
    Name,
    /// By an id that holds the name: `functions.NAME:NUMBER`.
    Id,
    /// By its name, and by an id behind `[CALL_ID]`.
    NameAndId,
}

impl CallHead {
    /// Id and name.
    fn read(self, head: &str) -> Result<(Option<String>, String), String> {
        let head = head.trim();
        match self {
            Self::NameAndId => {
                let (name, id) = head.split_once("[CALL_ID]").map_or((head, ""), |(name, id)| (name.trim(), id.trim()));
                let id = (!id.is_empty()).then(|| id.to_owned());
                if name.is_empty() { Err("the call has no name".to_owned()) } else { Ok((id, name.to_owned())) }
            }
            Self::Name if head.is_empty() => Err("the call has no name".to_owned()),
            Self::Name => Ok((None, head.to_owned())),
            Self::Id => {
                let name = head.rsplit_once(':').filter(|(_, number)| is_number(number)).map(|(name, _)| name);
                let name = name.map(|name| name.split_once('.').map_or(name, |(_, name)| name));
                let name = name.filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| format!("the call's id `{head}` is not `functions.NAME:NUMBER`"))?;
                Ok((Some(head.to_owned()), name.to_owned()))
            }
        }
    }
}

/// What DeepSeek before V3.1 writes in place of the name.
const TYPE: &str = "function";

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads a call whose head and arguments a mark parts (DeepSeek, Kimi, Mistral).
///
/// DeepSeek before V3.1 has the type before the mark, which is `function`, and behind it the name, and the arguments in a
/// fence of Markdown.
#[derive(Debug)]
pub(crate) struct SectionCall {
    head: CallHead,
    head_start: usize,
    arguments: Option<Arguments>,
    /// Where what follows the mark begins, while it is unclear whether that is a name or arguments.
    unclear: Option<usize>,
    /// What is wrong with the head.
    error: Option<String>,
}

impl SectionCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize, head: CallHead) -> Self {
        Self { head, head_start: start, arguments: None, unclear: None, error: None }
    }

    /// Takes text up to `end`.
    pub(crate) fn read(&mut self, end: usize, draft: &mut Draft) {
        if let Some(start) = self.unclear {
            self.begin_unclear(start, end, draft);
        }
        if let Some(arguments) = &mut self.arguments {
            arguments.read(end, draft);
        }
    }

    /// Finds out whether arguments begin at `start`, or a name and the fence behind it.
    fn begin_unclear(&mut self, start: usize, end: usize, draft: &mut Draft) {
        let text = &draft.text()[start..end];
        match text.trim_start().chars().next() {
            None => {}
            Some('{') => {
                self.unclear = None;
                draft.name_call(None, TYPE.to_owned());
                self.arguments = Some(Arguments::new(start));
            }
            Some(_) => {
                let skipped = text.len() - text.trim_start().len();
                let mut lines = text[skipped..].split_inclusive('\n');
                let whole = |line: Option<&str>| line.filter(|line| line.ends_with('\n')).map(str::len);
                let (Some(name), Some(fence)) = (whole(lines.next()), whole(lines.next())) else { return };
                let name = start + skipped..start + skipped + name;
                let fence = name.end..name.end + fence;
                self.unclear = None;
                self.arguments = Some(Arguments::fenced(fence.end));
                match draft.text()[fence].trim_start().starts_with("```") {
                    true => draft.name_call(None, draft.text()[name].trim().to_owned()),
                    false => self.error = Some("no fence stands around the arguments".to_owned()),
                }
            }
        }
    }

    /// Takes the mark between head and arguments; a second one is text of the arguments.
    pub(crate) fn begin_arguments(&mut self, mark: Range<usize>, draft: &mut Draft) {
        if self.arguments.is_some() || self.unclear.is_some() {
            return self.read(mark.end, draft);
        }
        if self.head == CallHead::Name && draft.text()[self.head_start..mark.start].trim() == TYPE {
            self.unclear = Some(mark.end);
            return;
        }
        match self.head.read(&draft.text()[self.head_start..mark.start]) {
            Ok((id, name)) => draft.name_call(id, name),
            Err(error) => self.error = Some(error),
        }
        self.arguments = Some(Arguments::new(mark.end));
    }

    /// Whether it can no longer become a call.
    pub(crate) fn is_wrong(&self) -> bool {
        self.error.is_some() || self.arguments.as_ref().is_some_and(Arguments::is_wrong)
    }

    /// Whether what follows stands in a string.
    pub(crate) fn is_in_string(&self) -> bool {
        self.error.is_none() && self.arguments.as_ref().is_some_and(Arguments::is_in_string)
    }

    /// What the call is where a mark stands that would end it.
    pub(crate) fn ended(&self, text: &str) -> Ended {
        match (&self.error, &self.arguments) {
            (Some(error), _) => Ended::Broken(error.clone()),
            (None, None) => Ended::Broken("the call has no arguments".to_owned()),
            (None, Some(arguments)) => arguments.ended(text),
        }
    }
}
