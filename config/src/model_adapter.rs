//! Adapters of `[[models]]`: what their keys say, and what goes together.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_backends::{LearningRateFactors, TorchAdapter, TorchModel, TrainedParts, file_digest};
use fulgurite_engine::{AdapterFacts, LoraModule, LoraOptions, LoraScaling, inspect_adapter};

use crate::declarations::LoadedConfig;
use crate::models::{Backend, LearnerKind, ModelEntry};

/// Keys of the form of an adapter.
const FORM_KEYS: &str = "lora_alpha, lora_scaling, lora_modules, lora_layers, lora_dropout and adapter";
/// The weights of an adapter in PEFT's form.
pub const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";
/// What Tinker calls the head.
const TINKERS_HEAD: &str = "unembed_tokens";

impl ModelEntry {
    /// Whether an adapter is trained, and the weights beside it stay as they are.
    pub fn trains_adapter(&self) -> bool {
        self.adapter.is_some() || self.lora_rank.is_some_and(|rank| rank > 0)
    }

    /// The adapter that this process is to train beside the model, if it is to train one; its numbers begin by `seed`.
    pub fn lora(&self, seed: u64) -> Option<LoraOptions> {
        let rank = self.lora_rank.filter(|&rank| rank > 0)? as usize;
        let mut lora = LoraOptions::new(rank, seed);
        lora.alpha = self.lora_alpha.unwrap_or(lora.alpha);
        lora.scaling = self.lora_scaling.unwrap_or_default();
        lora.layers = self.lora_layers.as_ref().map(|chosen| chosen.0.clone());
        if lora.layers.is_some() {
            lora.modules.remove(&LoraModule::Head);
        }
        lora.modules = self.lora_modules.clone().unwrap_or(lora.modules);
        Some(lora)
    }

    /// The same for a learner in PyTorch, with the model in `path`.
    pub fn torch_model(&self, path: &Path, seed: u64, factors: LearningRateFactors) -> TorchModel {
        let adapter = self.lora(seed).map(|lora| TorchAdapter {
            rank: lora.rank,
            alpha: lora.alpha,
            is_rank_stabilized: lora.scaling == LoraScaling::RankStabilized,
            // Not all models have all of the usual ones.
            modules: self.lora_modules.as_ref().map(|names| names.iter().map(|name| name.name().to_owned()).collect()),
            layers: lora.layers,
            dropout: self.lora_dropout,
            start: self.adapter.clone(),
        });
        TorchModel { path: path.to_owned(), adapter, seed, parts: self.trained_parts(factors) }
    }

    /// What is trained of the model, and how fast.
    pub fn trained_parts(&self, factors: LearningRateFactors) -> TrainedParts {
        TrainedParts { factors, frozen: self.frozen.clone() }
    }

    /// Writes what an adapter has that nothing was said of.
    pub fn fill_adapter_defaults(&mut self) {
        let is_trained_here = self.backend != Backend::Tinker && self.learner != LearnerKind::PrimeRl;
        if let Some(lora) = self.lora(0).filter(|_| is_trained_here) {
            self.lora_alpha = Some(lora.alpha);
            self.lora_scaling = Some(lora.scaling);
        }
    }

    /// The adapter that this process is to train, for people; `None` where it trains none.
    pub fn adapter_summary(&self) -> Option<String> {
        let mut filled = self.clone();
        filled.fill_adapter_defaults();
        let (alpha, scaling) = (filled.lora_alpha?, filled.lora_scaling?);
        let rank = filled.lora_rank? as usize;
        let factor = scaling.factor(alpha, rank);
        let by_default = if self.lora_alpha.is_none() { " (the default)" } else { "" };
        let start = self.adapter.as_ref().map_or(String::new(), |path| format!(", from {}", path.display()));
        Some(format!(
            "an adapter of rank {rank} is trained{start}, lora_alpha {alpha}{by_default}: its product counts {factor:.3} times"
        ))
    }

    /// Takes the form of the adapter that training goes on from, which is in `directory`.
    ///
    /// # Errors
    /// If it cannot be gone on from, or if another key says otherwise than it.
    pub fn take_adapter(&mut self, directory: &Path) -> Result<()> {
        let place = || format!("[[models]] adapter of `{}`", self.name);
        let facts = inspect_adapter(directory).with_context(place)?;
        self.compare(&facts).with_context(place)?;
        let weights = directory.join(ADAPTER_WEIGHTS);
        let digest = file_digest(&weights).with_context(|| format!("cannot read {}", weights.display()))?;
        if let Some(stated) = self.adapter_sha256.as_ref().filter(|stated| **stated != digest) {
            bail!("adapter_sha256 is {stated}, but {} has {digest}", weights.display());
        }
        self.adapter = Some(directory.to_owned());
        self.adapter_sha256 = Some(digest);
        self.lora_rank = Some(u32::try_from(facts.rank)?);
        self.lora_alpha = Some(facts.alpha);
        self.lora_scaling = Some(facts.scaling);
        self.check_adapter()
    }

    fn compare(&self, facts: &AdapterFacts) -> Result<()> {
        let refuse = |key: &str, own: String, theirs: String| {
            bail!("{key} is {own}, but the adapter that training goes on from has {theirs}: leave {key} out")
        };
        let rank = self.lora_rank.map(|rank| rank as usize);
        if let Some(rank) = rank.filter(|rank| *rank != facts.rank) {
            return refuse("lora_rank", rank.to_string(), facts.rank.to_string());
        }
        if let Some(alpha) = self.lora_alpha.filter(|alpha| *alpha != facts.alpha) {
            return refuse("lora_alpha", alpha.to_string(), facts.alpha.to_string());
        }
        if let Some(scaling) = self.lora_scaling.filter(|scaling| *scaling != facts.scaling) {
            return refuse("lora_scaling", scaling.name().to_owned(), facts.scaling.name().to_owned());
        }
        let name = |module: &str| if module == TINKERS_HEAD { LoraModule::Head.name() } else { module }.to_owned();
        let theirs: BTreeSet<String> = facts.modules.iter().map(|module| name(module)).collect();
        let own = self.lora_modules.as_ref().map(|own| own.iter().map(|module| module.name().to_owned()).collect());
        if let Some(own) = own.filter(|own: &BTreeSet<String>| *own != theirs) {
            return refuse("lora_modules", format!("{own:?}"), format!("{theirs:?}"));
        }
        if let Some(own) = self.lora_layers.as_ref().filter(|own| own.0 != facts.layers) {
            return refuse("lora_layers", format!("{:?}", own.0), format!("{:?}", facts.layers));
        }
        Ok(())
    }

    /// Refuses keys of adapters that do not go together.
    pub(crate) fn check_adapter(&self) -> Result<()> {
        let backend = self.backend.name();
        let has_shape = self.lora_alpha.is_some() || self.lora_scaling.is_some() || self.lora_modules.is_some();
        let has_start = self.adapter.is_some() || self.lora_dropout != 0.0;
        let has_form = has_shape || self.lora_layers.is_some() || has_start;
        if self.backend == Backend::Tinker && has_form {
            bail!("backend = \"tinker\" leaves {FORM_KEYS} to the service: leave them out");
        }
        let takes_adapters =
            matches!(self.backend, Backend::Embedded | Backend::Vllm | Backend::Sglang | Backend::Tinker);
        if !takes_adapters && (has_form || self.lora_rank.is_some()) {
            bail!("backend = \"{backend}\" takes no adapters: leave out lora_rank, {FORM_KEYS}");
        }
        if self.adapter.is_some() && self.lora_rank == Some(0) {
            bail!("adapter goes on from an adapter, and lora_rank = 0 trains all weights: leave one of them out");
        }
        if has_form && !self.trains_adapter() {
            bail!("{FORM_KEYS} are of an adapter, which needs lora_rank = 16 or so");
        }
        if self.adapter_sha256.is_some() && self.adapter.is_none() {
            bail!("adapter_sha256 is of adapter, which is missing");
        }
        if self.learner == LearnerKind::PrimeRl && has_form {
            bail!("learner = \"prime-rl\" leaves {FORM_KEYS} to the trainer's config: leave them out");
        }
        if !self.frozen.is_empty() && self.trains_adapter() {
            bail!(
                "frozen is of a model whose weights are all trained, and an adapter leaves them as they are: leave frozen out, or say lora_layers"
            );
        }
        if !self.frozen.is_empty() && (self.backend == Backend::Tinker || self.learner == LearnerKind::PrimeRl) {
            bail!(
                "frozen is of weights that are trained here, not at a service or by prime-rl's trainer: leave it out"
            );
        }
        if !(0.0..1.0).contains(&self.lora_dropout) {
            bail!("lora_dropout is {}, but must be at least 0 and below 1", self.lora_dropout);
        }
        if self.lora_dropout > 0.0 && self.learner != LearnerKind::Torch {
            bail!("lora_dropout is of adapters that PyTorch trains: set learner = \"torch\", or leave it out");
        }
        let has_head = self.lora_modules.as_ref().is_some_and(|modules| modules.contains(&LoraModule::Head));
        if self.lora_layers.is_some() && has_head {
            bail!("lora_layers leaves out the head, which is in no layer: leave lm_head out of lora_modules");
        }
        if self.backend == Backend::Sglang && self.lora_scaling == Some(LoraScaling::RankStabilized) {
            bail!(
                "lora_scaling = \"rank_stabilized\" is not for backend = \"sglang\", which divides lora_alpha by the rank \
                 whatever an adapter says: multiply lora_alpha by the rank's root instead"
            );
        }
        Ok(())
    }
}

impl LoadedConfig {
    /// Gives models that go on from an adapter the form of it.
    ///
    /// # Errors
    /// As [`ModelEntry::take_adapter`].
    pub fn take_adapters(&mut self) -> Result<()> {
        let directories: Vec<_> =
            self.config.models.iter().map(|model| Some(self.resolve(model.adapter.as_ref()?))).collect();
        for (model, directory) in self.config.models.iter_mut().zip(directories) {
            if let Some(directory) = directory {
                model.take_adapter(&directory)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer_choice::LayerChoice;
    use crate::models::parse_model;

    #[test]
    fn an_adapter_has_what_is_told_of_it_and_else_the_engines_defaults() {
        let model = parse_model("tiny=embedded:models/tiny").unwrap();
        assert_eq!(model.lora(3), None);
        assert_eq!(ModelEntry { lora_rank: Some(0), ..model.clone() }.lora(3), None);
        let plain = ModelEntry { lora_rank: Some(8), ..model.clone() };
        plain.check().unwrap();
        assert_eq!(plain.lora(3), Some(LoraOptions::new(8, 3)));
        let text = "name = 'm'\nbackend = 'vllm'\npath = 'p'\nurls = ['http://h']\nlora_rank = 4\nlora_alpha = 8\n\
                    lora_modules = ['q_proj', 'lm_head']";
        let entry: ModelEntry = toml::from_str(text).unwrap();
        entry.check().unwrap();
        let modules = [LoraModule::Query, LoraModule::Head].into();
        let expected = LoraOptions { alpha: 8.0, modules, ..LoraOptions::new(4, 3) };
        assert_eq!(entry.lora(3), Some(expected.clone()));
        let stabilized = ModelEntry { lora_scaling: Some(LoraScaling::RankStabilized), ..entry };
        stabilized.check().unwrap();
        assert_eq!(stabilized.lora(3), Some(LoraOptions { scaling: LoraScaling::RankStabilized, ..expected }));
        assert!(
            stabilized
                .torch_model(Path::new("p"), 3, LearningRateFactors::default())
                .adapter
                .unwrap()
                .is_rank_stabilized
        );
    }

    #[test]
    fn an_adapters_defaults_are_said() {
        let mut model = ModelEntry { lora_rank: Some(16), ..parse_model("m=embedded:p").unwrap() };
        let summary = model.adapter_summary().unwrap();
        assert_eq!(
            summary,
            "an adapter of rank 16 is trained, lora_alpha 32 (the default): its product counts 2.000 times"
        );
        model.fill_adapter_defaults();
        assert_eq!((model.lora_alpha, model.lora_scaling), (Some(32.0), Some(LoraScaling::Standard)));
        let stabilized = ModelEntry { lora_scaling: Some(LoraScaling::RankStabilized), ..model };
        assert!(stabilized.adapter_summary().unwrap().ends_with("lora_alpha 32: its product counts 8.000 times"));
        for flag in ["m=embedded:p", "m=tinker:http://h,path=p"] {
            let mut other = parse_model(flag).unwrap();
            other.fill_adapter_defaults();
            assert_eq!((other.lora_alpha, other.adapter_summary()), (None, None), "{flag}");
        }
    }

    fn vector(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/vectors").join(name)
    }

    #[test]
    fn an_adapter_that_is_gone_on_from_gives_its_form() {
        let plain = parse_model("m=embedded:p").unwrap();
        let mut entry = ModelEntry { adapter: Some("a".into()), ..plain.clone() };
        entry.check().unwrap();
        assert!(entry.trains_adapter() && entry.lora(3).is_none());
        // PEFT's own (engine/tests/vectors/make_models.py).
        entry.take_adapter(&vector("qwen2-yarn-lora")).unwrap();
        assert_eq!((entry.lora_rank, entry.lora_alpha), (Some(4), Some(6.0)));
        assert_eq!(entry.lora_scaling, Some(LoraScaling::RankStabilized));
        assert_eq!(
            entry.torch_model(Path::new("p"), 3, LearningRateFactors::default()).adapter.unwrap().start,
            Some(vector("qwen2-yarn-lora"))
        );
        assert!(entry.adapter_summary().unwrap().ends_with("lora_alpha 6: its product counts 3.000 times"));
        // What it was given says the same again.
        entry.take_adapter(&vector("qwen2-yarn-lora")).unwrap();
        let digest = entry.adapter_sha256.clone().unwrap();
        let error = entry.take_adapter(&vector("qwen3-linear-lora")).unwrap_err();
        assert!(format!("{error:#}").contains("lora_alpha is 6"), "{error:#}");
        assert_eq!(digest.len(), 64);
    }

    #[test]
    fn what_contradicts_an_adapter_is_refused_by_name() {
        let plain = ModelEntry { adapter: Some("a".into()), ..parse_model("m=embedded:p").unwrap() };
        for (wrong, words) in [
            (ModelEntry { lora_rank: Some(8), ..plain.clone() }, "lora_rank is 8, but the adapter"),
            (ModelEntry { lora_alpha: Some(8.0), ..plain.clone() }, "lora_alpha is 8, but the adapter"),
            (
                ModelEntry { lora_scaling: Some(LoraScaling::Standard), ..plain.clone() },
                "lora_scaling is standard, but the adapter that training goes on from has rank_stabilized",
            ),
            (ModelEntry { lora_modules: Some([LoraModule::Query].into()), ..plain.clone() }, "lora_modules is"),
            (ModelEntry { lora_layers: Some(LayerChoice([7].into())), ..plain.clone() }, "lora_layers is {7}"),
            (ModelEntry { adapter_sha256: Some("0".into()), ..plain.clone() }, "adapter_sha256 is 0, but"),
            (ModelEntry { backend: Backend::Sglang, ..plain.clone() }, "sglang"),
        ] {
            let error = format!("{:#}", { wrong }.take_adapter(&vector("qwen2-yarn-lora")).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
        for (wrong, words) in [
            (ModelEntry { lora_rank: Some(0), ..plain.clone() }, "trains all weights"),
            (ModelEntry { adapter: None, adapter_sha256: Some("0".into()), ..plain.clone() }, "adapter_sha256"),
            (
                ModelEntry { adapter: None, lora_layers: Some(LayerChoice([0].into())), ..plain.clone() },
                "needs lora_rank",
            ),
            (ModelEntry { frozen: vec!["layers.0".to_owned()], ..plain.clone() }, "leave frozen out"),
            (ModelEntry { lora_dropout: 0.1, ..plain.clone() }, "set learner = \"torch\""),
            (ModelEntry { lora_dropout: 1.0, learner: LearnerKind::Torch, ..plain.clone() }, "below 1"),
            (
                ModelEntry {
                    adapter: None,
                    frozen: vec!["layers.0".to_owned()],
                    ..parse_model("m=tinker:http://h,path=p").unwrap()
                },
                "not at a service",
            ),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_adapter_of_some_layers_has_none_of_the_head() {
        let text = "name = 'm'\nbackend = 'embedded'\npath = 'p'\nlora_rank = 4\nlora_layers = '0-2'";
        let entry: ModelEntry = toml::from_str(text).unwrap();
        entry.check().unwrap();
        let lora = entry.lora(3).unwrap();
        assert_eq!(lora.layers, Some([0, 1, 2].into()));
        assert!(!lora.modules.contains(&LoraModule::Head) && lora.modules.len() == 7);
        let torch = entry.torch_model(Path::new("p"), 3, LearningRateFactors::default()).adapter.unwrap();
        assert_eq!((torch.layers, torch.modules), (Some([0, 1, 2].into()), None));
        let head = ModelEntry { lora_modules: Some([LoraModule::Head].into()), ..entry };
        assert!(head.check().unwrap_err().to_string().contains("leave lm_head out"));
    }
}
