//! The arguments of `bwrap`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::isolation::Isolation;
use super::shown::Shown;
use crate::sandbox::parts::EndpointInside;
use crate::sandbox::terms::{INSIDE, Invocation, Mount, PORT, SYSTEM, SandboxNetwork};

/// The arguments of `bwrap` around `program`, which is shown if nothing that is shown holds it.
///
/// # Errors
/// If something is to be shown that whoever runs inside may not read.
pub(super) fn arguments(
    invocation: &Invocation<'_>,
    program: &Path,
    isolation: &Isolation,
) -> Result<Vec<OsString>, String> {
    let Invocation { options, inside, readable, words, .. } = invocation;
    let mut arguments = isolation.walls(options.network);
    let mut show_system = |path: &str| arguments.extend(["--ro-bind-try", path, path].map(OsString::from));
    SYSTEM.iter().for_each(|path| show_system(path));
    if options.network == SandboxNetwork::Host {
        // Who has the machine's network finds names as it does.
        show_system("/etc/resolv.conf");
    }
    let mut show = Shown::to(isolation.identity());
    let is_shown = |path: &Path| {
        SYSTEM.iter().map(Path::new).chain(readable.iter().map(PathBuf::as_path)).any(|shown| path.starts_with(shown))
    };
    readable.iter().try_for_each(|path| show.read(path))?;
    if !is_shown(program) {
        show.read(program)?;
    }
    show.write_at(inside.home, inside.home);
    show.write_at(inside.world, inside.world_inside);
    for Mount { outside, inside, is_writable } in inside.mounts {
        match is_writable {
            true => show.write_at(outside, Path::new(inside)),
            false => show.read_at(outside, Path::new(inside))?,
        }
    }
    arguments.extend(show.into_words());
    arguments.extend(isolation.show_own());
    let endpoint = inside.socket.map(|socket| {
        let shown = Path::new(INSIDE).join("proxy.sock");
        arguments.extend(["--ro-bind".into(), socket.into(), shown.clone().into()]);
        EndpointInside { socket: shown, port: PORT }
    });
    arguments.extend(options.arguments.iter().map(OsString::from));
    arguments.extend(Isolation::closing());
    arguments.push("--".into());
    arguments.extend(isolation.threshold(Some(inside.world_inside), endpoint));
    arguments.extend(words.iter().cloned());
    Ok(arguments)
}
