use std::fmt;

/// Days in 400 years, after which the calendar begins anew.
const ERA_DAYS: i64 = 146_097;
/// Days between 0000-03-01 and 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_468;

/// A date of the Gregorian calendar, also before people used that one; `YYYY-MM-DD` as text.
///
/// Days are counted by Hinnant's `days_from_civil`, in years that begin in March, so that a leap day is the last of its year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
}

impl Date {
    /// The date of the day with this number, which is 0 for 1970-01-01.
    pub fn of_day(number: i64) -> Self {
        let days = number + DAYS_BEFORE_1970;
        let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Months from March have 31, 30, 31, 30, 31 days in turn: 153 days in five.
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12 + 1;
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        Self { year, month, day: day_of_year - (153 * month_from_march + 2) / 5 + 1 }
    }

    /// The date of a time in seconds since 1970, UTC.
    pub fn of_seconds(seconds: f64) -> Self {
        Self::of_day((seconds / 86_400.0).floor() as i64)
    }

    /// Undoes [`Date::of_day`]; `None` for a date that the calendar does not have, as the 30th of February.
    pub fn day_number(self) -> Option<i64> {
        if !(1..=12).contains(&self.month) || !(1..=31).contains(&self.day) {
            return None;
        }
        let year = self.year - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let number = era * ERA_DAYS + day_of_era - DAYS_BEFORE_1970;
        (Self::of_day(number) == self).then_some(number)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::{DAYS_BEFORE_1970 as DAYS, Date};

    #[test]
    fn every_day_has_a_date_and_every_date_its_day() {
        for number in (-DAYS..2_000_000).step_by(97) {
            assert_eq!(Date::of_day(number).day_number(), Some(number));
        }
        for (number, text) in [(0, "1970-01-01"), (19_782, "2024-02-29"), (-1, "1969-12-31"), (-DAYS, "0000-03-01")] {
            assert_eq!(Date::of_day(number).to_string(), text);
        }
        for (seconds, text) in [
            (86_399.9, "1970-01-01"),
            (951_782_399.9, "2000-02-28"),
            (951_868_800.0, "2000-03-01"),
            (1_735_689_599.0, "2024-12-31"),
            (-1.0, "1969-12-31"),
        ] {
            assert_eq!(Date::of_seconds(seconds).to_string(), text);
        }
    }

    #[test]
    fn dates_that_the_calendar_does_not_have_are_no_day() {
        for (year, month, day) in
            [(2026, 2, 29), (1900, 2, 29), (2026, 4, 31), (2026, 0, 1), (2026, 13, 1), (2026, 1, 0)]
        {
            assert_eq!(Date { year, month, day }.day_number(), None, "{year}-{month}-{day}");
        }
    }
}
