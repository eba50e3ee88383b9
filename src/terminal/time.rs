//! Points in time, as people write and read them. All are UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

const DAY: i64 = 24 * 60 * 60;

/// Seconds since the epoch.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// A time of so many seconds since the epoch: `2026-11-21 15:04:05`.
pub fn text(time: f64) -> String {
    let seconds = time.floor() as i64;
    let (year, month, day) = date(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
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
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(0..=9999).contains(&year) {
        bail!("there is no such day");
    }
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
    let seconds = day_number(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
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

/// Days from 1970-01-01 to a day of the Gregorian calendar, whose years are taken to begin in March, so that the leap
/// day is their last.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// Undoes [`day_number`].
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * month_from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_is_read_as_it_is_written() {
        for days in (-719_468..2_000_000).step_by(97) {
            let (year, month, day) = date(days);
            assert_eq!(day_number(year, month, day), days);
        }
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(19_782), (2024, 2, 29));
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
        for text in
            ["", "soon", "10", "-5m", "2026-13-01", "2026-11-21T25:00", "2026-11", "infs", "2026-11-21T15:04:05+2"]
        {
            assert!(parse_since(text).is_err(), "{text}");
        }
    }
}
