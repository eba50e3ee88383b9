//! Programs that are written with the APIs' own packages and with frameworks, which `tests/setup` installs.

use std::path::Path;
use std::process::Command;

/// A script below `tests/clients`, in an environment of its own.
fn client(program: &Path, script: &str) -> Command {
    let mut client = Command::new(program);
    client.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script)).env_clear();
    client
}

pub fn python(script: &str) -> Command {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/bin/python");
    assert!(python.exists(), "tests/setup makes {}", python.display());
    client(&python, script)
}

/// Node with a package, where `tests/setup` found `npm` to install it with.
pub fn node(script: &str, package: &str) -> Option<Command> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/node/node_modules");
    if !modules.join(package).exists() {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let node = std::env::split_paths(&path).map(|directory| directory.join("node")).find(|node| node.exists())?;
    let mut client = client(&node, script);
    client.env("NODE_MODULES", modules);
    Some(client)
}
