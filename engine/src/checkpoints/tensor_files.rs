//! Model directories in Hugging Face's form: reading weights of several element types, writing f32.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_backends::DigestingWriter;
use half::{bf16, f16};
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensorError};
use serde::Deserialize;

use crate::error::EngineError;
use crate::kernels::Precision;
use crate::model::element_type::ElementType;
use crate::model::layout::{Layout, Numbers, Tensor};
use crate::model::weights::{Model, Weights};
use crate::small_files::{LONGEST_CONFIG, read_small_file};

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
fn weight_files(directory: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let index_path = directory.join(WEIGHTS_INDEX);
    let single = directory.join(WEIGHTS);
    if single.exists() || !index_path.exists() {
        return Ok(vec![single]);
    }
    let text = read_small_file(&index_path, LONGEST_CONFIG)?;
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

/// Finds a model directory's weights.
pub(crate) fn find_weights(directory: &Path, layout: &Layout) -> Result<FoundTensors, EngineError> {
    find_weights_but(&[], directory, layout)
}

/// Finds a model directory's weights, where those of some names are new.
pub(crate) fn find_weights_but(new: &[&str], directory: &Path, layout: &Layout) -> Result<FoundTensors, EngineError> {
    let files = weight_files(directory)?;
    let mut search = TensorSearch::new(&layout.tensors, "");
    let tied_head = layout.head == layout.embedding;
    for path in &files {
        // Some writers store a tied head although it is the embedding.
        search.look_into(path, |name| !(tied_head && name == "lm_head.weight"))?;
    }
    search.missing.retain(|name, _| !new.contains(&name.as_str()));
    let index = directory.join(WEIGHTS_INDEX);
    search.finish(if let [single] = &files[..] { single } else { &index })
}

/// Reads a model directory's weights into one flat list.
#[cfg(test)]
pub(crate) fn read_weights(directory: &Path, layout: &Layout) -> Result<Vec<f32>, EngineError> {
    let found = find_weights(directory, layout)?;
    let mut values = vec![0.0; layout.length];
    found.read(&mut values)?;
    Ok(values)
}

/// Looks for tensors, each under its name with a prefix, in one file after another.
pub(crate) struct TensorSearch<'a> {
    missing: HashMap<String, &'a Tensor>,
    found: FoundTensors,
}

impl<'a> TensorSearch<'a> {
    pub(crate) fn new(tensors: &'a [Tensor], prefix: &str) -> Self {
        let missing = tensors.iter().map(|tensor| (format!("{prefix}{}", tensor.name), tensor)).collect();
        Self { missing, found: FoundTensors { files: Vec::new(), tensors: Vec::new() } }
    }

    /// Takes the tensors with these names, all of which must be looked for.
    pub(crate) fn look_into(&mut self, path: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<(), EngineError> {
        let file = TensorFile::open(path)?;
        let mut names = file.names();
        names.retain(|name| is_wanted(name));
        for name in names {
            let refuse = |message| Err(EngineError::Tensor { path: path.to_path_buf(), name: name.clone(), message });
            let (Some(tensor), Some(info)) = (self.missing.remove(&name), file.metadata.info(&name)) else {
                return refuse("the model has no such tensor, or it is there twice".into());
            };
            if info.shape != tensor.shape {
                return refuse(format!("its shape is {:?}, but must be {:?}", info.shape, tensor.shape));
            }
            if !is_readable_type(info.dtype) {
                return refuse(format!("elements of type {:?} are not supported", info.dtype));
            }
            let (file, start) = (self.found.files.len(), info.data_offsets.0);
            let (place, row) = (tensor.place.clone(), tensor.row());
            self.found.tensors.push(FoundTensor { file, kind: info.dtype, start, place, row });
        }
        self.found.files.push(file);
        Ok(())
    }

    /// What was found, which must be all; `path` is where it is missed.
    pub(crate) fn finish(self, path: &Path) -> Result<FoundTensors, EngineError> {
        match self.missing.into_keys().min() {
            None => Ok(self.found),
            Some(name) => Err(EngineError::Tensor { path: path.to_path_buf(), name, message: "it is missing".into() }),
        }
    }
}

/// All tensors of a layout, each in its file, none of them read yet.
#[derive(Debug)]
pub(crate) struct FoundTensors {
    files: Vec<TensorFile>,
    tensors: Vec<FoundTensor>,
}

#[derive(Debug)]
struct FoundTensor {
    file: usize,
    kind: Dtype,
    /// Where it begins in its file.
    start: usize,
    place: Range<usize>,
    /// Numbers of a row.
    row: usize,
}

impl FoundTensors {
    /// How many numbers there are of each element type.
    pub(crate) fn element_types(&self) -> BTreeMap<String, u64> {
        let mut types = BTreeMap::new();
        for tensor in &self.tensors {
            *types.entry(format!("{:?}", tensor.kind)).or_default() += tensor.place.len() as u64;
        }
        types
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }

    /// What all numbers of a place in the layout can be held as without loss.
    pub(crate) fn precision(&self, place: &Range<usize>) -> Precision {
        let mut within = self.tensors.iter().filter(|tensor| place.contains(&tensor.place.start));
        if within.all(|tensor| tensor.kind == Dtype::BF16) { Precision::Half } else { Precision::Single }
    }

    /// Weights of their own for a model, each matrix held as it is in its file if nothing is lost.
    pub(crate) fn read_weights(self, model: Arc<Model>) -> Result<Weights, EngineError> {
        let mut weights = Weights::zeros(model, |place| self.precision(place));
        self.read(&mut weights)?;
        Ok(weights)
    }

    /// Reads the numbers of all tensors into their places.
    pub(crate) fn read(mut self, numbers: &mut impl Numbers) -> Result<(), EngineError> {
        self.tensors.sort_by_key(|tensor| (tensor.file, tensor.start));
        for tensor in &self.tensors {
            self.files[tensor.file].read_numbers(tensor, numbers)?;
        }
        Ok(())
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
        let end = start.saturating_add(data);
        if end != length {
            return Err(malformed(format!("it has {length} bytes, but must have {end}")));
        }
        Ok(Self { path: path.to_path_buf(), file, metadata, start })
    }

    /// What would stand before its tensors if they had other names, and the bytes that stand there.
    pub(crate) fn renamed(&self, rename: impl Fn(&str) -> String) -> Result<(Vec<u8>, u64), EngineError> {
        let tensor = |name: String| Some((rename(&name), self.metadata.info(&name)?.clone()));
        let infos = self.metadata.offset_keys().into_iter().filter_map(tensor).collect();
        let header = Metadata::new(self.metadata.metadata().clone(), infos).and_then(|metadata| header_of(&metadata));
        Ok((header.map_err(no_layout(&self.path))?, self.start))
    }

    /// A whole number that is a tensor of its own; `None` where there is none.
    pub(crate) fn whole_number(&mut self, name: &str) -> Result<Option<u64>, EngineError> {
        let Some(info) = self.metadata.info(name) else { return Ok(None) };
        let (start, end) = info.data_offsets;
        if info.dtype != Dtype::U64 || end - start != size_of::<u64>() {
            return Ok(None);
        }
        let mut bytes = [0; size_of::<u64>()];
        self.seek(start)?;
        self.file.read_exact(&mut bytes).map_err(EngineError::io("read", &self.path))?;
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    /// The names of its tensors, in one order, so that the same fault always has the same message.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = self.metadata.offset_keys();
        names.sort_unstable();
        names
    }

    /// Reads some rows at a time.
    fn read_numbers(&mut self, tensor: &FoundTensor, numbers: &mut impl Numbers) -> Result<(), EngineError> {
        self.seek(tensor.start)?;
        let width = if tensor.kind == Dtype::F32 { 4 } else { 2 };
        let piece = (PIECE / width / tensor.row).max(1) * tensor.row;
        let mut bytes = vec![0; piece.min(tensor.place.len()) * width];
        let mut values = vec![0.0; piece.min(tensor.place.len())];
        for start in tensor.place.clone().step_by(piece) {
            let count = piece.min(tensor.place.end - start);
            let (bytes, values) = (&mut bytes[..count * width], &mut values[..count]);
            self.file.read_exact(bytes).map_err(EngineError::io("read", &self.path))?;
            decode_numbers(tensor.kind, bytes, values);
            numbers.put(start, values);
        }
        Ok(())
    }

    fn seek(&mut self, start: usize) -> Result<(), EngineError> {
        let place = SeekFrom::Start(self.start + start as u64);
        self.file.seek(place).map(drop).map_err(EngineError::io("read", &self.path))
    }
}

/// Whether tensors of this element type can be read.
fn is_readable_type(kind: Dtype) -> bool {
    matches!(kind, Dtype::F32 | Dtype::BF16 | Dtype::F16)
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
pub(crate) struct Written<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) content: Content<'a>,
}

/// Reads whole rows from a number of the tensor on.
type ReadRows<'a> = dyn Fn(usize, &mut [f32]) -> std::io::Result<()> + 'a;

/// Where what is written comes from.
pub(crate) enum Content<'a> {
    Bytes(Vec<u8>),
    /// Numbers from a place on, rounded to the element type.
    Numbers(&'a dyn Numbers, usize),
    /// Numbers that are read while they are written, and rounded to the element type.
    Read(Box<ReadRows<'a>>),
}

impl Written<'_> {
    fn count(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.count() * self.dtype.bitsize() / 8
    }

    /// Writes the rows, some at a time.
    pub(crate) fn write(&self, file: &mut impl Write) -> std::io::Result<()> {
        if let Content::Bytes(bytes) = &self.content {
            return file.write_all(bytes);
        }
        let row = self.shape.last().copied().unwrap_or(1).max(1);
        let piece = (PIECE / size_of::<f32>() / row).max(1) * row;
        let (mut values, mut bytes) = (Vec::new(), Vec::new());
        for first in (0..self.count()).step_by(piece) {
            values.resize(piece.min(self.count() - first), 0.0);
            match &self.content {
                Content::Bytes(_) => {}
                Content::Numbers(numbers, start) => numbers.get(start + first, &mut values),
                Content::Read(read) => read(first, &mut values)?,
            }
            bytes.clear();
            encode_numbers(self.dtype, &values, &mut bytes);
            file.write_all(&bytes)?;
        }
        Ok(())
    }
}

/// Of a type that is read, to the nearest number.
fn encode_numbers(kind: Dtype, values: &[f32], bytes: &mut Vec<u8>) {
    match kind {
        Dtype::BF16 => bytes.extend(values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes())),
        Dtype::F16 => bytes.extend(values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes())),
        _ => bytes.extend(values.iter().flat_map(|value| value.to_le_bytes())),
    }
}

/// Tensors of an element type, each under its name with a prefix.
pub(crate) fn written_tensors<'a>(
    tensors: &[Tensor],
    prefix: &str,
    numbers: &'a dyn Numbers,
    elements: ElementType,
) -> Vec<(String, Written<'a>)> {
    let dtype = elements.dtype();
    let write = |tensor: &Tensor| {
        let content = Content::Numbers(numbers, tensor.place.start);
        (format!("{prefix}{}", tensor.name), Written { dtype, shape: tensor.shape.clone(), content })
    };
    tensors.iter().map(write).collect()
}

/// Writes a safetensors file, durable on return; its digest.
pub(crate) fn write_tensors(path: &Path, mut tensors: Vec<(String, Written<'_>)>) -> Result<String, EngineError> {
    // As the format's own library does, so that all are aligned.
    tensors.sort_by(|(left_name, left), (right_name, right)| {
        right.dtype.cmp(&left.dtype).then_with(|| left_name.cmp(right_name))
    });
    let header = header(&tensors).map_err(no_layout(path))?;
    write_new(path, |file| {
        file.write_all(&header)?;
        tensors.iter().try_for_each(|(_, tensor)| tensor.write(file))
    })
}

fn no_layout(path: &Path) -> impl FnOnce(SafeTensorError) -> EngineError {
    let path = path.to_path_buf();
    |error| EngineError::Malformed { path, message: format!("cannot be laid out: {error}") }
}

/// All that stands in a safetensors file before the tensors, which lie one after another in this order.
fn header(tensors: &[(String, Written<'_>)]) -> Result<Vec<u8>, SafeTensorError> {
    let mut end = 0;
    let info = |(name, tensor): &(String, Written<'_>)| {
        let start = end;
        end += tensor.bytes();
        (name.clone(), TensorInfo { dtype: tensor.dtype, shape: tensor.shape.clone(), data_offsets: (start, end) })
    };
    let infos = tensors.iter().map(info).collect();
    // transformers refuses files that do not name a framework.
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    header_of(&Metadata::new(Some(metadata), infos)?)
}

fn header_of(metadata: &Metadata) -> Result<Vec<u8>, SafeTensorError> {
    let mut text = serde_json::to_vec(metadata)?;
    text.resize(text.len().next_multiple_of(8), b' ');
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

/// Writes a new file and makes its content durable; its digest.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<String, EngineError> {
    write_new(path, |file| file.write_all(bytes))
}

pub(crate) type NewFile = DigestingWriter<BufWriter<File>>;

/// Writes a new file by what `write` does, durable on return; its digest.
pub(crate) fn write_new(
    path: &Path,
    write: impl FnOnce(&mut NewFile) -> std::io::Result<()>,
) -> Result<String, EngineError> {
    let file = BufWriter::new(File::create_new(path).map_err(EngineError::io("create", path))?);
    let mut file = DigestingWriter::new(file);
    write(&mut file).and_then(|()| file.flush()).map_err(EngineError::io("write", path))?;
    let (file, digest) = file.finish();
    file.get_ref().sync_all().map_err(EngineError::io("sync", path))?;
    Ok(digest)
}

/// Makes a directory's list of names durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), EngineError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(EngineError::io("sync", path))
}
