//! Reading the flat attributes of spans.

use fulgurite_types::Object;
use serde_json::Value;

use super::python_literal::parse_python_literal;

/// Parts of a key that become levels of their own; what follows stays together. No tracer nests as deep.
const MAX_LEVELS: usize = 64;

/// The value that was flattened into the attributes `prefix.a.0.b`; `None` if there are none of them.
///
/// An object whose keys are exactly 0 to n-1 is a list. Of two attributes that contradict each other the later one
/// counts. An attribute that is called like the prefix itself is the value if nothing is below it.
pub(super) fn nested(attributes: &Object, prefix: &str) -> Option<Value> {
    let mut tree = Object::new();
    for (key, value) in attributes {
        if let Some(path) = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')) {
            insert(&mut tree, path, value.clone());
        }
    }
    if tree.is_empty() { attributes.get(prefix).cloned() } else { Some(with_lists(Value::Object(tree))) }
}

fn insert(tree: &mut Object, path: &str, value: Value) {
    let mut parts = path.splitn(MAX_LEVELS, '.').peekable();
    let mut level = tree;
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            level.insert(part.to_owned(), value);
            return;
        }
        let below = level.entry(part).or_insert_with(|| Value::Object(Object::new()));
        if !below.is_object() {
            *below = Value::Object(Object::new());
        }
        let Value::Object(below) = below else { return };
        level = below;
    }
}

fn with_lists(value: Value) -> Value {
    let Value::Object(entries) = value else { return value };
    let mut entries: Object = entries.into_iter().map(|(key, value)| (key, with_lists(value))).collect();
    let keys: Vec<String> = (0..entries.len()).map(|index| index.to_string()).collect();
    if entries.is_empty() || !keys.iter().all(|key| entries.contains_key(key)) {
        return Value::Object(entries);
    }
    Value::Array(keys.iter().filter_map(|key| entries.remove(key)).collect())
}

/// The first of these attributes that is a text.
pub(super) fn text<'a>(attributes: &'a Object, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| attributes.get(*key)?.as_str())
}

/// Token ids, as far as they were recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenIds {
    /// Nobody did.
    Missing,
    /// What stands in their place is not a list of token ids.
    Unreadable,
    /// These.
    Known(Vec<u32>),
}

impl TokenIds {
    /// From the first of these values that is a list of token ids.
    pub(super) fn first<'v>(values: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut found = Self::Missing;
        for value in values {
            match token_ids(value) {
                Some(ids) => return Self::Known(ids),
                None => found = Self::Unreadable,
            }
        }
        found
    }

    /// The ids, none if they are not known.
    pub(super) fn ids(&self) -> &[u32] {
        match self {
            Self::Known(ids) => ids,
            Self::Missing | Self::Unreadable => &[],
        }
    }
}

fn token_ids(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

/// A container that an exporter wrote as text, in JSON or as Python writes it; anything else as it is. `None` for a text
/// that is neither.
pub(super) fn parsed(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => serde_json::from_str(text).ok().or_else(|| parse_python_literal(text).ok()),
        other => Some(other.clone()),
    }
}

/// The logprob of each token, of a list as OpenAI's API has it or of plain numbers; `None` unless every one is finite.
pub(super) fn logprobs(content: &Value) -> Option<Vec<f32>> {
    let logprob = |entry: &Value| {
        let logprob = entry.get("logprob").unwrap_or(entry).as_f64()? as f32;
        logprob.is_finite().then_some(logprob)
    };
    content.as_array()?.iter().map(logprob).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested_of(attributes: Value) -> Option<Value> {
        nested(attributes.as_object().unwrap(), "p")
    }

    #[test]
    fn flat_keys_become_objects_and_lists() {
        for (attributes, value) in [
            (json!({"p.1.b": 2, "p.0.b": 1, "q.0": 0, "px.0": 0}), json!([{"b": 1}, {"b": 2}])),
            (json!({"p.0": "a", "p.2": "c"}), json!({"0": "a", "2": "c"})),
            (json!({"p.0": "a", "p.x": "c"}), json!({"0": "a", "x": "c"})),
            (json!({"p.00": "a"}), json!({"00": "a"})),
            (json!({"p.a": [1, 2]}), json!({"a": [1, 2]})),
            (json!({"p.a.b": 1, "p.a": 2}), json!({"a": 2})),
            (json!({"p.a": 2, "p.a.b": 1}), json!({"a": {"b": 1}})),
            (json!({"p": "text"}), json!("text")),
            (json!({"p": "text", "p.a": 1}), json!({"a": 1})),
            (json!({"p..a": 1}), json!({"": {"a": 1}})),
        ] {
            assert_eq!(nested_of(attributes.clone()), Some(value), "{attributes}");
        }
        assert_eq!(nested_of(json!({"q": 1})), None);
    }

    #[test]
    fn a_key_of_a_million_levels_is_read() {
        let attributes = json!({ format!("p{}", ".a".repeat(1_000_000)): 1 });
        assert!(nested_of(attributes).unwrap().is_object());
    }

    #[test]
    fn only_lists_of_whole_numbers_are_token_ids() {
        let first = |values: Value| TokenIds::first(values.as_array().unwrap());
        assert_eq!(first(json!([[1, 2]])), TokenIds::Known(vec![1, 2]));
        assert_eq!(first(json!([[], [1]])), TokenIds::Known(vec![]));
        assert_eq!(first(json!(["[1]", [3]])), TokenIds::Known(vec![3]));
        for wrong in [json!("[1]"), json!([1.5]), json!([-1]), json!([true]), json!(["1"]), json!([4294967296_u64])] {
            assert_eq!(first(json!([wrong])), TokenIds::Unreadable);
        }
        assert_eq!(first(json!([])), TokenIds::Missing);
    }

    #[test]
    fn logprobs_are_all_there_or_none_is() {
        assert_eq!(logprobs(&json!([{"logprob": -0.5}, {"logprob": -1.0}])), Some(vec![-0.5, -1.0]));
        assert_eq!(logprobs(&json!([-0.5])), Some(vec![-0.5]));
        assert_eq!(logprobs(&json!([{"logprob": -0.5}, {"logprob": null}])), None);
        assert_eq!(logprobs(&json!([{"logprob": -1e300}])), None);
        assert_eq!(logprobs(&json!({"a": 1})), None);
    }
}
