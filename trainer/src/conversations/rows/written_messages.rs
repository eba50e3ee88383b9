//! Messages as people write them into a field of a row: a text, a message, a list of messages, or a transcript.

use fulgurite_types::{Message, mended_json, nearest_name};
use serde_json::{Map, Value, json};

/// Names of a speaker in ShareGPT's rows and those of its followers, with the role of each.
const SPEAKERS: [(&str, Speaker); 16] = [
    ("human", Speaker::Role("user")),
    ("user", Speaker::Role("user")),
    ("prompter", Speaker::Role("user")),
    ("gpt", Speaker::Role("assistant")),
    ("assistant", Speaker::Role("assistant")),
    ("bing", Speaker::Role("assistant")),
    ("chatgpt", Speaker::Role("assistant")),
    ("bard", Speaker::Role("assistant")),
    ("model", Speaker::Role("assistant")),
    ("system", Speaker::Role("system")),
    ("developer", Speaker::Role("developer")),
    ("tool", Speaker::Role("tool")),
    ("observation", Speaker::Role("tool")),
    ("function_response", Speaker::Role("tool")),
    ("function_call", Speaker::Call),
    ("tool_call", Speaker::Call),
];

/// Who speaks in a message of ShareGPT's.
#[derive(Clone, Copy)]
enum Speaker {
    Role(&'static str),
    /// The assistant, who calls a tool.
    Call,
}

/// The words of a row's field `system`, put before messages that have no such message of their own.
pub(crate) fn with_system(system: Option<Value>, messages: &mut Vec<Message>) -> Result<(), String> {
    let words = match system {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(words)) => words,
        Some(_) => return Err("`system` is no text".to_owned()),
    };
    if !words.is_empty() && messages.first().is_none_or(|first| first.role != "system") {
        messages.insert(0, Message::text("system", words));
    }
    Ok(())
}

/// Refuses earlier turns beside fields that say nothing of them.
pub(crate) fn no_history(row: &Map<String, Value>) -> Result<(), String> {
    match row.get("history").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        true => Ok(()),
        false => {
            let words = "has a `history`, which belongs to `instruction` and `output`: write earlier turns into the \
                         prompt's messages";
            Err(words.to_owned())
        }
    }
}

/// The prompt of two answers, and what each of them says behind it.
pub(crate) fn two_answers(
    names: [&str; 2],
    answers: [Option<Value>; 2],
    prompt: Option<Value>,
    messages: Option<Value>,
) -> Result<(Vec<Message>, [Vec<Message>; 2]), String> {
    let has_prompt = prompt.is_some() || messages.is_some();
    if let ([Some(Value::String(first)), Some(Value::String(second))], false) = (&answers, has_prompt)
        && let Some(divided) = divided(first, second)
    {
        return Ok(divided);
    }
    let [first, second] = answers;
    let answer = |name: &str, value: Option<Value>| match value {
        Some(value) => messages_of(name, value, "assistant"),
        None => Err(format!("has no `{name}`")),
    };
    let mut answers = [answer(names[0], first)?, answer(names[1], second)?];
    let prompt = match (prompt, messages) {
        (Some(prompt), _) => messages_of("prompt", prompt, "user")?,
        (None, Some(messages)) => messages_of("messages", messages, "user")?,
        // Two conversations that begin alike: what they share is the prompt.
        (None, None) => {
            let [first, second] = &answers;
            let shared = first.iter().zip(second).take_while(|(one, other)| one == other).count();
            let shared = shared.min(first.len().min(second.len()).saturating_sub(1));
            first[..shared].to_vec()
        }
    };
    if prompt.is_empty() {
        return Err(format!("has no `prompt`, and `{}` and `{}` do not begin alike", names[0], names[1]));
    }
    for (name, answer) in names.into_iter().zip(&mut answers) {
        if answer.len() > prompt.len() && answer.starts_with(&prompt) {
            answer.drain(..prompt.len());
        }
        check_answer(name, answer)?;
    }
    Ok((prompt, answers))
}

/// The prompt that two texts begin with, and their answers to it: transcripts by their last speakers, other texts by the
/// words that they share.
fn divided(first: &str, second: &str) -> Option<(Vec<Message>, [Vec<Message>; 2])> {
    if let (Some(first), Some(second)) = (transcript(first), transcript(second)) {
        let shared = first.iter().zip(&second).take_while(|(one, other)| one == other).count();
        let shared = shared.min(first.len().min(second.len()).saturating_sub(1));
        let answers = [&first, &second].map(|messages| messages[shared..].to_vec());
        let is_answered = answers.iter().all(|answer| answer.first().is_some_and(Message::is_assistant));
        return (shared > 0 && is_answered).then(|| (first[..shared].to_vec(), answers));
    }
    let alike = first.char_indices().zip(second.chars()).take_while(|((_, one), other)| one == other);
    let end = alike.last().map_or(0, |((place, one), _)| place + one.len_utf8());
    // Not within a word, and so that something is left of both.
    let is_behind_a_word = |text: &str| text[end..].starts_with(char::is_whitespace);
    let end = match is_behind_a_word(first) && is_behind_a_word(second) {
        true => end,
        false => first[..end].rfind(char::is_whitespace)?,
    };
    let prompt = first[..end].trim();
    let answers = [first, second].map(|text| text[end..].trim());
    let is_whole = !prompt.is_empty() && answers.iter().all(|answer| !answer.is_empty());
    is_whole
        .then(|| (vec![Message::text("user", prompt)], answers.map(|answer| vec![Message::text("assistant", answer)])))
}

/// The messages of a text in which `Human:` and `Assistant:` speak in turn, each after a blank line.
fn transcript(text: &str) -> Option<Vec<Message>> {
    const SPEAKERS: [(&str, &str); 2] = [("Human:", "user"), ("Assistant:", "assistant")];
    let mut messages: Vec<Message> = Vec::new();
    let (mut role, mut words) = (None, String::new());
    let paragraphs = text.trim().split("\n\n");
    for paragraph in paragraphs {
        let opening = SPEAKERS.iter().find_map(|(name, role)| Some((*role, paragraph.strip_prefix(name)?)));
        match (opening, role) {
            (Some((next, rest)), last) => {
                if let Some(role) = last {
                    messages.push(Message::text(role, words.trim()));
                }
                (role, words) = (Some(next), rest.to_owned());
            }
            (None, None) => return None,
            (None, Some(_)) => words = words + "\n\n" + paragraph,
        }
    }
    messages.push(Message::text(role?, words.trim()));
    Some(messages)
}

pub(crate) fn check_answer(name: &str, answer: &[Message]) -> Result<(), String> {
    match answer.first() {
        Some(first) if first.is_assistant() => Ok(()),
        Some(first) => Err(format!("has `{name}` begin with `{}`, but the assistant answers", first.role)),
        None => Err(format!("has nothing in `{name}`")),
    }
}

/// A text as the message of a role, a message, or a list of messages.
pub(crate) fn messages_of(name: &str, value: Value, role: &str) -> Result<Vec<Message>, String> {
    let message = |value: Value| match value.get("from").is_some() && value.get("role").is_none() {
        true => turn(value),
        false => serde_json::from_value::<Message>(value).map_err(|error| error.to_string()),
    };
    match value {
        Value::String(text) => Ok(vec![Message::text(role, text)]),
        Value::Object(_) => message(value).map(|message| vec![message]).map_err(|words| format!("`{name}`: {words}")),
        Value::Array(list) => {
            let list = list.into_iter().enumerate();
            list.map(|(index, value)| message(value).map_err(|words| format!("message {index} of `{name}`: {words}")))
                .collect()
        }
        _ => Err(format!("has a `{name}` that is neither a text nor a list of messages")),
    }
}

/// A message of ShareGPT's.
pub(crate) fn turn(entry: Value) -> Result<Message, String> {
    let Value::Object(mut entry) = entry else { return Err("is no object".to_owned()) };
    let keys = if entry.contains_key("from") { ["from", "value"] } else { ["role", "content"] };
    let [speaker, text] = keys.map(|key| match entry.remove(key) {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Null) | None => Err(format!("has no `{key}`")),
        Some(_) => Err(format!("has a `{key}` that is no text")),
    });
    let (speaker, text) = (speaker?, text?);
    let mut message = match speaker_of(&speaker)? {
        Speaker::Role(role) => Message::text(role, text),
        Speaker::Call => calling(&text)?,
    };
    for mark in ["weight", "trainable"] {
        message.extra.extend(entry.remove_entry(mark));
    }
    Ok(message)
}

fn speaker_of(name: &str) -> Result<Speaker, String> {
    let lower = name.trim().to_ascii_lowercase();
    if let Some((_, speaker)) = SPEAKERS.iter().find(|(known, _)| *known == lower) {
        return Ok(*speaker);
    }
    let names = SPEAKERS.map(|(name, _)| name);
    Err(match nearest_name(&lower, &names) {
        Some(nearest) => format!("is from `{name}`; did you mean `{nearest}`?"),
        None => format!("is from `{name}`; there is `{}`", names.join("`, `")),
    })
}

/// The assistant's message that makes the calls which a text has as JSON.
fn calling(text: &str) -> Result<Message, String> {
    let wrong = || "is a call that is no JSON of `name` and `arguments`".to_owned();
    let calls = match serde_json::from_str::<Value>(&mended_json(text)).map_err(|_| wrong())? {
        Value::Array(calls) => calls,
        call => vec![call],
    };
    let wrapped = |call: Value| match call.get("name") {
        Some(Value::String(name)) => {
            let arguments = call.get("arguments").or_else(|| call.get("parameters")).cloned().unwrap_or_default();
            Ok(json!({ "type": "function", "function": { "name": name, "arguments": arguments } }))
        }
        _ => Err(wrong()),
    };
    let calls = calls.into_iter().map(wrapped).collect::<Result<Vec<_>, _>>()?;
    serde_json::from_value(json!({ "role": "assistant", "content": null, "tool_calls": calls })).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(messages: &[Message]) -> Vec<String> {
        messages.iter().map(|message| format!("{}: {}", message.role, message.plain_text(0).unwrap())).collect()
    }

    #[test]
    fn texts_that_begin_alike_have_their_prompt_in_common() {
        let cases = [
            ("Say 17. It is 17", "Say 17. It is 18", "Say 17. It is", ["17", "18"]),
            ("Q: a\nA: yes", "Q: a\nA: no", "Q: a\nA:", ["yes", "no"]),
            ("one two", "one two three", "one", ["two", "two three"]),
            ("\u{e9}t\u{e9} a", "\u{e9}t\u{e9} b", "\u{e9}t\u{e9}", ["a", "b"]),
        ];
        for (first, second, prompt, answers) in cases {
            let found = divided(first, second).unwrap();
            assert_eq!(texts(&found.0), [format!("user: {prompt}")]);
            assert_eq!(found.1.map(|answer| texts(&answer)), answers.map(|text| vec![format!("assistant: {text}")]));
        }
        for (first, second) in [("g", "b"), ("good", "gold"), ("same", "same"), ("", "")] {
            assert!(divided(first, second).is_none(), "{first} {second}");
        }
    }

    #[test]
    fn a_transcript_is_its_speakers_messages() {
        let text = |last: &str| format!("\n\nHuman: a\n\nmore\n\nAssistant: b\n\nHuman: c\n\nAssistant: {last}");
        let (prompt, answers) = divided(&text("good"), &text("bad")).unwrap();
        assert_eq!(texts(&prompt), ["user: a\n\nmore", "assistant: b", "user: c"]);
        assert_eq!(answers.map(|answer| texts(&answer)), [["assistant: good"], ["assistant: bad"]]);
        assert!(divided("\n\nHuman: a\n\nAssistant: b", "\n\nHuman: x\n\nAssistant: b").is_none());
    }
}
