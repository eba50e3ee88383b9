use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use fulgurite_types::{Content, Message};
use regex::Regex;

use crate::RenderError;

/// Names spans of text that a client changes from call to call though they mean nothing.
#[derive(Clone, Debug)]
pub struct VolatileRule {
    name: String,
    pattern: Regex,
}

impl VolatileRule {
    /// A rule by a regular expression. What its groups match is volatile; all that it matches where it has none.
    pub fn new(name: impl Into<String>, pattern: &str) -> Result<Self, RenderError> {
        let name = name.into();
        match Regex::new(pattern) {
            Ok(pattern) => Ok(Self { name, pattern }),
            Err(error) => Err(RenderError::VolatileRule { name, message: error.to_string() }),
        }
    }

    /// A rule for what follows a text up to the end of its line.
    pub fn after(name: impl Into<String>, prefix: &str) -> Result<Self, RenderError> {
        Self::new(name, &format!("{}([^\n]*)", regex::escape(prefix)))
    }

    /// The rule's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let of_match = |captures: regex::Captures<'_>| -> Vec<Range<usize>> {
            match captures.len() {
                1 => captures.get(0).into_iter().map(|found| found.range()).collect(),
                groups => (1..groups).filter_map(|group| Some(captures.get(group)?.range())).collect(),
            }
        };
        self.pattern.captures_iter(text).flat_map(of_match).collect()
    }
}

/// Rules for volatile text in the messages of systems and developers; what others say is never touched.
///
/// Volatile spans are left out where messages are compared, and where a conversation is rendered anew they are written
/// as they were first seen, so that the same conversation has the same tokens.
#[derive(Clone, Debug, Default)]
pub struct VolatileRules {
    rules: Arc<Vec<VolatileRule>>,
    /// Texts as they were written first, by what is left of them without volatile spans.
    first_seen: BTreeMap<String, String>,
}

/// What clients are known to change: Claude Code numbers its calls in the first block of its system prompt, and
/// Harmony's system prompt holds today's date.
const BUILT_IN: [(&str, &str); 3] = [
    ("claude_code_version", r"x-anthropic-billing-header: *cc_version=[0-9]+(?:\.[0-9]+)*\.([0-9a-f]+)\b"),
    ("claude_code_call", r"x-anthropic-billing-header:[^\n]*?\bcch=([0-9a-f]+)"),
    ("harmony_date", r"Current date: ([0-9]{4}-[0-9]{2}-[0-9]{2})\b"),
];

impl VolatileRules {
    /// The rules for clients that are known to need them.
    pub fn built_in() -> Self {
        // A pattern takes a thousand times as long to compile as to be used, and every attempt has these rules.
        static RULES: LazyLock<Arc<Vec<VolatileRule>>> = LazyLock::new(|| {
            let rule = |(name, pattern): &(&str, &str)| VolatileRule::new(*name, pattern).ok();
            Arc::new(BUILT_IN.iter().filter_map(rule).collect())
        });
        Self { rules: Arc::clone(&RULES), first_seen: BTreeMap::new() }
    }

    /// Adds a rule. Where two rules name the same text the earlier one counts.
    pub fn with(mut self, rule: VolatileRule) -> Self {
        Arc::make_mut(&mut self.rules).push(rule);
        self
    }

    /// The text with nothing but the rules' names where it is volatile.
    pub(super) fn normalised<'t>(&self, role: &str, text: &'t str) -> Cow<'t, str> {
        let spans = self.spans(role, text);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (rule, range) in spans {
            out.push_str(&text[done..range.start]);
            out.push_str(&format!("\0{}\0", self.rules[rule].name));
            done = range.end;
        }
        out.push_str(&text[done..]);
        Cow::Owned(out)
    }

    /// Remembers how texts that are the same but for what is volatile were written first.
    pub(super) fn remember(&mut self, messages: &[Message]) {
        for message in messages {
            for text in texts(message) {
                if let Cow::Owned(normalised) = self.normalised(&message.role, text) {
                    self.first_seen.entry(normalised).or_insert_with(|| text.to_owned());
                }
            }
        }
    }

    /// The messages with volatile text as it was written first.
    pub(super) fn steady<'m>(&self, messages: &'m [Message]) -> Cow<'m, [Message]> {
        let mut steady = Cow::Borrowed(messages);
        for (index, message) in messages.iter().enumerate() {
            for (place, text) in texts(message).into_iter().enumerate() {
                let Cow::Owned(normalised) = self.normalised(&message.role, text) else { continue };
                if let Some(first) = self.first_seen.get(&normalised).filter(|first| *first != text) {
                    set_text(&mut steady.to_mut()[index], place, first.clone());
                }
            }
        }
        steady
    }

    /// Volatile spans from left to right, each with its rule; none reaches into another.
    fn spans(&self, role: &str, text: &str) -> Vec<(usize, Range<usize>)> {
        if !matches!(role, "system" | "developer") {
            return Vec::new();
        }
        let mut spans: Vec<(usize, Range<usize>)> = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            for range in rule.spans(text) {
                let touches = |(_, other): &(usize, Range<usize>)| range.start < other.end && other.start < range.end;
                if !range.is_empty() && !spans.iter().any(touches) {
                    spans.push((index, range));
                }
            }
        }
        spans.sort_by_key(|(_, range)| range.start);
        spans
    }
}

/// The texts of a message's content: its string, or its text parts.
fn texts(message: &Message) -> Vec<&str> {
    match &message.content {
        None => Vec::new(),
        Some(Content::Text(text)) => vec![text],
        Some(Content::Parts(parts)) => parts.iter().map(|part| part.text().unwrap_or_default()).collect(),
    }
}

fn set_text(message: &mut Message, place: usize, text: String) {
    match &mut message.content {
        Some(Content::Parts(parts)) => {
            if let Some(part) = parts.get_mut(place) {
                part.0["text"] = text.into();
            }
        }
        content => *content = Some(Content::Text(text)),
    }
}

/// A span of a message that a client changes from call to call.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct VolatileSpan {
    /// Which message, from 0.
    pub message_index: usize,
    /// The role of that message.
    pub role: String,
    /// The first character that changed, from 0.
    pub start: usize,
    /// The character after the last that changed, in the text as it was first seen.
    pub end: usize,
    /// Calls in which the text was not that of the call before.
    pub changed: usize,
    /// Calls that were compared with the one before.
    pub turns: usize,
}

impl fmt::Display for VolatileSpan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, start, end, changed, turns, .. } = self;
        write!(formatter, "{role}, characters {start}-{end} changed in {changed} of {turns} turns")
    }
}

/// Finds volatile text: what changes in the messages of systems, developers and users that every call of a
/// conversation begins with.
#[derive(Clone, Debug, Default)]
pub struct VolatileDetector {
    observed: Vec<ObservedMessage>,
    turns: usize,
}

#[derive(Clone, Debug)]
struct ObservedMessage {
    role: String,
    first: Vec<char>,
    last: String,
    /// Characters that were the same in all calls, from the beginning and from the end.
    prefix: usize,
    suffix: usize,
    changed: usize,
}

impl VolatileDetector {
    /// Sees the messages of the next call of the conversation.
    pub fn observe(&mut self, messages: &[Message]) {
        let own = messages.iter().take_while(|message| !matches!(message.role.as_str(), "assistant" | "tool"));
        let texts: Vec<(&str, String)> = own.map(|message| (message.role.as_str(), texts(message).concat())).collect();
        if self.observed.is_empty() {
            self.observed = texts.into_iter().map(|(role, text)| ObservedMessage::new(role, text)).collect();
            return;
        }
        self.turns += 1;
        for (observed, (role, text)) in self.observed.iter_mut().zip(texts) {
            if observed.role == role {
                observed.compare(text);
            }
        }
    }

    /// The spans that changed so far.
    pub fn findings(&self) -> Vec<VolatileSpan> {
        let changed = |(message_index, observed): (usize, &ObservedMessage)| VolatileSpan {
            message_index,
            role: observed.role.clone(),
            start: observed.prefix,
            end: observed.first.len() - observed.suffix,
            changed: observed.changed,
            turns: self.turns,
        };
        self.observed.iter().enumerate().filter(|(_, observed)| observed.changed > 0).map(changed).collect()
    }
}

impl ObservedMessage {
    fn new(role: &str, text: String) -> Self {
        let first: Vec<char> = text.chars().collect();
        Self { role: role.to_owned(), prefix: first.len(), suffix: first.len(), first, last: text, changed: 0 }
    }

    fn compare(&mut self, text: String) {
        if text == self.last {
            return;
        }
        self.changed += 1;
        let characters: Vec<char> = text.chars().collect();
        let same = |pairs: &mut dyn Iterator<Item = (&char, &char)>| pairs.take_while(|(a, b)| a == b).count();
        let prefix = same(&mut self.first.iter().zip(&characters));
        let suffix = same(&mut self.first.iter().rev().zip(characters.iter().rev()));
        self.prefix = self.prefix.min(prefix);
        // The end must not reach back over what is counted from the beginning, in either text.
        let shorter = self.first.len().min(characters.len());
        self.suffix = self.suffix.min(suffix).min(shorter - self.prefix.min(shorter));
        self.last = text;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn system(text: &str) -> Message {
        Message::text("system", text)
    }

    fn billing(version: &str, call: &str) -> String {
        format!(
            "x-anthropic-billing-header: cc_version=2.1.197.{version}; cc_entrypoint=cli; cch={call};You are an agent."
        )
    }

    #[test]
    fn every_built_in_rule_compiles() {
        assert_eq!(VolatileRules::built_in().rules.len(), BUILT_IN.len());
    }

    #[test]
    fn what_claude_code_changes_is_left_out_and_nothing_else() {
        let rules = VolatileRules::built_in();
        let first = billing("a3f", "00b1c");
        let normalised = rules.normalised("system", &first);
        for (version, call) in [("123", "fffff"), ("0", "1")] {
            assert_eq!(rules.normalised("system", &billing(version, call)), normalised);
        }
        assert!(normalised.ends_with(";You are an agent."));
        assert!(normalised.contains("cc_version=2.1.197.\0claude_code_version\0; cc_entrypoint=cli; cch="));
        assert_eq!(rules.normalised("user", &first), first);
        let without_call = "x-anthropic-billing-header: cc_version=2.1.197.a3f\nYou see cch=12 here.";
        assert!(rules.normalised("system", without_call).ends_with("\nYou see cch=12 here."));
    }

    #[test]
    fn volatile_text_is_rendered_as_it_was_first_seen() {
        let mut rules = VolatileRules::built_in().with(VolatileRule::after("directory", "cwd: ").unwrap());
        let conversation = |billed: &str, date: &str, cwd: &str| {
            let parts = json!([{"type": "text", "text": billed}, {"type": "text", "text": format!("Current date: {date}\ncwd: {cwd}\n")}]);
            [
                serde_json::from_value(json!({"role": "system", "content": parts})).unwrap(),
                Message::text("user", "cwd: /"),
            ]
        };
        let first = conversation(&billing("aaa", "1"), "2026-01-01", "/tmp/1");
        let second = conversation(&billing("bbb", "22"), "2026-01-02", "/tmp/two");
        assert_eq!(*rules.steady(&second), second);
        rules.remember(&first);
        assert_eq!(*rules.steady(&second), first);
        rules.remember(&second);
        assert_eq!(*rules.steady(&second), first);
        assert!(matches!(rules.steady(&[Message::text("user", "cwd: /")]), Cow::Borrowed(_)));
    }

    #[test]
    fn a_pattern_that_is_none_is_refused_by_its_name() {
        let error = VolatileRule::new("mine", "(").unwrap_err().to_string();
        assert!(error.starts_with("volatile rule `mine`: "), "{error}");
    }

    #[test]
    fn the_detector_names_what_changed() {
        let mut detector = VolatileDetector::default();
        for call in 0..10 {
            detector.observe(&[system(&format!("id {call:02x}! Be brief.")), Message::text("user", "Hi")]);
        }
        let findings: Vec<String> = detector.findings().iter().map(VolatileSpan::to_string).collect();
        assert_eq!(findings, ["system, characters 4-5 changed in 9 of 9 turns"]);
        let mut steady = VolatileDetector::default();
        steady.observe(&[system("a")]);
        steady.observe(&[system("a"), Message::text("user", "b")]);
        assert_eq!(steady.findings(), []);
    }

    proptest! {
        #[test]
        fn a_span_holds_all_that_changed(
            before in "[ab]{0,4}", after in "[ab]{0,4}", middles in prop::collection::vec("[abé]{0,4}", 2..5),
        ) {
            let mut detector = VolatileDetector::default();
            let texts: Vec<String> = middles.iter().map(|middle| format!("{before}{middle}{after}")).collect();
            for text in &texts {
                detector.observe(&[system(text)]);
            }
            match detector.findings().as_slice() {
                [] => prop_assert!(texts.iter().all(|text| *text == texts[0])),
                [span] => {
                    let first: Vec<char> = texts[0].chars().collect();
                    let (head, tail): (String, String) =
                        (first[..span.start].iter().collect(), first[span.end..].iter().collect());
                    prop_assert!(span.start <= span.end);
                    prop_assert!(span.start >= before.chars().count());
                    for text in &texts {
                        prop_assert!(text.starts_with(&head) && text.ends_with(&tail));
                        prop_assert!(text.len() >= head.len() + tail.len());
                    }
                }
                more => prop_assert!(false, "{more:?}"),
            }
        }
    }
}
