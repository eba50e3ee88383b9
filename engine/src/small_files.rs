//! Files that describe a model, read only as far as such files go: what a directory brings must not fill the memory.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

use crate::error::EngineError;

/// Bytes of the longest `config.json`, `adapter_config.json` or index of weights that is read.
pub(crate) const LONGEST_CONFIG: u64 = 16 << 20;
/// Bytes of the longest `tokenizer.json` that is read; the longest in use have some 40 MiB.
pub(crate) const LONGEST_TOKENIZER: u64 = 256 << 20;

/// The bytes of a regular file that has at most `longest`.
pub(crate) fn read_small_bytes(path: &Path, longest: u64) -> Result<Vec<u8>, EngineError> {
    let read = || {
        let facts = std::fs::metadata(path)?;
        if !facts.is_file() {
            return Err(Error::new(ErrorKind::InvalidInput, "it is no regular file"));
        }
        let too_long = |length: u64| {
            let message = format!("it has {length} bytes, and such a file has at most {longest}");
            Error::new(ErrorKind::FileTooLarge, message)
        };
        if facts.len() > longest {
            return Err(too_long(facts.len()));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(longest + 1).read_to_end(&mut bytes)?;
        // It may have grown meanwhile.
        if bytes.len() as u64 > longest { Err(too_long(bytes.len() as u64)) } else { Ok(bytes) }
    };
    read().map_err(EngineError::io("read", path))
}

/// The text of a regular file that has at most `longest` bytes.
pub(crate) fn read_small_file(path: &Path, longest: u64) -> Result<String, EngineError> {
    let bytes = read_small_bytes(path, longest)?;
    let no_text = |_| Error::new(ErrorKind::InvalidData, "it is not UTF-8");
    String::from_utf8(bytes).map_err(no_text).map_err(EngineError::io("read", path))
}

/// The text of a `config.json`, of a model of any kind, or of an `adapter_config.json`.
///
/// # Errors
/// If it cannot be read, or is longer than any such file.
pub fn read_model_config(path: &Path) -> Result<String, EngineError> {
    read_small_file(path, LONGEST_CONFIG)
}
