//! Tasks in Harbor's format: what is copied into their worlds, and the tests that find their reward.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// What makes an image of an environment, and is no file of the world's.
const OF_THE_IMAGE: [&str; 3] = ["Dockerfile", "docker-compose.yaml", "docker-compose.yml"];

/// Where Harbor's tests find the world, themselves, and the place for what they say.
pub(crate) const WORLD: &str = "/app";
pub(crate) const TESTS: &str = "/tests";
pub(crate) const LOGS: &str = "/logs";

/// A task in Harbor's format.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct HarborTask {
    /// The task's directory.
    directory: PathBuf,
    /// What it is to run in: the path of a Dockerfile, or the name of an image.
    #[serde(default)]
    image: Option<String>,
}

impl HarborTask {
    /// The task that an input stands for, if it is one.
    pub(crate) fn of(task: &Value) -> Option<Self> {
        Self::deserialize(task.get("harbor")?).ok()
    }

    /// The directory with `test.sh`.
    pub(crate) fn tests(&self) -> PathBuf {
        self.directory.join("tests")
    }

    /// The image that it is to run in, if it is to.
    pub(crate) fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// Copies the environment's files into a world.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub(crate) fn fill(&self, world: &Path) -> io::Result<()> {
        let environment = self.directory.join("environment");
        match environment.is_dir() {
            true => copy(&environment, world, &OF_THE_IMAGE),
            false => Ok(()),
        }
    }
}

/// Copies what is in a directory, but for those names; links stay links.
fn copy(from: &Path, to: &Path, without: &[&str]) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if without.iter().any(|without| name == *without) {
            continue;
        }
        let (kind, to) = (entry.file_type()?, to.join(&name));
        if kind.is_dir() {
            fs::create_dir(&to)?;
            copy(&entry.path(), &to, &[])?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, to)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_environment_is_copied_without_what_makes_its_image() {
        let root = tempfile::tempdir().unwrap();
        let environment = root.path().join("environment");
        fs::create_dir_all(environment.join("src")).unwrap();
        for name in ["Dockerfile", "src/Dockerfile", "src/main.py"] {
            fs::write(environment.join(name), name).unwrap();
        }
        let world = tempfile::tempdir().unwrap();
        let task = HarborTask::of(&json!({ "harbor": { "name": "a", "directory": root.path() } })).unwrap();
        task.fill(world.path()).unwrap();
        assert!(world.path().join("src/main.py").is_file() && world.path().join("src/Dockerfile").is_file());
        assert!(!world.path().join("Dockerfile").exists());
        assert_eq!(HarborTask::of(&json!({ "instruction": "x" })), None);
        assert_eq!(HarborTask::of(&json!("text")), None);
    }
}
