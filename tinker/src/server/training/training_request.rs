use std::collections::BTreeMap;

use fulgurite_types::{Chunk, Datum, LossInputs};

use super::stable_reinforce::{
    STABLE_REINFORCE, StableReinforce, TargetSpan, check_provenance, configuration_of_stand_in,
};
use crate::wire::protobuf::{
    self, ArrayRecord, BatchedTensor, ChunkContent, ForwardBackwardOutput, ForwardBackwardRequest,
    LossConfigNumberOrText,
};
use crate::wire::{
    Array, ForwardBackwardInput, JsonChunk, JsonDatum, JsonForwardBackwardOutput, ModelInput, Numbers, TensorData,
    TensorDtype,
};
use fulgurite_backends::{ForwardBackward, LossFunction};
use serde_json::{Number, Value};

const TARGETS: &str = "target_tokens";
const WEIGHTS: &str = "weights";
const LOGPROBS: &str = "logprobs";
const ADVANTAGES: &str = "advantages";
const RATIO_MASK: &str = "sequence_ratio_mask";

/// What a pass is to compute, from either form of the wire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrainingRequest {
    rows: Vec<Row>,
    loss: String,
    configuration: BTreeMap<String, f64>,
    /// Set where another loss was asked for than is computed.
    stand_in: Option<StandIn>,
}

/// A loss in the place of `stable_reinforce`.
#[derive(Clone, Debug, PartialEq)]
struct StandIn {
    by: StableReinforce,
    /// Of the training run.
    session_id: String,
}

/// A datum of the wire.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    tokens: Vec<u32>,
    inputs: BTreeMap<String, Array>,
    /// Where its targets are from, as far as the client says it.
    spans: Vec<TargetSpan>,
}

/// What the learner is to compute. A datum of the wire with several targets for each position is one datum for each of
/// them: their losses add up to its loss.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Computation {
    pub(crate) loss: LossFunction,
    pub(crate) data: Vec<Datum>,
    /// Of each datum of the wire, its targets for each position; `None` where they are a list.
    columns: Vec<Option<usize>>,
    stand_in: Option<StableReinforce>,
}

impl TrainingRequest {
    /// Reads the binary form. Fails with what is wrong.
    pub(crate) fn from_message(message: &ForwardBackwardRequest) -> Result<Self, String> {
        let mut configuration = message.loss_fn_config.clone();
        for (name, value) in &message.loss_fn_config_v2 {
            match &value.value {
                Some(LossConfigNumberOrText::Number(number)) => drop(configuration.insert(name.clone(), *number)),
                Some(LossConfigNumberOrText::Text(_)) | None => return Err(no_number(name)),
            }
        }
        let row = |datum: &protobuf::Datum| Row::from_message(datum);
        let rows = numbered(message.data.iter().map(row))?;
        Ok(Self { rows, loss: message.loss_fn.clone(), configuration, stand_in: None })
    }

    /// Reads the JSON form. Fails with what is wrong.
    pub(crate) fn from_json(input: &ForwardBackwardInput) -> Result<Self, String> {
        let number = |(name, value): (&String, &Value)| match value.as_f64() {
            Some(number) => Ok((name.clone(), number)),
            None => Err(no_number(name)),
        };
        let configuration = input.loss_fn_config.iter().flatten().map(number).collect::<Result<_, _>>()?;
        let rows = numbered(input.data.iter().map(Row::from_json))?;
        Ok(Self { rows, loss: input.loss_fn.clone(), configuration, stand_in: None })
    }

    /// The request with what stands in for `stable_reinforce`, if it asks for that. Fails where nothing does.
    pub(crate) fn standing_in(self, by: StableReinforce, session_id: &str) -> Result<Self, String> {
        if self.loss != STABLE_REINFORCE {
            return Ok(self);
        }
        Ok(Self {
            rows: self.rows,
            loss: by.loss()?.to_owned(),
            configuration: configuration_of_stand_in(&self.configuration)?,
            stand_in: Some(StandIn { by, session_id: session_id.to_owned() }),
        })
    }

    /// The sequences that its targets are from, as far as the loss is one that asks for them.
    pub(crate) fn sequence_ids(&self) -> Vec<&str> {
        let spans = self.rows.iter().flat_map(|row| &row.spans).filter(|_| self.stand_in.is_some());
        spans.map(|span| span.sequence_id.as_str()).collect()
    }

    /// The datums as the learner takes them. Fails with what is wrong.
    pub(crate) fn computation(self) -> Result<Computation, String> {
        let loss = LossFunction::named(&self.loss, &self.configuration)?;
        let (mut data, mut columns) = (Vec::new(), Vec::new());
        let stand_in = self.stand_in.as_ref();
        for row in numbered(self.rows.into_iter().map(|row| row.datums(loss, stand_in)))? {
            data.extend(row.datums);
            columns.push(row.columns);
        }
        Ok(Computation { loss, data, columns, stand_in: self.stand_in.map(|stand_in| stand_in.by) })
    }
}

/// The values, or the first error with the place of its datum.
fn numbered<T>(values: impl Iterator<Item = Result<T, String>>) -> Result<Vec<T>, String> {
    values.enumerate().map(|(index, value)| value.map_err(|error| format!("datum {index}: {error}"))).collect()
}

fn no_number(name: &str) -> String {
    format!("loss_fn_config.{name} is not a number")
}

/// The tokens of an input that is nothing but text.
pub(crate) fn text_tokens(input: &ModelInput) -> Result<Vec<u32>, String> {
    let mut tokens = Vec::new();
    for chunk in &input.chunks {
        match chunk {
            JsonChunk::EncodedText { tokens: more } => tokens.extend(more),
            JsonChunk::Image { .. } | JsonChunk::ImageAssetPointer { .. } => return Err(unseen("an image")),
            JsonChunk::Dmel { .. } => return Err(unseen("sound")),
        }
    }
    Ok(tokens)
}

fn unseen(what: &str) -> String {
    format!("the input holds {what}, but the model reads text alone")
}

/// The datums of one row.
struct Datums {
    datums: Vec<Datum>,
    columns: Option<usize>,
}

impl Row {
    fn from_message(datum: &protobuf::Datum) -> Result<Self, String> {
        let mut tokens = Vec::new();
        for chunk in &datum.model_input {
            match &chunk.chunk {
                Some(ChunkContent::EncodedText(text)) => {
                    let ids = text.token_ids().map_err(|error| error.to_string())?;
                    tokens.extend(token_ids(ids.into_iter().map(i64::from))?);
                }
                Some(ChunkContent::Image(_)) => return Err(unseen("an image")),
                Some(ChunkContent::Dmel(_)) => return Err(unseen("sound")),
                None => return Err("a piece of the input is of an unknown kind".to_owned()),
            }
        }
        let arrays = datum.loss_fn_inputs.iter().map(|(name, tensor)| (name, tensor.decode()));
        Ok(Self { tokens, inputs: decoded(arrays)?, spans: TargetSpan::read(&datum.loss_fn_input_spans)? })
    }

    fn from_json(datum: &JsonDatum) -> Result<Self, String> {
        let arrays = datum.loss_fn_inputs.iter().map(|(name, tensor)| (name, tensor.decode()));
        Ok(Self { tokens: text_tokens(&datum.model_input)?, inputs: decoded(arrays)?, spans: Vec::new() })
    }

    fn datums(mut self, loss: LossFunction, stand_in: Option<&StandIn>) -> Result<Datums, String> {
        let targets = self.inputs.remove(TARGETS).ok_or_else(|| missing(TARGETS))?;
        let shape = targets.shape.clone();
        let targets = token_ids(targets.numbers.into_integers().map_err(|error| named(TARGETS, error))?.into_iter())?;
        let columns = match shape.as_slice() {
            [_] => None,
            &[_, columns] if loss == LossFunction::CrossEntropy && columns > 0 => Some(columns),
            _ => return Err(format!("{TARGETS} has the shape {shape:?}, which {} does not take", loss.name())),
        };
        let inputs = self.loss_inputs(loss, &shape)?;
        if let (Some(stand_in), LossInputs::Policy { advantages, .. }) = (stand_in, &inputs) {
            check_provenance(&self.spans, &stand_in.session_id, advantages)?;
        }
        if let Some(unknown) = self.inputs.keys().next() {
            return Err(format!("loss_fn_inputs.{unknown} is nothing that {} takes", loss.name()));
        }
        let of_column = |column: usize| Datum {
            model_input: vec![Chunk::Tokens(self.tokens.clone())],
            target_tokens: every(&targets, column, columns),
            loss_inputs: match &inputs {
                LossInputs::Supervised { weights } => {
                    LossInputs::Supervised { weights: every(weights, column, columns) }
                }
                policy => policy.clone(),
            },
        };
        Ok(Datums { datums: (0..columns.unwrap_or(1)).map(of_column).collect(), columns })
    }

    /// What the loss needs beside the targets. The wire has no mask: a target whose advantage is 0 takes no part, but for
    /// a loss in which it would.
    fn loss_inputs(&mut self, loss: LossFunction, shape: &[usize]) -> Result<LossInputs, String> {
        if loss == LossFunction::CrossEntropy {
            let count = shape.iter().product();
            let weights = match self.inputs.contains_key(WEIGHTS) {
                true => self.floats(WEIGHTS, shape)?,
                false => vec![1.0; count],
            };
            return Ok(LossInputs::Supervised { weights });
        }
        let logprobs = self.floats(LOGPROBS, shape)?;
        let advantages = self.floats(ADVANTAGES, shape)?;
        let is_one = |takes_part: bool| if takes_part { 1.0 } else { 0.0 };
        let mask = match loss {
            LossFunction::Gspo(_) => {
                self.floats(RATIO_MASK, shape)?.into_iter().map(|mask| is_one(mask != 0.0)).collect()
            }
            LossFunction::Dro { .. } => vec![1.0; advantages.len()],
            _ => advantages.iter().map(|&advantage| is_one(advantage != 0.0)).collect(),
        };
        Ok(LossInputs::Policy { logprobs, advantages, mask })
    }

    fn floats(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let array = self.inputs.remove(name).ok_or_else(|| missing(name))?;
        if array.shape != shape {
            return Err(format!("{name} has the shape {:?}, but {TARGETS} has {shape:?}", array.shape));
        }
        array.numbers.into_floats().map_err(|error| named(name, error))
    }
}

fn decoded<'a, E: std::fmt::Display>(
    arrays: impl Iterator<Item = (&'a String, Result<Array, E>)>,
) -> Result<BTreeMap<String, Array>, String> {
    let read = |(name, array): (&String, Result<Array, E>)| match array {
        Ok(array) => Ok((name.clone(), array)),
        Err(error) => Err(named(name, error)),
    };
    arrays.map(read).collect()
}

fn missing(name: &str) -> String {
    format!("loss_fn_inputs.{name} is missing")
}

fn named(name: &str, error: impl std::fmt::Display) -> String {
    format!("loss_fn_inputs.{name}: {error}")
}

fn token_ids(numbers: impl Iterator<Item = i64>) -> Result<Vec<u32>, String> {
    numbers.map(|number| u32::try_from(number).map_err(|_| format!("there is no token {number}"))).collect()
}

/// A column of a matrix; all of a list.
fn every<T: Copy>(values: &[T], column: usize, columns: Option<usize>) -> Vec<T> {
    values.iter().skip(column).step_by(columns.unwrap_or(1)).copied().collect()
}

impl Computation {
    /// The wire's datums' logprobs, each with its targets for each position.
    fn logprobs(&self, computed: &ForwardBackward) -> Vec<(Option<usize>, Vec<f32>)> {
        let mut rest = computed.logprobs.as_slice();
        let row = |&columns: &Option<usize>| {
            let (own, after) = rest.split_at(columns.unwrap_or(1).min(rest.len()));
            rest = after;
            let positions = own.first().map_or(0, Vec::len);
            let of_position = |position: usize| own.iter().map(move |column| column[position]);
            (columns, (0..positions).flat_map(of_position).collect())
        };
        self.columns.iter().map(row).collect()
    }

    /// The binary answer. Datums of another shape begin another record.
    pub(crate) fn output(&self, computed: &ForwardBackward) -> ForwardBackwardOutput {
        let rows = self.logprobs(computed);
        let record = |rows: &[(Option<usize>, Vec<f32>)]| {
            let trailing_shape = rows[0].0.map(|columns| columns as i64).into_iter().collect();
            let floats = BatchedTensor::floats(rows.iter().map(|(_, logprobs)| logprobs.as_slice()));
            let tensor = BatchedTensor { trailing_shape, ..floats };
            ArrayRecord {
                type_tag: "ArrayRecord".to_owned(),
                fields: BTreeMap::from([(LOGPROBS.to_owned(), tensor)]),
                num_datums: rows.len() as i64,
            }
        };
        ForwardBackwardOutput {
            loss_fn_output_type: "ArrayRecord".to_owned(),
            loss_fn_outputs: rows.chunk_by(|left, right| left.0 == right.0).map(record).collect(),
            metrics: [("loss:sum".to_owned(), computed.loss_sum)]
                .into_iter()
                .chain(self.stand_in.and_then(StableReinforce::metric))
                .collect(),
        }
    }
}

/// The answer in JSON, for SDKs that know no other.
pub(crate) fn json_output(output: &ForwardBackwardOutput) -> Result<JsonForwardBackwardOutput, String> {
    let mut datums = Vec::new();
    for record in &output.loss_fn_outputs {
        for (name, tensor) in &record.fields {
            let columns = tensor.trailing_shape.iter().product::<i64>().max(1);
            for numbers in tensor.decode().map_err(|error| error.to_string())? {
                datums.push(BTreeMap::from([(name.clone(), json_tensor(numbers, columns, &tensor.trailing_shape)?)]));
            }
        }
    }
    let (loss_fn_output_type, metrics) = (output.loss_fn_output_type.clone(), output.metrics.clone());
    Ok(JsonForwardBackwardOutput { loss_fn_output_type, loss_fn_outputs: datums, metrics })
}

fn json_tensor(numbers: Numbers, columns: i64, trailing_shape: &[i64]) -> Result<TensorData, String> {
    let values = numbers.into_floats().map_err(|error| error.to_string())?;
    let shape = std::iter::once(values.len() as i64 / columns).chain(trailing_shape.iter().copied()).collect();
    let number = |value: f32| Number::from_f64(value.into()).ok_or_else(|| format!("a logprob is {value}"));
    Ok(TensorData {
        data: values.into_iter().map(number).collect::<Result<_, _>>()?,
        dtype: TensorDtype::Float32,
        shape: Some(shape),
        sparse_crow_indices: None,
        sparse_col_indices: None,
    })
}

#[cfg(test)]
mod tests {
    use crate::wire::protobuf::Tensor;

    use super::*;

    fn request(loss: &str, inputs: Vec<(&str, Tensor)>) -> Result<Computation, String> {
        let datum = protobuf::Datum {
            model_input: vec![protobuf::Chunk::tokens(&[5]), protobuf::Chunk::tokens(&[6])],
            loss_fn_inputs: inputs.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect(),
            ..protobuf::Datum::default()
        };
        let message =
            ForwardBackwardRequest { data: vec![datum], loss_fn: loss.to_owned(), ..ForwardBackwardRequest::default() };
        TrainingRequest::from_message(&message)?.computation()
    }

    fn targets() -> (&'static str, Tensor) {
        (TARGETS, Tensor::integers([6, 7].into_iter()))
    }

    fn floats(name: &'static str, values: &[f32]) -> (&'static str, Tensor) {
        (name, Tensor::floats(values))
    }

    fn matrix(tensor: Tensor) -> Tensor {
        Tensor { shape: vec![2, 2], ..tensor }
    }

    #[test]
    fn several_targets_for_a_position_are_as_many_datums_and_one_answer() {
        let inputs = vec![
            (TARGETS, matrix(Tensor::integers([1, 2, 3, 4].into_iter()))),
            (WEIGHTS, matrix(Tensor::floats(&[0.1, 0.2, 0.3, 0.4]))),
        ];
        let computation = request("cross_entropy", inputs).unwrap();
        let read: Vec<_> =
            computation.data.iter().map(|datum| (datum.target_tokens.clone(), datum.loss_inputs.clone())).collect();
        let weights = |weights: [f32; 2]| LossInputs::Supervised { weights: weights.to_vec() };
        assert_eq!(read, [(vec![1, 3], weights([0.1, 0.3])), (vec![2, 4], weights([0.2, 0.4]))]);
        let computed =
            ForwardBackward { loss_sum: 1.5, logprobs: vec![vec![-1.0, -3.0], vec![-2.0, -4.0]], entropies: None };
        let output = computation.output(&computed);
        let reported = output.field(LOGPROBS).unwrap().unwrap();
        assert_eq!(reported, [Numbers::Floats(vec![-1.0, -2.0, -3.0, -4.0])]);
        assert_eq!(json_output(&output).unwrap().loss_fn_outputs[0][LOGPROBS].shape, Some(vec![2, 2]));
    }

    #[test]
    fn an_advantage_of_0_takes_no_part_and_targets_without_weights_do() {
        let policy = |loss| {
            let inputs = vec![targets(), floats(LOGPROBS, &[-200.0, -0.5]), floats(ADVANTAGES, &[0.0, 2.0])];
            let LossInputs::Policy { mask, .. } = request(loss, inputs).unwrap().data.remove(0).loss_inputs else {
                panic!("not of a policy")
            };
            mask
        };
        for loss in ["importance_sampling", "ppo", "cispo"] {
            assert_eq!(policy(loss), [0.0, 1.0]);
        }
        let supervised = request("cross_entropy", vec![targets()]).unwrap().data.remove(0);
        assert_eq!(supervised.loss_inputs, LossInputs::Supervised { weights: vec![1.0, 1.0] });
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_datum() {
        let refused = |loss, inputs, words: &str| {
            let error = request(loss, inputs).unwrap_err();
            assert!(error.contains(words), "{error}");
        };
        refused("cross_entropy", vec![], "datum 0: loss_fn_inputs.target_tokens is missing");
        refused("cross_entropy", vec![floats(TARGETS, &[1.0, 2.0])], "floats came where integers");
        refused("cross_entropy", vec![targets(), floats(WEIGHTS, &[1.0])], "weights has the shape [1]");
        refused("cross_entropy", vec![targets(), floats("mask", &[1.0, 1.0])], "loss_fn_inputs.mask is nothing that");
        refused("ppo", vec![targets(), floats(LOGPROBS, &[1.0, 1.0])], "advantages is missing");
        let negative = vec![(TARGETS, Tensor::integers([-100, 7].into_iter()))];
        refused("cross_entropy", negative, "there is no token -100");
        refused("reinforce", vec![targets()], "no loss `reinforce`");
    }
}
