//! Names of files, and files that are whole or not there.

use std::fs;
use std::path::Path;

use crate::error::ToolError;

/// Characters of a name.
const NAME_LENGTH: usize = 64;

/// A name is a file's: letters, digits, and `.`, `_`, `-` not at its beginning.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    match letters && name.len() <= NAME_LENGTH && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} is no name: it must have letters, digits, `.`, `_` and `-` alone, {NAME_LENGTH} at most, and begin with a \
             letter or a digit"
        )),
    }
}

/// Writes a file that is whole or not there.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), ToolError> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path)).map_err(ToolError::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_directory() {
        assert!(check_name("a-1.b_c").is_ok());
        for name in ["", ".", "..", ".a", "-a", "a/b", "a b", "\u{e9}", &"a".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
