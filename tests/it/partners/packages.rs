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

fn printed_by(command: &mut Command) -> String {
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout
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

/// What the runner's image copies of the Python package, laid out as it is there.
#[test]
fn agents_in_the_runners_image_import_the_helper_by_both_of_its_names() {
    let directory = tempfile::tempdir().unwrap();
    let image = std::fs::read_to_string(root().join("packaging/docker/Dockerfile")).unwrap();
    let mut packages = None;
    for line in image.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let ["COPY", from, to] = words[..] else { continue };
        let Some((environment, name)) = to.rsplit_once('/').filter(|_| from.starts_with("python/")) else { continue };
        let place = directory.path().join(environment.trim_start_matches('/'));
        std::fs::create_dir_all(&place).unwrap();
        std::os::unix::fs::symlink(root().join(from), place.join(name)).unwrap();
        packages = Some(place);
    }
    let script = "import fulgurite.agent, fulgurite_agent; assert fulgurite.agent.serve and fulgurite_agent.serve";
    let mut python = Command::new("python3");
    python.args(["-c", script]).env("PYTHONPATH", packages.unwrap()).env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = Ran::from(python.current_dir(directory.path()).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

/// An archive as a release has it, of a program that only says its version.
fn archive(directory: &Path, target: &str) -> PathBuf {
    let program = directory.join("program");
    std::fs::write(&program, "#!/bin/sh\necho fulgurite 0.1.0\n").unwrap();
    let mut pack = Command::new(root().join("packaging/archive"));
    pack.arg(program).arg(target).arg(directory.join("release")).env("COMPLETIONS_BY", env!("CARGO_BIN_EXE_fulgurite"));
    let packed = Ran::from(pack.output().unwrap());
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    PathBuf::from(packed.stdout.trim())
}

#[test]
fn binstall_looks_for_the_archive_that_a_release_has() {
    let directory = tempfile::tempdir().unwrap();
    let target = "x86_64-unknown-linux-gnu";
    let archive = archive(directory.path(), target);
    let manifest: toml::Value = toml::from_str(&std::fs::read_to_string(root().join("Cargo.toml")).unwrap()).unwrap();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    // What binstall fills in; `repo` is the package's `repository`.
    let filled = |key: &str| {
        let names = [("repo", "R"), ("target", target), ("bin", "fulgurite"), ("binary-ext", ""), ("version", "0.1.0")];
        let text = binstall[key].as_str().unwrap().to_owned();
        names.iter().fold(text, |text, (name, value)| text.replace(&format!("{{ {name} }}"), value))
    };
    let name = archive.file_name().unwrap().to_str().unwrap();
    assert_eq!(filled("pkg-url"), format!("R/releases/download/v0.1.0/{name}"));
    assert_eq!(filled("pkg-fmt"), "tgz");
    let listed = printed_by(Command::new("tar").arg("-tzf").arg(&archive));
    assert!(listed.lines().any(|line| line == filled("bin-dir")), "{listed}");
}

#[test]
fn an_archive_is_installed_once_its_digest_is_that_of_the_release() {
    let directory = tempfile::tempdir().unwrap();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let archive = archive(directory.path(), &target);
    let installed = directory.path().join("bin/fulgurite");
    let install = || {
        let mut script = Command::new("sh");
        script.arg(root().join("packaging/install.sh")).arg("--from").arg(archive.parent().unwrap());
        Ran::from(script.arg("--to").arg(installed.parent().unwrap()).output().unwrap())
    };
    let ran = install();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(printed_by(&mut Command::new(&installed)), "fulgurite 0.1.0\n");

    std::fs::remove_file(&installed).unwrap();
    let mut bytes = std::fs::read(&archive).unwrap();
    bytes.push(0);
    std::fs::write(&archive, bytes).unwrap();
    let ran = install();
    assert!(ran.code == Some(1) && ran.stderr.contains("nothing was installed"), "{}", ran.stderr);
    assert!(!installed.exists());
}

/// Without the variable, cargo takes what rust-toolchain.toml names, to which no target was added.
#[test]
fn workflows_run_the_toolchain_that_they_install() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let manifest: toml::Value = toml::from_str(&manifest).unwrap();
    let oldest = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    for file in ["ci.yml", "release.yml"] {
        let workflow = std::fs::read_to_string(root().join(".github/workflows").join(file)).unwrap();
        assert!(workflow.contains(&format!("RUSTUP_TOOLCHAIN: \"{oldest}\"")), "{file}");
        let installed: Vec<&str> = workflow.split("rustup toolchain install ").skip(1).collect();
        assert!(!installed.is_empty() && installed.iter().all(|rest| rest.starts_with(oldest)), "{file}");
    }
}
