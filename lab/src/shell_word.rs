//! Words of command lines that people copy.

/// A word as a shell takes it for one.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_reads_otherwise_is_quoted() {
        assert_eq!(["runs/a-1", "", "a b", "it's"].map(shell_word), ["runs/a-1", "''", "'a b'", r"'it'\''s'"]);
    }
}
