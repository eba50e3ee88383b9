//! GPUs: those of this machine, and those that are named.

use std::process::{Command, Stdio};
use std::str::FromStr;

use serde::Serialize;

const MIB: u64 = 1 << 20;

/// What a kind of GPU can do, by its maker's data sheet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Card {
    /// As people call it.
    pub name: &'static str,
    /// Bytes of memory, as `nvidia-smi` reports them.
    pub memory: u64,
    /// Greatest bfloat16 operations a second of dense matrices, with sums in float32.
    pub flops: f64,
    /// Bytes a second between memory and processors.
    pub bandwidth: f64,
}

const fn card(name: &'static str, mebibytes: u64, teraflops: f64, gigabytes_a_second: f64) -> Card {
    Card { name, memory: mebibytes * MIB, flops: teraflops * 1e12, bandwidth: gigabytes_a_second * 1e9 }
}

/// By NVIDIA's data sheets; operations without sparsity.
pub const CARDS: [Card; 12] = [
    card("L4", 23_034, 121.0, 300.0),
    card("A10", 23_028, 125.0, 600.0),
    card("RTX 3090", 24_576, 71.0, 936.0),
    card("RTX 4090", 24_564, 165.0, 1008.0),
    card("RTX 5090", 32_607, 209.0, 1792.0),
    card("A100 40GB", 40_960, 312.0, 1555.0),
    card("L40S", 46_068, 362.0, 864.0),
    card("RTX 6000 Ada", 49_140, 364.0, 960.0),
    card("A100", 81_920, 312.0, 2039.0),
    card("H100", 81_559, 989.0, 3350.0),
    card("H200", 143_771, 989.0, 4800.0),
    card("B200", 183_359, 2250.0, 8000.0),
];

/// The GPUs of a machine, all of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gpus {
    /// How many.
    pub count: u64,
    /// Bytes of memory of each.
    pub memory: u64,
    /// As it is named.
    pub name: String,
    /// What it can do, where that is known.
    pub card: Option<Card>,
}

impl Gpus {
    /// One GPU of a kind.
    pub fn of_card(card: Card) -> Self {
        Self { count: 1, memory: card.memory, name: card.name.to_owned(), card: Some(card) }
    }

    /// The GPUs of this machine, if `nvidia-smi` finds some; the smallest where they differ.
    pub fn of_this_machine() -> Option<Self> {
        let query = ["--query-gpu=name,memory.total", "--format=csv,noheader,nounits"];
        let found = Command::new("nvidia-smi").args(query).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        found.status.success().then(|| Self::of_listing(&String::from_utf8_lossy(&found.stdout)))?
    }

    fn of_listing(listing: &str) -> Option<Self> {
        let rows: Vec<(&str, u64)> = listing
            .lines()
            .filter_map(|line| {
                let (name, memory) = line.rsplit_once(',')?;
                Some((name.trim(), memory.trim().parse::<u64>().ok()? * MIB))
            })
            .collect();
        let (name, memory) = *rows.iter().min_by_key(|(_, memory)| *memory)?;
        // "NVIDIA A100-SXM4-80GB" and "NVIDIA GeForce RTX 4090": of several kinds the one of about this memory.
        let words = plain(name);
        let near = |card: &Card| card.memory.abs_diff(memory) < memory / 10;
        let kind = |card: &&Card| words.contains(&plain(card.name.split(" 40GB").next().unwrap_or(card.name)));
        let card = CARDS.iter().filter(kind).filter(|card| near(card)).max_by_key(|card| card.name.len()).copied();
        Some(Self { count: rows.len() as u64, memory, name: name.to_owned(), card })
    }

    /// As people read it.
    pub fn text(&self) -> String {
        let count = if self.count == 1 { String::new() } else { format!("{} x ", self.count) };
        let memory = gibibytes(self.memory);
        if self.card.is_none() && self.name == memory {
            format!("{count}{memory}")
        } else {
            format!("{count}{}, {memory}", self.name)
        }
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_ascii_lowercase()
}

/// A number of bytes in GiB.
pub fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

/// `24GiB`, `80GB`, `rtx4090`, `8xH100`.
impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, kind) = match text.split_once(['x', '*']).map(|(count, kind)| (count.trim().parse(), kind)) {
            Some((Ok(count), kind)) => (count, kind),
            _ => (1, text),
        };
        if count == 0 {
            return Err("there must be at least one GPU".to_owned());
        }
        let words = plain(kind);
        if let Some(card) = CARDS.iter().find(|card| plain(card.name) == words) {
            return Ok(Self { count, ..Self::of_card(*card) });
        }
        // Makers call 24 GiB 24 GB.
        let number = ["gib", "gb", "g"]
            .iter()
            .find_map(|unit| kind.trim().to_ascii_lowercase().strip_suffix(unit).map(str::to_owned));
        let memory = number
            .and_then(|number| number.trim().parse::<f64>().ok())
            .filter(|number| (1.0..10_000.0).contains(number));
        let Some(memory) = memory else {
            let names: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
            return Err(format!(
                "give its memory, such as 24GiB, or one of {}; 8xH100 is eight of them",
                names.join(", ")
            ));
        };
        let memory = (memory * (1u64 << 30) as f64) as u64;
        Ok(Self { count, memory, name: gibibytes(memory), card: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_named_by_memory_or_kind() {
        let gpus = |text: &str| text.parse::<Gpus>().unwrap();
        assert_eq!((gpus("24GiB").memory, gpus("24 gb").count, gpus("24GiB").card), (24 << 30, 1, None));
        assert_eq!(gpus("8xH100").text(), "8 x H100, 79.6 GiB");
        assert_eq!(gpus("2x24GiB").text(), "2 x 24.0 GiB");
        assert_eq!(gpus("rtx4090").card.unwrap().bandwidth, 1008e9);
        for wrong in ["", "0xH100", "fast", "-1GiB", "nanGiB"] {
            assert!(wrong.parse::<Gpus>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn listings_of_nvidia_smi_are_read() {
        let of = |listing: &str| Gpus::of_listing(listing).unwrap();
        let two = of("NVIDIA A100-SXM4-80GB, 81920\nNVIDIA A100-SXM4-80GB, 81920\n");
        assert_eq!((two.count, two.card.unwrap().name), (2, "A100"));
        assert_eq!(of("NVIDIA A100-PCIE-40GB, 40960").card.unwrap().name, "A100 40GB");
        assert_eq!(of("NVIDIA GeForce RTX 4090, 24564").card.unwrap().name, "RTX 4090");
        assert_eq!(of("NVIDIA H200, 143771").card.unwrap().name, "H200");
        assert_eq!(of("Quadro P400, 2048").card, None);
        assert_eq!(Gpus::of_listing("No devices were found\n"), None);
    }
}
