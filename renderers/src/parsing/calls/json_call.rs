use std::ops::Range;

use serde_json::Value;

use crate::parsing::calls::value_scan::{Step, ValueScan};
use crate::parsing::calls::written_arguments::{Ended, read_json};
use crate::parsing::draft::Draft;

/// Reads a call that is one JSON object, such as `{"name": "f", "arguments": {"x": 1}}`, while it is sampled. The
/// arguments leave byte by byte as soon as the name is known. What is read here is only where things stand; whether all
/// of it is JSON is asked at the end.
#[derive(Debug)]
pub(crate) struct JsonCall {
    keys: &'static Keys,
    /// Where the object's text begins, white space before it included.
    start: usize,
    /// Up to here it has been read.
    at: usize,
    state: JsonState,
    value: ValueScan,
    key: String,
    name: Option<String>,
    id: Option<String>,
    arguments: Option<Range<usize>>,
    /// Up to here the arguments have left.
    given: usize,
    is_named: bool,
}

/// What the keys of a call are called.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Those of the arguments.
    pub(crate) arguments: &'static [&'static str],
    /// Others besides `name`; `None` where any may stand there.
    pub(crate) others: Option<&'static [&'static str]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonState {
    /// The object is to begin.
    Start,
    /// A key or the end is to come.
    Key,
    /// In a key that began there.
    InKey { start: usize },
    /// The colon is to come.
    Colon,
    /// A value is to begin.
    ValueStart,
    /// In a value that began there.
    InValue { start: usize },
    /// A comma or the end is to come.
    Comma,
    /// The object has ended.
    Done,
    /// This is no call.
    Wrong,
}

impl JsonCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize, keys: &'static Keys) -> Self {
        Self {
            keys,
            start,
            at: start,
            state: JsonState::Start,
            value: ValueScan::default(),
            key: String::new(),
            name: None,
            id: None,
            arguments: None,
            given: start,
            is_named: false,
        }
    }

    /// Whether the event that names the call has been emitted.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Whether it can no longer become a call.
    pub(crate) fn is_wrong(&self) -> bool {
        self.state == JsonState::Wrong
    }

    /// Where the object ended; what follows is not read.
    pub(crate) fn end(&self) -> Option<usize> {
        (self.state == JsonState::Done).then_some(self.at)
    }

    /// Reads on up to `end`, or to the end of the object.
    pub(crate) fn read(&mut self, end: usize, draft: &mut Draft) {
        while self.at < end && !matches!(self.state, JsonState::Done | JsonState::Wrong) {
            let byte = draft.text().as_bytes()[self.at];
            if self.step(byte, draft.text()) {
                self.at += 1;
            }
        }
        self.give(draft);
    }

    /// Takes a byte; false where it is to be looked at again in the next state.
    fn step(&mut self, byte: u8, text: &str) -> bool {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.state = match (self.state, byte) {
            (JsonState::InKey { start }, _) => match self.value.step(byte) {
                Step::Last => self.end_of_key(&text[start..=self.at]),
                _ => JsonState::InKey { start },
            },
            (JsonState::InValue { start }, _) => match self.value.step(byte) {
                Step::Inside => JsonState::InValue { start },
                Step::Wrong => JsonState::Wrong,
                Step::Last => self.end_of_value(text, start..self.at + 1),
                Step::Outside => {
                    self.state = self.end_of_value(text, start..self.at);
                    return false;
                }
            },
            (state, _) if is_space => state,
            (JsonState::Start, b'{') | (JsonState::Comma, b',') => JsonState::Key,
            (JsonState::Key, b'"') => {
                self.value = ValueScan::default();
                self.value.step(byte);
                JsonState::InKey { start: self.at }
            }
            (JsonState::Key | JsonState::Comma, b'}') => JsonState::Done,
            (JsonState::Colon, b':') => JsonState::ValueStart,
            (JsonState::ValueStart, _) => self.begin_value(byte),
            _ => JsonState::Wrong,
        };
        true
    }

    fn end_of_key(&mut self, quoted: &str) -> JsonState {
        let Ok(key) = serde_json::from_str(quoted) else { return JsonState::Wrong };
        self.key = key;
        let key = &*self.key;
        let is_known = key == "name"
            || self.keys.arguments.contains(&key)
            || self.keys.others.is_none_or(|others| others.contains(&key));
        if is_known { JsonState::Colon } else { JsonState::Wrong }
    }

    fn begin_value(&mut self, byte: u8) -> JsonState {
        if self.is_arguments() {
            if byte != b'{' || self.arguments.is_some() {
                return JsonState::Wrong;
            }
            self.arguments = Some(self.at..usize::MAX);
            self.given = self.at;
        }
        self.value = ValueScan::default();
        self.value.step(byte);
        JsonState::InValue { start: self.at }
    }

    fn is_arguments(&self) -> bool {
        self.keys.arguments.contains(&&*self.key)
    }

    fn end_of_value(&mut self, text: &str, range: Range<usize>) -> JsonState {
        let as_text = || serde_json::from_str::<String>(&text[range.clone()]).ok();
        match &*self.key {
            "name" if self.name.is_some() => return JsonState::Wrong,
            "name" => match as_text() {
                Some(name) => self.name = Some(name),
                None => return JsonState::Wrong,
            },
            // Once the call's event is out, it is too late for an id.
            "id" if !self.is_named => self.id = as_text(),
            _ if self.is_arguments() => self.arguments = Some(range),
            _ => {}
        }
        JsonState::Comma
    }

    /// Emits the call's name once the arguments have begun, and what there is of them.
    fn give(&mut self, draft: &mut Draft) {
        let (Some(arguments), Some(name)) = (self.arguments.clone(), &self.name) else { return };
        if !self.is_named {
            draft.name_call(self.id.take(), name.clone());
            self.is_named = true;
        }
        let end = self.at.min(arguments.end);
        if end > self.given {
            draft.push_arguments(draft.text()[self.given..end].to_owned());
            self.given = end;
        }
    }

    /// What the call is at `end`, where a mark stands that would end it.
    pub(crate) fn ended(&self, end: usize, text: &str) -> Ended {
        match self.arguments(end, text) {
            Err(error) if self.is_in_string() => Ended::InText(error),
            arguments => arguments.into(),
        }
    }

    /// Whether what follows stands in a string.
    pub(crate) fn is_in_string(&self) -> bool {
        matches!(self.state, JsonState::InValue { .. }) && self.value.is_in_string()
    }

    /// The arguments of a call that goes up to `end`, or why it is none.
    pub(crate) fn arguments(&self, end: usize, text: &str) -> Result<Value, String> {
        let whole = text;
        let text = &text[self.start..end];
        let call: Value = serde_json::from_str(text).map_err(|error| format!("the call is not JSON: {error}"))?;
        let call = call.as_object().ok_or("the call is not a JSON object")?;
        let name = call.get("name").ok_or("the call has no `name`")?;
        if !name.is_string() {
            return Err("the call's `name` is not a string".to_owned());
        }
        let (key, arguments) = self
            .keys
            .arguments
            .iter()
            .find_map(|key| Some((key, call.get(*key)?)))
            .ok_or_else(|| format!("the call has no `{}`", self.keys.arguments[0]))?;
        if !arguments.is_object() {
            return Err(format!("the call's `{key}` is not an object"));
        }
        match (self.state, &self.arguments) {
            (JsonState::Done, Some(range)) => {
                read_json(&whole[range.clone()]).map_err(|error| format!("the call's `{key}`: {error}"))
            }
            _ => Err("a key of the call stands there twice".to_owned()),
        }
    }
}
