//! Fills `{task}` and `{task.FIELD}` in an argument with what the rollout's input holds, `{project}` with the directory that
//! commands are written in, and `{world}` with the attempt's own.

use std::io;
use std::path::{Path, PathBuf};

use fulgurite_types::{TaskPlaceholder, fill_placeholders};
use serde_json::Value;

/// How a task's placeholder begins; what follows decides whether it is one.
const PROJECT: &str = "{project}";
const WORLD: &str = "{world}";

/// What `{project}` and `{world}` stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The directory that graders run in.
    pub project: String,
    /// The attempt's world, if it has one.
    pub world: Option<String>,
}

impl Places {
    /// Those where nothing has a world: graders run in `directory`, or where this process does.
    ///
    /// # Errors
    /// If the system does not say where that is.
    pub(crate) fn of_project(directory: Option<&Path>) -> io::Result<Self> {
        let project = std::path::absolute(directory.unwrap_or(Path::new(".")))?;
        // Without a slash at its end, behind which `{project}/x` would have two.
        let project: PathBuf = project.components().collect();
        Ok(Self { project: project.to_string_lossy().into_owned(), world: None })
    }
}

/// Why an argument cannot be filled in.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Unfilled {
    /// The task does not have the field.
    #[error("the task has no field `{field}`, which the argument {argument:?} asks for")]
    UnknownField {
        /// The field.
        field: String,
        /// The argument.
        argument: String,
    },
    /// The attempt has no world.
    #[error("the argument {argument:?} asks for the attempt's world, and it has none")]
    NoWorld {
        /// The argument.
        argument: String,
    },
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
    let asking: Vec<&String> = arguments.iter().filter(|argument| TaskPlaceholder::is_in(argument)).collect();
    let places = Places { world: Some(String::new()), ..Places::default() };
    for task in tasks {
        for argument in &asking {
            if let Err(Unfilled::UnknownField { field, argument }) = fill(argument, task, &places) {
                let task = task.to_string().chars().take(SHOWN).collect();
                return Err(PlaceholderError::Field { field, argument, task });
            }
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

/// `argument` with every placeholder replaced.
pub(crate) fn fill(argument: &str, task: &Value, places: &Places) -> Result<String, Unfilled> {
    fill_placeholders(argument, |opening| {
        Ok(Some(if let Some(after) = opening.strip_prefix(PROJECT) {
            (places.project.as_str().into(), after)
        } else if let Some(after) = opening.strip_prefix(WORLD) {
            let no_world = || Unfilled::NoWorld { argument: argument.to_owned() };
            (places.world.as_deref().ok_or_else(no_world)?.into(), after)
        } else if let Some(placeholder) = TaskPlaceholder::at_start(opening) {
            let unknown =
                |field: &str| Unfilled::UnknownField { field: field.to_owned(), argument: argument.to_owned() };
            (placeholder.value(task).map_err(unknown)?, placeholder.after)
        } else {
            return Ok(None);
        }))
    })
}

/// Whether the argument asks for the attempt's world.
pub fn asks_for_world(argument: &str) -> bool {
    argument.contains(WORLD)
}

/// Whether the argument asks for the task or a part of it.
pub fn asks_for_task(argument: &str) -> bool {
    TaskPlaceholder::is_in(argument)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn filled(argument: &str, task: &Value) -> Result<String, Unfilled> {
        fill(argument, task, &Places { project: "/project".to_owned(), world: None })
    }

    #[test]
    fn places_are_inserted_and_a_world_only_where_there_is_one() {
        let places = Places { project: "/p".to_owned(), world: Some("/w {task}".to_owned()) };
        let task = json!("{world}");
        assert_eq!(fill("{project}/a {world} {task}", &task, &places).unwrap(), "/p/a /w {task} {world}");
        assert_eq!(filled("{project}", &task).unwrap(), "/project");
        assert!(filled("--in={world}", &task).unwrap_err().to_string().contains("it has none"));
    }

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
            assert_eq!(filled(argument, &task).unwrap(), expected);
            assert!(asks_for_task(argument));
        }
        assert_eq!(filled("say {task}!", &json!("hello")).unwrap(), "say hello!");
        assert_eq!(filled("{task}", &json!({"a": [true]})).unwrap(), r#"{"a":[true]}"#);
    }

    #[test]
    fn leaves_other_braces_alone() {
        for argument in ["{n}", "{tasks}", "{{}}", "{task", "{task.n", "${TASK}", "{ task }", "{task n}"] {
            assert_eq!(filled(argument, &json!({"n": 1})).unwrap(), argument);
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
        let message = check("{task.n}").unwrap_err();
        assert_eq!(message, r#"the argument "{task.n}" asks for the field `n`, which the task {"m":2} has not"#);
    }

    #[test]
    fn does_not_look_at_what_it_inserted() {
        let task = json!({"a": "{task.b}", "b": "secret"});
        assert_eq!(filled("{task.a}", &task).unwrap(), "{task.b}");
    }

    #[test]
    fn names_the_field_that_is_missing() {
        for (argument, field) in [("{task.m}", "m"), ("x{task.n.m}", "n.m"), ("{task.}", "")] {
            let error = filled(argument, &json!({"n": 1})).unwrap_err();
            assert_eq!(error, Unfilled::UnknownField { field: field.to_owned(), argument: argument.to_owned() });
        }
        assert!(filled("{task.n}", &json!("text")).is_err());
    }

    proptest! {
        #[test]
        fn a_string_arrives_as_it_is_wherever_it_is_inserted(text in any::<String>(), around in "[a-z{}.]{0,3}") {
            let inserted = filled(&format!("{around} {{task.s}} {around}"), &json!({"s": text}));
            prop_assert_eq!(inserted.unwrap(), format!("{around} {text} {around}"));
        }
    }
}
