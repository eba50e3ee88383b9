//! Fills `{task}` and `{task.FIELD}` in an argument with what the rollout's input holds.

use serde_json::Value;

/// How a placeholder begins; what follows decides whether it is one.
const OPENING: &str = "{task";

/// An argument asks for a field that the task does not have.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the task has no field `{field}`, which the argument {argument:?} asks for")]
pub(crate) struct UnknownField {
    field: String,
    argument: String,
}

/// A command that could not be filled in for every task.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum PlaceholderError {
    /// A placeholder is misspelt, and would be passed on as it stands.
    #[error(
        "the argument {argument:?} holds `{{{name}}}`, which is filled in nowhere: write `{{task}}` or `{{task.FIELD}}`"
    )]
    Misspelt {
        /// What stands between the braces.
        name: String,
        /// The argument.
        argument: String,
    },
    /// A task has no such field.
    #[error("the argument {argument:?} asks for the field `{field}`, which the task {task} has not")]
    Field {
        /// The field.
        field: String,
        /// The argument.
        argument: String,
        /// The beginning of the task.
        task: String,
    },
}

/// Characters of a task that an error shows.
const SHOWN: usize = 120;

/// Looks whether a command's arguments can be filled in for each of `tasks`, and whether a placeholder is misspelt.
pub fn check_arguments<'t>(
    arguments: &[String],
    tasks: impl IntoIterator<Item = &'t Value>,
) -> Result<(), PlaceholderError> {
    for argument in arguments {
        if let Some(name) = misspelt(argument) {
            return Err(PlaceholderError::Misspelt { name: name.to_owned(), argument: argument.clone() });
        }
    }
    let asking: Vec<&String> = arguments.iter().filter(|argument| argument.contains(OPENING)).collect();
    for task in tasks {
        for argument in &asking {
            fill(argument, task).map_err(|UnknownField { field, argument }| PlaceholderError::Field {
                field,
                argument,
                task: task.to_string().chars().take(SHOWN).collect(),
            })?;
        }
    }
    Ok(())
}

/// What stands between braces and was most likely meant to be `task`: other capitals, spaces around it, letters that
/// changed places, one too many, or one too few. Other words in braces may be an argument's own.
fn misspelt(argument: &str) -> Option<&str> {
    argument.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).find(|name| {
        let word = name.split('.').next().unwrap_or_default();
        let plain = word.trim().to_lowercase();
        let mut letters: Vec<char> = plain.chars().collect();
        letters.sort_unstable();
        word != "task"
            && (plain == "task"
                || letters == ['a', 'k', 's', 't']
                || ["tasks", "taks", "tas", "tsk"].contains(&&*plain))
    })
}

/// `argument` with every placeholder replaced. `{task}` is the whole task, `{task.a.b}` the field `b` of its field `a`. A
/// string is inserted bare, everything else as compact JSON. All else in the argument stays as it is, other braces included,
/// and nothing that was inserted is looked at again.
pub(crate) fn fill(argument: &str, task: &Value) -> Result<String, UnknownField> {
    let mut filled = String::with_capacity(argument.len());
    let mut rest = argument;
    while let Some(start) = rest.find(OPENING) {
        let (before, opening) = rest.split_at(start);
        let after = &opening[OPENING.len()..];
        filled.push_str(before);
        rest = match field_path(after) {
            Some((path, behind)) => {
                let value = path.split('.').skip(1).try_fold(task, |value, name| value.as_object()?.get(name));
                let unknown = || UnknownField { field: path[1..].to_owned(), argument: argument.to_owned() };
                match value.ok_or_else(unknown)? {
                    Value::String(text) => filled.push_str(text),
                    other => filled.push_str(&other.to_string()),
                }
                behind
            }
            None => {
                filled.push_str(OPENING);
                after
            }
        };
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Whether the argument asks for the task or a part of it.
pub(crate) fn asks_for_task(argument: &str) -> bool {
    argument.match_indices(OPENING).any(|(start, _)| field_path(&argument[start + OPENING.len()..]).is_some())
}

/// What stands between `{task` and its closing brace (nothing, or `.a.b`), and the text behind that; `None` if this is no
/// placeholder.
fn field_path(after: &str) -> Option<(&str, &str)> {
    let (path, behind) = after.split_once('}')?;
    (path.is_empty() || path.starts_with('.')).then_some((path, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn inserts_the_task_and_its_fields() {
        let task = json!({"n": 17, "who": "Ann; touch x", "deep": {"list": [1, "a"], "none": null}});
        for (argument, expected) in [
            ("{task.n}", "17"),
            ("--n={task.n}/{task.n}", "--n=17/17"),
            ("{task.who}", "Ann; touch x"),
            ("{task.deep.list}", r#"[1,"a"]"#),
            ("{task.deep.none}", "null"),
            ("{task.deep}", r#"{"list":[1,"a"],"none":null}"#),
        ] {
            assert_eq!(fill(argument, &task).unwrap(), expected);
            assert!(asks_for_task(argument));
        }
        assert_eq!(fill("say {task}!", &json!("hello")).unwrap(), "say hello!");
        assert_eq!(fill("{task}", &json!({"a": [true]})).unwrap(), r#"{"a":[true]}"#);
    }

    #[test]
    fn leaves_other_braces_alone() {
        for argument in ["{n}", "{tasks}", "{{}}", "{task", "{task.n", "${TASK}", "{ task }", "{task n}"] {
            assert_eq!(fill(argument, &json!({"n": 1})).unwrap(), argument);
            assert!(!asks_for_task(argument));
        }
    }

    #[test]
    fn a_misspelt_placeholder_and_a_missing_field_are_told_before_anything_is_run() {
        let tasks = [json!({"n": 1}), json!({"m": 2})];
        let check = |argument: &str| check_arguments(&[argument.to_owned()], &tasks).map_err(|error| error.to_string());
        for fine in ["{task}", "x", "{n}", "{ask}", "f'{mask}'", "{{\"n\": 1}}", "{task"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for wrong in ["{tsak}", "{Task}", "{ task }", "--n={tasks.n}", "{TASK.n}"] {
            assert!(check(wrong).unwrap_err().contains("filled in nowhere"), "{wrong}");
        }
        let said = check("{task.n}").unwrap_err();
        assert_eq!(said, r#"the argument "{task.n}" asks for the field `n`, which the task {"m":2} has not"#);
    }

    #[test]
    fn does_not_look_at_what_it_inserted() {
        let task = json!({"a": "{task.b}", "b": "secret"});
        assert_eq!(fill("{task.a}", &task).unwrap(), "{task.b}");
    }

    #[test]
    fn names_the_field_that_is_missing() {
        for (argument, field) in [("{task.m}", "m"), ("x{task.n.m}", "n.m"), ("{task.}", "")] {
            let error = fill(argument, &json!({"n": 1})).unwrap_err();
            assert_eq!(error, UnknownField { field: field.to_owned(), argument: argument.to_owned() });
        }
        assert!(fill("{task.n}", &json!("text")).is_err());
    }

    proptest! {
        #[test]
        fn a_string_arrives_as_it_is_wherever_it_is_inserted(text in any::<String>(), around in "[a-z{}.]{0,3}") {
            let filled = fill(&format!("{around} {{task.s}} {around}"), &json!({"s": text}));
            prop_assert_eq!(filled.unwrap(), format!("{around} {text} {around}"));
        }
    }
}
