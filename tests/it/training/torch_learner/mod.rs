//! The learner in PyTorch: against the embedded one, through runs of the real command, and where it cannot be started. The
//! environment with PyTorch is what tests/setup makes.

mod faults;
mod killed_within;
mod runs;
mod shared_gpu;
mod truth;

use std::path::{Path, PathBuf};
use std::process::Command;

/// An interpreter that has what the learner needs; tests/run makes it.
fn python() -> PathBuf {
    let python = root().join("target/torch/bin/python");
    assert!(python.exists(), "tests/run makes {}", python.display());
    python
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Has a command's learner find the package of this tree, and leave threads to other tests.
fn with_package(command: &mut Command) -> &mut Command {
    command.env("PYTHONPATH", root().join("python")).env("OMP_NUM_THREADS", "1").env("PYTHONDONTWRITEBYTECODE", "1")
}

/// An interpreter with the package of this tree, as one word.
fn interpreter(directory: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join("python");
    let (package, python) = (root().join("python"), python());
    let script = format!(
        "#!/bin/sh\nPYTHONPATH={} OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 exec {} \"$@\"\n",
        package.display(),
        python.display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_package_passes_its_own_tests() {
    let directory = tempfile::tempdir().unwrap();
    let mut tests = Command::new(python());
    tests.args([
        "-m",
        "pytest",
        "-q",
        "python/tests/learner",
        "--confcutdir",
        "python/tests/learner",
        "-p",
        "no:cacheprovider",
    ]);
    tests.arg("--basetemp").arg(directory.path().join("tests")).current_dir(root());
    let ran = with_package(&mut tests).output().unwrap();
    let printed = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(ran.status.success(), "{printed}");
}
