use std::borrow::Cow;

use fulgurite_types::{Content, ContentPart, Message};

use crate::RenderError;
use crate::system_reminder::REMINDER;
use crate::templates::template_conversations::{an_answer, calling, result_of};

/// Texts that no template writes of its own accord.
const MARK: &str = "fulgurite9";
const OTHER_MARK: &str = "fulgurite8";

/// An id of the nine letters and digits that some templates insist on.
const CALL_ID: &str = "fulgurit9";

/// What stands between two messages that are written as one.
const BETWEEN: &str = "\n\n";

/// Whose messages a chat template takes and where, found out by rendering small conversations; and the conversation as
/// such a template takes it.
///
/// Clients speak as the system and the developer anywhere, and as the user twice in a row; many templates refuse that,
/// and some leave it out without a word. What a template shows is left as it is. Else a developer's message is the
/// system's, what the system says late is said to the user's turn in which it stands, and messages of one turn are one.
///
/// No message moves over one of the assistant: what is said later changes nothing of how earlier messages were written,
/// and what follows a turn is written alike with and without what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TemplateRoles {
    late_system: LateSystem,
    takes: Takes,
}

/// Where a template writes a system message that is not the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LateSystem {
    /// Where it stands.
    InPlace,
    /// Before the whole conversation; so not in what follows a turn that was sampled.
    InFront,
    /// Nowhere: it refuses such messages or leaves them out.
    Nowhere,
}

/// Messages that a template takes, each refused or left out where it is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Takes {
    first_system: bool,
    first_developer: bool,
    late_developer: bool,
    users_in_a_row: bool,
    user_after_result: bool,
}

impl TemplateRoles {
    /// Of a template that takes every message as it is, or shows too little to find out.
    pub(crate) const ALL: Self = Self {
        late_system: LateSystem::InPlace,
        takes: Takes {
            first_system: true,
            first_developer: true,
            late_developer: true,
            users_in_a_row: true,
            user_after_result: true,
        },
    };

    /// Finds out what a template takes. `render` renders a list of messages.
    pub(crate) fn detect(render: impl Fn(&[Message]) -> Result<String, RenderError>) -> Self {
        let shows = |messages: &[Message]| {
            let rendered = render(messages).ok()?;
            Some((rendered.find(OTHER_MARK)?, rendered.find(MARK)?))
        };
        let (question, marked) = (|| Message::text("user", OTHER_MARK), |role: &str| Message::text(role, MARK));
        if shows(&[question(), an_answer(), marked("user")]).is_none() {
            return Self::ALL;
        }
        let first = |role: &str| shows(&[marked(role), question()]).is_some();
        let takes_system = first("system");
        // What is taken alone may be refused behind a system message; it counts as taken only where it is both ways.
        let everywhere = |messages: &[Message]| {
            let alone = shows(messages)?;
            match takes_system {
                true => shows(&[&[Message::text("system", "s")], messages].concat()),
                false => Some(alone),
            }
        };
        let late = |role: &str| {
            let in_turn = everywhere(&[Message::text("user", "a"), marked(role), an_answer(), question()]);
            in_turn.and(everywhere(&[question(), an_answer(), marked(role), Message::text("user", "a")]))
        };
        // Several system messages before all others.
        let behind_first =
            |role: &str| !takes_system || shows(&[Message::text("system", "s"), marked(role), question()]).is_some();
        let question_with_result = |text: &str| {
            let result = Message { content: Some(Content::Text(text.to_owned())), ..result_of(CALL_ID) };
            vec![question(), calling(&[CALL_ID]), result]
        };
        let takes_results = shows(&question_with_result(MARK)).is_some();
        Self {
            late_system: match late("system").filter(|_| behind_first("system")) {
                Some((before, at)) if before < at => LateSystem::InPlace,
                Some(_) => LateSystem::InFront,
                None => LateSystem::Nowhere,
            },
            takes: Takes {
                first_system: takes_system,
                first_developer: first("developer"),
                late_developer: late("developer").is_some() && behind_first("developer"),
                users_in_a_row: everywhere(&[question(), marked("user")]).is_some(),
                user_after_result: !takes_results
                    || everywhere(&[question_with_result("a"), vec![marked("user")]].concat()).is_some(),
            },
        }
    }

    /// These, but that nothing is taken which the template writes elsewhere than where it stands.
    pub(crate) fn in_place(self) -> Self {
        match self.late_system {
            LateSystem::InFront => Self { late_system: LateSystem::Nowhere, ..self },
            LateSystem::InPlace | LateSystem::Nowhere => self,
        }
    }

    /// Whether a message of that role is shown as it is.
    pub(crate) fn takes(&self, role: &str, is_first: bool) -> bool {
        match (role, is_first) {
            ("system", true) => self.takes.first_system,
            ("system", false) => self.late_system != LateSystem::Nowhere,
            ("developer", true) => self.takes.first_developer,
            ("developer", false) => self.takes.late_developer,
            _ => true,
        }
    }

    /// Where the template writes a system message that is not the first message.
    pub(crate) fn late_system(self) -> LateSystem {
        self.late_system
    }

    /// The conversation as the template takes it.
    pub(crate) fn written<'m>(&self, messages: impl IntoIterator<Item = &'m Message>) -> Vec<Cow<'m, Message>> {
        let mut written: Vec<Cow<'m, Message>> = Vec::new();
        // Whether the last of them is nothing but what the system says.
        let mut is_reminder = false;
        for message in messages {
            let is_first = written.is_empty();
            if !self.takes(&message.role, is_first) && is_blank(message) {
                continue;
            }
            let message = self.with_known_role(message, is_first);
            let reminds = message.role == "system" && !self.takes("system", is_first);
            let before = written.last().map_or("", |before| before.role.as_str());
            // What the system says before anybody else does stays with the system.
            let is_system = matches!(before, "system" | "developer");
            let joins = match (before, message.role.as_str()) {
                ("user", "user") => is_reminder || !self.takes.users_in_a_row,
                ("tool", "user") => !self.takes.user_after_result,
                ("tool", "system") => reminds && !self.takes.user_after_result,
                (_, "system") => reminds && (is_system || before == "user"),
                _ => false,
            };
            let message = if reminds && !is_system { Cow::Owned(reminder(&message)) } else { message };
            match written.pop_if(|_| joins) {
                Some(before) => {
                    let is_of = if is_reminder { &message } else { &before };
                    written.push(Cow::Owned(joined(&before, &message, is_of)));
                }
                None => written.push(message),
            }
            is_reminder = reminds && (is_reminder || !joins);
        }
        written
    }

    /// OpenAI's newer name for the system is `developer`.
    fn with_known_role<'m>(&self, message: &'m Message, is_first: bool) -> Cow<'m, Message> {
        match message.role.as_str() {
            "developer" if !self.takes("developer", is_first) => {
                Cow::Owned(Message { role: "system".to_owned(), ..message.clone() })
            }
            _ => Cow::Borrowed(message),
        }
    }
}

/// A message of which nothing is lost where it is left out.
fn is_blank(message: &Message) -> bool {
    match &message.content {
        None => true,
        Some(Content::Text(text)) => text.is_empty(),
        Some(Content::Parts(parts)) => parts.is_empty(),
    }
}

/// What the system says, as a part of the user's turn that is not mistaken for the user's words.
fn reminder(message: &Message) -> Message {
    let [begin, end] = REMINDER.map(|mark| vec![ContentPart::from_text(mark)]);
    let parts = [begin, parts(message), end].concat();
    Message { role: "user".to_owned(), content: Some(content(parts)), ..Message::default() }
}

/// Two messages as one, which is `is_of` but for its content.
fn joined(first: &Message, second: &Message, is_of: &Message) -> Message {
    let (first, second) = (parts(first), parts(second));
    let has_both = !first.is_empty() && !second.is_empty();
    let between = has_both.then(|| ContentPart::from_text(BETWEEN));
    let parts = first.into_iter().chain(between).chain(second).collect();
    Message { content: Some(content(parts)), ..is_of.clone() }
}

fn parts(message: &Message) -> Vec<ContentPart> {
    match &message.content {
        Some(Content::Parts(parts)) => parts.clone(),
        Some(Content::Text(text)) if !text.is_empty() => vec![ContentPart::from_text(text.as_str())],
        Some(Content::Text(_)) | None => Vec::new(),
    }
}

/// Text where all parts are.
fn content(parts: Vec<ContentPart>) -> Content {
    let text: Option<String> = parts.iter().map(ContentPart::text).collect();
    text.map_or_else(|| Content::Parts(parts), Content::Text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Renderer;
    use crate::testing::{FAMILY_TEMPLATES, family_renderer};

    fn messages(value: Value) -> Vec<Message> {
        serde_json::from_value(value).unwrap()
    }

    /// A conversation as a template with these ways takes it; a pair is the role and the text of a message.
    fn written(roles: TemplateRoles, messages: &[(&str, &str)]) -> Vec<(String, String)> {
        let messages: Vec<Message> = messages.iter().map(|(role, text)| Message::text(*role, *text)).collect();
        let plain = |message: &Cow<'_, Message>| (message.role.clone(), message.plain_text(0).unwrap());
        roles.written(&messages).iter().map(plain).collect()
    }

    fn pairs(texts: &[(&str, &str)]) -> Vec<(String, String)> {
        texts.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
    }

    /// Takes a system message only first, and knows no developer.
    const SYSTEM_FIRST: TemplateRoles = TemplateRoles {
        late_system: LateSystem::Nowhere,
        takes: Takes { first_developer: false, late_developer: false, ..TemplateRoles::ALL.takes },
    };

    /// Besides, wants turns to alternate.
    const ALTERNATING: TemplateRoles = TemplateRoles {
        takes: Takes { users_in_a_row: false, user_after_result: false, ..SYSTEM_FIRST.takes },
        ..SYSTEM_FIRST
    };

    fn reminding(text: &str) -> String {
        format!("<system-reminder>\n{text}\n</system-reminder>")
    }

    #[test]
    fn what_each_familys_template_takes_is_found_out() {
        for name in FAMILY_TEMPLATES {
            let all = TemplateRoles::ALL;
            let no_developer = Takes { first_developer: false, late_developer: false, ..all.takes };
            let expected = match name {
                "qwen2_5" | "qwen3" | "qwen3_2507" => TemplateRoles { takes: no_developer, ..all },
                "qwen3_5" => SYSTEM_FIRST,
                "mistral" => ALTERNATING,
                // It writes no results of tools at all.
                "gemma" => {
                    TemplateRoles { takes: Takes { user_after_result: true, ..ALTERNATING.takes }, ..ALTERNATING }
                }
                "deepseek_v3" => TemplateRoles { late_system: LateSystem::InFront, takes: no_developer },
                "gpt_oss" => TemplateRoles {
                    late_system: LateSystem::Nowhere,
                    takes: Takes { late_developer: false, ..all.takes },
                },
                _ => all,
            };
            assert_eq!(family_renderer(name).roles_for(&[]), expected, "{name}");
        }
    }

    /// A late system message is shown where none stands first, and refused behind one.
    #[test]
    fn a_late_system_message_behind_a_leading_one_reads_the_same_cold_and_warm() {
        let template = include_str!("../../tests/vectors/templates/late_system.jinja");
        let dir = crate::testing::directory_with_template("qwen3", template, "<|im_end|>");
        let tokenizer = std::sync::Arc::new(crate::Tokenizer::open(dir.path()).unwrap());
        let renderer = crate::TemplateRenderer::open(tokenizer, Default::default()).unwrap().unwrap();
        assert_eq!(renderer.roles_for(&[]).late_system(), LateSystem::Nowhere);
        let conversations = [
            json!(["system", "user", "assistant", "system", "user"]),
            json!(["system", "user", "assistant", "developer", "user"]),
            json!(["system", "system", "user", "assistant", "system"]),
            json!(["developer", "system", "user", "assistant", "user", "user"]),
            json!(["user", "assistant", "system", "user"]),
            json!(["user", "system", "user", "assistant", "system", "system"]),
            json!(["assistant", "user", "assistant", "system", "user"]),
        ];
        for roles in conversations {
            let message = |role: &Value| Message::text(role.as_str().unwrap(), role.as_str().unwrap().to_uppercase());
            let messages: Vec<Message> = roles.as_array().unwrap().iter().map(message).collect();
            let turn = messages.iter().rposition(Message::is_assistant).unwrap();
            let first = renderer.render_prompt(&messages[..turn], &[]).unwrap().tokens;
            let sampled = renderer.tokenizer().encode_with_specials("ASSISTANT<|im_end|>").unwrap();
            let continuation =
                crate::Continuation { messages: &messages, new_from: turn + 1, sampled: &sampled, tools: &[] };
            let appended = renderer.render_continuation(&continuation).unwrap();
            let warm = renderer.tokenizer().decode(&[first, sampled, appended].concat());
            let cold = renderer.render_prompt(&messages, &[]).unwrap().tokens;
            assert_eq!(renderer.tokenizer().decode(&cold), warm, "{roles}");
        }
    }

    #[test]
    fn what_a_template_takes_it_is_given_as_it_came() {
        let given = messages(json!([
            {"role": "developer", "content": [{"type": "text", "text": "a"}], "name": "n"},
            {"role": "user", "content": "b"},
            {"role": "user", "content": null},
            {"role": "system", "content": "c"},
            {"role": "tool", "content": "d", "tool_call_id": "e"},
            {"role": "user", "content": "f"},
        ]));
        let written = TemplateRoles::ALL.written(&given);
        assert!(written.iter().all(|message| matches!(message, Cow::Borrowed(_))));
        assert_eq!(written.into_iter().map(Cow::into_owned).collect::<Vec<_>>(), given);
        // Nor is anything changed where it cannot be found out what the template does with messages.
        let counts = |messages: &[Message]| Ok(messages.len().to_string());
        assert_eq!(TemplateRoles::detect(counts), TemplateRoles::ALL);
    }

    #[test]
    fn a_late_system_message_stays_in_the_users_turn_in_which_it_stands() {
        let (now, late) = (reminding("now"), reminding("late"));
        for (texts, expected) in [
            (
                vec![("system", "s"), ("user", "a"), ("system", "now")],
                vec![("system", "s"), ("user", &*format!("a\n\n{now}"))],
            ),
            (
                vec![("user", "a"), ("assistant", "b"), ("system", "now"), ("user", "c"), ("system", "late")],
                vec![("user", "a"), ("assistant", "b"), ("user", &*format!("{now}\n\nc\n\n{late}"))],
            ),
            (
                vec![("tool", "r"), ("system", "now"), ("system", "late"), ("user", "c"), ("user", "d")],
                vec![("tool", "r"), ("user", &*format!("{now}\n\n{late}\n\nc")), ("user", "d")],
            ),
            (
                vec![("tool", "r"), ("system", "now"), ("assistant", "b")],
                vec![("tool", "r"), ("user", &*now), ("assistant", "b")],
            ),
            // A system message before all others stays one.
            (vec![("system", "s"), ("developer", "d"), ("user", "a")], vec![("system", "s\n\nd"), ("user", "a")]),
        ] {
            assert_eq!(written(SYSTEM_FIRST, &texts), pairs(&expected));
        }
        let no_system = TemplateRoles { takes: Takes { first_system: false, ..SYSTEM_FIRST.takes }, ..SYSTEM_FIRST };
        let joined = format!("{now}\n\na");
        assert_eq!(written(no_system, &[("system", "now"), ("user", "a")]), pairs(&[("user", &joined)]));
    }

    #[test]
    fn turns_alternate_where_the_template_wants_it() {
        let now = reminding("now");
        let texts = [("user", "a"), ("user", "b"), ("assistant", "c"), ("tool", "r"), ("system", "now"), ("user", "d")];
        let result = format!("r\n\n{now}\n\nd");
        let expected = [("user", "a\n\nb"), ("assistant", "c"), ("tool", &*result)];
        assert_eq!(written(ALTERNATING, &texts), pairs(&expected));
    }

    #[test]
    fn later_messages_change_nothing_of_how_earlier_ones_are_written() {
        let texts = [
            ("developer", "s"),
            ("system", "t"),
            ("user", "a"),
            ("system", "b"),
            ("user", "c"),
            ("assistant", "d"),
            ("tool", "e"),
            ("tool", "f"),
            ("developer", "g"),
            ("assistant", "h"),
            ("system", "i"),
            ("assistant", "j"),
            ("system", "k"),
            ("user", "l"),
        ];
        for roles in [SYSTEM_FIRST, ALTERNATING, TemplateRoles::ALL] {
            let whole = written(roles, &texts);
            for (index, _) in texts.iter().enumerate().filter(|(_, (role, _))| *role == "assistant") {
                let prefix = written(roles, &texts[..index]);
                assert_eq!(whole[..prefix.len()], prefix);
                // What follows a turn is written alike without what stands before it.
                let short = [&[("user", "a")], &texts[index..]].concat();
                assert!(whole.ends_with(&written(roles, &short)[1..]));
            }
        }
    }

    #[test]
    fn what_a_message_holds_beside_its_text_stays() {
        let given = messages(json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}], "name": "n"},
            {"role": "user", "content": ""},
            {"role": "system", "content": "b"},
        ]));
        let expected = json!([
            {"role": "system", "content": "s"},
            {"role": "user", "name": "n", "content": [
                {"type": "image"}, {"type": "text", "text": "a"}, {"type": "text", "text": "\n\n"},
                {"type": "text", "text": reminding("b")},
            ]},
        ]);
        assert_eq!(serde_json::to_value(ALTERNATING.written(&given)).unwrap(), expected);
        let given = messages(json!([
            {"role": "assistant", "content": "a"},
            {"role": "system", "content": "b"},
            {"role": "user", "content": null, "name": "n"},
        ]));
        let expected_message = json!({"role": "user", "content": reminding("b"), "name": "n"});
        assert_eq!(serde_json::to_value(&SYSTEM_FIRST.written(&given)[1]).unwrap(), expected_message);
    }
}
