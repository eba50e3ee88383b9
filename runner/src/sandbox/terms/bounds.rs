//! What programs in a sandbox may use.

/// What a sandbox may use; 0 bounds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Processes and threads.
    pub processes: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of each file, and by how many a world may grow.
    pub disk_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { processes: 1024, memory_bytes: 8 << 30, disk_bytes: 16 << 30 }
    }
}

impl Bounds {
    /// Bytes of `/tmp`, which are memory.
    pub(crate) fn temporary_bytes(&self) -> u64 {
        match (self.memory_bytes, self.disk_bytes) {
            (0, bound) | (bound, 0) => bound,
            (memory, disk) => memory.min(disk),
        }
    }
}
