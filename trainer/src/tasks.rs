use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TrainError;

/// Where a set of tasks comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TaskSource {
    /// The whole numbers from the first (included) to the second (excluded).
    Range {
        /// First and end.
        range: [i64; 2],
    },
    /// A file of JSON, one task a line.
    File {
        /// Its path.
        file: PathBuf,
    },
    /// The tasks themselves.
    List(Vec<Value>),
}

impl TaskSource {
    /// The tasks. A relative file is looked for in `directory`. `name` stands in errors.
    pub fn load(&self, name: &str, directory: &Path) -> Result<Vec<Value>, TrainError> {
        let tasks: Vec<Value> = match self {
            TaskSource::Range { range: [start, end] } => (*start..*end).map(Value::from).collect(),
            TaskSource::List(tasks) => tasks.clone(),
            TaskSource::File { file } => {
                let path = directory.join(file);
                let text = std::fs::read_to_string(&path)
                    .map_err(|source| TrainError::File { path: path.clone(), message: source.to_string() })?;
                let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
                lines
                    .map(|(index, line)| {
                        serde_json::from_str(line).map_err(|error| TrainError::File {
                            path: path.clone(),
                            message: format!("line {}: {error}", index + 1),
                        })
                    })
                    .collect::<Result<_, _>>()?
            }
        };
        if tasks.is_empty() { Err(TrainError::NoTasks { set: name.to_owned() }) } else { Ok(tasks) }
    }
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
        assert_eq!(load(json!({ "file": "t.jsonl" })).unwrap(), [json!({ "n": 1 }), json!(2)]);
        assert_eq!(load(json!(["a"])).unwrap(), [json!("a")]);
        assert!(matches!(load(json!([])), Err(TrainError::NoTasks { .. })));
        std::fs::write(directory.path().join("t.jsonl"), "1\n{").unwrap();
        let error = load(json!({ "file": "t.jsonl" })).unwrap_err().to_string();
        assert!(error.contains("t.jsonl: line 2"), "{error}");
    }
}
