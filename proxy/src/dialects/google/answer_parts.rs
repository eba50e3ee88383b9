use serde::Serialize;
use serde_json::value::RawValue;

use crate::reply::assistant_message::Delta;
use crate::requests::exact_json::exact_json;

/// A part of an answer's content, or more of one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum AnswerPart {
    Text {
        text: String,
    },
    Thought {
        text: String,
        /// Says that it is one.
        thought: bool,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: FunctionCall,
    },
}

/// A call with its arguments, all of whose digits they keep.
#[derive(Debug, Serialize)]
pub(super) struct FunctionCall {
    id: String,
    name: String,
    args: Box<RawValue>,
}

/// Makes parts of what is sampled. A call is a part once it is whole: clients run what they get.
pub(super) struct PartReader {
    shows_thoughts: bool,
    /// The call that has started and is not complete.
    call: Option<OpenCall>,
}

struct OpenCall {
    id: String,
    name: String,
    arguments: String,
}

impl PartReader {
    pub(super) fn new(shows_thoughts: bool) -> Self {
        Self { shows_thoughts, call: None }
    }

    /// The part that a delta makes, if it makes one.
    pub(super) fn take(&mut self, delta: &Delta) -> Option<AnswerPart> {
        match delta {
            Delta::Reasoning(text) => (self.shows_thoughts && !text.is_empty())
                .then(|| AnswerPart::Thought { text: text.clone(), thought: true }),
            Delta::Text(text) => {
                // A malformed call continues as text.
                self.call = None;
                Some(AnswerPart::Text { text: text.clone() })
            }
            Delta::ToolCall { id, name, .. } => {
                self.call = Some(OpenCall { id: id.clone(), name: name.clone(), arguments: String::new() });
                None
            }
            Delta::Arguments { text, .. } => self.argue(text),
            Delta::Void { .. } => {
                self.call = None;
                None
            }
        }
    }

    /// Adds to the arguments of the call, which is whole as soon as they can be read.
    fn argue(&mut self, text: &str) -> Option<AnswerPart> {
        let call = self.call.as_mut()?;
        call.arguments.push_str(text);
        if !call.arguments.trim_end().ends_with('}') {
            return None;
        }
        let args = exact_json(&call.arguments)?;
        let OpenCall { id, name, .. } = self.call.take()?;
        Some(AnswerPart::Call { function_call: FunctionCall { id, name, args } })
    }
}

impl AnswerPart {
    /// Adds a part to others, in which texts that follow each other are one.
    pub(super) fn add_to(self, parts: &mut Vec<AnswerPart>) {
        match (parts.last_mut(), self) {
            (Some(AnswerPart::Text { text }), AnswerPart::Text { text: more })
            | (Some(AnswerPart::Thought { text, .. }), AnswerPart::Thought { text: more, .. }) => text.push_str(&more),
            (_, part) => parts.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parts(shows_thoughts: bool, deltas: &[Delta]) -> Value {
        let (mut reader, mut parts) = (PartReader::new(shows_thoughts), Vec::new());
        for part in deltas.iter().filter_map(|delta| reader.take(delta)) {
            part.add_to(&mut parts);
        }
        json!(parts)
    }

    impl PartReader {
        /// The JSON of all parts.
        fn take_all(mut self, deltas: &[Delta]) -> String {
            let parts: Vec<AnswerPart> = deltas.iter().filter_map(|delta| self.take(delta)).collect();
            serde_json::to_string(&parts).unwrap()
        }
    }

    fn text(text: &str) -> Delta {
        Delta::Text(text.to_owned())
    }

    fn call(arguments: &[&str]) -> Vec<Delta> {
        let begins = Delta::ToolCall { index: 0, id: "c".to_owned(), name: "f".to_owned() };
        let arguments = arguments.iter().map(|text| Delta::Arguments { index: 0, text: (*text).to_owned() });
        std::iter::once(begins).chain(arguments).collect()
    }

    #[test]
    fn texts_are_joined_and_thoughts_are_for_those_who_ask() {
        let deltas = ["h", "m"].map(|text| Delta::Reasoning(text.to_owned())).into_iter();
        let deltas: Vec<Delta> = deltas.chain([text("a"), text("b")]).collect();
        assert_eq!(parts(true, &deltas), json!([{ "text": "hm", "thought": true }, { "text": "ab" }]));
        assert_eq!(parts(false, &deltas), json!([{ "text": "ab" }]));
    }

    #[test]
    fn a_call_is_a_part_once_it_is_whole_and_never_if_it_breaks() {
        let whole = json!({ "functionCall": { "id": "c", "name": "f", "args": { "a": { "b": 1 } } } });
        assert_eq!(parts(false, &call(&["{\"a\": {\"b\": 1}", "}"])), json!([whole]));
        assert_eq!(parts(false, &call(&["{\"a\": {\"b\": 1}"])), json!([]));
        let long = PartReader::new(false).take_all(&call(&["{\"n\":", "123456789012345678901234567890}"]));
        let args = "{\"n\": 123456789012345678901234567890}";
        assert_eq!(long, format!("[{{\"functionCall\":{{\"id\":\"c\",\"name\":\"f\",\"args\":{args}}}}}]"));
        let void = Delta::Void { index: 0, end: ",]".to_owned() };
        let broken = [call(&["{\"a\": 1"]), vec![void, text("<call>")]].concat();
        assert_eq!(parts(false, &broken), json!([{ "text": "<call>" }]));
    }
}
