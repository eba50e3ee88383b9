use std::ops::Range;

use crate::ModelConfig;
use crate::adapter_layout::Projection;

/// One tensor of the model under its Hugging Face name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// Row-major; a matrix is `[outputs, inputs]`.
    pub(crate) shape: Vec<usize>,
    /// Where its numbers stand among all of the model's.
    pub(crate) place: Range<usize>,
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

/// Where every number of the model stands in one flat list.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) embedding: Range<usize>,
    pub(crate) layers: Vec<LayerLayout>,
    pub(crate) final_norm: Range<usize>,
    /// The embedding again if the head is tied.
    pub(crate) head: Range<usize>,
    pub(crate) length: usize,
}

impl Layout {
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

    pub(crate) fn new(config: &ModelConfig) -> Self {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (query, key) = (config.query_width(), config.key_width());
        let mut tensors = Tensors::default();
        let embedding = tensors.add("model.embed_tokens.weight".into(), &[config.vocab_size, hidden]);
        let layers = (0..config.num_hidden_layers)
            .map(|layer| {
                let mut add_tensor =
                    |name: &str, shape: &[usize]| tensors.add(format!("model.layers.{layer}.{name}"), shape);
                let mut add = |name: &str, shape: &[usize]| add_tensor(&format!("{name}.weight"), shape);
                let input_norm = add("input_layernorm", &[hidden]);
                let q = add("self_attn.q_proj", &[query, hidden]);
                add("self_attn.k_proj", &[key, hidden]);
                let v = add("self_attn.v_proj", &[key, hidden]);
                let (query_norm, key_norm) = match config.architecture.has_head_norms() {
                    true => (add("self_attn.q_norm", &[config.head_dim]), add("self_attn.k_norm", &[config.head_dim])),
                    false => (v.end..v.end, v.end..v.end),
                };
                let output = add("self_attn.o_proj", &[hidden, query]);
                let feed_forward_norm = add("post_attention_layernorm", &[hidden]);
                let gate = add("mlp.gate_proj", &[inner, hidden]);
                let up = add("mlp.up_proj", &[inner, hidden]);
                let down = add("mlp.down_proj", &[hidden, inner]);
                let query_key_value_bias = match config.architecture.has_biases() {
                    true => {
                        let q = add_tensor("self_attn.q_proj.bias", &[query]);
                        add_tensor("self_attn.k_proj.bias", &[key]);
                        q.start..add_tensor("self_attn.v_proj.bias", &[key]).end
                    }
                    false => v.end..v.end,
                };
                LayerLayout {
                    input_norm,
                    query_key_value: q.start..v.end,
                    query_key_value_bias,
                    query_norm,
                    key_norm,
                    output,
                    feed_forward_norm,
                    gate_up: gate.start..up.end,
                    down,
                }
            })
            .collect();
        let final_norm = tensors.add("model.norm.weight".into(), &[hidden]);
        let head = if config.tie_word_embeddings {
            embedding.clone()
        } else {
            tensors.add("lm_head.weight".into(), &[config.vocab_size, hidden])
        };
        Self { length: tensors.length, tensors: tensors.list, embedding, layers, final_norm, head }
    }
}

#[derive(Default)]
struct Tensors {
    list: Vec<Tensor>,
    length: usize,
}

impl Tensors {
    fn add(&mut self, name: String, shape: &[usize]) -> Range<usize> {
        let place = self.length..self.length + shape.iter().product::<usize>();
        self.length = place.end;
        self.list.push(Tensor { name, shape: shape.to_vec(), place: place.clone() });
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Architecture;
    use crate::test_models::tiny_config;

    #[test]
    fn the_layout_holds_as_many_numbers_as_the_configuration_counts() {
        for architecture in Architecture::ALL {
            for tie_word_embeddings in [true, false] {
                let config = ModelConfig { architecture, tie_word_embeddings, ..tiny_config() };
                assert_eq!(Layout::new(&config).length, config.parameter_count());
            }
        }
    }
}
