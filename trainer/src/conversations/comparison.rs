//! A row of comparisons: a prompt with a better and a worse answer to it, with two answers and which of them is better, or with
//! one answer and whether it is good.

use fulgurite_renderers::WeightedTokens;
use fulgurite_types::Message;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::file::RowReader;
use super::rendering::{RenderRefusal, Rendering};
use super::rows::conversation::{Conversation, Marks, check_columns, read_row, read_tools};
use super::rows::row_form::{RowForm, comparison_forms};
use super::rows::written_messages::{check_answer, messages_of, no_history, two_answers, with_system};
use super::split::sequences::{ComparedExample, CutOff, Unusable};
use crate::ConversationForm;

/// The keys that a row of comparisons may have.
pub const COMPARISON_KEYS: [&str; 12] = [
    "prompt",
    "messages",
    "conversations",
    "chosen",
    "rejected",
    "completion",
    "completion_A",
    "completion_B",
    "comparison",
    "label",
    "system",
    "tools",
];

/// Reads comparisons; its rendering trains those messages that say so.
#[derive(Clone)]
pub(crate) struct ComparisonReader {
    pub(crate) rendering: Rendering,
    /// Whether an answer may be alone.
    pub(crate) takes_single_answers: bool,
}

/// A row as it is written. Other columns are other people's.
#[derive(Deserialize)]
struct ComparisonRow {
    #[serde(default)]
    prompt: Option<Value>,
    #[serde(default, alias = "conversations")]
    messages: Option<Value>,
    #[serde(default)]
    chosen: Option<Value>,
    #[serde(default)]
    rejected: Option<Value>,
    #[serde(default)]
    completion: Option<Value>,
    #[serde(default, rename = "completion_A")]
    first: Option<Value>,
    #[serde(default, rename = "completion_B")]
    second: Option<Value>,
    #[serde(default)]
    comparison: Option<Compared>,
    #[serde(default)]
    label: Option<Value>,
    #[serde(default)]
    system: Option<Value>,
    #[serde(default)]
    tools: Option<Value>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// Two answers in a table of their own, as tinker-cookbook writes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Compared {
    prompt_conversation: Value,
    #[serde(rename = "completion_A")]
    first: Value,
    #[serde(rename = "completion_B")]
    second: Value,
}

/// What a row says of two answers whose places say nothing.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum Label {
    A,
    B,
    #[serde(alias = "tie")]
    Tie,
}

/// What a row says: messages of a prompt, and those of the answers to it.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) prompt: Vec<Message>,
    pub(super) tools: Vec<Value>,
    pub(super) answers: Answers,
}

/// The answers to a prompt, and what is said of them.
#[derive(Debug)]
pub(super) enum Answers {
    /// The first is better than the second.
    Pair { chosen: Vec<Message>, rejected: Vec<Message> },
    /// None of two is better.
    Tie { first: Vec<Message>, second: Vec<Message> },
    /// One that is good.
    Good(Vec<Message>),
    /// One that is not.
    Bad(Vec<Message>),
}

impl RowReader for ComparisonReader {
    type Item = ComparedExample;
    const WHAT: &'static str = "comparison";

    fn read(&self, json: &[u8]) -> Result<ComparedExample, RenderRefusal> {
        let comparison =
            Comparison::read(json, &self.rendering.form, self.takes_single_answers).map_err(RenderRefusal::Wrong)?;
        let answer = |name: &str, messages: &[Message]| self.answer(name, &comparison, messages).map(Some);
        let (chosen, rejected) = match &comparison.answers {
            Answers::Pair { chosen, rejected } => (answer("chosen", chosen)?, answer("rejected", rejected)?),
            Answers::Good(good) => (answer("completion", good)?, None),
            Answers::Bad(bad) => (None, answer("completion", bad)?),
            Answers::Tie { .. } => {
                let message = "is a tie, from which nothing is learnt that is better".to_owned();
                return Err(RenderRefusal::Unusable(Unusable::Tie, message));
            }
        };
        if chosen == rejected {
            return Err(no_difference());
        }
        Ok(ComparedExample { chosen, rejected, uses: Vec::new() })
    }

    fn marks_as_text(&self, example: &ComparedExample) -> u64 {
        let answers = example.chosen.iter().chain(&example.rejected);
        answers.map(|sequences| self.rendering.marks_as_text(sequences)).sum()
    }

    fn found_form(&self) -> Option<ConversationForm> {
        self.rendering.form.found()
    }

    fn cut(&self) -> CutOff {
        self.rendering.cut.so_far()
    }
}

/// Says of a pair that both of it are the same.
pub(super) fn no_difference() -> RenderRefusal {
    let message = "has the same answer as `chosen` and as `rejected`, so that nothing is better".to_owned();
    RenderRefusal::Unusable(Unusable::NoDifference, message)
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

impl ComparisonRow {
    /// The forms that its fields fit.
    fn forms(&self) -> Vec<ConversationForm> {
        comparison_forms(|name| match name {
            "chosen" => self.chosen.is_some(),
            "rejected" => self.rejected.is_some(),
            "completion_A" => self.first.is_some(),
            "completion_B" => self.second.is_some(),
            "comparison" => self.comparison.is_some(),
            "completion" => self.completion.is_some(),
            "label" => self.label.is_some(),
            _ => false,
        })
    }

    /// Leaves out the fields of other forms than the given one.
    fn keep(&mut self, given: ConversationForm) {
        if given != ConversationForm::Pairs {
            (self.chosen, self.rejected) = (None, None);
        }
        if given != ConversationForm::Judged {
            (self.first, self.second, self.comparison) = (None, None, None);
        }
        if given != ConversationForm::Labels {
            self.completion = None;
        }
        if given == ConversationForm::Pairs {
            self.label = None;
        }
    }
}

/// Of a row with one answer and its label, where answers are compared.
const IS_LABELLED: &str = "has a `label`, from which objective = \"kto\" learns: a comparison has `chosen` and `rejected`, or \
                           `completion_A` and `completion_B` beside its label";

impl Comparison {
    pub(super) fn read(json: &[u8], form: &RowForm, takes_single_answers: bool) -> Result<Self, String> {
        let mut row: ComparisonRow = read_row(json)?;
        check_columns(&row.other, &COMPARISON_KEYS)?;
        no_history(&row.other)?;
        let system = row.system.take();
        let mut comparison = Self::of(row, form, takes_single_answers)?;
        with_system(system, &mut comparison.prompt)?;
        Ok(comparison)
    }

    fn of(mut row: ComparisonRow, form: &RowForm, takes_single_answers: bool) -> Result<Self, String> {
        match form.given() {
            ConversationForm::Auto => {
                let forms = row.forms();
                if forms == [ConversationForm::Labels] && !takes_single_answers {
                    return Err(IS_LABELLED.to_owned());
                }
                form.chosen(&forms)?;
            }
            given => row.keep(given),
        }
        if let Some(Compared { prompt_conversation, first, second }) = row.comparison.take() {
            if row.prompt.is_some() || row.messages.is_some() || row.first.is_some() || row.second.is_some() {
                return Err("has a `comparison`, and beside it what belongs into it".to_owned());
            }
            (row.prompt, row.first, row.second) = (Some(prompt_conversation), Some(first), Some(second));
        }
        // UltraFeedback's rows have the chosen conversation once more, for those who learn from it alone.
        if row.prompt.is_some() && row.messages.is_some() && row.messages == row.chosen {
            row.messages = None;
        }
        if row.prompt.is_some() && row.messages.is_some() {
            return Err("has both `prompt` and `messages`".to_owned());
        }
        let is_pair = row.chosen.is_some() || row.rejected.is_some();
        let is_judged = row.first.is_some() || row.second.is_some();
        if is_pair && (is_judged || row.completion.is_some() || row.label.is_some()) {
            return Err("has `chosen` and `rejected`, and beside them a `completion` or `label`".to_owned());
        }
        let tools = read_tools(row.tools.take())?;
        if is_pair {
            return Self::pair(row, tools);
        }
        if is_judged {
            return Self::judged(row, tools);
        }
        match (&row.label, takes_single_answers) {
            (None, false) => Err("has no `chosen` and `rejected`".to_owned()),
            (None, true) => Err("has neither `chosen` and `rejected` nor a `label`".to_owned()),
            (Some(_), false) => Err(IS_LABELLED.to_owned()),
            (Some(Value::Bool(label)), true) => Self::labelled(*label, row, tools),
            (Some(label), true) => Err(format!("has the label {label}, but it must be true or false")),
        }
    }

    fn pair(row: ComparisonRow, tools: Vec<Value>) -> Result<Self, String> {
        let names = ["chosen", "rejected"];
        let (prompt, [chosen, rejected]) = two_answers(names, [row.chosen, row.rejected], row.prompt, row.messages)?;
        Ok(Self { prompt, tools, answers: Answers::Pair { chosen, rejected } })
    }

    fn judged(row: ComparisonRow, tools: Vec<Value>) -> Result<Self, String> {
        let names = ["completion_A", "completion_B"];
        if row.completion.is_some() {
            return Err("has `completion_A` and `completion_B`, and beside them `completion`".to_owned());
        }
        let Some(label) = row.label else {
            return Err("has no `label`, which says \"A\", \"B\" or \"Tie\"".to_owned());
        };
        let label: Label = serde_json::from_value(label.clone())
            .map_err(|_| format!("has the label {label}, but it must be \"A\", \"B\" or \"Tie\""))?;
        let (prompt, [first, second]) = two_answers(names, [row.first, row.second], row.prompt, row.messages)?;
        let answers = match label {
            Label::A => Answers::Pair { chosen: first, rejected: second },
            Label::B => Answers::Pair { chosen: second, rejected: first },
            Label::Tie => Answers::Tie { first, second },
        };
        Ok(Self { prompt, tools, answers })
    }

    fn labelled(label: bool, row: ComparisonRow, tools: Vec<Value>) -> Result<Self, String> {
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
        let answers = if label { Answers::Good(answer) } else { Answers::Bad(answer) };
        Ok(Self { prompt, tools, answers })
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Content;

    use super::*;

    fn read(row: &str) -> Result<Comparison, String> {
        Comparison::read(row.as_bytes(), &RowForm::default(), false)
    }

    /// The chosen and the rejected answer, as far as there are such.
    fn compared(comparison: &Comparison) -> [Vec<String>; 2] {
        match &comparison.answers {
            Answers::Pair { chosen, rejected } => [texts(chosen), texts(rejected)],
            Answers::Good(good) => [texts(good), Vec::new()],
            Answers::Bad(bad) => [Vec::new(), texts(bad)],
            Answers::Tie { .. } => panic!("a tie"),
        }
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
            r#"{"prompt": "a", "completion_A": "g", "completion_B": "b", "label": "A"}"#.to_owned(),
            r#"{"prompt": "a", "completion_A": "b", "completion_B": "g", "label": "B"}"#.to_owned(),
            format!(
                r#"{{"comparison": {{"prompt_conversation": [{user}], "completion_A": [{bad}], "completion_B": [{good}]}},
                     "label": "B"}}"#
            ),
        ] {
            let comparison = read(&row).unwrap();
            assert_eq!(texts(&comparison.prompt), ["user: a"], "{row}");
            assert_eq!(compared(&comparison), [["assistant: g"], ["assistant: b"]], "{row}");
        }
        for row in [
            r#"{"prompt": "a", "completion": "g", "label": true}"#.to_owned(),
            format!(r#"{{"messages": [{user}, {good}], "label": true}}"#),
        ] {
            let comparison = Comparison::read(row.as_bytes(), &RowForm::default(), true).unwrap();
            assert_eq!(texts(&comparison.prompt), ["user: a"], "{row}");
            assert_eq!(compared(&comparison), [vec!["assistant: g".to_owned()], Vec::new()], "{row}");
        }
    }

    #[test]
    fn a_tie_has_both_answers_and_no_better_one() {
        for label in ["Tie", "tie"] {
            let row = format!(r#"{{"prompt": "a", "completion_A": "b", "completion_B": "g", "label": "{label}"}}"#);
            let Answers::Tie { first, second } = read(&row).unwrap().answers else { panic!("no tie") };
            assert_eq!([texts(&first), texts(&second)], [["assistant: b"], ["assistant: g"]]);
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
            (r#"{"prompt": "a", "chosen": "g", "completion_A": "b"}"#, "beside them"),
            (r#"{"prompt": "a", "completion_A": "g", "label": "A"}"#, "has no `completion_B`"),
            (r#"{"prompt": "a", "completion_A": "g", "completion_B": "b"}"#, "has no `label`"),
            (
                r#"{"prompt": "a", "completion_A": "g", "completion_B": "b", "label": "C"}"#,
                "the label \"C\", but it must",
            ),
            (
                r#"{"prompt": "a", "completion_A": "g", "completion_B": "b", "label": true}"#,
                "the label true, but it must",
            ),
            (r#"{"prompt": "a", "completion_A": "g", "completion_b": "b", "label": "A"}"#, "has no `completion_B`"),
            (r#"{"comparison": {"completion_A": "g", "completion_B": "b"}, "label": "A"}"#, "prompt_conversation"),
            (
                r#"{"prompt": "a", "comparison": {"prompt_conversation": "a", "completion_A": "g", "completion_B": "b"}}"#,
                "has a `comparison`, and beside it",
            ),
        ] {
            let message = read(row).unwrap_err();
            assert!(message.contains(expected), "{row}: {message}");
        }
        for (row, expected) in [
            (r#"{"prompt": "a", "completion": "g"}"#, "nor a `label`"),
            (r#"{"prompt": "a", "completion": "g", "label": 1}"#, "has the label 1, but it must be true or false"),
            (r#"{"prompt": "a", "label": true}"#, "no `prompt` with its `completion`"),
        ] {
            let message = Comparison::read(row.as_bytes(), &RowForm::default(), true).unwrap_err();
            assert!(message.contains(expected), "{row}: {message}");
        }
    }

    #[test]
    fn the_system_message_of_a_row_is_in_its_prompt_and_a_history_is_refused() {
        for row in [
            r#"{"system": "s", "prompt": "q", "chosen": "a", "rejected": "b"}"#,
            r#"{"system": "s", "conversations": [{"from": "human", "value": "q"}], "chosen": {"from": "gpt", "value": "a"},
                "rejected": {"from": "gpt", "value": "b"}}"#,
            r#"{"system": "t", "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
                "chosen": "a", "rejected": "b"}"#,
        ] {
            let Comparison { prompt, .. } = read(row).unwrap();
            assert_eq!(texts(&prompt), ["system: s", "user: q"], "{row}");
        }
        let row = r#"{"history": [["x", "y"]], "prompt": "q", "chosen": "a", "rejected": "b"}"#;
        assert!(read(row).unwrap_err().contains("has a `history`"));
    }
}
