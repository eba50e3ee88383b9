//! Fills `{task}` and `{task.FIELD}` in an argument with what the rollout's input holds.

use serde_json::Value;

/// How a placeholder begins; what follows decides whether it is one.
const OPENING: &str = "{task";

/// An argument asks for a field that the task does not have.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the task has no field `{field}`, which the argument {argument:?} asks for")]
pub struct UnknownField {
    field: String,
    argument: String,
}

/// `argument` with every placeholder replaced. `{task}` is the whole task, `{task.a.b}` the field `b` of its field `a`. A
/// string is inserted bare, everything else as compact JSON. All else in the argument stays as it is, other braces included,
/// and nothing that was inserted is looked at again.
pub fn fill(argument: &str, task: &Value) -> Result<String, UnknownField> {
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
        }
        assert_eq!(fill("say {task}!", &json!("hello")).unwrap(), "say hello!");
        assert_eq!(fill("{task}", &json!({"a": [true]})).unwrap(), r#"{"a":[true]}"#);
    }

    #[test]
    fn leaves_other_braces_alone() {
        for argument in ["{n}", "{tasks}", "{{}}", "{task", "{task.n", "${TASK}", "{ task }", "{task n}"] {
            assert_eq!(fill(argument, &json!({"n": 1})).unwrap(), argument);
        }
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
