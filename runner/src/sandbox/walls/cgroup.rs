//! Control groups: what counts processes and memory of all that a program starts, where this process may make such groups.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::sandbox::terms::Bounds;

/// What the names of our groups begin with; the process that made one follows.
const PREFIX: &str = "fulgurite-";

/// Directories that were still in use when they were to go.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Where groups are made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Base {
    directory: PathBuf,
    counts: Counts,
}

/// What a hierarchy counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Version 1: processes.
    Processes,
    /// Version 1: memory.
    Memory,
    /// Version 2: both.
    Both,
}

impl Counts {
    /// The files that bound a group, each with its bound.
    fn files(self, bounds: &Bounds) -> Vec<(&'static str, u64)> {
        let processes = ("pids.max", u64::from(bounds.processes));
        let all = match self {
            Self::Processes => vec![processes],
            Self::Memory => vec![("memory.limit_in_bytes", bounds.memory_bytes)],
            Self::Both => vec![processes, ("memory.max", bounds.memory_bytes)],
        };
        all.into_iter().filter(|(_, bound)| *bound > 0).collect()
    }
}

/// Makes groups.
#[derive(Debug)]
pub(crate) struct Cgroups {
    bases: Vec<Base>,
}

impl Cgroups {
    /// Finds where groups can be made that count something, and removes those of processes that have died.
    pub(crate) fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let bases: Vec<Base> = candidates(&mounts, &own).into_iter().filter_map(first_usable).collect();
        for base in &bases {
            remove_abandoned(&base.directory);
        }
        (!bases.is_empty()).then_some(Self { bases })
    }

    /// Whether they bound processes.
    pub(crate) fn count_processes(&self) -> bool {
        self.bases.iter().any(|base| base.counts != Counts::Memory)
    }

    /// Whether they bound memory.
    pub(crate) fn count_memory(&self) -> bool {
        self.bases.iter().any(|base| base.counts != Counts::Processes)
    }

    /// Makes a group with these bounds.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn make(&self, bounds: &Bounds) -> io::Result<Cgroup> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        remove_left();
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut group = Cgroup { directories: Vec::new() };
        for base in &self.bases {
            let directory = base.directory.join(&name);
            fs::create_dir(&directory)?;
            group.directories.push(directory.clone());
            for (file, bound) in base.counts.files(bounds) {
                fs::write(directory.join(file), bound.to_string())?;
            }
            if base.counts == Counts::Both && bounds.memory_bytes > 0 {
                // Memory that is bounded is not to go on on the disk; a kernel without swap has no such file.
                let _unknown = fs::write(directory.join("memory.swap.max"), "0");
            }
        }
        Ok(group)
    }
}

/// A group, removed when dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    directories: Vec<PathBuf>,
}

impl Cgroup {
    /// Its directories, one in each hierarchy.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Which bounds its processes ran into, as the end of a sentence about them.
    pub(crate) fn reached(&self) -> Vec<&'static str> {
        let counted = |file: &str, name: &str| {
            let texts = self.directories.iter().filter_map(|directory| fs::read_to_string(directory.join(file)).ok());
            texts.filter_map(|text| number_of(&text, name)).any(|count| count > 0)
        };
        let mut reached = Vec::new();
        if counted("pids.events", "max") {
            reached.push("processes");
        }
        if counted("memory.events", "oom_kill") || counted("memory.oom_control", "oom_kill") {
            reached.push("memory_bytes");
        }
        reached
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for directory in &self.directories {
            // Version 2 kills at once what is still in it; version 1 has no such file.
            let _unknown = fs::write(directory.join("cgroup.kill"), "1");
        }
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.directories);
        remove_left();
    }
}

/// Removes what nothing is in any more; the rest is tried again with the next group.
fn remove_left() {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain(|directory| fs::remove_dir(directory).is_err_and(|error| error.kind() != ErrorKind::NotFound));
}

/// The number behind a name, one of each a line.
fn number_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Where groups may be made, by hierarchy, the nearest first.
fn candidates(mounts: &str, own: &str) -> Vec<Vec<Base>> {
    let mut candidates = Vec::new();
    for line in mounts.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let (place, kind): (Vec<&str>, Vec<&str>) = (place.split(' ').collect(), kind.split(' ').collect());
        let ([_, _, _, root, mounted, ..], [kind, _, options]) = (&place[..], &kind[..]) else { continue };
        let controls = |name: &str| options.split(',').any(|option| option == name);
        let (controller, counts) = match *kind {
            "cgroup2" => ("", Counts::Both),
            "cgroup" if controls("pids") => ("pids", Counts::Processes),
            "cgroup" if controls("memory") => ("memory", Counts::Memory),
            _ => continue,
        };
        let Some(path) = own.lines().find_map(|line| own_path(line, controller)) else { continue };
        let (path, mounted) = (Path::new(path), Path::new(mounted));
        // What is mounted may be a part of the hierarchy.
        let below = path.strip_prefix(root).or(path.strip_prefix("/")).unwrap_or(Path::new(""));
        // Joined to nothing, a path would end in a slash.
        let nearest: PathBuf = mounted.components().chain(below.components()).collect();
        let upwards = nearest.ancestors().take_while(|directory| directory.starts_with(mounted));
        candidates.push(upwards.map(|directory| Base { directory: directory.to_owned(), counts }).collect());
    }
    candidates
}

/// The path of a line of `/proc/self/cgroup` if it is of this controller.
fn own_path<'l>(line: &'l str, controller: &str) -> Option<&'l str> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    controllers.split(',').any(|name| name == controller).then_some(path)
}

/// The first in which a group can be made that counts.
fn first_usable(bases: Vec<Base>) -> Option<Base> {
    bases.into_iter().find(is_usable)
}

fn is_usable(base: &Base) -> bool {
    if base.counts == Counts::Both {
        // Refused where processes are in it; then one further up may do.
        let _refused = fs::write(base.directory.join("cgroup.subtree_control"), "+pids +memory");
    }
    let tried = base.directory.join(format!("{PREFIX}{}-tried", std::process::id()));
    if fs::create_dir(&tried).is_err_and(|error| error.kind() != ErrorKind::AlreadyExists) {
        return false;
    }
    let all = Bounds { processes: 1, memory_bytes: 1 << 30, disk_bytes: 0 };
    let counts =
        base.counts.files(&all).into_iter().all(|(file, bound)| fs::write(tried.join(file), bound.to_string()).is_ok());
    let _tried_again_with_the_next = fs::remove_dir(&tried);
    counts
}

/// Removes the groups of processes that are not there any more.
fn remove_abandoned(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        if maker.is_some_and(|maker| !Path::new("/proc").join(maker.to_string()).exists()) {
            // One that still has processes stays until they are gone.
            let _in_use = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(mounts: &str, own: &str) -> Vec<(Vec<String>, Counts)> {
        let shown = |base: &Base| base.directory.display().to_string();
        let found = candidates(mounts, own).into_iter();
        found.map(|bases| (bases.iter().map(shown).collect(), bases[0].counts)).collect()
    }

    #[test]
    fn groups_are_made_as_near_to_the_own_as_can_be_in_either_version() {
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = "0::/user.slice/session-1.scope\n";
        let all = ["/sys/fs/cgroup/user.slice/session-1.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"];
        assert_eq!(directories(mounts, own), [(all.map(str::to_owned).to_vec(), Counts::Both)]);
        let mounts = "30 23 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n31 23 0:28 / /cg/pids rw - cgroup cgroup rw,pids\n\
            32 23 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n";
        let own = "8:pids:/\n4:memory:/a\n0::/\n";
        let memory = (vec!["/cg/memory/a".to_owned(), "/cg/memory".to_owned()], Counts::Memory);
        assert_eq!(directories(mounts, own), [memory, (vec!["/cg/pids".to_owned()], Counts::Processes)]);
        // A container may be shown its own part only.
        let mounts = "29 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let own = "0::/docker/x\n";
        assert_eq!(directories(mounts, own), [(vec!["/sys/fs/cgroup".to_owned()], Counts::Both)]);
        assert_eq!(directories("", own), []);
    }
}
