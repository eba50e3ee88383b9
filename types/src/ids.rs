//! Ids that are made here.

use uuid::Uuid;

/// `prefix` and as many random hexadecimal digits.
pub fn new_id(prefix: &str, digits: usize) -> String {
    // The low half of a version 7 UUID is random; its high half is the time.
    let text = Uuid::now_v7().simple().to_string();
    format!("{prefix}{}", &text[text.len() - digits..])
}

/// The id of a rollout that nobody has named.
pub fn new_rollout_id() -> String {
    /// Milliseconds since the epoch.
    const TIME_DIGITS: usize = 12;
    const RANDOM_DIGITS: usize = 8;
    // Rows of rollouts that began together are together in every index, so that those of their calls are on few pages.
    let text = Uuid::now_v7().simple().to_string();
    format!("ro-{}{}", &text[..TIME_DIGITS], &text[text.len() - RANDOM_DIGITS..])
}

/// The id of an attempt that nobody has named.
pub fn new_attempt_id() -> String {
    new_id("at-", 8)
}
