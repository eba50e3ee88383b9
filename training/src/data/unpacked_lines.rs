//! Rows that are compressed, or that stand in one list of JSON, written out as JSON lines that a run reads in any order.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use fulgurite_trainer::{LINE_LIMIT, RowUnit};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::parquet_conversations::is_parquet;

/// What a compressed file may become at least, in bytes, however small it is.
const LEAST_UNPACKED: u64 = 64 << 20;
/// How many times its size a larger one may become. Text becomes twenty times its size at most, unless it repeats itself.
const GREATEST_RATIO: u64 = 200;

/// How a file holds its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataFormat {
    /// As lines that are read where they are.
    Lines,
    /// In a table.
    Parquet,
    /// Compressed, or in a list of JSON: to be written out as lines.
    Packed(Compression),
}

/// What a file is compressed with, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    fn of(begin: &[u8]) -> Self {
        if begin.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if begin.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else {
            Self::None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "text",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// How a file holds its rows, by what it begins with. What cannot be read is found where it is read.
pub(crate) fn data_format(path: &Path) -> DataFormat {
    if is_parquet(path) {
        return DataFormat::Parquet;
    }
    let mut begin = Vec::new();
    if File::open(path).and_then(|file| file.take(4096).read_to_end(&mut begin)).is_err() {
        return DataFormat::Lines;
    }
    let is_list = begin.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    match Compression::of(&begin) {
        Compression::None if is_list => DataFormat::Packed(Compression::None),
        Compression::None => DataFormat::Lines,
        compression => DataFormat::Packed(compression),
    }
}

/// Writes the rows of `from` as lines of `to`, in order; says what they are counted as.
///
/// # Errors
/// Names the file, and the line or row that is wrong.
pub(crate) fn write_unpacked(from: &Path, compression: Compression, to: &Path) -> Result<RowUnit> {
    let name = from.display();
    let file = File::open(from).with_context(|| format!("cannot read {name}"))?;
    let packed = file.metadata().with_context(|| format!("cannot read {name}"))?.len();
    let file = BufReader::new(file);
    let unpacked: Box<dyn Read> = match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => Box::new(MultiGzDecoder::new(file)),
        Compression::Zstd => Box::new(ZstdFrames::new(file)),
    };
    let limit = match compression {
        Compression::None => u64::MAX,
        _ => LEAST_UNPACKED.max(packed.saturating_mul(GREATEST_RATIO)),
    };
    let rows = BufReader::with_capacity(1 << 20, Bounded { inner: unpacked, left: limit, limit });
    let out = File::create(to).with_context(|| format!("cannot write {}", to.display()))?;
    let mut copy = RowCopy { rows, out: BufWriter::new(out), length: 0 };
    let copied = copy.run().and_then(|unit| copy.out.flush().map(|()| unit).map_err(CopyError::Write));
    copied.map_err(|error| match error {
        CopyError::Read(error) if compression == Compression::None => anyhow::anyhow!("cannot read {name}: {error}"),
        CopyError::Read(error) => anyhow::anyhow!("cannot unpack {name} as {}: {error}", compression.name()),
        CopyError::Write(error) => anyhow::anyhow!("cannot write {}: {error}", to.display()),
        CopyError::Row(unit, number, message) => {
            let unit = if unit == RowUnit::Line { "line" } else { "row" };
            anyhow::anyhow!("{name} {unit} {number}: {message}")
        }
        CopyError::List(message) => anyhow::anyhow!("{name} {message}"),
    })
}

/// The contents of frames of zstd that stand one behind the other.
struct ZstdFrames<R> {
    file: R,
    decoder: FrameDecoder,
    is_within: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(file: R) -> Self {
        Self { file, decoder: FrameDecoder::new(), is_within: false }
    }

    /// Begins the next frame; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.file.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.file) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut (&mut self.file).take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_within {
                self.is_within = self.begin()?;
                if !self.is_within {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded = self.decoder.decode_blocks(&mut self.file, BlockDecodingStrategy::UptoBlocks(1));
                decoded.map_err(|error| io::Error::other(error.to_string()))?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let (given, computed) = (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if given.is_some() && given != computed {
                return Err(io::Error::other("its checksum is another one than its contents have"));
            }
            self.is_within = false;
        }
    }
}

/// A reader that refuses to become larger than it may.
struct Bounded<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!(
                "it becomes more than {} MiB, {GREATEST_RATIO} times its size, which no data is: unpack it yourself if \
                 you trust it",
                self.limit >> 20
            ))
        })?;
        Ok(read)
    }
}

/// Why rows cannot be copied.
enum CopyError {
    Read(io::Error),
    Write(io::Error),
    Row(RowUnit, u64, String),
    List(&'static str),
}

/// Rows that are written out as lines.
struct RowCopy<R> {
    rows: R,
    out: BufWriter<File>,
    /// Bytes of the row so far.
    length: usize,
}

/// Where in an element of a list a byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// Outside of texts.
    Element,
    Text,
    /// Behind a backslash in a text.
    Escape,
}

impl<R: BufRead> RowCopy<R> {
    fn run(&mut self) -> Result<RowUnit, CopyError> {
        loop {
            let buffer = self.rows.fill_buf().map_err(CopyError::Read)?;
            let blank = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            match buffer.get(blank) {
                Some(b'[') => return self.list().map(|()| RowUnit::Row),
                Some(_) => return self.lines().map(|()| RowUnit::Line),
                None if buffer.is_empty() => return Ok(RowUnit::Line),
                None => {
                    // Kept, so that lines have their numbers.
                    self.out.write_all(buffer).map_err(CopyError::Write)?;
                    self.rows.consume(blank);
                }
            }
        }
    }

    fn lines(&mut self) -> Result<(), CopyError> {
        let mut number = 1;
        loop {
            let buffer = self.rows.fill_buf().map_err(CopyError::Read)?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n').map(|newline| newline + 1);
            let used = end.unwrap_or(buffer.len());
            self.length += used;
            if self.length > LINE_LIMIT {
                return Err(too_long(RowUnit::Line, number));
            }
            self.out.write_all(&buffer[..used]).map_err(CopyError::Write)?;
            self.rows.consume(used);
            if end.is_some() {
                (self.length, number) = (0, number + 1);
            }
        }
    }

    /// The elements of a list, one a line.
    fn list(&mut self) -> Result<(), CopyError> {
        let (mut number, mut depth, mut within, mut is_inside) = (1, 0_u64, Within::Element, false);
        loop {
            let Some(byte) = self.next_byte()? else {
                return Err(CopyError::List("ends before the `]` of its list: it is cut off"));
            };
            let wrong = |message: &str| CopyError::Row(RowUnit::Row, number, message.to_owned());
            if !is_inside {
                // The first byte is the list's own, or blank.
                is_inside = byte == b'[';
                continue;
            }
            match (within, byte) {
                (Within::Text, b'"') => within = Within::Element,
                (Within::Text, b'\\') => within = Within::Escape,
                (Within::Text | Within::Escape, b'\n' | b'\r') => {
                    return Err(wrong("has a line break within a text, which JSON writes as \\n"));
                }
                (Within::Escape, _) => within = Within::Text,
                (Within::Text, _) => {}
                (Within::Element, b',' | b']') if depth == 0 => {
                    let is_empty_list = byte == b']' && number == 1 && self.length == 0;
                    if self.length == 0 && !is_empty_list {
                        return Err(wrong("is empty: a comma of the list is too many"));
                    }
                    self.out.write_all(b"\n").map_err(CopyError::Write)?;
                    if byte == b']' {
                        return self.end();
                    }
                    (self.length, number) = (0, number + 1);
                    continue;
                }
                (Within::Element, b'"') => within = Within::Text,
                (Within::Element, b'{' | b'[') => depth += 1,
                (Within::Element, b'}' | b']') => {
                    depth =
                        depth.checked_sub(1).ok_or_else(|| wrong("is not JSON: it closes what it does not open"))?;
                }
                (Within::Element, byte) if byte.is_ascii_whitespace() => continue,
                (Within::Element, _) => {}
            }
            self.length += 1;
            if self.length > LINE_LIMIT {
                return Err(too_long(RowUnit::Row, number));
            }
            self.out.write_all(&[byte]).map_err(CopyError::Write)?;
        }
    }

    /// Nothing may stand behind a list.
    fn end(&mut self) -> Result<(), CopyError> {
        while let Some(byte) = self.next_byte()? {
            if !byte.is_ascii_whitespace() {
                return Err(CopyError::List("goes on behind the `]` of its list"));
            }
        }
        Ok(())
    }

    fn next_byte(&mut self) -> Result<Option<u8>, CopyError> {
        let buffer = self.rows.fill_buf().map_err(CopyError::Read)?;
        let byte = buffer.first().copied();
        self.rows.consume(usize::from(byte.is_some()));
        Ok(byte)
    }
}

fn too_long(unit: RowUnit, number: u64) -> CopyError {
    CopyError::Row(unit, number, format!("is longer than {} MiB, which no row is", LINE_LIMIT >> 20))
}

#[cfg(test)]
mod tests {
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(directory: &Path, bytes: &[u8]) -> Result<(Option<RowUnit>, String)> {
        let (from, to) = (directory.join("a.json"), directory.join("a.out"));
        std::fs::write(&from, bytes).unwrap();
        std::fs::write(&to, "").unwrap();
        let unit = match data_format(&from) {
            DataFormat::Packed(compression) => Some(write_unpacked(&from, compression, &to)?),
            DataFormat::Lines | DataFormat::Parquet => None,
        };
        Ok((unit, std::fs::read_to_string(&to).unwrap()))
    }

    #[test]
    fn lists_and_compressed_files_are_their_rows() {
        let directory = tempfile::tempdir().unwrap();
        let read = |bytes: &[u8]| unpacked(directory.path(), bytes).unwrap();
        let lines = b"\n{\"a\": 1}\r\n\n{\"b\": 2}";
        let list = b" [\n  {\"a\": [1, \"],\\\"[\"]},\n\t{\"b\": {}}\n]\n";
        let rows = "{\"a\":[1,\"],\\\"[\"]}\n{\"b\":{}}\n".to_owned();
        assert_eq!(read(lines), (None, String::new()));
        assert_eq!(read(list), (Some(RowUnit::Row), rows.clone()));
        let text = String::from_utf8(lines.to_vec()).unwrap();
        assert_eq!(read(&gzip(lines)), (Some(RowUnit::Line), text.clone()));
        assert_eq!(read(&[gzip(&lines[..4]), gzip(&lines[4..])].concat()), (Some(RowUnit::Line), text.clone()));
        assert_eq!(read(&compress_to_vec(lines.as_slice(), CompressionLevel::Fastest)), (Some(RowUnit::Line), text));
        assert_eq!(read(&compress_to_vec(list.as_slice(), CompressionLevel::Fastest)), (Some(RowUnit::Row), rows));
        assert_eq!(read(b"[]"), (Some(RowUnit::Row), "\n".to_owned()));
    }

    #[test]
    fn a_file_that_is_no_list_or_unpacks_to_too_much_is_told_of_in_words() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |bytes: &[u8]| format!("{:#}", unpacked(directory.path(), bytes).unwrap_err());
        let bomb = gzip(&b"{}\n".repeat(30 << 20));
        let long = gzip(&vec![b'x'; LINE_LIMIT + 1]);
        let cut = &gzip(b"{}")[..12];
        for (bytes, expected) in [
            (b"[{}, {}".as_slice(), "a.json ends before the `]` of its list"),
            (b"[{}] {}", "a.json goes on behind the `]`"),
            (b"[{},, {}]", "a.json row 2: is empty"),
            (b"[{},]", "a.json row 2: is empty"),
            (b"[}]", "a.json row 1: is not JSON"),
            (b"[\"a\nb\"]", "a.json row 1: has a line break within a text"),
            (cut, "as gzip: "),
            (&bomb, " MiB, 200 times its size, which no data is"),
            (&long, "a.json line 1: is longer than 16 MiB"),
            (&[0x28, 0xb5, 0x2f, 0xfd, 9, 9, 9], "as zstd: "),
        ] {
            let message = refused(bytes);
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }
}
