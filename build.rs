//! Tells the program which commit it is built from, where that can be read: the files of a git checkout are looked at, git
//! itself is never started. Elsewhere, as in an unpacked archive, the variable `FULGURITE_COMMIT` says it, or nobody does.

#![allow(clippy::print_stdout)] // which is how cargo is told

use std::env;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

const COMMIT: &str = "FULGURITE_COMMIT";

fn main() {
    // What cargo watches without this is every file.
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let stated = env::var(COMMIT).ok().filter(|commit| is_commit(commit));
    println!("cargo::rustc-env={COMMIT}={}", stated.or_else(checked_out).unwrap_or_else(|| "unknown".to_owned()));
    println!("cargo::rustc-env=FULGURITE_TARGET={}", env::var("TARGET").unwrap_or_default());
}

/// The commit of the checkout that this is the top of.
fn checked_out() -> Option<String> {
    let top = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?).join(".git");
    // The file of a work tree beside the checkout names the directory.
    let git = match watched(&top.join("HEAD")) {
        Some(_) => top,
        None => top.parent()?.join(watched(&top)?.strip_prefix("gitdir: ")?),
    };
    let head = watched(&git.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else { return is_commit(&head).then_some(head) };
    let common = match read_to_string(git.join("commondir")) {
        Ok(common) => git.join(common.trim()),
        Err(_) => git,
    };
    watched(&common.join(name)).filter(|commit| is_commit(commit)).or_else(|| packed(&common, name))
}

/// A branch that has no file of its own, until it moves and gets one.
fn packed(common: &Path, name: &str) -> Option<String> {
    let folder = common.join(name).parent()?.to_owned();
    if folder.exists() {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    let all = watched(&common.join("packed-refs"))?;
    let line = all.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' '))?;
    is_commit(line).then(|| line.to_owned())
}

/// What a file holds that the build depends on. One that is not there is not watched: cargo would build again each time.
fn watched(path: &Path) -> Option<String> {
    let text = read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text.trim().to_owned())
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
