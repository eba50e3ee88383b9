//! Under which licences the program can be given away.
use std::path::Path;
use std::process::Command;

/// Runs Python at the top of the house, and gives what it says if it fails.
pub(super) fn python(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("python3").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let output_text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    output.status.success().then_some(()).ok_or(output_text)
}

#[test]
fn what_others_wrote_is_listed() {
    python(&["packaging/third_party.py", "--check"]).unwrap();
}

#[test]
fn every_package_is_under_both_licences() {
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(file).exists(), "{file}");
    }
    let metadata =
        Command::new(env!("CARGO")).args(["metadata", "--no-deps", "--format-version", "1"]).output().unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        assert_eq!(package["license"], "MIT OR Apache-2.0", "{}", package["name"]);
    }
}
