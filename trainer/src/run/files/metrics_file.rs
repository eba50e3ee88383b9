use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::TrainError;

/// `metrics.jsonl`: a copy for people and plotting tools of what the store has of each step, one JSON object a line.
#[derive(Debug)]
pub(crate) struct MetricsFile {
    path: PathBuf,
    file: File,
}

impl MetricsFile {
    /// Writes the file anew from the steps that the store holds, so that lines of steps that a crash undid are gone.
    pub(crate) fn rewrite(path: &Path, steps: &[Map<String, Value>]) -> Result<Self, TrainError> {
        let failed = |error: std::io::Error| TrainError::File { path: path.to_owned(), message: error.to_string() };
        let fresh = path.with_extension("jsonl.new");
        let lines: String = steps.iter().map(line).collect();
        std::fs::write(&fresh, lines).map_err(failed)?;
        std::fs::rename(&fresh, path).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// The steps that a file holds whole lines of.
    pub(crate) fn steps(path: &Path) -> HashSet<u64> {
        // What cannot be read holds none: the steps are told of once more.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|metrics| metrics["step"].as_u64()).collect()
    }

    pub(crate) fn append(&mut self, step: &Map<String, Value>) -> Result<(), TrainError> {
        self.file
            .write_all(line(step).as_bytes())
            .map_err(|error| TrainError::File { path: self.path.clone(), message: error.to_string() })
    }
}

fn line(step: &Map<String, Value>) -> String {
    format!("{}\n", Value::Object(step.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rewritten_file_holds_the_stores_steps_and_then_what_is_appended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"step\":9}\n").unwrap();
        let step = |n: u64| json!({ "step": n }).as_object().cloned().unwrap();
        MetricsFile::rewrite(&path, &[step(0)]).unwrap().append(&step(1)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"step\":0}\n{\"step\":1}\n");
        std::fs::write(&path, "{\"step\":0}\n{\"step\":1}\n{\"ste").unwrap();
        assert_eq!(MetricsFile::steps(&path), HashSet::from([0, 1]), "half a line is none");
        assert_eq!(MetricsFile::steps(&directory.path().join("none")), HashSet::new());
    }
}
