use std::borrow::Cow;

use serde_json::Value;

const OPENING: &str = "{task";

/// `{task}`, which stands for a whole task, or `{task.a.b}`, which stands for the field `b` of its field `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPlaceholder<'t> {
    /// Empty, or `.a.b`.
    path: &'t str,
    /// The text after the closing brace.
    pub after: &'t str,
}

impl<'t> TaskPlaceholder<'t> {
    /// The placeholder that a text begins with.
    pub fn at_start(text: &'t str) -> Option<Self> {
        let (path, after) = text.strip_prefix(OPENING)?.split_once('}')?;
        (path.is_empty() || path.starts_with('.')).then_some(Self { path, after })
    }

    /// Whether a text holds one.
    pub fn is_in(text: &str) -> bool {
        text.match_indices(OPENING).any(|(start, _)| TaskPlaceholder::at_start(&text[start..]).is_some())
    }

    /// What stands there for this task: a string bare, everything else as compact JSON.
    ///
    /// # Errors
    /// The field that the task does not have.
    pub fn value<'v>(self, task: &'v Value) -> Result<Cow<'v, str>, &'t str> {
        match self.path.split('.').skip(1).try_fold(task, |value, name| value.as_object()?.get(name)) {
            Some(Value::String(text)) => Ok(Cow::Borrowed(text)),
            Some(other) => Ok(Cow::Owned(other.to_string())),
            None => Err(&self.path[1..]),
        }
    }
}

/// A text with its placeholders replaced: of a text that begins with `{`, `replaced` gives what stands for the placeholder
/// there and the text after it. All else stays as it is, and nothing that was inserted is looked at again.
///
/// # Errors
/// What `replaced` fails with.
pub fn fill_placeholders<'t, 'v, E>(
    text: &'t str,
    replaced: impl Fn(&'t str) -> Result<Option<(Cow<'v, str>, &'t str)>, E>,
) -> Result<String, E> {
    let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find('{') {
        let (before, opening) = rest.split_at(start);
        filled.push_str(before);
        rest = match replaced(opening)? {
            Some((value, after)) => {
                filled.push_str(&value);
                after
            }
            None => {
                filled.push('{');
                &opening[1..]
            }
        };
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_placeholder_stands_for_the_task_or_one_of_its_fields() {
        let task = json!({ "a": { "b": "x y" }, "n": [1, null] });
        let value = |text| TaskPlaceholder::at_start(text).map(|placeholder| placeholder.value(&task));
        assert_eq!(value("{task.a.b}, then"), Some(Ok("x y".into())));
        assert_eq!(value("{task.n}"), Some(Ok("[1,null]".into())));
        assert_eq!(value("{task}"), Some(Ok(task.to_string().into())));
        assert_eq!(
            (value("{task.c}"), value("{task.n.m}"), value("{task.}")),
            (Some(Err("c")), Some(Err("n.m")), Some(Err("")))
        );
        assert_eq!((value("{tasks}"), value("{task"), value("a {task}")), (None, None, None));
        assert!(TaskPlaceholder::is_in("a {tasks} {task.n}") && !TaskPlaceholder::is_in("{tasks} {task"));
        assert_eq!(TaskPlaceholder::at_start("{task.n} rest").unwrap().after, " rest");
    }
}
