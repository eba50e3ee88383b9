//! The migrations become part of the crate, so that a new one is a reason to build it again.

#[allow(clippy::print_stdout, reason = "is how a build script speaks")]
fn main() {
    println!("cargo::rerun-if-changed=../migrations");
}
