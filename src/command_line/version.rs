//! What this program is: its version, the commit that it was built from, and its target.

/// What `--version` prints behind the name; `-V` prints the version alone.
pub const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit:  ",
    env!("FULGURITE_COMMIT"),
    "\ntarget:  ",
    env!("FULGURITE_TARGET")
);
