use fulgurite_types::time;
use jiff::fmt::strtime;

/// The directives whose result is the same in Python on every system.
const DIRECTIVES: &str = "YymBbhdejAaHIpMSFTD%";

/// Now, in seconds since 1970.
pub(crate) fn unix_seconds() -> i64 {
    time::now() as i64
}

/// Today's date as `YYYY-MM-DD`, UTC.
pub(crate) fn today() -> String {
    time::date(time::now())
}

/// Python's `strftime` in the C locale, of seconds since 1970, UTC: the same moment gives the same prompt on every machine.
/// `None` for a directive that is not known here.
pub(crate) fn strftime(format: &str, unix_seconds: i64) -> Option<String> {
    let mut rest = format.chars();
    while rest.any(|character| character == '%') {
        let directive = rest.next().filter(|character| *character != '-').or_else(|| rest.next())?;
        DIRECTIVES.contains(directive).then_some(())?;
    }
    strtime::format(format, time::date_time(unix_seconds as f64)).ok()
}

/// Midnight of a day, `YYYY-MM-DD`, UTC, in seconds since 1970. `None` for what is no day.
pub(crate) fn midnight(date: &str) -> Option<i64> {
    // Python takes no other way of writing the same day.
    let seconds = time::parse(date).filter(|seconds| time::date(*seconds) == date)?;
    Some(seconds as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_python_writes_them() {
        // datetime.fromtimestamp(seconds, timezone.utc).strftime(...) of Python 3.11.
        let format = "%Y-%m-%d %j %A %a %B %b %H:%M:%S %I %p %y %-d %-H %e %F %T %D %%";
        for (seconds, expected) in [
            (0, "1970-01-01 001 Thursday Thu January Jan 00:00:00 12 AM 70 1 0  1 1970-01-01 00:00:00 01/01/70 %"),
            (
                951782400,
                "2000-02-29 060 Tuesday Tue February Feb 00:00:00 12 AM 00 29 0 29 2000-02-29 00:00:00 02/29/00 %",
            ),
            (
                951868799,
                "2000-02-29 060 Tuesday Tue February Feb 23:59:59 11 PM 00 29 23 29 2000-02-29 23:59:59 02/29/00 %",
            ),
            (
                1709164800,
                "2024-02-29 060 Thursday Thu February Feb 00:00:00 12 AM 24 29 0 29 2024-02-29 00:00:00 02/29/24 %",
            ),
            (1709251200, "2024-03-01 061 Friday Fri March Mar 00:00:00 12 AM 24 1 0  1 2024-03-01 00:00:00 03/01/24 %"),
            (
                1735689599,
                "2024-12-31 366 Tuesday Tue December Dec 23:59:59 11 PM 24 31 23 31 2024-12-31 23:59:59 12/31/24 %",
            ),
            (
                1764072000,
                "2025-11-25 329 Tuesday Tue November Nov 12:00:00 12 PM 25 25 12 25 2025-11-25 12:00:00 11/25/25 %",
            ),
            (
                4107542399,
                "2100-02-28 059 Sunday Sun February Feb 23:59:59 11 PM 00 28 23 28 2100-02-28 23:59:59 02/28/00 %",
            ),
            (
                1077926400,
                "2004-02-28 059 Saturday Sat February Feb 00:00:00 12 AM 04 28 0 28 2004-02-28 00:00:00 02/28/04 %",
            ),
        ] {
            assert_eq!(strftime(format, seconds).unwrap(), expected);
        }
    }

    #[test]
    fn midnight_is_found_by_the_date() {
        for seconds in [0, 951_782_400, 1_709_164_800, 1_709_251_200, 1_735_603_200, 4_107_456_000] {
            assert_eq!(midnight(&strftime("%Y-%m-%d", seconds).unwrap()), Some(seconds));
        }
        for date in ["2025-02-29", "2025-13-01", "2025-00-10", "2025-1-1", "today", "2025-01", "", "2025-01-01-01"] {
            assert_eq!(midnight(date), None, "{date}");
        }
    }

    #[test]
    fn an_unknown_directive_is_none() {
        assert_eq!(strftime("%Q", 0), None);
        assert_eq!(strftime("50%", 0), None);
    }
}
