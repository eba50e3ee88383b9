//! Tasks in Harbor's format: a directory each, with `task.toml`, `instruction.md`, the files of its environment, and tests that
//! find the reward.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::TrainError;

/// Bytes of an instruction, at most, and of a task's settings.
const LONGEST: u64 = 1 << 20;

/// The tasks in `directory`: that which it is itself, or those of its directories that are tasks, in order of their names.
///
/// A task is `{"instruction": ..., "harbor": {"name": ..., "directory": ..., "image": ...}}`; `image` says what it is to run in,
/// if that is a container: the path of a Dockerfile, or the name of an image.
///
/// # Errors
/// If there is none, one has no instruction or no tests, or a file of one is a link, no regular file or too large.
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
    if let Some(link) = paths.iter().find(|path| path.is_symlink()) {
        return Err(wrong(link, "it is a link, and links to tasks are not followed".to_owned()));
    }
    paths.iter().map(|path| task(path)).collect()
}

fn is_task(directory: &Path) -> bool {
    directory.join("task.toml").symlink_metadata().is_ok()
}

fn task(directory: &Path) -> Result<Value, TrainError> {
    let wrong = |name: &str, message: String| TrainError::File { path: directory.join(name), message };
    let open = |name: &str| open(directory, Path::new(name)).map_err(|why| wrong(name, why.to_string()));
    let read = |name: &str| {
        let mut text = String::new();
        let read = open(name)?.take(LONGEST + 1).read_to_string(&mut text);
        match read {
            Ok(bytes) if bytes as u64 > LONGEST => Err(wrong(name, "it is larger than 1 MiB".to_owned())),
            read => read.map(|_| text).map_err(|error| wrong(name, error.to_string())),
        }
    };
    let settings: toml::Table =
        read("task.toml")?.parse().map_err(|error: toml::de::Error| wrong("task.toml", error.to_string()))?;
    let instruction = read("instruction.md")?;
    let test = "tests/test.sh";
    if directory.join(test).symlink_metadata().is_err() {
        return Err(wrong(test, "it is not there: it finds the reward".to_owned()));
    }
    open(test)?;
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let dockerfile = "environment/Dockerfile";
    let named = settings.get("environment").and_then(|table| table.get("docker_image")?.as_str());
    let image = match named {
        Some(named) if named.starts_with(['/', '.']) => {
            return Err(wrong("task.toml", format!("environment.docker_image is {named:?}, which names no image")));
        }
        Some(named) => Some(named.to_owned()),
        None if directory.join(dockerfile).symlink_metadata().is_ok() => {
            open(dockerfile)?;
            Some(directory.join(dockerfile).to_string_lossy().into_owned())
        }
        None => None,
    };
    let mut harbor = json!({ "name": name, "directory": directory });
    if let Some(image) = image {
        harbor["image"] = json!(image);
    }
    Ok(json!({ "instruction": instruction, "harbor": harbor }))
}

/// Why a file of a task is not read.
#[derive(Debug, thiserror::Error)]
enum Unread {
    /// It, or a directory on the way to it, is a link.
    #[error("it is behind a link, and a task's links are not followed")]
    Link,
    /// It is a directory, a pipe, a device.
    #[error("it is no regular file")]
    Irregular,
    /// The system does not give it.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Opens a regular file of a task. Its path is walked part by part, and no link is followed.
fn open(directory: &Path, path: &Path) -> Result<File, Unread> {
    let above = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut opened = rustix::fs::open(directory, above, Mode::empty()).map_err(io::Error::from)?;
    let mut parts = path.components().peekable();
    while let Some(Component::Normal(name)) = parts.next() {
        let kind = if parts.peek().is_some() { above } else { OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC };
        opened = match rustix::fs::openat(&opened, name, kind | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(opened) => opened,
            // A link that should be a directory is none.
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(Unread::Link),
            Err(errno) => return Err(Unread::System(errno.into())),
        };
    }
    let file = File::from(opened);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(Unread::Irregular),
    }
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

    #[test]
    fn a_link_to_a_secret_is_no_file_of_a_task() {
        let root = tempfile::tempdir().unwrap();
        let secret = root.path().join("secret");
        fs::write(&secret, "key").unwrap();
        let tasks_in = root.path().join("tasks");
        for name in ["task.toml", "instruction.md", "tests/test.sh", "environment/Dockerfile"] {
            let task = make(&tasks_in, "a", "");
            fs::create_dir(task.join("environment")).unwrap();
            let _ = fs::remove_file(task.join(name));
            std::os::unix::fs::symlink(&secret, task.join(name)).unwrap();
            let refused = tasks(&tasks_in).unwrap_err().to_string();
            assert!(refused.contains(&format!("a/{name}: it is behind a link")), "{refused}");
            fs::remove_dir_all(task).unwrap();
        }
        for name in ["tests", "environment"] {
            let task = make(&tasks_in, "a", "");
            let elsewhere = root.path().join("elsewhere");
            fs::create_dir(&elsewhere).unwrap();
            for file in ["test.sh", "Dockerfile"] {
                fs::write(elsewhere.join(file), "x").unwrap();
            }
            let _ = fs::remove_dir_all(task.join(name));
            std::os::unix::fs::symlink(&elsewhere, task.join(name)).unwrap();
            assert!(tasks(&tasks_in).unwrap_err().to_string().contains("it is behind a link"), "{name}");
            fs::remove_dir_all(task).unwrap();
            fs::remove_dir_all(elsewhere).unwrap();
        }
        let task = make(root.path(), "b", "");
        std::os::unix::fs::symlink(task, tasks_in.join("b")).unwrap();
        assert!(tasks(&tasks_in).unwrap_err().to_string().contains("tasks/b: it is a link"));
    }

    #[test]
    fn a_file_of_a_task_that_is_no_file_or_too_large_is_refused_without_reading_it() {
        let root = tempfile::tempdir().unwrap();
        let task = make(root.path(), "a", "");
        File::create(task.join("instruction.md")).unwrap().set_len(3 << 30).unwrap();
        assert!(tasks(root.path()).unwrap_err().to_string().contains("instruction.md: it is larger than 1 MiB"));
        fs::remove_file(task.join("instruction.md")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, task.join("instruction.md"), Mode::RUSR).unwrap();
        assert!(tasks(root.path()).unwrap_err().to_string().contains("instruction.md: it is no regular file"));
    }
}
