//! Agents in worlds of their own, in sandboxes, and what is left when their runners are killed.
mod harbor;
mod harness;
mod hooks;
mod models_beside;
mod rubric;
mod sandbox;
mod toolbelt;
mod toy_repo;
mod training;

use std::path::Path;
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

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
