//! Points in time, as people write and read them. All are UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use fulgurite_types::Date;

const DAY: i64 = 24 * 60 * 60;

/// Seconds since the epoch.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// A time of so many seconds since the epoch: `2026-11-21 15:04:05`.
pub fn text(time: f64) -> String {
    let seconds = time.floor() as i64;
    let date = Date::of_day(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    format!("{date} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

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
    parse_time(text).context("write how long ago (90s, 10m, 2h, 30d), or a time: 2026-11-21T15:04:05Z")
}

fn parse_time(text: &str) -> Result<f64> {
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let [year, month, day] = whole_numbers(date, '-')?;
    let number = Date { year, month, day }.day_number().filter(|_| (0..=9999).contains(&year));
    let day_number = number.context("there is no such day")?;
    let (time, offset) = split_offset(time)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let fraction: f64 = format!("0.{fraction}").parse()?;
    let [hour, minute, second] = match time.matches(':').count() {
        1 => whole_numbers(&format!("{time}:00"), ':')?,
        _ => whole_numbers(time, ':')?,
    };
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second) {
        bail!("there is no such time of day");
    }
    let seconds = day_number * DAY + hour * 3600 + minute * 60 + second - offset;
    Ok(seconds as f64 + fraction)
}

/// A time of day, and how many seconds it is ahead of UTC.
fn split_offset(time: &str) -> Result<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Ok((time, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Ok((time, 0)) };
    let (time, offset) = time.split_at(at);
    let [hours, minutes] = whole_numbers(&offset[1..], ':')?;
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    Ok((time, sign * (hours * 3600 + minutes * 60)))
}

fn whole_numbers<const N: usize>(text: &str, separator: char) -> Result<[i64; N]> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten();
    let numbers: Option<Vec<i64>> = text.split(separator).map(digits).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).with_context(|| format!("{text:?} cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_a_date_and_a_time_of_day() {
        assert_eq!(text(951_782_399.9), "2000-02-28 23:59:59");
    }

    #[test]
    fn times_are_read_in_every_usual_spelling() {
        for (text, expected) in [
            ("1970-01-02", 86_400.0),
            ("2026-11-21T15:04:05Z", 1_795_273_445.0),
            ("2026-11-21T15:04:05.5", 1_795_273_445.5),
            ("2026-11-21 17:04:05+02:00", 1_795_273_445.0),
            ("2026-11-21T15:04", 1_795_273_440.0),
        ] {
            assert_eq!(parse_since(text).unwrap(), expected, "{text}");
        }
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
