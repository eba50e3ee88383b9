/// Bytes that can be taken without swapping, where the system reports them (Linux).
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// A number of bytes as people read it: in GiB from one on, else in MiB, or in KiB.
pub fn bytes_text(bytes: u64) -> String {
    match bytes {
        small if small < 1 << 20 => format!("{} KiB", small.div_ceil(1 << 10)),
        middle if middle < 1 << 30 => format!("{} MiB", middle.div_ceil(1 << 20)),
        large => format!("{:.1} GiB", large as f64 / (1u64 << 30) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_the_unit_that_fits() {
        for (bytes, text) in [(1, "1 KiB"), (229_376, "224 KiB"), (1 << 29, "512 MiB"), ((3 << 30) / 2, "1.5 GiB")] {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
