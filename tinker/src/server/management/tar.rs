use std::path::PathBuf;

/// Bytes of a block, of which everything in an archive is a multiple.
const BLOCK: usize = 512;

/// A size of 8 GiB and more has no room as eleven octal digits.
const LARGEST_IN_OCTAL: u64 = 1 << 33;

/// A part of what is downloaded.
#[derive(Debug, PartialEq)]
pub(crate) enum TarPart {
    Bytes(Vec<u8>),
    /// What a file has after so many bytes, and how many that are.
    File {
        path: PathBuf,
        from: u64,
        size: u64,
    },
}

impl TarPart {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
        }
    }
}

/// An archive (POSIX ustar) of files by their names, each of which is less than 100 bytes.
pub(crate) fn parts(files: Vec<(String, Vec<TarPart>)>) -> Vec<TarPart> {
    let mut parts = Vec::new();
    for (name, content) in files {
        let size = content.iter().map(TarPart::size).sum();
        let padding = (BLOCK - (size % BLOCK as u64) as usize) % BLOCK;
        parts.push(TarPart::Bytes(header(&name, size)));
        parts.extend(content);
        parts.push(TarPart::Bytes(vec![0; padding]));
    }
    parts.push(TarPart::Bytes(vec![0; 2 * BLOCK]));
    parts
}

fn header(name: &str, size: u64) -> Vec<u8> {
    let mut header = vec![0; BLOCK];
    let mut put = |place: usize, bytes: &[u8]| header[place..place + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    match size < LARGEST_IN_OCTAL {
        true => put(124, format!("{size:011o}\0").as_bytes()),
        // GNU's form: the first bit, and the number in binary.
        false => {
            put(124, &[0x80]);
            put(128, &size.to_be_bytes());
        }
    }
    put(136, b"00000000000\0");
    // The sum is taken with blanks in its own place.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_blocks_and_the_end_is_two_empty_ones() {
        let file = |path: &str, from, size| TarPart::File { path: path.into(), from, size };
        let bytes_first = vec![TarPart::Bytes(vec![1; 24]), file("x/b", 40, 1000)];
        let parts = parts(vec![("a".into(), vec![file("x/a", 0, 513)]), ("b".into(), bytes_first)]);
        let expected = [
            TarPart::Bytes(header("a", 513)),
            file("x/a", 0, 513),
            TarPart::Bytes(vec![0; 511]),
            TarPart::Bytes(header("b", 1024)),
            TarPart::Bytes(vec![1; 24]),
            file("x/b", 40, 1000),
            TarPart::Bytes(vec![]),
            TarPart::Bytes(vec![0; 1024]),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_size_beyond_octal_is_in_binary() {
        assert_eq!(&header("a", 8)[124..136], b"00000000010\0");
        assert_eq!(&header("a", 1 << 33)[124..136], [0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    }
}
