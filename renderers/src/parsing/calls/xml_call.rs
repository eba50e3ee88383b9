use serde_json::{Map, Value};

use crate::parsing::calls::parameter_types::ParameterTypes;
use crate::parsing::draft::Draft;

const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

/// Reads a call as `<function=NAME>` with `<parameter=KEY>VALUE</parameter>` while it is sampled. Every parameter leaves
/// as a piece of the JSON object that the arguments are.
///
/// One newline after `<parameter=KEY>` and one before `</parameter>` are the format's; all else is the value, which may
/// be code whose indentation matters.
#[derive(Debug)]
pub(crate) struct XmlCall {
    /// Up to here it has been read.
    at: usize,
    /// From here on the end of what is being read is looked for.
    search_from: usize,
    state: State,
    name: String,
    arguments: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// `<function=` is to come.
    Start,
    /// In the function's name.
    Name,
    /// A parameter or the end is to come.
    Between,
    /// In a parameter's name.
    Key,
    /// In the value of a parameter.
    Value { key: String },
    /// The function has ended.
    Done,
    /// This is no call.
    Wrong(&'static str),
}

impl XmlCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize) -> Self {
        Self { at: start, search_from: start, state: State::Start, name: String::new(), arguments: Map::new() }
    }

    /// Reads on up to `end`.
    pub(crate) fn read(&mut self, end: usize, types: &ParameterTypes, draft: &mut Draft) {
        while self.step(end, types, draft) {}
    }

    /// Reads one thing; false where more text is needed.
    fn step(&mut self, end: usize, types: &ParameterTypes, draft: &mut Draft) -> bool {
        match self.state.clone() {
            State::Start => {
                self.tag(&draft.text()[..end], &[(FUNCTION, State::Name)], "no `<function=` begins the call")
            }
            State::Name => self.line(&draft.text()[..end]).is_some_and(|name| {
                draft.name_call(None, name.clone());
                self.name = name;
                self.state = State::Between;
                true
            }),
            State::Between => {
                let tags = [(PARAMETER, State::Key), (FUNCTION_END, State::Done)];
                let goes_on = self.tag(&draft.text()[..end], &tags, "text stands beside the parameters");
                if self.state == State::Done {
                    draft.push_arguments(if self.arguments.is_empty() { "{}" } else { "}" }.to_owned());
                }
                goes_on
            }
            State::Key => self.line(&draft.text()[..end]).is_some_and(|key| {
                self.state = State::Value { key };
                true
            }),
            State::Value { key } => self.until(&draft.text()[..end], PARAMETER_END).is_some_and(|written| {
                self.push_parameter(key, &written, types, draft);
                self.state = State::Between;
                true
            }),
            State::Done => {
                if !draft.text()[self.at..end].trim().is_empty() {
                    self.state = State::Wrong("text follows the function");
                }
                self.at = end;
                false
            }
            State::Wrong(_) => false,
        }
    }

    fn push_parameter(&mut self, key: String, written: &str, types: &ParameterTypes, draft: &mut Draft) {
        let written = written.strip_prefix('\n').unwrap_or(written);
        let written = written.strip_suffix('\n').unwrap_or(written);
        let json = types.json_text(&self.name, &key, written);
        let open = if self.arguments.is_empty() { "{" } else { ", " };
        draft.push_arguments(format!("{open}{}: {json}", Value::from(&*key)));
        // It was made of what can be read as JSON, or of a string.
        self.arguments.insert(key, serde_json::from_str(&json).unwrap_or_default());
    }

    /// Takes white space and one of the tags.
    fn tag(&mut self, text: &str, tags: &[(&str, State)], otherwise: &'static str) -> bool {
        let rest = text[self.at..].trim_start();
        self.at = text.len() - rest.len();
        if let Some((tag, next)) = tags.iter().find(|(tag, _)| rest.starts_with(tag)) {
            self.at += tag.len();
            self.search_from = self.at;
            self.state = next.clone();
            return true;
        }
        if !tags.iter().any(|(tag, _)| tag.starts_with(rest)) {
            self.state = State::Wrong(otherwise);
        }
        false
    }

    /// Takes a name of one line that `>` ends.
    fn line(&mut self, text: &str) -> Option<String> {
        let name = self.until(text, ">")?;
        let name = name.trim().to_owned();
        if name.is_empty() || name.contains('\n') {
            self.state = State::Wrong("a name is missing");
            return None;
        }
        Some(name)
    }

    /// Takes everything up to `end`, and `end`.
    fn until(&mut self, text: &str, end: &str) -> Option<String> {
        let Some(offset) = text[self.search_from..].find(end) else {
            // All but what may be the beginning of the end has been looked through.
            self.search_from = text.floor_char_boundary((text.len() + 1).saturating_sub(end.len())).max(self.at);
            return None;
        };
        let found = self.search_from + offset;
        let taken = text[self.at..found].to_owned();
        self.at = found + end.len();
        self.search_from = self.at;
        Some(taken)
    }

    /// The arguments, or what is wrong with the call.
    pub(crate) fn arguments(&self) -> Result<Value, String> {
        match &self.state {
            State::Done => Ok(self.arguments.clone().into()),
            State::Wrong(error) => Err((*error).to_owned()),
            State::Start | State::Name => Err("nothing is called".to_owned()),
            State::Between | State::Key | State::Value { .. } => Err("no `</function>` ends the call".to_owned()),
        }
    }
}
