//! Errors as people read them.

/// An error and what caused it, the last of which is what the system said. A cause that stands at the end of what it caused is
/// left out: nobody needs to read it twice.
pub fn error_chain(error: &anyhow::Error) -> Vec<String> {
    let mut lines = vec![error.to_string()];
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !lines.last().is_some_and(|line| line.ends_with(&cause)) {
            lines.push(cause);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let error = anyhow!("no such file").context("the database failed: no such file").context("cannot open it");
        assert_eq!(error_chain(&error), ["cannot open it", "the database failed: no such file"]);
    }
}
