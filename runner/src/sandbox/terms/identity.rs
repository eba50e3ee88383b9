//! Who sandboxed programs are.

use rustix::process::{getegid, geteuid};

/// Who sandboxed programs are where the runner is root.
pub(crate) const NOBODY: u32 = 65_534;

/// Who sandboxed programs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The runner's own user, who is not root.
    Own,
    /// Nobody: the runner is root, and may become somebody else.
    Nobody,
    /// Called nobody, by a user namespace of the sandbox's own: the runner is root of a namespace without other users.
    Renamed,
}

impl Identity {
    /// Who they are for this runner.
    pub(crate) fn of_this_process() -> Self {
        let is_mapped = |map: &str| {
            // Without /proc it is taken for a namespace of one user, which gives up more.
            let lines = std::fs::read_to_string(map).unwrap_or_default();
            holds(&lines, NOBODY)
        };
        match geteuid().is_root() {
            false => Self::Own,
            true if is_mapped("/proc/self/uid_map") && is_mapped("/proc/self/gid_map") => Self::Nobody,
            true => Self::Renamed,
        }
    }

    /// Whom files must belong to that sandboxed programs are to write, if not to the runner.
    pub(crate) fn owner(self) -> Option<u32> {
        (self == Self::Nobody).then_some(NOBODY)
    }

    /// User and group of a container's programs.
    pub(crate) fn ids(self) -> (u32, u32) {
        match self {
            Self::Own | Self::Renamed => (geteuid().as_raw(), getegid().as_raw()),
            Self::Nobody => (NOBODY, NOBODY),
        }
    }
}

/// Whether lines of a `uid_map` (first id inside, first outside, count) have a place for an id.
fn holds(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first.saturating_add(count)).contains(&u64::from(id)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_root_can_become_somebody_else_is_read_from_its_map() {
        assert!(holds("         0          0 4294967295\n", NOBODY));
        assert!(holds("0 1000 1\n1 100000 65536\n", NOBODY));
        assert!(!holds("0 1000 1\n", NOBODY));
        assert!(!holds("0 100000 65534\n", NOBODY));
        assert!(!holds("", NOBODY));
    }
}
