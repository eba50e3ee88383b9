//! Where the named formats are right and tinker-cookbook is not: which cases differ, and why.

/// One departure: the files (by the beginning of their names), the cases (by their names) and the reason.
struct Departure {
    files: &'static [&'static str],
    cases: &'static [&'static str],
    reason: &'static str,
}

const DEPARTURES: [Departure; 1] = [Departure {
    files: &[""],
    cases: &["prompt special_text_injection"],
    reason: "text of a user that spells a control token stays text",
}];

/// Why a case of a file differs, if it does.
pub fn departure(file: &str, case: &str) -> Option<&'static str> {
    let names = |departure: &&Departure| {
        departure.files.iter().any(|prefix| file.starts_with(prefix)) && departure.cases.contains(&case)
    };
    DEPARTURES.iter().find(names).map(|departure| departure.reason)
}
