//! The arguments of `docker run` and `podman run`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::shown::may_be_read;
use crate::sandbox::terms::{Bounds, INSIDE, Identity, Invocation, Mount, SandboxNetwork};

/// The container of a world, which outlives the program that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Container {
    /// Docker's or Podman's.
    pub program: PathBuf,
    /// What it is called.
    pub name: String,
}

impl Container {
    /// Ends and removes it, if it is still there.
    pub(crate) async fn remove(&self) {
        let removed = Command::new(&self.program).args(["rm", "--force", &self.name]).output().await;
        let reason = match removed {
            Ok(Output { status, stderr, .. }) if !status.success() => String::from_utf8_lossy(&stderr).into_owned(),
            Ok(_) => return,
            Err(error) => error.to_string(),
        };
        // Mostly that there is none, since it ended by itself.
        tracing::debug!(container = self.name, reason, "a container is not removed");
    }
}

/// What a world's container is called.
pub(super) fn name(world: &str) -> String {
    format!("fulgurite-{world}")
}

/// The arguments. Values of variables are not among them: other users could read them there.
///
/// # Errors
/// If something is to be shown that whoever runs inside may not read.
pub(super) fn arguments(invocation: &Invocation<'_>, identity: Identity) -> Result<Vec<OsString>, String> {
    let Invocation { options, inside, readable, own_program, variables, words } = invocation;
    let mut arguments: Vec<OsString> = ["run", "--rm", "--init", "--name"].map(OsString::from).to_vec();
    arguments.push(name(inside.name).into());
    let network = match options.network {
        SandboxNetwork::Proxy => "none",
        SandboxNetwork::Host => "host",
    };
    arguments.extend(["--network".into(), network.into()]);
    let user = identity.ids();
    arguments.extend(["--user".into(), format!("{}:{}", user.0, user.1).into()]);
    arguments.extend(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"].map(OsString::from));
    arguments.extend(bounds(&options.bounds()));
    let mut mount = |outside: &Path, at: &Path, mode: &str| {
        let (outside, at) = (outside.display(), at.display());
        arguments.extend(["--volume".into(), format!("{outside}:{at}:{mode}").into()]);
    };
    for path in readable {
        may_be_read(path, identity)?;
        mount(path, path, "ro");
    }
    mount(inside.home, inside.home, "rw");
    mount(inside.world, inside.world_inside, "rw");
    for Mount { outside, inside, is_writable } in inside.mounts {
        mount(outside, Path::new(inside), if *is_writable { "rw" } else { "ro" });
    }
    if let Some(endpoint) = inside.socket {
        mount(own_program, &Path::new(INSIDE).join("fulgurite"), "ro");
        mount(endpoint, &Path::new(INSIDE).join("proxy.sock"), "rw");
    }
    arguments.extend(["--workdir".into(), inside.world_inside.into()]);
    for variable in variables {
        // An image has its own.
        match *variable {
            "PATH" => {}
            "HOME" => arguments.extend(["--env".into(), format!("HOME={}", inside.home.display()).into()]),
            other => arguments.extend(["--env".into(), other.into()]),
        }
    }
    let (first, others) =
        words.split_first().map_or((OsString::new(), &[][..]), |(first, others)| (first.clone(), others));
    arguments.extend(["--entrypoint".into(), first]);
    arguments.extend(options.arguments.iter().map(OsString::from));
    arguments.push(inside.image.or(options.image.as_deref()).unwrap_or_default().into());
    arguments.extend(others.iter().cloned());
    Ok(arguments)
}

/// The arguments by which the engine bounds what is used.
fn bounds(bounds: &Bounds) -> Vec<OsString> {
    let Bounds { processes, memory_bytes, disk_bytes } = *bounds;
    let mut arguments: Vec<OsString> = vec!["--ulimit".into(), "core=0".into()];
    let mut bound = |flag: &str, value: String| arguments.extend([flag.into(), value.into()]);
    if processes > 0 {
        bound("--pids-limit", processes.to_string());
    }
    if memory_bytes > 0 {
        bound("--memory", memory_bytes.to_string());
    }
    if disk_bytes > 0 {
        bound("--ulimit", format!("fsize={disk_bytes}"));
    }
    arguments
}
