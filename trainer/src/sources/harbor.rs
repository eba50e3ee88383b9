//! Tasks in Harbor's format: a directory each, with `task.toml`, `instruction.md`, the files of its environment, and tests that
//! find the reward.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::TrainError;

/// Bytes of an instruction, at most.
const INSTRUCTION: u64 = 1 << 20;

/// The tasks in `directory`: that which it is itself, or those of its directories that are tasks, in order of their names.
///
/// A task is `{"instruction": ..., "harbor": {"name": ..., "directory": ..., "image": ...}}`; `image` says what it is to run in,
/// if that is a container: the path of a Dockerfile, or the name of an image.
///
/// # Errors
/// If there is none, or one has no instruction or no tests.
pub(super) fn tasks(directory: &Path) -> Result<Vec<Value>, TrainError> {
    let wrong = |path: &Path, message: String| TrainError::File { path: path.to_owned(), message };
    let directory = std::path::absolute(directory).map_err(|error| wrong(directory, error.to_string()))?;
    if is_task(&directory) {
        return Ok(vec![task(&directory)?]);
    }
    let entries = fs::read_dir(&directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| wrong(&directory, error.to_string()))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(|path| is_task(path)).collect();
    paths.sort();
    if paths.is_empty() {
        return Err(wrong(
            &directory,
            "neither it nor a directory in it is a task of Harbor's: no task.toml".to_owned(),
        ));
    }
    paths.iter().map(|path| task(path)).collect()
}

fn is_task(directory: &Path) -> bool {
    directory.join("task.toml").is_file()
}

fn task(directory: &Path) -> Result<Value, TrainError> {
    let wrong = |name: &str, message: String| TrainError::File { path: directory.join(name), message };
    let read = |name: &str| {
        let path = directory.join(name);
        match path.metadata() {
            Ok(metadata) if metadata.len() > INSTRUCTION => Err(wrong(name, "it is larger than 1 MiB".to_owned())),
            _ => fs::read_to_string(path).map_err(|error| wrong(name, error.to_string())),
        }
    };
    let settings: toml::Table =
        read("task.toml")?.parse().map_err(|error: toml::de::Error| wrong("task.toml", error.to_string()))?;
    let instruction = read("instruction.md")?;
    if !directory.join("tests/test.sh").is_file() {
        return Err(wrong("tests/test.sh", "it is not there: it finds the reward".to_owned()));
    }
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let dockerfile = directory.join("environment/Dockerfile");
    let named = settings.get("environment").and_then(|table| table.get("docker_image")?.as_str());
    let image = match named {
        None if dockerfile.is_file() => Some(dockerfile.to_string_lossy().into_owned()),
        named => named.map(str::to_owned),
    };
    let mut harbor = json!({ "name": name, "directory": directory });
    if let Some(image) = image {
        harbor["image"] = json!(image);
    }
    Ok(json!({ "instruction": instruction, "harbor": harbor }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, name: &str, settings: &str) -> PathBuf {
        let directory = root.join(name);
        fs::create_dir_all(directory.join("tests")).unwrap();
        fs::write(directory.join("task.toml"), settings).unwrap();
        fs::write(directory.join("instruction.md"), format!("Do {name}.")).unwrap();
        fs::write(directory.join("tests/test.sh"), "echo 1 > /logs/verifier/reward.txt").unwrap();
        directory
    }

    #[test]
    fn directories_are_tasks_in_order_with_what_they_run_in() {
        let root = tempfile::tempdir().unwrap();
        let second = make(root.path(), "b", "[environment]\ndocker_image = \"python:3.12\"");
        let first = make(root.path(), "a", "version = \"1.0\"");
        fs::create_dir(root.path().join("no-task")).unwrap();
        let expected = [
            json!({ "instruction": "Do a.", "harbor": { "name": "a", "directory": first } }),
            json!({ "instruction": "Do b.", "harbor": { "name": "b", "directory": second, "image": "python:3.12" } }),
        ];
        assert_eq!(tasks(root.path()).unwrap(), expected);
        assert_eq!(tasks(&first).unwrap(), expected[..1]);
        fs::create_dir(first.join("environment")).unwrap();
        fs::write(first.join("environment/Dockerfile"), "FROM scratch").unwrap();
        assert_eq!(tasks(&first).unwrap()[0]["harbor"]["image"], json!(first.join("environment/Dockerfile")));
    }

    #[test]
    fn what_is_no_task_is_refused_by_the_file_that_is_missing_or_wrong() {
        let root = tempfile::tempdir().unwrap();
        let refused = || tasks(root.path()).unwrap_err().to_string();
        assert!(refused().contains("no task.toml"));
        let task = make(root.path(), "a", "broken = ");
        assert!(refused().contains("task.toml"));
        fs::write(task.join("task.toml"), "").unwrap();
        fs::remove_file(task.join("tests/test.sh")).unwrap();
        assert!(refused().contains("tests/test.sh: it is not there"), "{}", refused());
        fs::remove_file(task.join("instruction.md")).unwrap();
        assert!(refused().contains("instruction.md"));
    }
}
