//! Which processors the processes of a measurement may run on.

use anyhow::Result;

/// Half of the processors that this process may run on, by their numbers; nothing where there are no two, or it cannot be
/// told.
pub fn half() -> Option<Vec<usize>> {
    first_half(&system::available())
}

fn first_half(all: &[usize]) -> Option<Vec<usize>> {
    let half = &all[..all.len() / 2];
    (!half.is_empty()).then(|| half.to_vec())
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
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn half_leaves_as_many_to_others() {
        assert_eq!(first_half(&[]), None);
        assert_eq!(first_half(&[3]), None);
        assert_eq!(first_half(&[1, 4]), Some(vec![1]));
        assert_eq!(first_half(&[0, 1, 2, 5, 7]), Some(vec![0, 1]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_held_with_all_of_its_threads() {
        let last = system::available().pop().unwrap();
        let two_threads = "import threading, time\n\
                           threading.Thread(target=time.sleep, args=(60,)).start()\n\
                           print(flush=True)\n\
                           time.sleep(60)";
        let mut child = Command::new("python3").args(["-c", two_threads]).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        hold(child.id(), &[last]).unwrap();
        let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        let statuses = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
        let statuses: Vec<String> = statuses.collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(statuses.len(), 2);
        for status in statuses {
            let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
            assert_eq!(allowed.trim(), last.to_string());
        }
        assert!(hold(child.id(), &[last]).is_err(), "it has ended");
    }
}
