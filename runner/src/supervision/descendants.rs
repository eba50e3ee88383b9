//! Which processes are below one.

use std::collections::HashMap;
use std::fs;

use rustix::process::Pid;

/// Every process below `ancestor`, as the system lists them now.
pub(super) fn of(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for (process, parent) in processes() {
        children.entry(parent).or_default().push(process);
    }
    let mut found = children.remove(&ancestor).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        next += 1;
        found.extend(children.remove(process).unwrap_or_default());
    }
    found
}

/// All processes, each with its parent.
fn processes() -> impl Iterator<Item = (Pid, Pid)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((Pid::from_raw(process)?, parent(&text)?))
    })
}

/// The parent in a line of `/proc/PID/stat`. The name before it is in brackets, and may hold any character.
fn parent(line: &str) -> Option<Pid> {
    let (_, after_name) = line.rsplit_once(')')?;
    Pid::from_raw(after_name.split_whitespace().nth(1)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_whatever_its_child_is_called() {
        assert_eq!(parent("12 (a) S 7) R 34 12 0").unwrap().as_raw_pid(), 34);
        assert_eq!(parent("1 (init) S 0 1 1"), None);
        assert_eq!(parent(""), None);
    }

    #[test]
    fn a_child_is_found_below_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(of(rustix::process::getpid()).contains(&Pid::from_child(&child)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
