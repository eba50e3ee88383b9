//! Agents in worlds of their own, in sandboxes, and what is left when their runners are killed.
mod auxiliary_models;
mod harbor;
mod harness;
mod hooks;
mod isolation;
mod recipe_mistakes;
mod recipes;
mod rubric;
mod sandbox;
mod toolbelt;
mod toy_repo;
mod training;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints why there are no sandboxes here, if there are none.
pub fn there_are_no_sandboxes() -> bool {
    let tried = Command::new("bwrap").args(["--unshare-all", "--ro-bind", "/", "/", "true"]).output();
    let why = match tried {
        Ok(output) if output.status.success() => return false,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("NOT RUN: bwrap makes no sandbox here: {}", why.trim());
    true
}

/// Who agents in containers are: root's are nobody.
fn user_inside() -> String {
    match rustix::process::geteuid().is_root() {
        true => "65534:65534".to_owned(),
        false => format!("{}:{}", rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    }
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The same, of what is to be run.
fn write_program(directory: &Path, name: &str, text: &str) {
    write(directory, name, text);
    std::fs::set_permissions(directory.join(name), Permissions::from_mode(0o755)).unwrap();
}

/// The environment with the packages that tests need, which `tests/setup` makes.
fn python_environment() -> PathBuf {
    let environment = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin");
    assert!(environment.join("python3").exists(), "tests/setup makes {}", environment.display());
    environment
}

/// A command whose `python3` is of that environment.
fn in_python(mut command: Command) -> Command {
    let path = format!("{}:{}", python_environment().display(), std::env::var("PATH").unwrap());
    command.env("PATH", path);
    command
}

/// Runs Python tests of an example by their names, with the command that was built; none of them may be skipped.
fn python_tests(example: &str, tests: &[&str]) {
    let mut command = in_python(Command::new(python_environment().join("python3")));
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
    command.args(["-m", "unittest"]).args(tests).current_dir(directory);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FULGURITE_")) {
        command.env_remove(name);
    }
    let ran = command.env("FULGURITE", env!("CARGO_BIN_EXE_fulgurite")).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && !errors.contains("skipped"), "{errors}\n{}", String::from_utf8_lossy(&ran.stdout));
}
