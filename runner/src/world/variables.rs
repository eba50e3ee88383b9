//! The variables that a setup hands on: lines `NAME=VALUE` that it writes to a file.

use std::path::Path;

use super::disk::{ReadFault, read_text};
use super::fault::WorldFault;
use super::journal::VARIABLES;

/// Names and values.
pub(crate) type Handed = Vec<(String, String)>;

/// Bytes that a setup may write.
const LIMIT: u64 = 64 << 10;

/// Names that belong to the runner, and cannot be given another value.
const OURS: &str = "FULGURITE_";

/// The variables in the file of a world's home; none if there is no file.
///
/// # Errors
/// If a line is none, or the file cannot be read.
pub(crate) fn handed_on(home: &Path) -> Result<Handed, WorldFault> {
    let text = match read_text(home, Path::new(VARIABLES), LIMIT) {
        Ok(text) => text,
        Err(ReadFault::Missing) => return Ok(Vec::new()),
        Err(fault) => return Err(WorldFault::disk(home.join(VARIABLES))(std::io::Error::other(fault.to_string()))),
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(variable).collect()
}

fn variable(line: &str) -> Result<(String, String), WorldFault> {
    let refused = || WorldFault::Variable { line: line.chars().take(80).collect() };
    let (name, value) = line.split_once('=').ok_or_else(refused)?;
    let is_name = |name: &str| {
        let fits = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
        name.bytes().all(fits) && name.starts_with(|first: char| !first.is_ascii_digit())
    };
    match is_name(name) && !name.starts_with(OURS) && !value.contains('\0') {
        true => Ok((name.to_owned(), value.to_owned())),
        false => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_variables_and_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (home, path) = (folder.path(), folder.path().join(VARIABLES));
        assert_eq!(handed_on(home).unwrap(), []);
        std::fs::write(&path, "PORT=80\n\nA_B= x = y \n").unwrap();
        let expected = [("PORT", "80"), ("A_B", " x = y ")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(handed_on(home).unwrap(), expected);
        for wrong in ["PORT", "=1", "1A=1", "A B=1", "FULGURITE_TASK=1", "A=\0"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(handed_on(home), Err(WorldFault::Variable { .. })), "{wrong}");
        }
    }
}
