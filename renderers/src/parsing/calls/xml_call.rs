use crate::parsing::calls::parameter_types::ParameterTypes;
use crate::parsing::calls::value_scan::ValueEnd;
use crate::parsing::calls::written_arguments::{Ended, WrittenArguments};
use crate::parsing::draft::Draft;

const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

/// Reads a call as `<function=NAME>` with `<parameter=KEY>VALUE</parameter>` while it is sampled. Every parameter is a
/// piece of the JSON object that the arguments are.
///
/// One newline after `<parameter=KEY>` and one before `</parameter>` are the format's; all else is the value, which may
/// be code whose indentation matters. The value may hold `</parameter>` itself: one ends it only where another parameter
/// follows, or `</function>` and the end of the call. A value that is never text ends where it is whole.
#[derive(Debug)]
pub(crate) struct XmlCall {
    /// Up to here it has been read.
    at: usize,
    /// From here on the end of what is being read is looked for.
    search_from: usize,
    state: XmlState,
    /// Where the value that is being read may end if it is no text.
    value_end: ValueEnd,
    name: String,
    arguments: WrittenArguments,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum XmlState {
    /// `<function=` is to come.
    Start,
    /// In the function's name.
    Name,
    /// A parameter or the end is to come.
    Between,
    /// In a parameter's name.
    Key,
    /// In the value of a parameter.
    Value { key: String, closing: Option<Closing> },
    /// The function has ended.
    Done,
    /// This is no call.
    Wrong(String),
}

/// A `</parameter>` that may end the value, while it is unclear what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Closing {
    start: usize,
    /// Up to here stands what may follow it.
    seen: usize,
    /// `</function>` has followed.
    has_function_end: bool,
}

/// What follows a `</parameter>`.
enum Follower {
    Unclear(Closing),
    Parameter,
    Other,
}

impl XmlCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize) -> Self {
        Self {
            at: start,
            search_from: start,
            state: XmlState::Start,
            value_end: ValueEnd::new(start),
            name: String::new(),
            arguments: WrittenArguments::default(),
        }
    }

    /// Reads on up to `end`.
    pub(crate) fn read(&mut self, end: usize, types: &ParameterTypes, draft: &mut Draft) {
        while self.step(end, types, draft) {}
    }

    /// Reads one thing; false where more text is needed.
    fn step(&mut self, end: usize, types: &ParameterTypes, draft: &mut Draft) -> bool {
        let text = &draft.text()[..end];
        match self.state.clone() {
            XmlState::Start => self.tag(text, &[(FUNCTION, XmlState::Name)], "no `<function=` begins the call"),
            XmlState::Name => self.line(text).is_some_and(|name| {
                draft.name_call(None, name.clone());
                self.name = name;
                self.state = XmlState::Between;
                true
            }),
            XmlState::Between => {
                let tags = [(PARAMETER, XmlState::Key), (FUNCTION_END, XmlState::Done)];
                let goes_on = self.tag(text, &tags, "text stands beside the parameters");
                if self.state == XmlState::Done {
                    self.arguments.close();
                }
                goes_on
            }
            XmlState::Key => self.line(text).is_some_and(|key| {
                self.state = match types.check_name(&self.name, &key) {
                    Ok(()) => XmlState::Value { key, closing: None },
                    Err(error) => XmlState::Wrong(error),
                };
                self.value_end = ValueEnd::new(self.at);
                true
            }),
            XmlState::Value { key, closing } => self.value(key, closing, text, types),
            XmlState::Done => {
                if !text[self.at..].trim().is_empty() {
                    self.state = XmlState::Wrong("text follows the function".to_owned());
                }
                self.at = end;
                false
            }
            XmlState::Wrong(_) => false,
        }
    }

    /// Looks for the end of a value.
    fn value(&mut self, key: String, closing: Option<Closing>, text: &str, types: &ParameterTypes) -> bool {
        let closing = match closing {
            Some(closing) => closing,
            None => {
                let Some(offset) = text[self.search_from..].find(PARAMETER_END) else {
                    self.search_from = searched(text, PARAMETER_END).max(self.at);
                    return false;
                };
                let start = self.search_from + offset;
                let may_end = self.value_end.is_first_outside(text, start);
                if may_end && types.is_whole(&self.name, &key, &text[self.at..start]) {
                    self.end_value(&key, start, text, types);
                    return true;
                }
                Closing { start, seen: start + PARAMETER_END.len(), has_function_end: false }
            }
        };
        match follower(closing, text) {
            Follower::Unclear(closing) => {
                self.state = XmlState::Value { key, closing: Some(closing) };
                return false;
            }
            Follower::Parameter => self.end_value(&key, closing.start, text, types),
            Follower::Other => {
                self.state = XmlState::Value { key, closing: None };
                self.search_from = closing.start + PARAMETER_END.len();
            }
        }
        true
    }

    /// Takes a value that the `</parameter>` at `end` ends.
    fn end_value(&mut self, key: &str, end: usize, text: &str, types: &ParameterTypes) {
        let json = self.json(key, &text[self.at..end], types);
        self.state = self.arguments.push(key, &json).map_or_else(XmlState::Wrong, |()| XmlState::Between);
        self.at = end + PARAMETER_END.len();
        self.search_from = self.at;
    }

    /// A value as JSON text.
    fn json(&self, key: &str, written: &str, types: &ParameterTypes) -> String {
        let written = written.strip_prefix('\n').unwrap_or(written);
        types.json_text(&self.name, key, written.strip_suffix('\n').unwrap_or(written))
    }

    /// Takes white space and one of the tags.
    fn tag(&mut self, text: &str, tags: &[(&str, XmlState)], otherwise: &'static str) -> bool {
        let rest = text[self.at..].trim_start();
        self.at = text.len() - rest.len();
        if let Some((tag, next)) = tags.iter().find(|(tag, _)| rest.starts_with(tag)) {
            self.at += tag.len();
            self.search_from = self.at;
            self.state = next.clone();
            return true;
        }
        if !tags.iter().any(|(tag, _)| tag.starts_with(rest)) {
            self.state = XmlState::Wrong(otherwise.to_owned());
        }
        false
    }

    /// Takes a name of one line that `>` ends, and that holds no other tag.
    fn line(&mut self, text: &str) -> Option<String> {
        let rest = &text[self.at..];
        let end = rest.find(['>', '<', '\n'])?;
        let name = rest[..end].trim();
        if name.is_empty() {
            self.state = XmlState::Wrong("a name is missing".to_owned());
        } else if !rest[end..].starts_with('>') {
            self.state = XmlState::Wrong(format!("no `>` ends the name `{name}`"));
        } else {
            self.at += end + 1;
            self.search_from = self.at;
            return Some(name.to_owned());
        }
        None
    }

    /// The text of the arguments that has not left yet.
    pub(crate) fn take_pieces(&mut self) -> String {
        self.arguments.take_pieces()
    }

    /// Whether it can no longer become a call.
    pub(crate) fn is_wrong(&self) -> bool {
        matches!(self.state, XmlState::Wrong(_))
    }

    /// Whether what follows may be a value's.
    pub(crate) fn is_in_text(&self) -> bool {
        matches!(self.state, XmlState::Value { .. })
    }

    /// What the call is at the end of `text`, where a mark stands that would end it.
    pub(crate) fn ended(&self, text: &str, types: &ParameterTypes) -> Ended {
        let unended = "no `</function>` ends the call".to_owned();
        match &self.state {
            XmlState::Done => self.arguments.clone().closed(),
            XmlState::Value { key, closing: Some(Closing { start, seen, has_function_end: true }) }
                if text[*seen..].trim().is_empty() =>
            {
                self.arguments.clone().end_with(key, &self.json(key, &text[self.at..*start], types))
            }
            XmlState::Value { .. } => Ended::InText(unended),
            XmlState::Wrong(error) => Ended::Broken(error.clone()),
            XmlState::Start | XmlState::Name => Ended::Broken("nothing is called".to_owned()),
            XmlState::Between | XmlState::Key => Ended::Broken(unended),
        }
    }
}

/// Looks on behind a `</parameter>`.
fn follower(mut closing: Closing, text: &str) -> Follower {
    if !closing.has_function_end {
        let rest = text[closing.seen..].trim_start();
        closing.seen = text.len() - rest.len();
        if rest.starts_with(PARAMETER) {
            return Follower::Parameter;
        }
        if PARAMETER.starts_with(rest) || FUNCTION_END.starts_with(rest) && rest != FUNCTION_END {
            return Follower::Unclear(closing);
        }
        if !rest.starts_with(FUNCTION_END) {
            return Follower::Other;
        }
        closing.seen += FUNCTION_END.len();
        closing.has_function_end = true;
    }
    if !text[closing.seen..].trim_start().is_empty() {
        return Follower::Other;
    }
    closing.seen = text.len();
    Follower::Unclear(closing)
}

/// Up to where `end` cannot begin.
fn searched(text: &str, end: &str) -> usize {
    text.floor_char_boundary((text.len() + 1).saturating_sub(end.len()))
}
