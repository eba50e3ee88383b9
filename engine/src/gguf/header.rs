//! What stands in a GGUF file before its tensors. Nothing that the file says is believed before it is held against the file's length,
//! and no memory is taken for what cannot be there.

use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::blocks::BlockType;
use super::metadata::{Metadata, MetadataValue};
use crate::error::EngineError;

pub(super) const MAGIC: [u8; 4] = *b"GGUF";
const VERSIONS: [u32; 2] = [2, 3];
/// The default alignment of tensors, where the metadata has none.
pub(super) const ALIGNMENT: u64 = 32;
const ALIGNMENT_KEY: &str = "general.alignment";

/// Many times what any model has.
const GREATEST_ENTRIES: u64 = 1 << 16;
const GREATEST_ARRAY: u64 = 1 << 22;
const GREATEST_TEXT: u64 = 1 << 24;
const GREATEST_DIMENSIONS: u32 = 4;
/// Of all lists together, and of all that stands before the tensors: what a file of gigabytes claims must not fill the
/// memory either.
const GREATEST_ELEMENTS: u64 = 1 << 23;
const GREATEST_HEADER: u64 = 1 << 28;

/// A file whose beginning has been read.
#[derive(Debug)]
pub(super) struct GgufFile {
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
    pub(super) tensors: Vec<TensorEntry>,
    file: File,
}

/// A tensor, as the file's header describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TensorEntry {
    pub(super) name: String,
    /// Row-major, as Hugging Face's files have it: the last is the length of a row, which is whole blocks.
    pub(super) shape: Vec<usize>,
    pub(super) kind: BlockType,
    /// Its bytes in the file.
    pub(super) place: Range<u64>,
}

impl TensorEntry {
    /// Numbers of a row.
    pub(super) fn row(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    pub(super) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    fn row_bytes(&self) -> usize {
        self.row() / self.kind.numbers() * self.kind.bytes()
    }
}

impl GgufFile {
    /// Reads metadata and the list of tensors.
    pub(super) fn open(path: &Path) -> Result<Self, EngineError> {
        let read = EngineError::io("read", path);
        let file = File::open(path).map_err(EngineError::io("open", path))?;
        let length = file.metadata().map_err(read)?.len();
        let reader = BufReader::new(&file);
        let mut header = Header { path, reader, length, at: 0, elements: 0 };
        let (metadata, tensors) = header.read()?;
        Ok(Self { path: path.to_path_buf(), metadata, tensors, file })
    }

    /// The numbers of whole rows, from a row on.
    pub(super) fn read_rows(&self, tensor: &TensorEntry, row: usize, numbers: &mut [f32]) -> std::io::Result<()> {
        let mut bytes = vec![0; numbers.len() / tensor.row().max(1) * tensor.row_bytes()];
        self.file.read_exact_at(&mut bytes, tensor.place.start + (row * tensor.row_bytes()) as u64)?;
        tensor.kind.decode(&bytes, numbers);
        Ok(())
    }
}

/// Reads from the file's beginning on.
struct Header<'a, R> {
    path: &'a Path,
    reader: R,
    /// Of the file.
    length: u64,
    at: u64,
    /// Of the lists that have been read.
    elements: u64,
}

impl<R: Read> Header<'_, R> {
    fn read(&mut self) -> Result<(Metadata, Vec<TensorEntry>), EngineError> {
        let magic: [u8; 4] = self.take()?;
        if magic != MAGIC {
            return Err(self.malformed("it does not begin as a GGUF file does"));
        }
        let version = u32::from_le_bytes(self.take()?);
        if VERSIONS.contains(&version.swap_bytes()) {
            return Err(self.malformed("it is for big-endian machines"));
        }
        if !VERSIONS.contains(&version) {
            return Err(self.malformed(format!("its version is {version}; versions 2 and 3 are read")));
        }
        let tensors = self.number()?;
        let values = self.number()?;
        for (what, count) in [("tensors", tensors), ("metadata entries", values)] {
            if count > GREATEST_ENTRIES.min(self.left()) {
                return Err(self.malformed(format!("it claims {count} {what}")));
            }
        }
        let metadata = self.metadata(values)?;
        let alignment = self.alignment(&metadata)?;
        let mut entries = Vec::new();
        for _ in 0..tensors {
            let entry = self.tensor(alignment)?;
            entries.push(entry);
        }
        self.place(&mut entries, alignment)?;
        Ok((metadata, entries))
    }

    fn metadata(&mut self, count: u64) -> Result<Metadata, EngineError> {
        let mut metadata = Metadata::default();
        for _ in 0..count {
            let name = self.text("a metadata key")?;
            let kind = u32::from_le_bytes(self.take()?);
            let value = self.value(&name, kind)?;
            match metadata.values.entry(name) {
                Entry::Vacant(place) => drop(place.insert(value)),
                Entry::Occupied(place) => {
                    return Err(self.malformed(format!("its metadata has {} twice", place.key())));
                }
            }
        }
        Ok(metadata)
    }

    fn value(&mut self, name: &str, kind: u32) -> Result<MetadataValue, EngineError> {
        Ok(match kind {
            0..=5 | 10 | 11 => MetadataValue::Integer(self.integer(kind)?),
            6 | 12 => MetadataValue::Float(self.float(kind)?),
            7 => MetadataValue::Bool(self.bool(name)?),
            8 => MetadataValue::Text(self.text(name)?),
            9 => self.array(name)?,
            _ => return Err(self.malformed(format!("{name} is a value of the unknown type {kind}"))),
        })
    }

    fn array(&mut self, name: &str) -> Result<MetadataValue, EngineError> {
        let kind = u32::from_le_bytes(self.take()?);
        let count = self.number()?;
        if count > GREATEST_ARRAY.min(self.left()) {
            return Err(self.malformed(format!("{name} claims {count} elements")));
        }
        self.elements += count;
        if self.elements > GREATEST_ELEMENTS {
            return Err(self.malformed(format!("its lists have more than {GREATEST_ELEMENTS} elements")));
        }
        let integers = |this: &mut Self| (0..count).map(|_| this.integer(kind)).collect::<Result<_, EngineError>>();
        Ok(match kind {
            0..=5 | 10 | 11 => MetadataValue::Integers(integers(self)?),
            6 | 12 => MetadataValue::Floats((0..count).map(|_| self.float(kind)).collect::<Result<_, _>>()?),
            7 => MetadataValue::Bools((0..count).map(|_| self.bool(name)).collect::<Result<_, _>>()?),
            8 => MetadataValue::Texts((0..count).map(|_| self.text(name)).collect::<Result<_, _>>()?),
            9 => return Err(self.malformed(format!("{name} is a list of lists"))),
            _ => return Err(self.malformed(format!("{name} is a list of the unknown type {kind}"))),
        })
    }

    fn integer(&mut self, kind: u32) -> Result<i64, EngineError> {
        Ok(match kind {
            0 => u8::from_le_bytes(self.take()?).into(),
            1 => i8::from_le_bytes(self.take()?).into(),
            2 => u16::from_le_bytes(self.take()?).into(),
            3 => i16::from_le_bytes(self.take()?).into(),
            4 => u32::from_le_bytes(self.take()?).into(),
            5 => i32::from_le_bytes(self.take()?).into(),
            10 => i64::try_from(self.number()?).unwrap_or(i64::MAX),
            _ => i64::from_le_bytes(self.take()?),
        })
    }

    fn float(&mut self, kind: u32) -> Result<f64, EngineError> {
        Ok(if kind == 6 { short_float(f32::from_le_bytes(self.take()?)) } else { f64::from_le_bytes(self.take()?) })
    }

    fn bool(&mut self, name: &str) -> Result<bool, EngineError> {
        match self.take::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(self.malformed(format!("{name} is neither true nor false, but {other}"))),
        }
    }

    /// Its place counts from the first tensor's, until all entries have been read.
    fn tensor(&mut self, alignment: u64) -> Result<TensorEntry, EngineError> {
        let path = self.path;
        let name = self.text("a tensor's name")?;
        let refuse = |message: String| EngineError::Tensor { path: path.to_path_buf(), name: name.clone(), message };
        let dimensions = u32::from_le_bytes(self.take()?);
        if !(1..=GREATEST_DIMENSIONS).contains(&dimensions) {
            return Err(refuse(format!("it has {dimensions} dimensions")));
        }
        let mut shape = (0..dimensions).map(|_| self.number()).collect::<Result<Vec<u64>, _>>()?;
        shape.reverse();
        let kind = u32::from_le_bytes(self.take()?);
        let kind = BlockType::of_id(kind).map_err(|name| refuse(format!("elements of {name} are not read")))?;
        let start = self.number()?;
        let bytes = bytes_of(&shape, kind);
        let bytes = bytes.ok_or_else(|| refuse(format!("{shape:?} numbers of type {} cannot be", kind.name())))?;
        if start % alignment != 0 {
            return Err(refuse(format!("it begins at {start}, which is no multiple of {alignment}")));
        }
        let end = start.checked_add(bytes).filter(|end| *end <= self.length);
        let end = end.ok_or_else(|| refuse("it reaches beyond the file's end".into()))?;
        let shape = shape.into_iter().map(|size| size as usize).collect();
        Ok(TensorEntry { name, shape, kind, place: start..end })
    }

    /// Where tensors stand in the file, which must not overlap.
    fn place(&self, entries: &mut [TensorEntry], alignment: u64) -> Result<(), EngineError> {
        let start = self.at.next_multiple_of(alignment);
        let refuse = |entry: &TensorEntry, message: String| EngineError::Tensor {
            path: self.path.to_path_buf(),
            name: entry.name.clone(),
            message,
        };
        for entry in entries.iter_mut() {
            entry.place = start + entry.place.start..start + entry.place.end;
            if entry.place.end > self.length {
                return Err(refuse(entry, "it reaches beyond the file's end".into()));
            }
        }
        let mut ordered: Vec<&TensorEntry> = entries.iter().collect();
        ordered.sort_by_key(|entry| (entry.place.start, entry.place.end));
        if let Some(pair) = ordered.windows(2).find(|pair| pair[0].place.end > pair[1].place.start) {
            return Err(refuse(pair[1], format!("it overlaps {}", pair[0].name)));
        }
        ordered.sort_by_key(|entry| &entry.name);
        match ordered.windows(2).find(|pair| pair[0].name == pair[1].name) {
            Some(pair) => Err(refuse(pair[0], "it is there twice".into())),
            None => Ok(()),
        }
    }

    fn alignment(&self, metadata: &Metadata) -> Result<u64, EngineError> {
        if !metadata.values.contains_key(ALIGNMENT_KEY) {
            return Ok(ALIGNMENT);
        }
        let stated = metadata.count(ALIGNMENT_KEY).map(|count| count as u64);
        let fits = |count: &u64| count.is_power_of_two() && *count <= 1 << 20;
        stated.filter(fits).ok_or_else(|| self.malformed(format!("{ALIGNMENT_KEY} is no alignment")))
    }

    fn text(&mut self, what: &str) -> Result<String, EngineError> {
        let length = self.number()?;
        if length > GREATEST_TEXT.min(self.left()) {
            return Err(self.malformed(format!("{what} claims {length} bytes")));
        }
        let mut bytes = vec![0; length as usize];
        self.reader.read_exact(&mut bytes).map_err(EngineError::io("read", self.path))?;
        self.advance(length)?;
        String::from_utf8(bytes).map_err(|_| self.malformed(format!("{what} is not UTF-8")))
    }

    fn number(&mut self) -> Result<u64, EngineError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn left(&self) -> u64 {
        self.length - self.at
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], EngineError> {
        if self.left() < N as u64 {
            return Err(self.malformed(format!("it ends after {} bytes, in the middle of its header", self.length)));
        }
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(EngineError::io("read", self.path))?;
        self.advance(N as u64)?;
        Ok(bytes)
    }

    fn advance(&mut self, bytes: u64) -> Result<(), EngineError> {
        self.at += bytes;
        match self.at > GREATEST_HEADER {
            true => Err(self.malformed(format!("its header has more than {} MiB", GREATEST_HEADER >> 20))),
            false => Ok(()),
        }
    }

    fn malformed(&self, message: impl Into<String>) -> EngineError {
        malformed(self.path, message)
    }
}

pub(super) fn malformed(path: &Path, message: impl Into<String>) -> EngineError {
    EngineError::Malformed { path: path.to_path_buf(), message: message.into() }
}

/// How many bytes so many numbers take, if rows are whole blocks and the sum is a number.
fn bytes_of(shape: &[u64], kind: BlockType) -> Option<u64> {
    let row = *shape.last()?;
    if row % kind.numbers() as u64 != 0 {
        return None;
    }
    let count = shape.iter().try_fold(1_u64, |count, size| count.checked_mul(*size)).filter(|count| *count > 0)?;
    (count / kind.numbers() as u64).checked_mul(kind.bytes() as u64)
}

/// The number that was written down when it was rounded to 32 bits: 1e-5, and not 9.999999747378752e-6.
fn short_float(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}
