//! The binary messages, package `tinker_public` (proto3). Bytes that hold arrays are raw little-endian numbers.

use std::collections::BTreeMap;

use prost::{Enumeration, Message, Oneof};

use super::array::{Array, Numbers};
pub use super::dtype::DType;
use super::packed::{pack, unpack};
use super::wire_error::WireError;

/// What was sampled after one prompt.
#[derive(Clone, PartialEq, Message)]
pub struct SampleResponse {
    /// One for each sample that was requested.
    #[prost(message, repeated, tag = "1")]
    pub sequences: Vec<SampledSequence>,
    /// Float32 of each prompt token; NaN at the first, and where none was requested.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub prompt_logprobs: Option<Vec<u8>>,
    /// The likeliest tokens at each position of the prompt.
    #[prost(message, optional, tag = "3")]
    pub topk_prompt_logprobs: Option<TopkLogprobs>,
    /// Prompt tokens that came from a cache.
    #[prost(int32, tag = "4")]
    pub prompt_cache_hit_tokens: i32,
    /// Float32 of the tokens that the request named at each position of the prompt.
    #[prost(message, optional, tag = "5")]
    pub target_prompt_logprobs: Option<Tensor>,
    /// Tokens that might have stood at each position of the prompt.
    #[prost(message, optional, tag = "6")]
    pub prompt_alt_tokens: Option<PromptAltTokens>,
}

/// Tokens that might have stood in the prompt.
#[derive(Clone, PartialEq, Message)]
pub struct PromptAltTokens {
    /// Int32, of the shape of `logprobs`.
    #[prost(message, optional, tag = "1")]
    pub tokens: Option<Tensor>,
    /// Float32.
    #[prost(message, optional, tag = "2")]
    pub logprobs: Option<Tensor>,
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum StopReason {
    /// At a stop sequence, or where the model ends a text.
    Stop = 0,
    /// At the limit of tokens.
    Length = 1,
}

/// One sampled sequence.
#[derive(Clone, PartialEq, Message)]
pub struct SampledSequence {
    /// Why it ended.
    #[prost(enumeration = "StopReason", tag = "1")]
    pub stop_reason: i32,
    /// Int32, the stop token included.
    #[prost(bytes = "vec", tag = "2")]
    pub tokens: Vec<u8>,
    /// Float32, one for each token.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub logprobs: Option<Vec<u8>>,
    /// The likeliest tokens at each position.
    #[prost(message, optional, tag = "4")]
    pub topk_sampled_logprobs: Option<TopkLogprobs>,
}

impl SampledSequence {
    /// A sequence with its logprobs, which must be as many as its tokens.
    pub fn new(stop_reason: StopReason, tokens: &[u32], logprobs: &[f32]) -> Self {
        Self {
            stop_reason: stop_reason.into(),
            tokens: pack(tokens.iter().map(|&token| token as i32)),
            logprobs: Some(pack(logprobs.iter().copied())),
            topk_sampled_logprobs: None,
        }
    }

    /// Its tokens.
    pub fn token_ids(&self) -> Result<Vec<i32>, WireError> {
        unpack(&self.tokens)
    }

    /// The logprob of each token; `None` where the server has sent none.
    pub fn token_logprobs(&self) -> Result<Option<Vec<f32>>, WireError> {
        self.logprobs.as_deref().filter(|bytes| !bytes.is_empty()).map(unpack).transpose()
    }
}

/// The likeliest tokens of each position: `length` rows of `k`, filled up with token 0 at [`TopkLogprobs::PADDING`].
#[derive(Clone, PartialEq, Message)]
pub struct TopkLogprobs {
    /// Int32.
    #[prost(bytes = "vec", tag = "1")]
    pub token_ids: Vec<u8>,
    /// Float32.
    #[prost(bytes = "vec", tag = "2")]
    pub logprobs: Vec<u8>,
    /// Entries of a row.
    #[prost(uint32, tag = "3")]
    pub k: u32,
    /// Rows.
    #[prost(uint32, tag = "4")]
    pub length: u32,
}

impl TopkLogprobs {
    /// The logprob that fills rows up.
    pub const PADDING: f32 = -99999.0;

    /// Rows of likeliest tokens with their logprobs, each cut or filled up to `k`.
    pub fn new(rows: &[Vec<(u32, f32)>], k: usize) -> Self {
        let padded =
            || rows.iter().flat_map(|row| row.iter().copied().chain(std::iter::repeat((0, Self::PADDING))).take(k));
        Self {
            token_ids: pack(padded().map(|(token, _)| token as i32)),
            logprobs: pack(padded().map(|(_, logprob)| logprob)),
            k: k as u32,
            length: rows.len() as u32,
        }
    }

    /// The rows without what fills them up.
    pub fn rows(&self) -> Result<Vec<Vec<(i32, f32)>>, WireError> {
        let (tokens, logprobs) = (unpack::<4, i32>(&self.token_ids)?, unpack::<4, f32>(&self.logprobs)?);
        let expected = (self.k as usize).saturating_mul(self.length as usize);
        for actual in [tokens.len(), logprobs.len()] {
            if actual != expected {
                return Err(WireError::Shape { shape: vec![self.length.into(), self.k.into()], actual });
            }
        }
        if expected == 0 {
            return Ok(vec![Vec::new(); self.length as usize]);
        }
        let entries: Vec<(i32, f32)> = tokens.into_iter().zip(logprobs).collect();
        let is_entry = |entry: &&(i32, f32)| **entry != (0, Self::PADDING);
        Ok(entries.chunks(self.k as usize).map(|row| row.iter().take_while(is_entry).copied().collect()).collect())
    }
}

/// The non-zero cells of a matrix in compressed sparse rows.
#[derive(Clone, PartialEq, Message)]
pub struct SparseCsr {
    /// Of the tensor's type.
    #[prost(bytes = "vec", tag = "1")]
    pub values: Vec<u8>,
    /// Int64: where each row begins in `values`, and where the last ends.
    #[prost(bytes = "vec", tag = "2")]
    pub crow_indices: Vec<u8>,
    /// Int64: the column of each value.
    #[prost(bytes = "vec", tag = "3")]
    pub col_indices: Vec<u8>,
}

/// An array.
#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    /// Its numbers.
    #[prost(oneof = "TensorEncoding", tags = "1, 2")]
    pub encoding: Option<TensorEncoding>,
    /// Their type.
    #[prost(enumeration = "DType", tag = "3")]
    pub dtype: i32,
    /// Its dimensions.
    #[prost(int64, repeated, tag = "4")]
    pub shape: Vec<i64>,
}

/// How an array's numbers are written.
#[derive(Clone, PartialEq, Oneof)]
pub enum TensorEncoding {
    /// All of them, row by row.
    #[prost(bytes, tag = "1")]
    Dense(Vec<u8>),
    /// Those that are not 0.
    #[prost(message, tag = "2")]
    SparseCsr(SparseCsr),
}

impl Tensor {
    /// A list of floats.
    pub fn floats(values: &[f32]) -> Self {
        Self::dense(pack(values.iter().copied()), DType::Float32, values.len())
    }

    /// A list of integers.
    pub fn integers(values: impl ExactSizeIterator<Item = i64>) -> Self {
        let length = values.len();
        Self::dense(pack(values), DType::Int64, length)
    }

    fn dense(bytes: Vec<u8>, dtype: DType, length: usize) -> Self {
        Self { encoding: Some(TensorEncoding::Dense(bytes)), dtype: dtype.into(), shape: vec![length as i64] }
    }

    /// Its numbers, with the cells that a sparse one leaves out as 0.
    pub fn decode(&self) -> Result<Array, WireError> {
        match &self.encoding {
            None => Array::dense(Numbers::unpack(&[], self.dtype)?, &self.shape),
            Some(TensorEncoding::Dense(bytes)) => Array::dense(Numbers::unpack(bytes, self.dtype)?, &self.shape),
            Some(TensorEncoding::SparseCsr(csr)) => {
                let values = Numbers::unpack(&csr.values, self.dtype)?;
                Array::sparse(values, &unpack(&csr.crow_indices)?, &unpack(&csr.col_indices)?, &self.shape)
            }
        }
    }

    /// Bytes that its numbers take.
    pub fn byte_count(&self) -> usize {
        match &self.encoding {
            None => 0,
            Some(TensorEncoding::Dense(bytes)) => bytes.len(),
            Some(TensorEncoding::SparseCsr(csr)) => csr.values.len() + csr.crow_indices.len() + csr.col_indices.len(),
        }
    }
}

/// Arrays of several datums, one after another. They may differ in their first dimension only.
#[derive(Clone, PartialEq, Message)]
pub struct BatchedTensor {
    /// The numbers of all.
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    /// Int64: the byte where each datum begins, and where the last ends.
    #[prost(bytes = "vec", tag = "2")]
    pub offsets: Vec<u8>,
    /// Their type.
    #[prost(enumeration = "DType", tag = "3")]
    pub dtype: i32,
    /// The dimensions after the first.
    #[prost(int64, repeated, tag = "4")]
    pub trailing_shape: Vec<i64>,
}

impl BatchedTensor {
    /// A list of floats for each datum.
    pub fn floats<'a>(rows: impl IntoIterator<Item = &'a [f32]>) -> Self {
        let (mut data, mut offsets) = (Vec::new(), vec![0]);
        for row in rows {
            data.extend(pack(row.iter().copied()));
            offsets.push(data.len() as i64);
        }
        Self { data, offsets: pack(offsets), dtype: DType::Float32.into(), trailing_shape: Vec::new() }
    }

    /// The numbers of each datum.
    pub fn decode(&self) -> Result<Vec<Numbers>, WireError> {
        let offsets: Vec<i64> = unpack(&self.offsets)?;
        let datum = |bounds: &[i64]| {
            let bounds_of = |bound: i64| usize::try_from(bound).ok();
            let bytes = match (bounds_of(bounds[0]), bounds_of(bounds[1])) {
                (Some(start), Some(end)) => self.data.get(start..end),
                _ => None,
            };
            let outside = WireError::Offsets { start: bounds[0], end: bounds[1], bytes: self.data.len() };
            Numbers::unpack(bytes.ok_or(outside)?, self.dtype)
        };
        offsets.windows(2).map(datum).collect()
    }
}

/// What a loss tells of several datums.
#[derive(Clone, PartialEq, Message)]
pub struct ArrayRecord {
    /// A name for its kind.
    #[prost(string, tag = "1")]
    pub type_tag: String,
    /// By name, for all datums together.
    #[prost(btree_map = "string, message", tag = "2")]
    pub fields: BTreeMap<String, BatchedTensor>,
    /// How many datums it covers.
    #[prost(int64, tag = "3")]
    pub num_datums: i64,
}

/// What a pass over datums gave.
#[derive(Clone, PartialEq, Message)]
pub struct ForwardBackwardOutput {
    /// A name; what stands after its last colon counts.
    #[prost(string, tag = "1")]
    pub loss_fn_output_type: String,
    /// In the order of the datums; a record for each trailing shape.
    #[prost(message, repeated, tag = "2")]
    pub loss_fn_outputs: Vec<ArrayRecord>,
    /// By `NAME:HOW`, where `HOW` says how chunks are put together: sum, mean, min, max, slack, unique.
    #[prost(btree_map = "string, double", tag = "3")]
    pub metrics: BTreeMap<String, f64>,
}

impl ForwardBackwardOutput {
    /// The logprob of each target of each datum, with metrics.
    pub fn new(logprobs: &[Vec<f32>], metrics: BTreeMap<String, f64>) -> Self {
        let tensor = BatchedTensor::floats(logprobs.iter().map(Vec::as_slice));
        let record = ArrayRecord {
            type_tag: "ArrayRecord".to_owned(),
            fields: BTreeMap::from([("logprobs".to_owned(), tensor)]),
            num_datums: logprobs.len() as i64,
        };
        Self { loss_fn_output_type: "ArrayRecord".to_owned(), loss_fn_outputs: vec![record], metrics }
    }

    /// The field of that name of each datum; `None` where a record is without it.
    pub fn field(&self, name: &str) -> Result<Option<Vec<Numbers>>, WireError> {
        let mut datums = Vec::new();
        for record in &self.loss_fn_outputs {
            let Some(field) = record.fields.get(name) else { return Ok(None) };
            datums.extend(field.decode()?);
        }
        Ok(Some(datums))
    }
}

/// Datums to compute a loss over.
#[derive(Clone, PartialEq, Message)]
pub struct ForwardBackwardRequest {
    /// Whose gradient it is.
    #[prost(string, tag = "1")]
    pub model_id: String,
    /// Its place among the model's requests, from 1; 0 is not given.
    #[prost(int32, tag = "2")]
    pub seq_id: i32,
    /// What the loss is over.
    #[prost(message, repeated, tag = "3")]
    pub data: Vec<Datum>,
    /// The loss's name.
    #[prost(string, tag = "4")]
    pub loss_fn: String,
    /// The numbers of the loss's configuration, for servers that do not know the next.
    #[prost(btree_map = "string, double", tag = "5")]
    pub loss_fn_config: BTreeMap<String, f64>,
    /// Only the outputs, no gradient.
    #[prost(bool, tag = "6")]
    pub forward_only: bool,
    /// The loss's configuration; counts more than `loss_fn_config`.
    #[prost(btree_map = "string, message", tag = "7")]
    pub loss_fn_config_v2: BTreeMap<String, LossConfigValue>,
}

/// A value of a loss's configuration.
#[derive(Clone, PartialEq, Message)]
pub struct LossConfigValue {
    /// The value.
    #[prost(oneof = "LossConfigNumberOrText", tags = "1, 2")]
    pub value: Option<LossConfigNumberOrText>,
}

impl LossConfigValue {
    /// A number.
    pub fn number(value: f64) -> Self {
        Self { value: Some(LossConfigNumberOrText::Number(value)) }
    }
}

/// What a value of a loss's configuration can be.
#[derive(Clone, PartialEq, Oneof)]
pub enum LossConfigNumberOrText {
    /// A number.
    #[prost(double, tag = "1")]
    Number(f64),
    /// A text.
    #[prost(string, tag = "2")]
    Text(String),
}

/// One row of training data.
#[derive(Clone, PartialEq, Message)]
pub struct Datum {
    /// The input.
    #[prost(message, repeated, tag = "1")]
    pub model_input: Vec<Chunk>,
    /// What the loss needs, by name, one entry for each position of the input.
    #[prost(btree_map = "string, message", tag = "2")]
    pub loss_fn_inputs: BTreeMap<String, Tensor>,
    /// Where the input is from.
    #[prost(message, repeated, tag = "3")]
    pub model_input_spans: Vec<ProvenanceSpan>,
    /// Where the targets are from.
    #[prost(message, repeated, tag = "4")]
    pub loss_fn_input_spans: Vec<ProvenanceSpan>,
}

/// Where a run of tokens is from.
#[derive(Clone, PartialEq, Message)]
pub struct ProvenanceSpan {
    /// Which of the two it is.
    #[prost(oneof = "SpanOrigin", tags = "1, 2")]
    pub span: Option<SpanOrigin>,
}

/// Which part of a sampled sequence a run is from.
#[derive(Clone, PartialEq, Oneof)]
pub enum SpanOrigin {
    /// Its prompt.
    #[prost(message, tag = "1")]
    PromptTokens(SequenceSpan),
    /// What was sampled.
    #[prost(message, tag = "2")]
    SampledTokens(SequenceSpan),
}

/// A run of a sequence's tokens.
#[derive(Clone, PartialEq, Message)]
pub struct SequenceSpan {
    /// The sequence, as the answer to the sample request named it.
    #[prost(string, tag = "1")]
    pub sequence_id: String,
    /// Its first token.
    #[prost(int64, tag = "2")]
    pub offset: i64,
    /// Its tokens.
    #[prost(int64, tag = "3")]
    pub length: i64,
}

/// A piece of an input.
#[derive(Clone, PartialEq, Message)]
pub struct Chunk {
    /// Which piece.
    #[prost(oneof = "ChunkContent", tags = "1, 2, 3")]
    pub chunk: Option<ChunkContent>,
}

impl Chunk {
    /// A piece of tokens.
    pub fn tokens(tokens: &[u32]) -> Self {
        let tokens = pack(tokens.iter().map(|&token| token as i32));
        Self { chunk: Some(ChunkContent::EncodedText(EncodedTextChunk { tokens })) }
    }
}

/// What a piece of an input can be.
#[derive(Clone, PartialEq, Oneof)]
pub enum ChunkContent {
    /// Tokens.
    #[prost(message, tag = "1")]
    EncodedText(EncodedTextChunk),
    /// An image.
    #[prost(message, tag = "2")]
    Image(ImageChunk),
    /// Sound.
    #[prost(message, tag = "3")]
    Dmel(DmelChunk),
}

/// Tokens.
#[derive(Clone, PartialEq, Message)]
pub struct EncodedTextChunk {
    /// Int32.
    #[prost(bytes = "vec", tag = "1")]
    pub tokens: Vec<u8>,
}

impl EncodedTextChunk {
    /// Its tokens.
    pub fn token_ids(&self) -> Result<Vec<i32>, WireError> {
        unpack(&self.tokens)
    }
}

/// An image.
#[derive(Clone, PartialEq, Message)]
pub struct ImageChunk {
    /// The file.
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    /// `png` or `jpeg`.
    #[prost(string, tag = "2")]
    pub format: String,
    /// Positions that the client takes it to need.
    #[prost(int32, optional, tag = "3")]
    pub expected_tokens: Option<i32>,
    /// Its size, where it is not the file's.
    #[prost(message, optional, tag = "4")]
    pub override_dimensions: Option<ImageDimensions>,
}

/// The size of an image.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ImageDimensions {
    /// In pixels.
    #[prost(uint32, tag = "1")]
    pub width: u32,
    /// In pixels.
    #[prost(uint32, tag = "2")]
    pub height: u32,
}

/// Sound.
#[derive(Clone, PartialEq, Message)]
pub struct DmelChunk {
    /// The file.
    #[prost(bytes = "vec", tag = "1")]
    pub dmel: Vec<u8>,
}
