//! The arguments of `bwrap`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::invocation::{INSIDE, Invocation, Mount};
use super::options::SandboxNetwork;

/// What programs of this machine need, as far as it is there: they, their libraries, and what tells them of certificates, names
/// and time. Nothing of it is a secret.
pub(super) const SYSTEM: [&str; 17] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/localtime",
];

/// What nothing in a sandbox shares with what is outside, and what it has of its own.
pub(super) const ISOLATED: [&str; 9] =
    ["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"];

/// The arguments of `bwrap` around `program`, which is shown if nothing that is shown holds it.
pub(super) fn arguments(invocation: &Invocation<'_>, program: &Path) -> Vec<OsString> {
    let Invocation { options, inside, readable, forwarder, words, .. } = invocation;
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |words: &[&Path]| arguments.extend(words.iter().map(|word| word.as_os_str().to_owned()));
    let flag = Path::new;
    add(&ISOLATED.map(flag));
    if options.network == SandboxNetwork::Host {
        add(&[flag("--share-net")]);
    }
    for path in SYSTEM.map(Path::new) {
        add(&[flag("--ro-bind-try"), path, path]);
    }
    if options.network == SandboxNetwork::Host {
        // Who has the machine's network finds names as it does.
        let resolver = flag("/etc/resolv.conf");
        add(&[flag("--ro-bind-try"), resolver, resolver]);
    }
    let shown: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).chain(readable.iter().cloned()).collect();
    let is_shown = |path: &Path| shown.iter().any(|shown| path.starts_with(shown));
    for path in readable.iter().map(PathBuf::as_path).chain([program].into_iter().filter(|program| !is_shown(program)))
    {
        add(&[flag("--ro-bind"), path, path]);
    }
    add(&[flag("--bind"), inside.home, inside.home, flag("--bind"), inside.world, inside.world_inside]);
    for Mount { outside, inside, is_writable } in inside.mounts {
        add(&[flag(if *is_writable { "--bind" } else { "--ro-bind" }), outside, Path::new(inside)]);
    }
    if let Some(door) = inside.socket {
        let (own, socket) = (Path::new(INSIDE).join("fulgurite"), Path::new(INSIDE).join("proxy.sock"));
        add(&[flag("--ro-bind"), forwarder, &own, flag("--ro-bind"), door, &socket]);
    }
    add(&[flag("--chdir"), inside.world_inside]);
    arguments.extend(options.arguments.iter().map(OsString::from));
    arguments.push("--".into());
    arguments.extend(words.iter().cloned());
    arguments
}
