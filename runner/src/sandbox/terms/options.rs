//! What a sandbox is like.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::bounds::Bounds;

/// What keeps an agent in its world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    /// Nothing.
    #[default]
    None,
    /// `bwrap`, from Debian's package bubblewrap: this machine's programs, with a file system and a network of their own.
    Bubblewrap,
    /// A container of Docker's.
    Docker,
    /// A container of Podman's.
    Podman,
}

/// What an agent reaches beside its world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxNetwork {
    /// Its own model calls and rewards at the server, and nothing else.
    #[default]
    Proxy,
    /// What this machine does.
    Host,
}

/// `[runner.sandbox]`: what keeps an agent in its world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxOptions {
    /// What keeps it there.
    pub kind: SandboxKind,
    /// Files and directories beside the system's programs that it may read, at the same paths; `{project}` is filled in.
    pub read: Vec<String>,
    /// Where it finds its world; at the path that it has outside by default, and at `/app` if the task is Harbor's.
    pub world: Option<PathBuf>,
    /// What it reaches beside its world.
    pub network: SandboxNetwork,
    /// Variables of the runner's environment that it keeps, beside `PATH`, `LANG` and `TERM`.
    pub environment: Vec<String>,
    /// Image of a container.
    pub image: Option<String>,
    /// Processes and threads that it may have at a time; 0 bounds nothing.
    pub processes: u32,
    /// Memory that it may use, in bytes; 0 bounds nothing.
    pub memory_bytes: u64,
    /// Greatest file that it may write, and by how much its world and home may grow, in bytes; 0 bounds nothing.
    pub disk_bytes: u64,
    /// Further arguments of the program that makes the sandbox. They can open it: `--bind`, `--volume` and `--privileged` do.
    pub arguments: Vec<String>,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        let Bounds { processes, memory_bytes, disk_bytes } = Bounds::default();
        Self {
            kind: SandboxKind::default(),
            read: Vec::new(),
            world: None,
            network: SandboxNetwork::default(),
            environment: Vec::new(),
            image: None,
            processes,
            memory_bytes,
            disk_bytes,
            arguments: Vec::new(),
        }
    }
}

impl SandboxOptions {
    /// What it may use.
    pub fn bounds(&self) -> Bounds {
        let Self { processes, memory_bytes, disk_bytes, .. } = *self;
        Bounds { processes, memory_bytes, disk_bytes }
    }

    /// Whether there is a sandbox.
    pub fn is_some(&self) -> bool {
        self.kind != SandboxKind::None
    }

    /// Whether programs are looked for in an image, and not on this machine.
    pub fn has_own_programs(&self) -> bool {
        matches!(self.kind, SandboxKind::Docker | SandboxKind::Podman)
    }

    /// Where `read` is, with the project's directory filled in.
    pub fn readable(&self, project: &str) -> Vec<PathBuf> {
        self.read.iter().map(|path| PathBuf::from(path.replace("{project}", project))).collect()
    }
}
