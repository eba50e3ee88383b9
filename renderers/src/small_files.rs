//! Files that describe a model, read only as far as such files go: what a directory brings must not fill the memory.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

/// Bytes of the longest file beside `tokenizer.json` that is read.
pub(crate) const LONGEST_CONFIG: u64 = 16 << 20;
/// Bytes of the longest `tokenizer.json` that is read; the longest in use have some 40 MiB.
pub(crate) const LONGEST_TOKENIZER: u64 = 256 << 20;

/// The bytes of a regular file that has at most `longest`.
pub(crate) fn read_small_file(path: &Path, longest: u64) -> std::io::Result<Vec<u8>> {
    let facts = std::fs::metadata(path)?;
    if !facts.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    let mut length = facts.len();
    if length <= longest {
        // It may have grown meanwhile.
        length = File::open(path)?.take(longest + 1).read_to_end(&mut bytes)? as u64;
    }
    match length > longest {
        true => {
            let message = format!("it has {length} bytes, and such a file has at most {longest}");
            Err(Error::new(ErrorKind::FileTooLarge, message))
        }
        false => Ok(bytes),
    }
}
