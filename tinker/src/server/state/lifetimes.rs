/// Seconds of the shortest and the longest life that can be requested: an hour and ten years.
const LIFETIMES: std::ops::RangeInclusive<u64> = 3600..=10 * 366 * 24 * 3600;

/// When a checkpoint of so many seconds' life goes, in seconds since 1970; never without any.
pub(crate) fn expiry(ttl_seconds: Option<u64>, from: f64) -> Result<Option<f64>, String> {
    match ttl_seconds {
        Some(ttl) if !LIFETIMES.contains(&ttl) => {
            let (least, most) = (LIFETIMES.start(), LIFETIMES.end());
            Err(format!("ttl_seconds is {ttl}, but must be from {least} to {most}"))
        }
        ttl => Ok(ttl.map(|ttl| from + ttl as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_from_an_hour_to_ten_years_or_without_end() {
        assert_eq!(expiry(None, 5.0), Ok(None));
        assert_eq!(expiry(Some(3600), 5.0), Ok(Some(3605.0)));
        for ttl in [0, 3599, 400 * 24 * 3600 * 10] {
            assert!(expiry(Some(ttl), 5.0).unwrap_err().contains("ttl_seconds"), "{ttl}");
        }
    }
}
