use uuid::Uuid;

/// Characters of a checkpoint's name at most.
const LONGEST_NAME: usize = 200;

/// A unique id.
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}

/// A number that cannot be guessed.
pub(crate) fn new_seed() -> u64 {
    Uuid::now_v7().as_u64_pair().1
}

/// Whether a checkpoint can be called so: a file is.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_allowed) && !name.starts_with('.') {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is no name for a checkpoint: up to {LONGEST_NAME} letters, digits, `-`, `_` and `.`, which does \
             not begin it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_directory() {
        for name in ["final", "step-000.5_b", &"a".repeat(200)] {
            assert_eq!(check_name(name), Ok(()));
        }
        for name in ["", ".", "..", ".a", "a/b", "a\\b", "a b", "ä", "a\0", &"a".repeat(201)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
