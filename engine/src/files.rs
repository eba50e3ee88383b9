//! Model directories in Hugging Face's form: reading weights of several element types, writing f32.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::tensor::{Metadata, TensorView};
use safetensors::{Dtype, SafeTensors, View};
use serde::Deserialize;

use crate::EngineError;
use crate::conversion::ElementType;
use crate::layout::{Layout, Tensor};

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const GENERATION_CONFIG: &str = "generation_config.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// Which file holds which tensor, for weights in several files.
#[derive(Deserialize)]
struct WeightsIndex {
    weight_map: BTreeMap<String, String>,
}

/// The files that hold a model directory's weights.
pub(crate) fn weight_files(directory: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let index_path = directory.join(WEIGHTS_INDEX);
    let single = directory.join(WEIGHTS);
    if single.exists() || !index_path.exists() {
        return Ok(vec![single]);
    }
    let text = std::fs::read_to_string(&index_path).map_err(EngineError::io("read", &index_path))?;
    let index: WeightsIndex = serde_json::from_str(&text).map_err(|error| EngineError::Malformed {
        path: index_path.clone(),
        message: format!("not an index of weights: {error}"),
    })?;
    let mut names: Vec<_> = index.weight_map.into_values().collect();
    names.sort();
    names.dedup();
    if let Some(name) = names.iter().find(|name| Path::new(name).file_name().is_none_or(|file| file != name.as_str())) {
        let message = format!("{name:?} is not the name of a file beside it");
        return Err(EngineError::Malformed { path: index_path, message });
    }
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

/// Reads a model directory's weights into one flat list.
pub(crate) fn read_weights(directory: &Path, layout: &Layout) -> Result<Vec<f32>, EngineError> {
    let files = weight_files(directory)?;
    let mut reader = TensorReader::new(&layout.tensors, "");
    reader.tied_head = layout.head == layout.embedding;
    files.iter().try_for_each(|file| reader.read(file))?;
    let index = directory.join(WEIGHTS_INDEX);
    reader.finish(if let [single] = &files[..] { single } else { &index })
}

/// Collects tensors, each under its name with a prefix, from one file after another.
pub(crate) struct TensorReader<'a> {
    expected: HashMap<String, &'a Tensor>,
    values: Vec<f32>,
    tied_head: bool,
}

impl<'a> TensorReader<'a> {
    /// `tensors` stand one after another.
    pub(crate) fn new(tensors: &'a [Tensor], prefix: &str) -> Self {
        Self {
            expected: tensors.iter().map(|tensor| (format!("{prefix}{}", tensor.name), tensor)).collect(),
            values: vec![0.0; tensors.last().map_or(0, |tensor| tensor.place.end)],
            tied_head: false,
        }
    }

    pub(crate) fn read(&mut self, path: &Path) -> Result<(), EngineError> {
        let tied_head = self.tied_head;
        // Some writers store a tied head although it is the embedding.
        self.read_those(&mut TensorFile::open(path)?, |name| !(tied_head && name == "lm_head.weight"))
    }

    /// Reads the tensors of these names.
    pub(crate) fn read_those(
        &mut self,
        file: &mut TensorFile,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<(), EngineError> {
        let mut names = file.metadata.offset_keys();
        names.retain(|name| is_meant(name));
        // In one order, so that the same fault is always told in the same words.
        names.sort_unstable();
        names.into_iter().try_for_each(|name| self.take(&name, file))
    }

    fn take(&mut self, name: &str, file: &mut TensorFile) -> Result<(), EngineError> {
        let refuse = |message| Err(EngineError::Tensor { path: file.path.clone(), name: name.to_string(), message });
        let (Some(tensor), Some(info)) = (self.expected.remove(name), file.metadata.info(name)) else {
            return refuse("the model has no such tensor, or it is there twice".into());
        };
        if info.shape != tensor.shape {
            return refuse(format!("its shape is {:?}, but must be {:?}", info.shape, tensor.shape));
        }
        if !is_readable_type(info.dtype) {
            return refuse(format!("elements of type {:?} are not supported", info.dtype));
        }
        let (kind, (start, _)) = (info.dtype, info.data_offsets);
        file.read_numbers(kind, start, &mut self.values[tensor.place.clone()])
    }

    pub(crate) fn finish(self, path: &Path) -> Result<Vec<f32>, EngineError> {
        match self.expected.into_keys().min() {
            None => Ok(self.values),
            Some(name) => Err(EngineError::Tensor { path: path.to_path_buf(), name, message: "it is missing".into() }),
        }
    }
}

/// Longest header that the format's own library reads.
const GREATEST_HEADER: u64 = 100_000_000;

/// Bytes that are read from a file at a time.
const PIECE: usize = 1 << 20;

/// A safetensors file that is read tensor by tensor, so that its bytes and the numbers they become are not held at once.
#[derive(Debug)]
pub(crate) struct TensorFile {
    path: PathBuf,
    file: File,
    pub(crate) metadata: Metadata,
    /// Where the tensors begin.
    start: u64,
}

impl TensorFile {
    /// Reads the names, shapes and element types.
    pub(crate) fn open(path: &Path) -> Result<Self, EngineError> {
        let read = |error| EngineError::io("read", path)(error);
        let malformed = |fault: String| EngineError::Malformed {
            path: path.to_path_buf(),
            message: format!("not a safetensors file: {fault}"),
        };
        let mut file = File::open(path).map_err(read)?;
        let length = file.metadata().map_err(read)?.len();
        let mut header = [0; 8];
        if length < header.len() as u64 {
            return Err(malformed(format!("it has {length} bytes")));
        }
        file.read_exact(&mut header).map_err(read)?;
        let count = u64::from_le_bytes(header);
        if count > GREATEST_HEADER.min(length - 8) {
            return Err(malformed(format!("its header would have {count} bytes")));
        }
        let mut header = vec![0; count as usize];
        file.read_exact(&mut header).map_err(read)?;
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| malformed(error.to_string()))?;
        let (start, data) = (8 + count, metadata.data_len() as u64);
        if start + data != length {
            return Err(malformed(format!("it has {length} bytes, but must have {}", start + data)));
        }
        Ok(Self { path: path.to_path_buf(), file, metadata, start })
    }

    /// All bytes of one small tensor.
    pub(crate) fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, EngineError> {
        let Some((start, end)) = self.metadata.info(name).map(|info| info.data_offsets) else { return Ok(None) };
        let mut bytes = vec![0; end - start];
        self.seek(start)?;
        self.file.read_exact(&mut bytes).map_err(EngineError::io("read", &self.path))?;
        Ok(Some(bytes))
    }

    fn read_numbers(&mut self, kind: Dtype, start: usize, values: &mut [f32]) -> Result<(), EngineError> {
        self.seek(start)?;
        let width = if kind == Dtype::F32 { 4 } else { 2 };
        let mut piece = vec![0; PIECE.min(values.len() * width)];
        for values in values.chunks_mut(PIECE / width) {
            let bytes = &mut piece[..values.len() * width];
            self.file.read_exact(bytes).map_err(EngineError::io("read", &self.path))?;
            decode_numbers(kind, bytes, values);
        }
        Ok(())
    }

    fn seek(&mut self, start: usize) -> Result<(), EngineError> {
        let place = SeekFrom::Start(self.start + start as u64);
        self.file.seek(place).map(drop).map_err(EngineError::io("read", &self.path))
    }
}

pub(crate) fn parse<'a>(bytes: &'a [u8], path: &Path) -> Result<SafeTensors<'a>, EngineError> {
    SafeTensors::deserialize(bytes).map_err(|error| EngineError::Malformed {
        path: path.to_path_buf(),
        message: format!("not a safetensors file: {error}"),
    })
}

/// Whether tensors of this element type can be read.
pub(crate) fn is_readable_type(kind: Dtype) -> bool {
    matches!(kind, Dtype::F32 | Dtype::BF16 | Dtype::F16)
}

/// The numbers of a tensor, or its element type if that is not read.
pub(crate) fn decode(view: &TensorView<'_>, values: &mut [f32]) -> Result<(), Dtype> {
    if !is_readable_type(view.dtype()) {
        return Err(view.dtype());
    }
    decode_numbers(view.dtype(), view.data(), values);
    Ok(())
}

/// Of a type that is read.
fn decode_numbers(kind: Dtype, bytes: &[u8], values: &mut [f32]) {
    let ((pairs, _), (quads, _)) = (bytes.as_chunks::<2>(), bytes.as_chunks::<4>());
    match kind {
        Dtype::BF16 => {
            values.iter_mut().zip(pairs).for_each(|(value, bytes)| *value = bf16::from_le_bytes(*bytes).to_f32());
        }
        Dtype::F16 => {
            values.iter_mut().zip(pairs).for_each(|(value, bytes)| *value = f16::from_le_bytes(*bytes).to_f32());
        }
        _ => values.iter_mut().zip(quads).for_each(|(value, bytes)| *value = f32::from_le_bytes(*bytes)),
    }
}

/// A tensor to be written.
pub(crate) struct Written {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl View for Written {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Tensors, each under its name with a prefix.
pub(crate) fn written_tensors(tensors: &[Tensor], prefix: &str, values: &[f32]) -> Vec<(String, Written)> {
    let write = |tensor: &Tensor| {
        let bytes = values[tensor.place.clone()].iter().flat_map(|value| value.to_le_bytes()).collect();
        (format!("{prefix}{}", tensor.name), Written { dtype: Dtype::F32, shape: tensor.shape.clone(), bytes })
    };
    tensors.iter().map(write).collect()
}

/// The layout's tensors in an element type, to the nearest number.
pub(crate) fn converted_tensors(layout: &Layout, values: &[f32], elements: ElementType) -> Vec<(String, Written)> {
    let write = |tensor: &Tensor| {
        let values = values[tensor.place.clone()].iter();
        let (dtype, bytes) = match elements {
            ElementType::F32 => (Dtype::F32, values.flat_map(|value| value.to_le_bytes()).collect()),
            ElementType::Bf16 => (Dtype::BF16, values.flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect()),
            ElementType::F16 => (Dtype::F16, values.flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect()),
        };
        (tensor.name.clone(), Written { dtype, shape: tensor.shape.clone(), bytes })
    };
    layout.tensors.iter().map(write).collect()
}

/// Writes a safetensors file, durable on return.
pub(crate) fn write_tensors(path: &Path, tensors: Vec<(String, Written)>) -> Result<(), EngineError> {
    // transformers refuses files that do not name a framework.
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    let bytes = safetensors::serialize(tensors, Some(metadata)).map_err(|error| EngineError::Malformed {
        path: path.to_path_buf(),
        message: format!("cannot be laid out: {error}"),
    })?;
    write_durably(path, &bytes)
}

/// Writes a new file and makes its content durable.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
    let mut file = File::create_new(path).map_err(EngineError::io("create", path))?;
    file.write_all(bytes).map_err(EngineError::io("write", path))?;
    file.sync_all().map_err(EngineError::io("sync", path))
}

/// Makes a directory's list of names durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), EngineError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(EngineError::io("sync", path))
}
