use std::collections::BTreeSet;
use std::ops::Range;

use crate::model::config::ModelConfig;
use crate::model::layout::Tensor;
use crate::model::lora_module::LoraModule;
use crate::model::projection::Projection;

/// One module's part of an adapted product.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AdaptedModule {
    /// The outputs of the product that are its.
    pub(crate) columns: Range<usize>,
    /// Its `B`, `[columns, rank]`.
    pub(crate) b: Range<usize>,
}

/// An adapted product of the decoder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AdaptedProjection {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// The `A` of all modules, one after another: `[modules * rank, inputs]`.
    pub(crate) a: Range<usize>,
    pub(crate) modules: Vec<AdaptedModule>,
}

/// Where every number of an adapter stands in one flat list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AdapterLayout {
    pub(crate) rank: usize,
    /// Kinds of modules, each adapted in some layer at least.
    pub(crate) modules: BTreeSet<LoraModule>,
    /// Under the names that PEFT writes.
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) length: usize,
    layers: usize,
    projections: Vec<Option<AdaptedProjection>>,
}

impl AdapterLayout {
    /// Of all modules of these kinds.
    pub(crate) fn new(config: &ModelConfig, rank: usize, modules: &BTreeSet<LoraModule>) -> Self {
        Self::choosing(config, rank, |module, _| modules.contains(&module))
    }

    /// Of the modules that are chosen, each by its kind and its name in the model.
    pub(crate) fn choosing(config: &ModelConfig, rank: usize, adapts: impl Fn(LoraModule, &str) -> bool) -> Self {
        let layers = config.num_hidden_layers;
        let mut modules = BTreeSet::new();
        let (mut tensors, mut length) = (Vec::new(), 0);
        let mut add = |name: String, shape: [usize; 2]| {
            let place = length..length + shape[0] * shape[1];
            length = place.end;
            tensors.push(Tensor { name, shape: shape.into(), place: place.clone() });
            place
        };
        let adapted = |projection: Projection| {
            let inputs = projection.inputs(config);
            let mut outputs = 0;
            let mut chosen = Vec::new();
            for (module, name, width) in projection.modules(config) {
                if adapts(module, &name) {
                    modules.insert(module);
                    chosen.push((name, outputs..outputs + width));
                }
                outputs += width;
            }
            let mut places = Vec::with_capacity(chosen.len());
            for (name, _) in &chosen {
                places.push(add(format!("base_model.model.{name}.lora_A.weight"), [rank, inputs]));
            }
            let a = places.first()?.start..places.last()?.end;
            let b = |(name, columns): (String, Range<usize>)| {
                let b = add(format!("base_model.model.{name}.lora_B.weight"), [columns.len(), rank]);
                AdaptedModule { columns, b }
            };
            Some(AdaptedProjection { inputs, outputs, a, modules: chosen.into_iter().map(b).collect() })
        };
        let projections = Projection::all(layers).map(adapted).collect();
        Self { rank, modules, tensors, length, layers, projections }
    }

    /// How many layers the model has.
    pub(crate) fn layers(&self) -> usize {
        self.layers
    }

    /// How a product is adapted, if it is.
    pub(crate) fn projection(&self, projection: Projection) -> Option<&AdaptedProjection> {
        self.projections[projection.index(self.layers)].as_ref()
    }

    /// All adapted products, in order; none where one is left as it is.
    pub(crate) fn projections(&self) -> &[Option<AdaptedProjection>] {
        &self.projections
    }

    /// The place of a product among [`projections`](Self::projections).
    pub(crate) fn index(&self, projection: Projection) -> usize {
        projection.index(self.layers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::tiny_config;

    #[test]
    fn every_number_has_one_place_and_every_product_its_index() {
        let config = tiny_config();
        let all = AdapterLayout::new(&config, 3, &LoraModule::ALL.into());
        let mut end = 0;
        for tensor in &all.tensors {
            assert_eq!(tensor.place.start, end);
            assert_eq!(tensor.place.len(), tensor.shape.iter().product::<usize>());
            end = tensor.place.end;
        }
        assert_eq!((all.length, all.tensors.len()), (end, 2 * (2 * 7 + 1)));
        for (index, projection) in Projection::all(config.num_hidden_layers).enumerate() {
            assert_eq!(projection.index(config.num_hidden_layers), index);
            let found = all.projection(projection).unwrap();
            assert_eq!(found.modules.last().unwrap().columns.end, found.outputs);
            assert_eq!(found.a.len(), found.modules.len() * 3 * found.inputs);
        }
        let names: Vec<&str> = all.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert!(names.contains(&"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"), "{names:?}");
        assert!(names.contains(&"base_model.model.lm_head.lora_B.weight"), "{names:?}");
    }

    #[test]
    fn modules_are_chosen_by_their_names_too() {
        let some = AdapterLayout::choosing(&tiny_config(), 2, |module, name| {
            module == LoraModule::Value && name.contains("layers.1.") || name == "lm_head"
        });
        assert_eq!((some.tensors.len(), some.modules.len()), (4, 2));
        assert!(some.projection(Projection::QueryKeyValue(0)).is_none());
        assert!(some.projection(Projection::QueryKeyValue(1)).is_some());
    }

    #[test]
    fn what_is_not_chosen_is_left_out() {
        let some = AdapterLayout::new(&tiny_config(), 2, &[LoraModule::Value, LoraModule::Down].into());
        assert_eq!(some.tensors.len(), 8);
        let value = some.projection(Projection::QueryKeyValue(1)).unwrap();
        assert_eq!((value.outputs, value.modules.len()), (8 * 18, 1));
        assert_eq!(value.modules[0].columns, 6 * 18..8 * 18);
        for left in [Projection::Output(0), Projection::GateUp(1), Projection::Head] {
            assert_eq!(some.projection(left), None);
        }
    }
}
