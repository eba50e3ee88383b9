use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fulgurite_backends::{Notation, plain_words};
use fulgurite_types::MendedJson;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::TrainError;

/// More tasks than this in a range are a slip of the pen, and would fill the memory.
const GREATEST_RANGE: u64 = 10_000_000;

/// Where a set of tasks comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskSource {
    /// The whole numbers from the first (included) to the second (excluded).
    Range {
        /// First and end.
        range: [i64; 2],
        /// How each number is given to the agent.
        form: TaskForm,
    },
    /// A file of JSON, one task a line.
    File {
        /// Its path.
        file: PathBuf,
    },
    /// Tasks in Harbor's format.
    Harbor {
        /// A task's directory, or one of such directories.
        harbor: PathBuf,
    },
    /// The tasks themselves.
    List(Vec<Value>),
}

/// How the numbers of a range become tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskForm {
    /// `17`
    #[default]
    Number,
    /// `"17"`, for agents that take text.
    String,
}

/// A set of tasks as it is written, unless it is a list.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TaskTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<[i64; 2]>,
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    form: Option<TaskForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    harbor: Option<PathBuf>,
}

impl Serialize for TaskSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table = match self {
            Self::List(tasks) => return tasks.serialize(serializer),
            Self::Range { range, form } => {
                let form = (*form != TaskForm::default()).then_some(*form);
                TaskTable { range: Some(*range), form, ..TaskTable::default() }
            }
            Self::File { file } => TaskTable { file: Some(file.clone()), ..TaskTable::default() },
            Self::Harbor { harbor } => TaskTable { harbor: Some(harbor.clone()), ..TaskTable::default() },
        };
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TaskSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

/// Reads the forms of a [`TaskSource`]; each mistake is told of the form that was meant.
struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = TaskSource;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .write_str("a list of tasks, { range = [0, 1000] }, { file = \"tasks.jsonl\" } or { harbor = \"DIR\" }")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, tasks: A) -> Result<TaskSource, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(tasks)).map(TaskSource::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<TaskSource, A::Error> {
        match TaskTable::deserialize(MapAccessDeserializer::new(table))? {
            TaskTable { range: Some(range), form, file: None, harbor: None } => {
                Ok(TaskSource::Range { range, form: form.unwrap_or_default() })
            }
            TaskTable { range: None, form: None, file: Some(file), harbor: None } => Ok(TaskSource::File { file }),
            TaskTable { range: None, form: None, file: None, harbor: Some(harbor) } => {
                Ok(TaskSource::Harbor { harbor })
            }
            TaskTable { range: None, form: Some(_), .. } => Err(A::Error::custom("`as` is for tasks of a `range`")),
            _ => Err(A::Error::custom("tasks are of a `range`, of a `file` or of `harbor`: write one of the three")),
        }
    }
}

impl TaskSource {
    /// The tasks. A relative file is looked for in `directory`. `name` stands in errors.
    pub fn load(&self, name: &str, directory: &Path) -> Result<Vec<Value>, TrainError> {
        let tasks: Vec<Value> = match self {
            TaskSource::Range { range: [start, end], form } => {
                let count = end.abs_diff(*start);
                if start < end && count > GREATEST_RANGE {
                    return Err(TrainError::TooManyTasks { set: name.to_owned(), count, most: GREATEST_RANGE });
                }
                (*start..*end).map(|number| form.task(number)).collect()
            }
            TaskSource::List(tasks) => tasks.clone(),
            TaskSource::File { file } => read_lines(&directory.join(file))?,
            TaskSource::Harbor { harbor } => super::harbor::tasks(&directory.join(harbor))?,
        };
        if tasks.is_empty() { Err(TrainError::NoTasks { set: name.to_owned() }) } else { Ok(tasks) }
    }
}

impl TaskForm {
    fn task(self, number: i64) -> Value {
        match self {
            Self::Number => Value::from(number),
            Self::String => Value::from(number.to_string()),
        }
    }
}

fn read_lines(path: &Path) -> Result<Vec<Value>, TrainError> {
    let wrong = |message: String| TrainError::File { path: path.to_owned(), message };
    let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => wrong("there is no such file; an example's README says how its own is made".to_owned()),
        _ => wrong(source.to_string()),
    })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            let not_json = |error: serde_json::Error| {
                let message = plain_words(&error.to_string(), "", Notation::Json);
                // The line is the file's, not the parser's.
                let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
                let place = format!("line {}, column {}", index + 1, error.column());
                wrong(format!("{place} is not JSON: {message} (a task that is text stands in quotes)"))
            };
            let mended = MendedJson::of(line.as_bytes());
            if let Some(mended) = &mended {
                let path = path.display();
                tracing::warn!(%path, line = index + 1, "a task is read with {}", mended.warning());
            }
            serde_json::from_slice(mended.as_ref().map_or(line.as_bytes(), |mended| &mended.text)).map_err(not_json)
        })
        .collect()
}

/// The three sets of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// What the policy learns on.
    pub train: Vec<Value>,
    /// What its progress is measured on, and the stop rule looks at.
    pub held_out: Vec<Value>,
    /// What is scored once, after training has stopped. May be empty.
    pub last: Vec<Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_source_gives_its_tasks_and_an_empty_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("t.jsonl"), "{\"n\": 1}\n\n2\n").unwrap();
        let load =
            |source: Value| serde_json::from_value::<TaskSource>(source).unwrap().load("train", directory.path());
        assert_eq!(load(json!({ "range": [3, 5] })).unwrap(), [json!(3), json!(4)]);
        assert_eq!(load(json!({ "range": [3, 5], "as": "string" })).unwrap(), [json!("3"), json!("4")]);
        assert!(matches!(load(json!({ "range": [5, 3] })), Err(TrainError::NoTasks { .. })));
        assert!(matches!(load(json!({ "range": [0, i64::MAX] })), Err(TrainError::TooManyTasks { .. })));
        assert_eq!(load(json!({ "file": "t.jsonl" })).unwrap(), [json!({ "n": 1 }), json!(2)]);
        assert_eq!(load(json!(["a"])).unwrap(), [json!("a")]);
        assert!(matches!(load(json!([])), Err(TrainError::NoTasks { .. })));
        std::fs::write(directory.path().join("t.jsonl"), "1\n{").unwrap();
        let error = load(json!({ "file": "t.jsonl" })).unwrap_err().to_string();
        let expected =
            "t.jsonl: line 2, column 1 is not JSON: it ends too early (a task that is text stands in quotes)";
        assert!(error.ends_with(expected), "{error}");
        let error = load(json!({ "file": "other.jsonl" })).unwrap_err().to_string();
        assert!(error.ends_with("other.jsonl: there is no such file; an example's README says how its own is made"));
    }

    #[test]
    fn half_a_surrogate_pair_in_a_task_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("t.jsonl"), "\"a\"\n{\"q\": \"x \\ud99c\"}\n").unwrap();
        let source: TaskSource = serde_json::from_value(json!({ "file": "t.jsonl" })).unwrap();
        assert_eq!(source.load("train", directory.path()).unwrap(), [json!("a"), json!({ "q": "x \u{fffd}" })]);
    }

    #[test]
    fn a_source_is_written_as_it_was_read_and_of_one_form() {
        for source in [
            json!({ "range": [3, 5] }),
            json!({ "range": [3, 5], "as": "string" }),
            json!({ "file": "t.jsonl" }),
            json!({ "harbor": "tasks" }),
            json!([1, "a", { "n": [2] }]),
        ] {
            let read: TaskSource = serde_json::from_value(source.clone()).unwrap();
            assert_eq!(json!(read), source);
        }
        for (wrong, words) in [
            (json!({}), "write one of the three"),
            (json!({ "range": [0, 1], "file": "t.jsonl" }), "write one of the three"),
            (json!({ "file": "t.jsonl", "as": "string" }), "`as` is for tasks of a `range`"),
            (json!("t.jsonl"), "expected a list of tasks"),
            (json!({ "rnage": [0, 1] }), "unknown field `rnage`"),
        ] {
            let error = serde_json::from_value::<TaskSource>(wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
