use std::time::{SystemTime, UNIX_EPOCH};

use fulgurite_types::Date;

const DAY_SECONDS: i64 = 86_400;

/// A time as `strftime` takes it apart: UTC, so that the same moment gives the same prompt on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    year: i64,
    /// 1 to 12.
    month: usize,
    /// 1 to 31.
    day: i64,
    /// 1 to 366.
    day_of_year: i64,
    /// 0 is Sunday.
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Now, in seconds since 1970.
pub(crate) fn unix_seconds() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    i64::try_from(elapsed).unwrap_or(i64::MAX)
}

/// Today's date as `YYYY-MM-DD`, UTC.
pub(crate) fn today() -> String {
    let Moment { year, month, day, .. } = moment(unix_seconds());
    format!("{year}-{month:02}-{day:02}")
}

/// Python's `strftime` in the C locale, of seconds since 1970. `None` for a directive that is not known here.
pub(crate) fn strftime(format: &str, unix_seconds: i64) -> Option<String> {
    let moment = moment(unix_seconds);
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let directive = characters.next()?;
        if directive == '-' {
            let written = write(moment, characters.next()?)?;
            let bare = written.trim_start_matches(['0', ' ']);
            out.push_str(if bare.is_empty() { "0" } else { bare });
        } else {
            out.push_str(&write(moment, directive)?);
        }
    }
    Some(out)
}

/// Midnight of a day, `YYYY-MM-DD`, UTC, in seconds since 1970. `None` for what is no day.
pub(crate) fn midnight(date: &str) -> Option<i64> {
    let mut fields = date.splitn(3, '-').map(|field| field.parse::<i64>().ok());
    let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
    let parsed = Date { year, month, day };
    let number = parsed.day_number().filter(|_| (0..=9999).contains(&year))?;
    // Python takes no other way of writing the same day.
    (parsed.to_string() == date).then_some(number * DAY_SECONDS)
}

fn write(moment: Moment, directive: char) -> Option<String> {
    let (month, weekday) = (MONTHS[moment.month - 1], WEEKDAYS[moment.weekday]);
    let hour_of_twelve = (moment.hour + 11) % 12 + 1;
    Some(match directive {
        'Y' => moment.year.to_string(),
        'y' => format!("{:02}", moment.year % 100),
        'm' => format!("{:02}", moment.month),
        'B' => month.to_owned(),
        'b' | 'h' => month[..3].to_owned(),
        'd' => format!("{:02}", moment.day),
        'e' => format!("{:2}", moment.day),
        'j' => format!("{:03}", moment.day_of_year),
        'A' => weekday.to_owned(),
        'a' => weekday[..3].to_owned(),
        'H' => format!("{:02}", moment.hour),
        'I' => format!("{hour_of_twelve:02}"),
        'p' => if moment.hour < 12 { "AM" } else { "PM" }.to_owned(),
        'M' => format!("{:02}", moment.minute),
        'S' => format!("{:02}", moment.second),
        'F' => strftime_parts(moment, "Y-m-d")?,
        'T' => strftime_parts(moment, "H:M:S")?,
        'D' => strftime_parts(moment, "m/d/y")?,
        '%' => "%".to_owned(),
        _ => return None,
    })
}

/// Directives by their letters, with what stands between them.
fn strftime_parts(moment: Moment, parts: &str) -> Option<String> {
    parts.chars().map(|part| if part.is_alphabetic() { write(moment, part) } else { Some(part.into()) }).collect()
}

fn moment(unix_seconds: i64) -> Moment {
    let (days, seconds) = (unix_seconds.div_euclid(DAY_SECONDS), unix_seconds.rem_euclid(DAY_SECONDS));
    let Date { year, month, day } = Date::of_day(days);
    let new_year = Date { year, month: 1, day: 1 }.day_number().unwrap_or(days);
    Moment {
        year,
        month: usize::try_from(month).unwrap_or(1),
        day,
        day_of_year: days - new_year + 1,
        weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
        hour: seconds / 3_600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
    }
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
