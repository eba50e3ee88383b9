//! Whether a file of safetensors is whole, by its header alone: weights may be larger than memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use safetensors::tensor::Metadata;

/// A header of more bytes than this is none: it is what safetensors takes.
const LONGEST_HEADER: u64 = 100_000_000;
/// Bytes of the header's length.
const LENGTH: u64 = 8;

/// Refuses a file whose header cannot be read, or that has other bytes than its header accounts for.
///
/// # Errors
/// What is wrong, for people.
pub(super) fn require_whole(path: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let mut file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut length = [0; LENGTH as usize];
    file.read_exact(&mut length).map_err(|_| format!("is no safetensors file: it has {size} bytes"))?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER.min(size.saturating_sub(LENGTH)) {
        return Err(format!("is no safetensors file: of its {size} bytes {length} would be the header"));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(failed)?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|error| format!("has no header of safetensors: {error}"))?;
    let expected = (LENGTH + length).saturating_add(metadata.data_len() as u64);
    if expected != size {
        return Err(format!("has {size} bytes, and by its header {expected}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::{Dtype, TensorView};

    use super::*;

    #[test]
    fn a_file_is_whole_if_its_header_accounts_for_every_byte() {
        let numbers = [0u8; 16];
        let view = TensorView::new(Dtype::F32, vec![2, 2], &numbers).unwrap();
        let whole = safetensors::serialize([("weight", view)], None).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.safetensors");
        let judged = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            require_whole(&path)
        };
        assert_eq!(judged(&whole), Ok(()));
        let (size, short) = (whole.len(), whole.len() - 3);
        assert_eq!(judged(&whole[..short]), Err(format!("has {short} bytes, and by its header {size}")));
        assert_eq!(judged(b"short"), Err("is no safetensors file: it has 5 bytes".to_owned()));
        assert_eq!(judged(&[]), Err("is no safetensors file: it has 0 bytes".to_owned()));
        assert!(judged(&[0xff; 64]).unwrap_err().contains("would be the header"));
        let mut other = whole.clone();
        other[9] = b'!';
        assert!(judged(&other).unwrap_err().starts_with("has no header of safetensors: "));
    }
}
