//! The packages for Python and for JavaScript against the real command: their clients, their agents, their types, and the
//! recipe in TypeScript.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ran, fulgurite, tiny_model};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What tests/run has made.
fn made(path: &str) -> PathBuf {
    let made = root().join(path);
    assert!(made.exists(), "tests/run makes {}", made.display());
    made
}

/// Runs a package's own tests, which start the command with a model by themselves.
fn pass(tests: &mut Command, directory: &Path) {
    let model = tiny_model(directory, 128);
    tests.stdin(Stdio::null()).env("FULGURITE_PROGRAM", env!("CARGO_BIN_EXE_fulgurite")).env("FULGURITE_MODEL", model);
    let ran = Ran::from(tests.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn the_python_package_passes_its_own_tests() {
    let directory = tempfile::tempdir().unwrap();
    let mut tests = Command::new(made("target/package/bin/python"));
    tests.args(["-m", "pytest", "-q", "--basetemp"]).arg(directory.path().join("tests"));
    tests.current_dir(root()).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", "python");
    pass(&mut tests, directory.path());
}

#[test]
fn the_javascript_package_passes_its_own_tests() {
    let directory = tempfile::tempdir().unwrap();
    made("javascript/node_modules");
    let mut tests = Command::new("npm");
    tests.args(["test", "--silent"]).current_dir(root().join("javascript"));
    pass(&mut tests, directory.path());
}

#[test]
fn the_recipe_in_typescript_is_sound_and_trains_where_it_is_written_out() {
    let directory = tempfile::tempdir().unwrap();
    let modules = made("examples/typescript/node_modules");
    let written = fulgurite(["init", "typescript"]).current_dir(directory.path()).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let recipe = directory.path().join("typescript");
    std::os::unix::fs::symlink(modules, recipe.join("node_modules")).unwrap();
    let checked = Ran::from(Command::new("node_modules/.bin/tsc").current_dir(&recipe).output().unwrap());
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    // A model that has hardly learnt to speak plays one small step.
    let speaks = ["base.training.max_steps=2", "base.training.validation_accuracy=0"];
    let smaller = speaks.iter().chain(&["trainer.groups_per_batch=1", "trainer.group_size=2"]);
    let smaller = smaller.flat_map(|key| ["--set", key]);
    let words = ["train", "typescript.toml", "--json", "--max-steps", "1"].into_iter().chain(smaller);
    let ran = Ran::from(fulgurite(words).current_dir(&recipe).output().unwrap());
    let summary = ran.json_lines().pop().unwrap();
    assert_eq!((&summary["steps"], &summary["held_out_failed_after"]), (&1.into(), &0.into()), "{}", ran.stderr);
}
