//! The directories of the tools, and which files an agent may name.

use std::fs;
use std::path::{Path, PathBuf};

use super::files::check_name;
use super::run_record::RunHome;
use super::seal::Seal;
use crate::error::ToolError;

/// Files of a model directory at most.
const MODEL_FILES: usize = 10_000;

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    project: PathBuf,
    seal: Seal,
}

impl Workspace {
    /// Makes what is missing.
    pub(crate) fn open(root: &Path, project: &Path, seal: Seal) -> Result<Self, ToolError> {
        for directory in ["models", "graders", "runs"] {
            let path = root.join(directory);
            fs::create_dir_all(&path).map_err(ToolError::file(&path))?;
        }
        let real = |path: &Path| fs::canonicalize(path).map_err(ToolError::file(path));
        Ok(Self { root: real(root)?, project: real(project)?, seal })
    }

    /// Where scores of weights are kept.
    pub(crate) fn evaluations(&self) -> PathBuf {
        self.root.join("evaluations")
    }

    /// Where weights for other programs are.
    pub(crate) fn exports(&self) -> Result<PathBuf, ToolError> {
        let path = self.root.join("exports");
        fs::create_dir_all(&path).map_err(ToolError::file(&path))?;
        Ok(path)
    }

    /// Where runs are.
    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Where a model is, or would be.
    pub(crate) fn model(&self, name: &str) -> PathBuf {
        self.root.join("models").join(name)
    }

    /// Where a grader is, or would be.
    pub(crate) fn grader(&self, name: &str) -> PathBuf {
        self.root.join("graders").join(name)
    }

    /// The names of what is in one of the directories, sorted.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names
    }

    /// Where a run is, or would be.
    pub(crate) fn home(&self, name: &str) -> RunHome {
        RunHome::new(self.runs().join(name), self.seal.clone())
    }

    /// Where a run is that is there.
    pub(crate) fn run(&self, name: &str) -> Result<RunHome, ToolError> {
        let home = self.home(name);
        let is_there = check_name(name).is_ok() && home.record_file().is_file();
        let known = || self.names("runs");
        is_there.then_some(home).ok_or_else(|| ToolError::Unknown {
            kind: "run",
            name: name.to_owned(),
            known: known(),
        })
    }

    /// A file or directory that the agent names: of its project, or of the tools.
    pub(crate) fn file(&self, named: &str) -> Result<PathBuf, ToolError> {
        self.contained(&self.project.join(named))
    }

    /// A model directory or model file that the agent names. Programs that wait for what they read open the files of it, so all of
    /// them are looked at.
    pub(crate) fn model_files(&self, named: &str) -> Result<PathBuf, ToolError> {
        let real = self.file(named)?;
        self.check_files(&real, &mut 0)?;
        Ok(real)
    }

    fn check_files(&self, directory: &Path, seen: &mut usize) -> Result<(), ToolError> {
        if !directory.is_dir() {
            return Ok(());
        }
        for entry in fs::read_dir(directory).map_err(ToolError::file(directory))? {
            let path = entry.map_err(ToolError::file(directory))?.path();
            *seen += 1;
            if *seen > MODEL_FILES {
                let why =
                    format!("{} has more than {MODEL_FILES} files: name a model's own directory", directory.display());
                return Err(ToolError::Refused(why));
            }
            let real = self.contained(&path)?;
            // A link to a directory above would not end.
            if !path.is_symlink() {
                self.check_files(&real, seen)?;
            }
        }
        Ok(())
    }

    /// Where a path really is, if that is a file or directory of the project or of the tools.
    fn contained(&self, path: &Path) -> Result<PathBuf, ToolError> {
        let real = fs::canonicalize(path).map_err(ToolError::file(path))?;
        if ![&self.project, &self.root].iter().any(|root| real.starts_with(root)) {
            let places = format!("{} and {}", self.project.display(), self.root.display());
            let why = format!("{} is not looked at: files are those of {places}", real.display());
            return Err(ToolError::Refused(why));
        }
        let kind = fs::metadata(&real).map_err(ToolError::file(&real))?.file_type();
        match kind.is_file() || kind.is_dir() {
            true => Ok(real),
            false => Err(ToolError::Refused(format!(
                "{} is neither a file nor a directory, but a pipe, a socket or a device: nothing is read from it",
                real.display()
            ))),
        }
    }

    /// A path as the agent would name it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.project).unwrap_or(path).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SealKey;

    #[test]
    fn no_file_outside_of_the_project_is_looked_at() {
        let home = tempfile::tempdir().unwrap();
        let (project, outside) = (home.path().join("project"), home.path().join("outside"));
        for directory in [&project, &outside] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("file"), "").unwrap();
        }
        std::os::unix::fs::symlink(&outside, project.join("link")).unwrap();
        let workspace = Workspace::open(&home.path().join("tools"), &project, Seal::new(SealKey([0; 32]))).unwrap();
        assert!(workspace.file("file").is_ok() && workspace.file("../tools/models").is_ok());
        for named in ["../outside/file", "link/file", "/etc/passwd"] {
            let refused = workspace.file(named).unwrap_err().to_string();
            assert!(refused.contains("is not looked at"), "{refused}");
        }
        assert!(workspace.file("none").unwrap_err().to_string().contains("No such file"));
        fs::create_dir(project.join("model")).unwrap();
        fs::write(project.join("model/config.json"), "{}").unwrap();
        assert!(workspace.model_files("model").is_ok());
        rustix::fs::mkfifoat(rustix::fs::CWD, project.join("model/pipe"), rustix::fs::Mode::RUSR).unwrap();
        for refused in [workspace.model_files("model"), workspace.file("model/pipe")] {
            assert!(refused.unwrap_err().to_string().contains("is neither a file nor a directory"));
        }
        fs::remove_file(project.join("model/pipe")).unwrap();
        std::os::unix::fs::symlink(outside.join("file"), project.join("model/weights")).unwrap();
        assert!(workspace.model_files("model").unwrap_err().to_string().contains("is not looked at"));
    }
}
