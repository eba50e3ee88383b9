//! How a GGUF file of version 3 is laid out: header, metadata, the tensors' names and places, the tensors.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::checkpoints::tensor_files::{Written, sync_directory, write_new};
use crate::error::EngineError;
use crate::gguf::blocks::BlockType;
use crate::gguf::header::{ALIGNMENT, MAGIC};
use crate::gguf::metadata::{Metadata, MetadataValue};

const VERSION: u32 = 3;

/// Writes the file beside its place first, so that it appears whole or not at all.
pub(super) fn write_gguf(
    target: &Path,
    metadata: &Metadata,
    tensors: &[(String, Written<'_>)],
) -> Result<(), EngineError> {
    if target.exists() {
        return Err(EngineError::io("create", target)(std::io::ErrorKind::AlreadyExists.into()));
    }
    let partial = partial(target);
    if partial.exists() {
        // A crash left it.
        std::fs::remove_file(&partial).map_err(EngineError::io("remove", &partial))?;
    }
    let header = header(metadata, tensors);
    let written = write_new(&partial, |file| {
        file.write_all(&header)?;
        for (_, tensor) in tensors {
            tensor.write(file)?;
            file.write_all(&vec![0; padding(tensor.bytes())])?;
        }
        Ok(())
    });
    if let Err(error) = written {
        // Of a full disk, most likely: what is there of it is of no use.
        let _ = std::fs::remove_file(&partial);
        return Err(error);
    }
    std::fs::rename(&partial, target).map_err(EngineError::io("complete", target))?;
    sync_directory(target.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")))
}

fn partial(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Bytes after so many that bring the next tensor to its place.
fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT as usize) - bytes
}

fn header(metadata: &Metadata, tensors: &[(String, Written<'_>)]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    number(&mut bytes, tensors.len());
    number(&mut bytes, metadata.values.len());
    for (key, value) in &metadata.values {
        text(&mut bytes, key);
        bytes.extend(kind_of(value).to_le_bytes());
        put(&mut bytes, value);
    }
    let mut place = 0;
    for (name, tensor) in tensors {
        text(&mut bytes, name);
        bytes.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().rev().for_each(|size| number(&mut bytes, *size));
        bytes.extend(BlockType::of_dtype(tensor.dtype).id().to_le_bytes());
        number(&mut bytes, place);
        place += tensor.bytes() + padding(tensor.bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
    bytes
}

const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const BOOL: u32 = 7;
const TEXT: u32 = 8;
const LIST: u32 = 9;

fn kind_of(value: &MetadataValue) -> u32 {
    match value {
        MetadataValue::Integer(_) => U32,
        MetadataValue::Float(_) => F32,
        MetadataValue::Bool(_) => BOOL,
        MetadataValue::Text(_) => TEXT,
        MetadataValue::Integers(_) | MetadataValue::Floats(_) | MetadataValue::Bools(_) | MetadataValue::Texts(_) => {
            LIST
        }
    }
}

fn put(bytes: &mut Vec<u8>, value: &MetadataValue) {
    let list = |bytes: &mut Vec<u8>, kind: u32, count: usize| {
        bytes.extend(kind.to_le_bytes());
        number(bytes, count);
    };
    match value {
        MetadataValue::Integer(value) => bytes.extend((*value as u32).to_le_bytes()),
        MetadataValue::Float(value) => bytes.extend((*value as f32).to_le_bytes()),
        MetadataValue::Bool(value) => bytes.push(u8::from(*value)),
        MetadataValue::Text(value) => text(bytes, value),
        MetadataValue::Integers(values) => {
            list(bytes, I32, values.len());
            values.iter().for_each(|value| bytes.extend((*value as i32).to_le_bytes()));
        }
        MetadataValue::Floats(values) => {
            list(bytes, F32, values.len());
            values.iter().for_each(|value| bytes.extend((*value as f32).to_le_bytes()));
        }
        MetadataValue::Bools(values) => {
            list(bytes, BOOL, values.len());
            bytes.extend(values.iter().map(|value| u8::from(*value)));
        }
        MetadataValue::Texts(values) => {
            list(bytes, TEXT, values.len());
            values.iter().for_each(|value| text(bytes, value));
        }
    }
}

fn number(bytes: &mut Vec<u8>, value: usize) {
    bytes.extend((value as u64).to_le_bytes());
}

fn text(bytes: &mut Vec<u8>, value: &str) {
    number(bytes, value.len());
    bytes.extend(value.as_bytes());
}
