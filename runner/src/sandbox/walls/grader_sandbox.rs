//! A sandbox for graders: they read what they are shown, reach no network, and write to nothing but the attempt's world.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::isolation::{Isolation, Sandboxed};
use super::shown::Shown;
use crate::RunnerError;
use crate::order::Order;
use crate::program::Program;
use crate::sandbox::lending::{lend, take_back};
use crate::sandbox::terms::{Bounds, KEPT, SYSTEM, SandboxNetwork};

/// The variable that names what a grader may write to.
const WORLD: &str = "FULGURITE_WORLD";
/// The variable that names what else it is shown.
const CHANGES: &str = "FULGURITE_WORLD_CHANGES";

/// The sandbox of a grader.
#[derive(Clone, Debug)]
pub struct GraderSandboxOptions {
    /// What it is shown beside this machine's programs and the directory that it runs in.
    pub readable: Vec<PathBuf>,
    /// What it may use.
    pub bounds: Bounds,
    /// The program that runs [`sandbox_part`](crate::sandbox_part).
    pub own_program: PathBuf,
}

/// What starts graders in sandboxes.
#[derive(Debug)]
pub(crate) struct GraderSandbox {
    isolation: Isolation,
    readable: Vec<PathBuf>,
}

/// The world of an attempt that is over, for as long as its grader may write to it.
#[derive(Debug)]
pub(crate) struct LentWorld {
    /// The directory, and who has it.
    lent: Option<(PathBuf, u32)>,
}

impl GraderSandbox {
    /// Finds `bwrap`, and tries it.
    ///
    /// # Errors
    /// If there is none, or it makes no sandbox that holds.
    pub(crate) fn find(options: GraderSandboxOptions) -> Result<Self, RunnerError> {
        let GraderSandboxOptions { readable, bounds, own_program } = options;
        if !cfg!(target_os = "linux") {
            return Err(RunnerError::SandboxSystem);
        }
        let bwrap = Program::find(&["bwrap".to_owned()], "sandbox", None)?.path;
        Ok(Self { isolation: Isolation::try_out(bwrap, &own_program, bounds, &[])?, readable })
    }

    /// What starts the same program in a sandbox; it runs in `directory`. The world is lent to it.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn around(&self, order: Order, directory: &Path) -> Result<(Sandboxed, LentWorld), String> {
        let Order { program, arguments, environment, directory: _ } = order;
        let mut words = self.isolation.walls(SandboxNetwork::Proxy);
        words.extend(SYSTEM.iter().flat_map(|path| ["--ro-bind-try", path, path].map(OsString::from)));
        let mut show = Shown::to(self.isolation.identity());
        let readable: Vec<&Path> = [directory].into_iter().chain(self.readable.iter().map(PathBuf::as_path)).collect();
        let is_shown = |path: &Path| {
            SYSTEM.iter().map(Path::new).chain(readable.iter().copied()).any(|shown| path.starts_with(shown))
        };
        readable.iter().try_for_each(|path| show.read(path))?;
        if !is_shown(&program) {
            show.read(&program)?;
        }
        let value =
            |name: &str| environment.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.as_ref());
        let mut lent = None;
        if let Some(world) = value(WORLD).map(PathBuf::from) {
            show.write_at(&world, &world);
            lent = self.isolation.identity().owner().map(|owner| (world, owner));
        }
        if let Some(changes) = value(CHANGES).map(Path::new) {
            show.read(changes)?;
        }
        words.extend(show.into_words());
        words.extend(self.isolation.show_own());
        words.extend(Isolation::closing());
        words.push("--".into());
        words.extend(self.isolation.threshold(Some(directory), None));
        words.push(program.into());
        words.extend(arguments);
        let sandboxed = self.isolation.around(words, own(environment))?;
        if let Some((world, owner)) = &lent {
            lend(world, *owner).map_err(|error| format!("cannot be given {}: {error}", world.display()))?;
        }
        Ok((sandboxed, LentWorld { lent }))
    }
}

impl LentWorld {
    /// Gives it back to the runner.
    ///
    /// # Errors
    /// If the disk does not.
    pub(crate) fn take_back(mut self) -> Result<(), String> {
        let Some((world, owner)) = self.lent.take() else { return Ok(()) };
        take_back(&world, owner).map_err(|error| format!("does not give back {}: {error}", world.display()))
    }
}

/// Of this process's variables those that every agent keeps, and the attempt's.
fn own(given: Vec<(OsString, Option<OsString>)>) -> Vec<(OsString, Option<OsString>)> {
    let set: BTreeSet<&OsStr> =
        given.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name.as_os_str()).collect();
    let stays = |name: &OsString| set.contains(name.as_os_str()) || KEPT.iter().any(|kept| name == kept);
    let removed: Vec<_> = std::env::vars_os().map(|(name, _)| name).filter(|name| !stays(name)).collect();
    removed.into_iter().map(|name| (name, None)).chain(given).collect()
}
