//! Points in time, as people write and read them. All are UTC.

use anyhow::{Context, Result};
pub use fulgurite_types::time::{now, text};

/// Seconds in `90s`, `10m`, `2h`, `30d` or `4w`.
pub fn parse_duration(text: &str) -> Result<f64> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0), ("w", 604_800.0)];
    let parsed = units.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number * seconds)
    });
    parsed.context("write a number and its unit: 90s, 10m, 2h, 30d, 4w")
}

/// The time that is meant by a duration before now, or by `2026-11-21`, `2026-11-21T15:04:05`, with a fraction of a
/// second, with `Z` or `+02:00` behind.
pub fn parse_since(text: &str) -> Result<f64> {
    if let Ok(duration) = parse_duration(text) {
        return Ok(now() - duration);
    }
    fulgurite_types::time::parse(text)
        .context("write how long ago (90s, 10m, 2h, 30d), or a time: 2026-11-21T15:04:05Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_usual_spelling() {
        assert_eq!(parse_since("2026-11-21 17:04:05+02:00").unwrap(), 1_795_273_445.0);
        let ago = now() - parse_since("2h").unwrap();
        assert!((7_199.0..7_300.0).contains(&ago), "{ago}");
        for text in [
            "",
            "soon",
            "10",
            "-5m",
            "2026-13-01",
            "2026-11-21T25:00",
            "2026-11",
            "2026-02-30",
            "infs",
            "2026-11-21T15:04:05+2",
        ] {
            assert!(parse_since(text).is_err(), "{text}");
        }
    }
}
