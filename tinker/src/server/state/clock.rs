use std::time::{SystemTime, UNIX_EPOCH};

use fulgurite_types::Date;

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    // A clock before 1970 is none that times could be told by.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A time as RFC 3339 has it, in UTC.
pub(crate) fn iso_time(seconds: f64) -> String {
    let whole = seconds.max(0.0) as i64;
    let (date, of_day) = (Date::of_day(whole / 86_400), whole % 86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{date}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_of_the_calendar() {
        assert_eq!(iso_time(0.0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_time(951_827_696.5), "2000-02-29T12:34:56Z");
        assert_eq!(iso_time(1_798_761_599.0), "2026-12-31T23:59:59Z");
    }
}
