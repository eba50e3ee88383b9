//! What the arguments of a sandbox are made of.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::options::SandboxOptions;

/// Where a sandbox has the runner's program, and the socket of the endpoint.
pub(crate) const INSIDE: &str = "/run/fulgurite";

/// What programs of this machine need, as far as it is there: they, their libraries, and what tells them of certificates, names
/// and time. Nothing of it is a secret.
pub(crate) const SYSTEM: [&str; 17] = [
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

/// The port of the loopback that stands for the server.
pub(crate) const PORT: u16 = 4747;
/// Variables that every agent keeps of the runner's.
pub(crate) const KEPT: [&str; 4] = ["PATH", "LANG", "LC_ALL", "TERM"];

/// What a sandbox is to hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inside<'i> {
    /// Names it.
    pub name: &'i str,
    /// The attempt's world, outside.
    pub world: &'i Path,
    /// Where it is inside; the program starts there.
    pub world_inside: &'i Path,
    /// What else is shown.
    pub mounts: &'i [Mount],
    /// The agent's home directory.
    pub home: &'i Path,
    /// The image that it is made of, in place of the options'.
    pub image: Option<&'i str>,
    /// The endpoint's socket, if there is an endpoint.
    pub socket: Option<&'i Path>,
    /// What `{project}` stands for.
    pub project: &'i str,
}

/// A directory that is shown at another path than it has outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Where it is.
    pub outside: PathBuf,
    /// Where it is shown.
    pub inside: &'static str,
    /// Whether it may be written to.
    pub is_writable: bool,
}

/// All that the arguments of a sandbox are made of.
#[derive(Debug)]
pub(crate) struct Invocation<'i> {
    /// What it is like.
    pub options: &'i SandboxOptions,
    /// What it is to hold.
    pub inside: Inside<'i>,
    /// What else may be read.
    pub readable: Vec<PathBuf>,
    /// This program, outside.
    pub own_program: &'i Path,
    /// Names of the variables that the program is to find.
    pub variables: Vec<&'i str>,
    /// What runs inside.
    pub words: Vec<OsString>,
}
