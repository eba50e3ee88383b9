//! A sandbox for graders: they read what they are shown, reach no network, and write to nothing but the attempt's world.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::bubblewrap::{ISOLATED, SYSTEM};
use super::wrapper::KEPT;
use crate::RunnerError;
use crate::order::Order;
use crate::program::Program;

/// The variables that name what a grader looks at, and whether it may write there.
const LOOKED_AT: [(&str, bool); 2] = [("FULGURITE_WORLD", true), ("FULGURITE_WORLD_CHANGES", false)];

/// What starts graders in sandboxes.
#[derive(Debug)]
pub(crate) struct GraderSandbox {
    bwrap: PathBuf,
    /// What they are shown beside this machine's programs and the directory that they run in.
    readable: Vec<PathBuf>,
}

impl GraderSandbox {
    /// Finds `bwrap`.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn find(readable: Vec<PathBuf>) -> Result<Self, RunnerError> {
        Ok(Self { bwrap: Program::find(&["bwrap".to_owned()], "sandbox", None)?.path, readable })
    }

    /// What starts the same program in a sandbox; it runs in `directory`.
    pub(crate) fn around(&self, order: Order, directory: &Path) -> Order {
        let Order { program, arguments, environment, directory: _ } = order;
        let mut words: Vec<OsString> = ISOLATED.iter().map(OsString::from).collect();
        let mut show = |flag: &str, path: &Path| words.extend([flag.into(), path.into(), path.into()]);
        SYSTEM.iter().for_each(|path| show("--ro-bind-try", Path::new(path)));
        let shown = SYSTEM.iter().map(Path::new);
        let shown: Vec<&Path> = shown.chain([directory]).chain(self.readable.iter().map(PathBuf::as_path)).collect();
        let program_shown = shown.iter().any(|shown| program.starts_with(shown));
        let more = [directory].into_iter().chain(self.readable.iter().map(PathBuf::as_path));
        more.chain((!program_shown).then_some(program.as_path())).for_each(|path| show("--ro-bind", path));
        let value =
            |name: &str| environment.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.as_ref());
        for (name, is_writable) in LOOKED_AT {
            if let Some(path) = value(name) {
                show(if is_writable { "--bind" } else { "--ro-bind" }, Path::new(path));
            }
        }
        words.extend(["--chdir".into(), directory.into(), "--".into(), program.into()]);
        words.extend(arguments);
        Order { program: self.bwrap.clone(), arguments: words, environment: own(environment), directory: None }
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
