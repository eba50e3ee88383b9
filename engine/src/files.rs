//! Model directories in Hugging Face's form: reading weights of several element types, writing f32.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::tensor::TensorView;
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
        let bytes = std::fs::read(path).map_err(EngineError::io("read", path))?;
        let file = parse(&bytes, path)?;
        let mut tensors: Vec<_> = file.iter().collect();
        // In one order, so that the same fault is always told in the same words.
        tensors.sort_unstable_by_key(|(name, _)| *name);
        for (name, view) in tensors {
            // Some writers store a tied head although it is the embedding.
            if name == "lm_head.weight" && self.tied_head {
                continue;
            }
            self.take(name, &view, path)?;
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, name: &str, view: &TensorView<'_>, path: &Path) -> Result<(), EngineError> {
        let refuse = |message| EngineError::Tensor { path: path.to_path_buf(), name: name.to_string(), message };
        let Some(tensor) = self.expected.remove(name) else {
            return Err(refuse("the model has no such tensor, or it is there twice".into()));
        };
        if view.shape() != tensor.shape {
            return Err(refuse(format!("its shape is {:?}, but must be {:?}", view.shape(), tensor.shape)));
        }
        let values = &mut self.values[tensor.place.clone()];
        decode(view, values).map_err(|kind| refuse(format!("elements of type {kind:?} are not supported")))
    }

    pub(crate) fn finish(self, path: &Path) -> Result<Vec<f32>, EngineError> {
        match self.expected.into_keys().min() {
            None => Ok(self.values),
            Some(name) => Err(EngineError::Tensor { path: path.to_path_buf(), name, message: "it is missing".into() }),
        }
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
    let (pairs, _) = view.data().as_chunks::<2>();
    match view.dtype() {
        Dtype::F32 => {
            let (quads, _) = view.data().as_chunks::<4>();
            values.iter_mut().zip(quads).for_each(|(value, bytes)| *value = f32::from_le_bytes(*bytes));
        }
        Dtype::BF16 => {
            values.iter_mut().zip(pairs).for_each(|(value, bytes)| *value = bf16::from_le_bytes(*bytes).to_f32());
        }
        Dtype::F16 => {
            values.iter_mut().zip(pairs).for_each(|(value, bytes)| *value = f16::from_le_bytes(*bytes).to_f32());
        }
        other => return Err(other),
    }
    Ok(())
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
