use std::ops::Range;

use serde_json::Value;

use crate::parsing::draft::Draft;

/// JSON arguments that stand alone between two marks. They leave as they come, without the white space around them.
#[derive(Debug)]
pub(crate) struct Arguments {
    range: Range<usize>,
    /// Up to here they have left.
    given: usize,
}

impl Arguments {
    /// Arguments that begin at `start` of the draft's text.
    pub(crate) fn new(start: usize) -> Self {
        Self { range: start..start, given: start }
    }

    /// Takes text up to `end`.
    pub(crate) fn read(&mut self, end: usize, draft: &mut Draft) {
        let new = &draft.text()[self.range.end..end];
        let certain = self.range.end + new.trim_end().len();
        if self.range.is_empty() {
            let start = end - new.trim_start().len();
            (self.range, self.given) = (start..start, start);
        }
        self.range.end = end;
        if certain > self.given {
            let delta = draft.text()[self.given..certain].to_owned();
            self.given = certain;
            draft.push_arguments(delta);
        }
    }

    /// The arguments, or what is wrong with them.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        let text = &text[self.range.clone()];
        if text.trim().is_empty() {
            return Err("the call has no arguments".to_owned());
        }
        let arguments: Value =
            serde_json::from_str(text).map_err(|error| format!("the arguments are not JSON: {error}"))?;
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
}

impl CallHead {
    /// Id and name.
    fn read(self, head: &str) -> Result<(Option<String>, String), String> {
        let head = head.trim();
        match self {
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

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads a call whose head and arguments a mark parts (DeepSeek, Kimi).
#[derive(Debug)]
pub(crate) struct SectionCall {
    head: CallHead,
    head_start: usize,
    arguments: Option<Arguments>,
    /// What is wrong with the head.
    error: Option<String>,
}

impl SectionCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize, head: CallHead) -> Self {
        Self { head, head_start: start, arguments: None, error: None }
    }

    /// Takes text up to `end`.
    pub(crate) fn read(&mut self, end: usize, draft: &mut Draft) {
        if let Some(arguments) = &mut self.arguments {
            arguments.read(end, draft);
        }
    }

    /// Takes the mark between head and arguments; a second one is text of the arguments.
    pub(crate) fn begin_arguments(&mut self, mark: Range<usize>, draft: &mut Draft) {
        if self.arguments.is_some() {
            return self.read(mark.end, draft);
        }
        match self.head.read(&draft.text()[self.head_start..mark.start]) {
            Ok((id, name)) => draft.name_call(id, name),
            Err(error) => self.error = Some(error),
        }
        self.arguments = Some(Arguments::new(mark.end));
    }

    /// The arguments, or what is wrong with the call.
    pub(crate) fn arguments(&self, text: &str) -> Result<Value, String> {
        match (&self.error, &self.arguments) {
            (Some(error), _) => Err(error.clone()),
            (None, None) => Err("the call has no arguments".to_owned()),
            (None, Some(arguments)) => arguments.parse(text),
        }
    }
}
