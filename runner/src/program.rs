//! Finds a program the way a shell would, but beside the running executable first.

use crate::RunnerError;
use crate::placeholders::{Places, fill};
use serde_json::Value;
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf, absolute};

/// A command whose program has been found; its arguments are still to be filled.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where the program is.
    pub path: PathBuf,
    /// Its arguments, placeholders and all.
    pub arguments: Vec<String>,
}

impl Program {
    /// Finds the program of `command`, which is what `role` is for. A name with a slash is a path from `directory` if there is
    /// one, or else as it stands; a bare name is looked up in the running executable's folder and then in those of `PATH`.
    pub fn find(command: &[String], role: &'static str, directory: Option<&Path>) -> Result<Self, RunnerError> {
        let (name, arguments) = command.split_first().ok_or(RunnerError::EmptyCommand { role })?;
        let path = look_up(name, directory, &search_folders())?;
        Ok(Self { path, arguments: arguments.to_vec() })
    }

    /// The program of `command` as it stands, to be looked up elsewhere.
    pub(crate) fn as_written(command: &[String], role: &'static str) -> Result<Self, RunnerError> {
        let (name, arguments) = command.split_first().ok_or(RunnerError::EmptyCommand { role })?;
        Ok(Self { path: name.into(), arguments: arguments.to_vec() })
    }

    /// Its arguments for this task; the error says why there are none.
    pub(crate) fn filled_in(&self, task: &Value, places: &Places) -> Result<Vec<String>, String> {
        let filled = self.arguments.iter().map(|argument| fill(argument, task, places));
        filled.collect::<Result<_, _>>().map_err(|unfilled| format!("cannot be started: {unfilled}"))
    }
}

/// The folders that are searched, in order.
fn search_folders() -> Vec<PathBuf> {
    let own = env::current_exe().ok().and_then(|executable| executable.parent().map(Path::to_path_buf));
    let path = env::var_os("PATH").unwrap_or_default();
    own.into_iter().chain(env::split_paths(&path)).collect()
}

/// The absolute path of the program `name`: agents may run in another folder than the runner.
fn look_up(name: &str, directory: Option<&Path>, folders: &[PathBuf]) -> Result<PathBuf, RunnerError> {
    let candidates: Vec<PathBuf> = if name.contains('/') {
        directory.map(|directory| directory.join(name)).into_iter().chain([PathBuf::from(name)]).collect()
    } else {
        folders.iter().map(|folder| folder.join(name)).collect()
    };
    match candidates.iter().find(|candidate| is_executable(candidate)) {
        Some(found) => absolute(found).map_err(RunnerError::CurrentDirectory),
        None => Err(RunnerError::ProgramNotFound { program: name.to_owned(), hint: hint(name) }),
    }
}

/// What whoever wrote a name that is no program's may have meant.
fn hint(name: &str) -> String {
    let path = Path::new(name);
    if name.split_whitespace().nth(1).is_some() {
        let words: Vec<&str> = name.split_whitespace().collect();
        return format!(": each word is an element of its own, {words:?}");
    }
    let interpreter = match path.extension().and_then(|extension| extension.to_str()) {
        Some("py") => "python3",
        Some("js" | "mjs" | "ts") => "node",
        Some("sh") => "sh",
        _ if path.is_file() => {
            return ": it is a file that may not be executed (chmod +x makes it one that may)".to_owned();
        }
        _ => return String::new(),
    };
    format!(": a script is an argument of its interpreter, {:?}", [interpreter, name])
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn install(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_first_folder_wins_and_must_hold_an_executable() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [first.path().to_path_buf(), second.path().to_path_buf()];
        let in_second = install(second.path(), "agent", 0o755);
        assert_eq!(look_up("agent", None, &folders).unwrap(), in_second);
        let in_first = install(first.path(), "agent", 0o644);
        assert_eq!(look_up("agent", None, &folders).unwrap(), in_second, "what is not executable is passed over");
        fs::set_permissions(&in_first, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(look_up("agent", None, &folders).unwrap(), in_first);
    }

    #[test]
    fn a_path_is_not_looked_up() {
        let folder = tempfile::tempdir().unwrap();
        let agent = install(folder.path(), "agent", 0o755);
        let folders = [folder.path().to_path_buf()];
        assert!(matches!(look_up("./no/agent", None, &folders), Err(RunnerError::ProgramNotFound { .. })));
        assert_eq!(look_up("/bin/sh", Some(folder.path()), &folders).unwrap(), Path::new("/bin/sh"));
        let relative = look_up("./agent", Some(folder.path()), &[]).unwrap();
        assert_eq!(relative.canonicalize().unwrap(), agent.canonicalize().unwrap());
    }

    #[test]
    fn a_name_that_is_no_programs_is_refused_with_what_may_be_meant() {
        let refused = |name: &str| look_up(name, None, &[]).unwrap_err().to_string();
        assert!(refused("python agent.py").ends_with(r#"element of its own, ["python", "agent.py"]"#));
        assert!(refused("agent.py").ends_with(r#"argument of its interpreter, ["python3", "agent.py"]"#));
        let folder = tempfile::tempdir().unwrap();
        assert!(refused(install(folder.path(), "agent", 0o644).to_str().unwrap()).contains("chmod +x"));
        assert!(refused("agent").ends_with("on PATH"));
    }

    #[test]
    fn the_running_executables_folder_comes_first() {
        assert_eq!(search_folders()[0], env::current_exe().unwrap().parent().unwrap());
    }

    #[test]
    fn an_empty_command_is_refused() {
        assert!(matches!(Program::find(&[], "grader", None), Err(RunnerError::EmptyCommand { role: "grader" })));
    }
}
