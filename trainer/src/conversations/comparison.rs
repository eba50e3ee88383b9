//! A row of comparisons: a prompt with a better and a worse answer to it, or with one answer and whether it is good.

use fulgurite_renderers::WeightedTokens;
use fulgurite_types::Message;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::conversation::{Conversation, Marks, check_columns, read_row};
use super::file::RowReader;
use super::rendering::{RenderRefusal, Rendering};
use super::sequences::{ComparedExample, Unusable};

/// The keys of a row.
const KEYS: [&str; 7] = ["prompt", "messages", "chosen", "rejected", "completion", "label", "tools"];

/// Reads comparisons; its rendering trains those messages that say so.
#[derive(Clone)]
pub(crate) struct ComparisonReader {
    pub(crate) rendering: Rendering,
    /// Whether an answer may be alone.
    pub(crate) takes_single_answers: bool,
}

/// A row as it is written. Other columns are other people's.
#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    prompt: Option<Value>,
    #[serde(default)]
    messages: Option<Value>,
    #[serde(default)]
    chosen: Option<Value>,
    #[serde(default)]
    rejected: Option<Value>,
    #[serde(default)]
    completion: Option<Value>,
    #[serde(default)]
    label: Option<Value>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// What a row says: messages of a prompt, and those of the answers to it.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) prompt: Vec<Message>,
    pub(super) tools: Vec<Value>,
    pub(super) chosen: Option<Vec<Message>>,
    pub(super) rejected: Option<Vec<Message>>,
}

impl RowReader for ComparisonReader {
    type Item = ComparedExample;
    const WHAT: &'static str = "comparison";

    fn read(&self, json: &[u8]) -> Result<ComparedExample, RenderRefusal> {
        let comparison = Comparison::read(json, self.takes_single_answers).map_err(RenderRefusal::Wrong)?;
        let answer = |name: &str, messages: &Option<Vec<Message>>| match messages {
            Some(messages) => self.answer(name, &comparison, messages).map(Some),
            None => Ok(None),
        };
        let example = ComparedExample {
            chosen: answer("chosen", &comparison.chosen)?,
            rejected: answer("rejected", &comparison.rejected)?,
            uses: Vec::new(),
        };
        if example.chosen == example.rejected {
            let message = "has the same answer as `chosen` and as `rejected`, so that nothing is better".to_owned();
            return Err(RenderRefusal::Unusable(Unusable::NoDifference, message));
        }
        Ok(example)
    }
}

impl ComparisonReader {
    /// The sequences of an answer, whose assistant's messages are trained.
    fn answer(
        &self,
        name: &str,
        comparison: &Comparison,
        messages: &[Message],
    ) -> Result<Vec<WeightedTokens>, RenderRefusal> {
        let Comparison { prompt, tools, .. } = comparison;
        let wrong = |words: String| RenderRefusal::Wrong(format!("with `{name}`: {words}"));
        let all = [prompt.as_slice(), messages].concat();
        let mut conversation = Conversation::of(all, tools.clone()).map_err(wrong)?;
        if let Some(index) = conversation.marks.iter().position(|marks| *marks != Marks::default()) {
            return Err(wrong(format!(
                "message {index} says what it counts, and of a comparison the answers are trained"
            )));
        }
        for (index, (marks, message)) in conversation.marks.iter_mut().zip(&conversation.messages).enumerate() {
            marks.trainable = Some(index >= prompt.len() && message.is_assistant());
        }
        self.rendering.sequences(&conversation).map_err(|refusal| match refusal {
            RenderRefusal::Wrong(words) => wrong(words),
            RenderRefusal::Unusable(cause, words) => RenderRefusal::Unusable(cause, format!("with `{name}`: {words}")),
        })
    }
}

impl Comparison {
    pub(super) fn read(json: &[u8], takes_single_answers: bool) -> Result<Self, String> {
        let row: Row = read_row(json)?;
        check_columns(&row.other, &KEYS)?;
        if row.prompt.is_some() && row.messages.is_some() {
            return Err("has both `prompt` and `messages`".to_owned());
        }
        let is_pair = row.chosen.is_some() || row.rejected.is_some();
        if is_pair && (row.completion.is_some() || row.label.is_some()) {
            return Err("has `chosen` and `rejected`, and beside them `completion` or `label`".to_owned());
        }
        let tools = row.tools.clone().unwrap_or_default();
        if is_pair {
            return Self::pair(row, tools);
        }
        match (&row.label, takes_single_answers) {
            (None, false) => Err("has no `chosen` and `rejected`".to_owned()),
            (None, true) => Err("has neither `chosen` and `rejected` nor a `label`".to_owned()),
            (Some(_), false) => {
                Err("has a `label`, from which objective = \"kto\" learns: a comparison has `chosen` and `rejected`"
                    .to_owned())
            }
            (Some(Value::Bool(label)), true) => Self::labelled(*label, row, tools),
            (Some(label), true) => Err(format!("has the label {label}, but it must be true or false")),
        }
    }

    fn pair(row: Row, tools: Vec<Value>) -> Result<Self, String> {
        let answer = |name: &str, value: Option<Value>| match value {
            Some(value) => messages_of(name, value, "assistant"),
            None => Err(format!("has no `{name}`")),
        };
        let mut chosen = answer("chosen", row.chosen)?;
        let mut rejected = answer("rejected", row.rejected)?;
        let prompt = match (row.prompt, row.messages) {
            (Some(prompt), _) => messages_of("prompt", prompt, "user")?,
            (None, Some(messages)) => messages_of("messages", messages, "user")?,
            // Two conversations that begin alike: what they share is the prompt.
            (None, None) => {
                let shared = chosen.iter().zip(&rejected).take_while(|(one, other)| one == other).count();
                let shared = shared.min(chosen.len().min(rejected.len()).saturating_sub(1));
                chosen[..shared].to_vec()
            }
        };
        if prompt.is_empty() {
            return Err("has no `prompt`, and `chosen` and `rejected` do not begin alike".to_owned());
        }
        for answer in [&mut chosen, &mut rejected] {
            if answer.len() > prompt.len() && answer.starts_with(&prompt) {
                answer.drain(..prompt.len());
            }
        }
        for (name, answer) in [("chosen", &chosen), ("rejected", &rejected)] {
            check_answer(name, answer)?;
        }
        Ok(Self { prompt, tools, chosen: Some(chosen), rejected: Some(rejected) })
    }

    fn labelled(label: bool, row: Row, tools: Vec<Value>) -> Result<Self, String> {
        let (prompt, answer) = match (row.prompt, row.messages, row.completion) {
            (Some(prompt), _, Some(completion)) => {
                (messages_of("prompt", prompt, "user")?, messages_of("completion", completion, "assistant")?)
            }
            (None, Some(messages), Some(completion)) => {
                (messages_of("messages", messages, "user")?, messages_of("completion", completion, "assistant")?)
            }
            (None, Some(messages), None) => {
                let mut messages = messages_of("messages", messages, "user")?;
                let last = messages.pop().into_iter().collect();
                (messages, last)
            }
            _ => return Err("has a `label`, but no `prompt` with its `completion`".to_owned()),
        };
        if prompt.is_empty() {
            return Err("has an answer, and no prompt before it".to_owned());
        }
        check_answer("completion", &answer)?;
        let (good, bad) = if label { (Some(answer), None) } else { (None, Some(answer)) };
        Ok(Self { prompt, tools, chosen: good, rejected: bad })
    }
}

fn check_answer(name: &str, answer: &[Message]) -> Result<(), String> {
    match answer.first() {
        Some(first) if first.is_assistant() => Ok(()),
        Some(first) => Err(format!("has `{name}` begin with `{}`, but the assistant answers", first.role)),
        None => Err(format!("has nothing in `{name}`")),
    }
}

/// A text as the message of a role, a message, or a list of messages.
fn messages_of(name: &str, value: Value, role: &str) -> Result<Vec<Message>, String> {
    let message = |value: Value| serde_json::from_value::<Message>(value);
    match value {
        Value::String(text) => Ok(vec![Message::text(role, text)]),
        Value::Object(_) => message(value).map(|message| vec![message]).map_err(|error| format!("`{name}`: {error}")),
        Value::Array(list) => {
            let list = list.into_iter().enumerate();
            list.map(|(index, value)| message(value).map_err(|error| format!("message {index} of `{name}`: {error}")))
                .collect()
        }
        _ => Err(format!("has a `{name}` that is neither a text nor a list of messages")),
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Content;

    use super::*;

    fn read(row: &str) -> Result<Comparison, String> {
        Comparison::read(row.as_bytes(), false)
    }

    fn texts(messages: &[Message]) -> Vec<String> {
        let text = |message: &Message| match &message.content {
            Some(Content::Text(text)) => format!("{}: {text}", message.role),
            other => panic!("{other:?}"),
        };
        messages.iter().map(text).collect()
    }

    #[test]
    fn a_row_has_one_of_the_forms_that_people_write() {
        let user = r#"{"role": "user", "content": "a"}"#;
        let assistant = |text: &str| format!(r#"{{"role": "assistant", "content": "{text}"}}"#);
        let (good, bad) = (assistant("g"), assistant("b"));
        for row in [
            r#"{"prompt": "a", "chosen": "g", "rejected": "b", "score": 3}"#.to_owned(),
            format!(r#"{{"prompt": [{user}], "chosen": [{good}], "rejected": [{bad}]}}"#),
            format!(r#"{{"messages": [{user}], "chosen": {good}, "rejected": {bad}}}"#),
            format!(r#"{{"chosen": [{user}, {good}], "rejected": [{user}, {bad}]}}"#),
            format!(r#"{{"prompt": "a", "chosen": [{user}, {good}], "rejected": [{user}, {bad}]}}"#),
        ] {
            let comparison = read(&row).unwrap();
            assert_eq!(texts(&comparison.prompt), ["user: a"], "{row}");
            assert_eq!(texts(&comparison.chosen.unwrap()), ["assistant: g"], "{row}");
            assert_eq!(texts(&comparison.rejected.unwrap()), ["assistant: b"], "{row}");
        }
        for row in [
            r#"{"prompt": "a", "completion": "g", "label": true}"#.to_owned(),
            format!(r#"{{"messages": [{user}, {good}], "label": true}}"#),
        ] {
            let comparison = Comparison::read(row.as_bytes(), true).unwrap();
            assert_eq!(
                (texts(&comparison.prompt), texts(&comparison.chosen.unwrap())),
                (vec!["user: a".to_owned()], vec!["assistant: g".to_owned()])
            );
            assert!(comparison.rejected.is_none());
        }
    }

    #[test]
    fn a_row_that_compares_nothing_is_told_of_in_words() {
        for (row, expected) in [
            (r#"{"prompt": "a", "#, "is not JSON"),
            (r#"{"prompt": "a", "chosen": "g"}"#, "has no `rejected`"),
            (r#"{"prompt": "a"}"#, "has no `chosen` and `rejected`"),
            (r#"{"prompt": "a", "chose": "g", "rejected": "b"}"#, "did you mean `chosen`?"),
            (r#"{"prompt": 3, "chosen": "g", "rejected": "b"}"#, "has a `prompt` that is neither a text nor"),
            (r#"{"prompt": "a", "messages": [], "chosen": "g", "rejected": "b"}"#, "has both `prompt` and `messages`"),
            (r#"{"chosen": "g", "rejected": "b"}"#, "do not begin alike"),
            (r#"{"prompt": "a", "chosen": [], "rejected": "b"}"#, "has nothing in `chosen`"),
            (
                r#"{"prompt": "a", "chosen": {"role": "user", "content": "g"}, "rejected": "b"}"#,
                "has `chosen` begin with `user`, but the assistant answers",
            ),
            (r#"{"prompt": "a", "chosen": [{"content": "g"}], "rejected": "b"}"#, "message 0 of `chosen`: "),
            (r#"{"prompt": "a", "completion": "g", "label": true}"#, "from which objective = \"kto\" learns"),
            (r#"{"prompt": "a", "chosen": "g", "rejected": "b", "label": true}"#, "beside them"),
        ] {
            let said = read(row).unwrap_err();
            assert!(said.contains(expected), "{row}: {said}");
        }
        for (row, expected) in [
            (r#"{"prompt": "a", "completion": "g"}"#, "nor a `label`"),
            (r#"{"prompt": "a", "completion": "g", "label": 1}"#, "has the label 1, but it must be true or false"),
            (r#"{"prompt": "a", "label": true}"#, "no `prompt` with its `completion`"),
        ] {
            let said = Comparison::read(row.as_bytes(), true).unwrap_err();
            assert!(said.contains(expected), "{row}: {said}");
        }
    }
}
