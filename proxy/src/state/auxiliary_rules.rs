use fulgurite_types::Message;
use regex::RegexSet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Recognises calls that an agent's harness makes beside the task: titles, topics, summaries. They are answered and
/// recorded with a mark like all others, but not trained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuxiliaryRule {
    /// Its name; calls that it recognises are marked `auxiliary:NAME`.
    pub name: String,
    /// Regular expression that the text of the system's messages matches.
    #[serde(default)]
    pub system: Option<String>,
    /// Regular expression that the last message of the user matches.
    #[serde(default)]
    pub user: Option<String>,
    /// Whether only calls that declare no tools are meant.
    #[serde(default)]
    pub without_tools: bool,
}

/// How a built-in rule recognises its calls.
enum PromptPattern {
    /// By the system prompt, in a call that declares no tools.
    System(&'static str),
    /// By the text of the user's last message, in a call that continues with the tools of the task.
    User(&'static str),
    /// By that text, in a call that declares no tools.
    UserAlone(&'static str),
}

/// Prompts that harnesses are known to send beside the task: Claude Code, with titles of older versions, of 2.1.197 and of
/// 2.1.330, opencode, and aider; the server's own request for the summary of a compaction; and what Inspect asks, before its
/// task, to see whether there are Responses.
const BUILT_IN: [(&str, PromptPattern); 11] = [
    ("claude_code_topic", PromptPattern::System(r"(?i)\banalyze if this message indicates a new conversation topic\b")),
    ("claude_code_title", PromptPattern::System(r"(?i)\bsummarize this coding conversation in under 50 characters\b")),
    ("claude_code_title", PromptPattern::System(r"(?i)\bgenerate a concise, sentence-case title\b")),
    ("claude_code_title", PromptPattern::System(r"(?i)\byou are naming a coding session so the user can\b")),
    ("claude_code_session_name", PromptPattern::System(r"(?i)\bgenerate a short kebab-case name \(2-4 words\)")),
    ("claude_code_suggestion", PromptPattern::User(r"(?i)\[suggestion mode: suggest what the user might\b")),
    ("claude_code_recap", PromptPattern::User(r"(?i)\bthe user stepped away and is coming back\. recap in under\b")),
    ("opencode_title", PromptPattern::System(r"(?i)^\s*you are a title generator\b")),
    ("aider_commit_message", PromptPattern::System(r"(?i)\bgenerates concise,\s+one-line git commit messages\b")),
    (
        "responses_compaction",
        PromptPattern::User(r"(?i)^summarize this conversation for another assistant, who will go on\b"),
    ),
    ("inspect_probe", PromptPattern::UserAlone(r"^Please say 'hello, world'$")),
];

impl AuxiliaryRule {
    /// The rules for harnesses that are known to need them.
    pub fn built_in() -> Vec<Self> {
        let rule = |(name, prompt): (&str, PromptPattern)| {
            let (system, user, without_tools) = match prompt {
                PromptPattern::System(pattern) => (Some(pattern), None, true),
                PromptPattern::User(pattern) => (None, Some(pattern), false),
                PromptPattern::UserAlone(pattern) => (None, Some(pattern), true),
            };
            let [system, user] = [system, user].map(|pattern| pattern.map(str::to_owned));
            Self { name: name.to_owned(), system, user, without_tools }
        };
        BUILT_IN.into_iter().map(rule).collect()
    }
}

/// Rules that are ready to be used. All patterns are looked for at once, for most calls are none of these.
#[derive(Debug)]
pub(crate) struct AuxiliaryRules {
    rules: Vec<CompiledRule>,
    system: RegexSet,
    user: RegexSet,
}

#[derive(Debug)]
struct CompiledRule {
    name: String,
    /// Places among the patterns of all rules.
    system: Option<usize>,
    user: Option<usize>,
    without_tools: bool,
}

/// Why a rule for auxiliary calls cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuxiliaryRuleError {
    /// It would recognise every call.
    #[error(
        "proxy.auxiliary_rules: the rule `{name}` says neither `system` nor `user`, so it would be about every call"
    )]
    Empty {
        /// The rule.
        name: String,
    },
    /// Its pattern is no regular expression.
    #[error("proxy.auxiliary_rules: the rule `{name}` has a pattern that is no regular expression: {message}")]
    Pattern {
        /// The rule.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// Each can be used, but not all of them.
    #[error("proxy.auxiliary_rules: the patterns of all rules together cannot be used: {message}")]
    Together {
        /// Why not.
        message: String,
    },
}

impl AuxiliaryRules {
    pub(crate) fn new(rules: &[AuxiliaryRule]) -> Result<Self, AuxiliaryRuleError> {
        let (mut compiled, mut system, mut user) = (Vec::new(), Vec::new(), Vec::new());
        for rule in rules {
            if rule.system.is_none() && rule.user.is_none() {
                return Err(AuxiliaryRuleError::Empty { name: rule.name.clone() });
            }
            let patterns = [rule.system.as_deref(), rule.user.as_deref()];
            for pattern in patterns.into_iter().flatten() {
                RegexSet::new([pattern]).map_err(|error| AuxiliaryRuleError::Pattern {
                    name: rule.name.clone(),
                    message: error.to_string(),
                })?;
            }
            compiled.push(CompiledRule {
                name: rule.name.clone(),
                system: place(&mut system, patterns[0]),
                user: place(&mut user, patterns[1]),
                without_tools: rule.without_tools,
            });
        }
        let together = |patterns: &[&str]| {
            RegexSet::new(patterns).map_err(|error| AuxiliaryRuleError::Together { message: error.to_string() })
        };
        Ok(Self { rules: compiled, system: together(&system)?, user: together(&user)? })
    }

    /// The name of the first rule that recognises a call.
    pub(crate) fn recognise(&self, messages: &[Message], tools: &[Value]) -> Option<&str> {
        let candidates = || self.rules.iter().filter(|rule| tools.is_empty() || !rule.without_tools);
        let is_system = |message: &&Message| matches!(message.role.as_str(), "system" | "developer");
        let system = match candidates().any(|rule| rule.system.is_some()) {
            true => found(&self.system, messages.iter().filter(is_system)),
            false => Vec::new(),
        };
        let last_of_user = messages.iter().rev().find(|message| message.role == "user");
        let user = found(&self.user, last_of_user.into_iter());
        let holds = |place: Option<usize>, found: &[usize]| place.is_none_or(|place| found.contains(&place));
        let rule = candidates().find(|rule| holds(rule.system, &system) && holds(rule.user, &user))?;
        Some(&rule.name)
    }
}

/// Adds a pattern, if there is one, and gives its place.
fn place<'p>(patterns: &mut Vec<&'p str>, pattern: Option<&'p str>) -> Option<usize> {
    patterns.push(pattern?);
    Some(patterns.len() - 1)
}

/// The patterns that any of the messages matches. Content that is not text matches none.
fn found<'m>(patterns: &RegexSet, messages: impl Iterator<Item = &'m Message>) -> Vec<usize> {
    messages.filter_map(|message| message.plain_text(0).ok()).flat_map(|text| patterns.matches(&text)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn recognised(rules: &[AuxiliaryRule], messages: &[(&str, &str)], tools: &[Value]) -> Option<String> {
        let messages: Vec<Message> = messages.iter().map(|(role, text)| Message::text(*role, *text)).collect();
        AuxiliaryRules::new(rules).unwrap().recognise(&messages, tools).map(str::to_owned)
    }

    #[test]
    fn titles_and_topics_are_recognised_and_tasks_are_not() {
        let rules = AuxiliaryRule::built_in();
        let title = [("system", "You are a title generator. You output ONLY a title."), ("user", "Fix the tests")];
        assert_eq!(recognised(&rules, &title, &[]).as_deref(), Some("opencode_title"));
        assert_eq!(recognised(&rules, &title, &[json!({})]), None, "a call with tools is part of the task");
        for (system, name) in [
            ("Generate a concise, sentence-case title (3-7 words) that captures the topic.", "claude_code_title"),
            ("You are an agent.You are naming a coding session so the user can pick it out.", "claude_code_title"),
            ("Generate a short kebab-case name (2-4 words) that captures", "claude_code_session_name"),
            (
                "You are an expert software engineer that generates concise, \none-line Git commit messages based on the \
                 provided diffs.",
                "aider_commit_message",
            ),
        ] {
            assert_eq!(recognised(&rules, &[("system", system), ("user", "Hi")], &[]).as_deref(), Some(name));
        }
        let suggestion =
            [("user", "Go."), ("user", "[SUGGESTION MODE: Suggest what the user might naturally type next.]")];
        assert_eq!(recognised(&rules, &suggestion, &[json!({})]).as_deref(), Some("claude_code_suggestion"));
        assert_eq!(recognised(&rules, &suggestion[..1], &[json!({})]), None);
        let probe = [("user", "Please say 'hello, world'")];
        assert_eq!(recognised(&rules, &probe, &[]).as_deref(), Some("inspect_probe"));
        assert_eq!(recognised(&rules, &probe, &[json!({})]), None);
        let topic = [("system", "Analyze if this message indicates a new conversation topic."), ("user", "Hi")];
        assert_eq!(recognised(&rules, &topic, &[]).as_deref(), Some("claude_code_topic"));
        let task = [("system", "You write titles for books."), ("user", "You are a title generator?")];
        assert_eq!(recognised(&rules, &task, &[]), None);
    }

    #[test]
    fn a_rule_of_ones_own_looks_at_the_last_message_of_the_user() {
        let rule = AuxiliaryRule {
            name: "compaction".into(),
            system: None,
            user: Some("^Summarise the conversation".into()),
            without_tools: false,
        };
        let rules = [rule];
        let prompt = [("user", "Go."), ("assistant", "Done."), ("user", "Summarise the conversation so far.")];
        assert_eq!(recognised(&rules, &prompt, &[json!({})]).as_deref(), Some("compaction"));
        assert_eq!(recognised(&rules, &prompt[..2], &[]), None);
    }

    #[test]
    fn a_rule_that_cannot_work_is_refused_by_its_name() {
        let rule = |user: Option<&str>| AuxiliaryRule {
            name: "mine".into(),
            system: None,
            user: user.map(str::to_owned),
            without_tools: false,
        };
        for (rule, expected) in [(rule(None), "neither"), (rule(Some("(")), "no regular expression")] {
            let error = AuxiliaryRules::new(&[rule]).unwrap_err().to_string();
            assert!(error.contains("`mine`") && error.contains(expected), "{error}");
        }
    }
}
