use crate::model::config::ModelConfig;
use crate::model::lora_module::LoraModule;

/// A product of the decoder that an adapter can add to. Modules that read the same rows share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Projection {
    /// Of this layer, as all but the head.
    QueryKeyValue(usize),
    Output(usize),
    GateUp(usize),
    Down(usize),
    Head,
}

impl Projection {
    const PER_LAYER: usize = 4;

    /// All of a model with so many layers, in the order of their indices.
    pub(crate) fn all(layers: usize) -> impl Iterator<Item = Self> {
        let of_layer =
            |layer| [Self::QueryKeyValue(layer), Self::Output(layer), Self::GateUp(layer), Self::Down(layer)];
        (0..layers).flat_map(of_layer).chain([Self::Head])
    }

    /// Its place among all.
    pub(crate) fn index(self, layers: usize) -> usize {
        match self {
            Self::QueryKeyValue(layer) => Self::PER_LAYER * layer,
            Self::Output(layer) => Self::PER_LAYER * layer + 1,
            Self::GateUp(layer) => Self::PER_LAYER * layer + 2,
            Self::Down(layer) => Self::PER_LAYER * layer + 3,
            Self::Head => Self::PER_LAYER * layers,
        }
    }

    /// Its modules in the order of their outputs: each with its name in the model, and how many outputs it has.
    pub(crate) fn modules(self, config: &ModelConfig) -> Vec<(LoraModule, String, usize)> {
        let (hidden, inner, query, key) =
            (config.hidden_size, config.intermediate_size, config.query_width(), config.key_width());
        let of = |layer: usize, group: &str, modules: &[(LoraModule, usize)]| {
            let named = |&(module, outputs): &(LoraModule, usize)| {
                (module, format!("model.layers.{layer}.{group}.{module}"), outputs)
            };
            modules.iter().map(named).collect()
        };
        match self {
            Self::QueryKeyValue(layer) => {
                let modules = [(LoraModule::Query, query), (LoraModule::Key, key), (LoraModule::Value, key)];
                of(layer, "self_attn", &modules)
            }
            Self::Output(layer) => of(layer, "self_attn", &[(LoraModule::Output, hidden)]),
            Self::GateUp(layer) => of(layer, "mlp", &[(LoraModule::Gate, inner), (LoraModule::Up, inner)]),
            Self::Down(layer) => of(layer, "mlp", &[(LoraModule::Down, hidden)]),
            Self::Head => vec![(LoraModule::Head, LoraModule::Head.name().to_owned(), config.vocab_size)],
        }
    }

    /// Numbers that it reads of a row.
    pub(crate) fn inputs(self, config: &ModelConfig) -> usize {
        match self {
            Self::QueryKeyValue(_) | Self::GateUp(_) | Self::Head => config.hidden_size,
            Self::Output(_) => config.query_width(),
            Self::Down(_) => config.intermediate_size,
        }
    }
}
