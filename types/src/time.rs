//! Points in time: seconds since the Unix epoch, and how people write and read them. All are UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;

/// Seconds since the epoch. A clock before 1970 counts as 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// The date and the time of day, without a fraction of a second.
pub fn date_time(seconds: f64) -> DateTime {
    Offset::UTC.to_datetime(timestamp(seconds))
}

/// `2026-11-21`
pub fn date(seconds: f64) -> String {
    date_time(seconds).date().to_string()
}

/// `2026-11-21 15:04:05`
pub fn text(seconds: f64) -> String {
    date_time(seconds).to_string().replace('T', " ")
}

/// `2026-11-21T15:04:05Z`, as RFC 3339 has it.
pub fn rfc3339(seconds: f64) -> String {
    timestamp(seconds).to_string()
}

/// Reads `2026-11-21` or `2026-11-21T15:04:05`, with a fraction of a second, with `Z` or `+02:00` at the end.
///
/// `None` also for days that the calendar does not have, and for years outside 0 to 9999.
pub fn parse(text: &str) -> Option<f64> {
    let pieces = Pieces::parse(text).ok().filter(|pieces| pieces.time_zone_annotation().is_none())?;
    let date = Some(pieces.date()).filter(|date| date.year() >= 0)?;
    let offset = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
    let timestamp = offset.to_timestamp(date.to_datetime(pieces.time().unwrap_or_default())).ok()?;
    Some(timestamp.as_duration().as_secs_f64())
}

/// Times that the calendar does not reach are its first or its last.
fn timestamp(seconds: f64) -> Timestamp {
    let second = (seconds.floor() as i64).clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_of_the_calendar() {
        for (seconds, expected) in [
            (0.0, "1970-01-01 00:00:00"),
            (-1.0, "1969-12-31 23:59:59"),
            (951_782_399.9, "2000-02-28 23:59:59"),
            (951_827_696.5, "2000-02-29 12:34:56"),
            (1_798_761_599.0, "2026-12-31 23:59:59"),
            (f64::INFINITY, "9999-12-30 22:00:00"),
            (f64::NAN, "1970-01-01 00:00:00"),
        ] {
            assert_eq!(text(seconds), expected);
            assert_eq!(rfc3339(seconds), expected.replace(' ', "T") + "Z");
            assert_eq!(date(seconds), expected[..10]);
        }
    }

    #[test]
    fn times_are_read_in_every_usual_spelling() {
        for (text, expected) in [
            ("1970-01-02", 86_400.0),
            ("2026-11-21T15:04:05Z", 1_795_273_445.0),
            ("2026-11-21T15:04:05.5", 1_795_273_445.5),
            ("2026-11-21 17:04:05+02:00", 1_795_273_445.0),
            ("2026-11-21T15:04", 1_795_273_440.0),
            ("2026-11-25T04:00:00Z", 1_795_579_200.0),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "soon",
            "10",
            "2026-13-01",
            "2026-02-29",
            "1900-02-29",
            "-000001-01-01",
            "2026-11",
            "2026-11-21T25:00",
            "2026-11-21T15:04:05+2",
            "2026-11-21T15:04:05+01:00[Europe/Paris]",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
