//! Times that a person writes as seconds.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// A time of so many seconds, which a clock can reach from now.
pub fn seconds(key: &str, seconds: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && Instant::now().checked_add(time).is_some() => Ok(time),
        _ if seconds > 1.0 => bail!("{key} is {seconds:e}, but no clock goes on for so many seconds"),
        _ => bail!("{key} is {seconds}, but must be a number of seconds above 0"),
    }
}
