//! Which processors the processes of a measurement may run on.

use anyhow::Result;

/// Processors of what is measured, and others of what measures it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processors {
    /// By their numbers.
    pub measured: Vec<usize>,
    /// By their numbers.
    pub measuring: Vec<usize>,
}

impl Processors {
    /// Each gets half of them, what is measured the greater one. `None` if there are no two.
    pub fn halves(all: &[usize]) -> Option<Self> {
        let (measuring, measured) = all.split_at(all.len() / 2);
        (!measuring.is_empty()).then(|| Self { measured: measured.to_vec(), measuring: measuring.to_vec() })
    }
}

/// The processors that this process may run on; none where that cannot be told.
pub fn available() -> Vec<usize> {
    system::available()
}

/// Lets all threads of a process, and those that they start, run on these processors alone.
///
/// # Errors
///
/// It is somebody else's process, for example.
pub fn hold(pid: u32, processors: &[usize]) -> Result<()> {
    system::hold(pid, processors)
}

#[cfg(target_os = "linux")]
mod system {
    use anyhow::{Context, Result};
    use rustix::io::Errno;
    use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

    pub fn available() -> Vec<usize> {
        // More of them than the set has room for, for example.
        let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
        (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
    }

    pub fn hold(pid: u32, processors: &[usize]) -> Result<()> {
        let mut set = CpuSet::new();
        processors.iter().for_each(|processor| set.set(*processor));
        let path = format!("/proc/{pid}/task");
        for thread in std::fs::read_dir(&path).with_context(|| format!("cannot read {path}"))? {
            let name = thread?.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            let thread = number.and_then(Pid::from_raw).with_context(|| format!("{path} is not as expected"))?;
            match sched_setaffinity(Some(thread), &set) {
                // It has ended meanwhile.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(error).with_context(|| format!("cannot hold {path} to processors")),
            }
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use anyhow::Result;

    pub fn available() -> Vec<usize> {
        Vec::new()
    }

    pub fn hold(_pid: u32, _processors: &[usize]) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_and_what_measures_share_no_processor() {
        let halves = |all: &[usize]| Processors::halves(all).map(|halves| (halves.measured, halves.measuring));
        assert_eq!(halves(&[]), None);
        assert_eq!(halves(&[3]), None);
        assert_eq!(halves(&[1, 4]), Some((vec![4], vec![1])));
        assert_eq!(halves(&[0, 1, 2, 5, 7]), Some((vec![2, 5, 7], vec![0, 1])));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_held_with_all_of_its_threads() {
        let last = available().pop().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        hold(child.id(), &[last]).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        assert_eq!(allowed.trim(), last.to_string());
        assert!(hold(child.id(), &[last]).is_err(), "it has ended");
    }
}
