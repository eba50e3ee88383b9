use std::ops::Range;

use crate::model::config::ModelConfig;
use crate::model::model_head::{ModelHead, SCORE};
use crate::model::projection::Projection;

/// One tensor of the model under its Hugging Face name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// Row-major; a matrix is `[outputs, inputs]`.
    pub(crate) shape: Vec<usize>,
    /// Where its numbers stand among all of the model's.
    pub(crate) place: Range<usize>,
}

impl Tensor {
    /// Numbers of a row; a vector is one.
    pub(crate) fn row(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }
}

/// Where the numbers of one decoder layer stand.
#[derive(Clone, Debug)]
pub(crate) struct LayerLayout {
    pub(crate) input_norm: Range<usize>,
    /// Query, key and value projections one after another, so that one product serves the three.
    pub(crate) query_key_value: Range<usize>,
    /// Their biases, one after another; empty where there are none.
    pub(crate) query_key_value_bias: Range<usize>,
    /// Empty where heads are not normed.
    pub(crate) query_norm: Range<usize>,
    pub(crate) key_norm: Range<usize>,
    pub(crate) output: Range<usize>,
    pub(crate) feed_forward_norm: Range<usize>,
    /// Gate and up projections one after the other.
    pub(crate) gate_up: Range<usize>,
    pub(crate) down: Range<usize>,
}

/// Where every number of the model stands in one flat list: first the gains and biases, then the matrices.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) layers: Vec<LayerLayout>,
    pub(crate) final_norm: Range<usize>,
    pub(crate) embedding: Range<usize>,
    /// The embedding again if the head is tied.
    pub(crate) head: Range<usize>,
    /// Of a model whose head is a score; otherwise empty.
    pub(crate) score: Range<usize>,
    /// Of all gains and biases, and of the score.
    pub(crate) vectors: Range<usize>,
    /// The products' matrices in the order of [`Projection::index`], and behind them the embedding if it is not the head.
    pub(crate) matrices: Vec<MatrixLayout>,
    pub(crate) length: usize,
}

/// Where a matrix stands: `[outputs, inputs]`.
#[derive(Clone, Debug)]
pub(crate) struct MatrixLayout {
    pub(crate) place: Range<usize>,
    pub(crate) inputs: usize,
}

impl MatrixLayout {
    pub(crate) fn outputs(&self) -> usize {
        self.place.len() / self.inputs
    }

    /// The output whose row holds a number of the layout.
    pub(crate) fn output(&self, at: usize) -> usize {
        (at - self.place.start) / self.inputs
    }
}

impl Layout {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let mut tensors = Tensors::default();
        let vectors: Vec<_> = (0..config.num_hidden_layers).map(|layer| tensors.vectors_of(config, layer)).collect();
        let final_norm = tensors.add("model.norm.weight".into(), &[config.hidden_size]);
        let score = match config.head {
            ModelHead::NextToken => final_norm.end..final_norm.end,
            ModelHead::Score => tensors.add(SCORE.into(), &[1, config.hidden_size]),
        };
        let all_vectors = 0..score.end;
        let embedding = tensors.add("model.embed_tokens.weight".into(), &[config.vocab_size, config.hidden_size]);
        let with_matrices = |(layer, vectors)| tensors.matrices_of(config, layer, vectors);
        let layers = vectors.into_iter().enumerate().map(with_matrices).collect();
        let head = match config.has_matrix_head() {
            false => embedding.clone(),
            true => tensors.add("lm_head.weight".into(), &[config.vocab_size, config.hidden_size]),
        };
        let Tensors { list: tensors, length } = tensors;
        let (vectors, matrices) = (all_vectors, Vec::new());
        let mut layout = Self { tensors, layers, final_norm, embedding, head, score, vectors, matrices, length };
        layout.matrices = layout.matrices_of(config);
        layout
    }

    /// The matrix that holds a number, by its index; none for a gain or bias.
    pub(crate) fn matrix_at(&self, at: usize) -> Option<usize> {
        self.matrices.iter().position(|matrix| matrix.place.contains(&at))
    }

    fn matrices_of(&self, config: &ModelConfig) -> Vec<MatrixLayout> {
        let product = |it: Projection| MatrixLayout { place: self.projection(it), inputs: it.inputs(config) };
        let embedding = MatrixLayout { place: self.embedding.clone(), inputs: config.hidden_size };
        let of_its_own = config.has_matrix_head().then_some(embedding);
        Projection::all(config.num_hidden_layers).map(product).chain(of_its_own).collect()
    }

    /// Where the matrix of one of the decoder's products stands.
    pub(crate) fn projection(&self, projection: Projection) -> Range<usize> {
        match projection {
            Projection::QueryKeyValue(layer) => self.layers[layer].query_key_value.clone(),
            Projection::Output(layer) => self.layers[layer].output.clone(),
            Projection::GateUp(layer) => self.layers[layer].gate_up.clone(),
            Projection::Down(layer) => self.layers[layer].down.clone(),
            Projection::Head => self.head.clone(),
        }
    }
}

#[derive(Default)]
struct Tensors {
    list: Vec<Tensor>,
    length: usize,
}

impl Tensors {
    /// Of one layer, whose matrices stand nowhere yet.
    fn vectors_of(&mut self, config: &ModelConfig, layer: usize) -> LayerLayout {
        let mut add = |name: &str, width: usize| self.add(format!("model.layers.{layer}.{name}"), &[width]);
        let input_norm = add("input_layernorm.weight", config.hidden_size);
        let (query_norm, key_norm) = match config.architecture.has_head_norms() {
            true => (add("self_attn.q_norm.weight", config.head_dim), add("self_attn.k_norm.weight", config.head_dim)),
            false => (input_norm.end..input_norm.end, input_norm.end..input_norm.end),
        };
        let feed_forward_norm = add("post_attention_layernorm.weight", config.hidden_size);
        let query_key_value_bias = match config.architecture.has_biases() {
            true => {
                let query = add("self_attn.q_proj.bias", config.query_width());
                add("self_attn.k_proj.bias", config.key_width());
                query.start..add("self_attn.v_proj.bias", config.key_width()).end
            }
            false => feed_forward_norm.end..feed_forward_norm.end,
        };
        let nowhere = 0..0;
        LayerLayout {
            input_norm,
            query_key_value: nowhere.clone(),
            query_key_value_bias,
            query_norm,
            key_norm,
            output: nowhere.clone(),
            feed_forward_norm,
            gate_up: nowhere.clone(),
            down: nowhere,
        }
    }

    /// The layer with its matrices.
    fn matrices_of(&mut self, config: &ModelConfig, layer: usize, vectors: LayerLayout) -> LayerLayout {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (query, key) = (config.query_width(), config.key_width());
        let mut add = |name: &str, outputs: usize, inputs: usize| {
            self.add(format!("model.layers.{layer}.{name}.weight"), &[outputs, inputs])
        };
        let q = add("self_attn.q_proj", query, hidden);
        add("self_attn.k_proj", key, hidden);
        let v = add("self_attn.v_proj", key, hidden);
        let output = add("self_attn.o_proj", hidden, query);
        let gate = add("mlp.gate_proj", inner, hidden);
        let up = add("mlp.up_proj", inner, hidden);
        let down = add("mlp.down_proj", hidden, inner);
        LayerLayout { query_key_value: q.start..v.end, output, gate_up: gate.start..up.end, down, ..vectors }
    }

    fn add(&mut self, name: String, shape: &[usize]) -> Range<usize> {
        let place = self.length..self.length + shape.iter().product::<usize>();
        self.length = place.end;
        self.list.push(Tensor { name, shape: shape.to_vec(), place: place.clone() });
        place
    }
}

/// Numbers in the order of a layout, in whatever form they are held. They are read and written by whole
/// rows of a tensor.
pub(crate) trait Numbers {
    /// Writes those from `start` on into `numbers`.
    fn get(&self, start: usize, numbers: &mut [f32]);
    /// Takes over those from `start` on.
    fn put(&mut self, start: usize, numbers: &[f32]);
}

impl Numbers for Vec<f32> {
    fn get(&self, start: usize, numbers: &mut [f32]) {
        numbers.copy_from_slice(&self[start..start + numbers.len()]);
    }

    fn put(&mut self, start: usize, numbers: &[f32]) {
        self[start..start + numbers.len()].copy_from_slice(numbers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::architecture::Architecture;
    use crate::test_models::tiny_config;

    #[test]
    fn the_layout_holds_as_many_numbers_as_the_configuration_counts() {
        for architecture in Architecture::ALL {
            for tie_word_embeddings in [true, false] {
                for head in [ModelHead::NextToken, ModelHead::Score] {
                    let config = ModelConfig { architecture, tie_word_embeddings, head, ..tiny_config() };
                    assert_eq!(Layout::new(&config).length, config.parameter_count());
                }
            }
        }
    }
}
