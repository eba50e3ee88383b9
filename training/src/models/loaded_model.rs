//! A model that is opened in this process.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use fulgurite_engine::{EmbeddedTinkerModel, Engine, EngineOptions, TokenText, Vocabulary};
use fulgurite_proxy::SampledModel;
use fulgurite_renderers::{RendererChoice, Tokenizer};
use fulgurite_tinker::server::TinkerBase;

use fulgurite_hub::must_be_whole;

/// A model that this process samples from, and may train.
pub struct LoadedModel {
    /// As agents know it.
    pub served: SampledModel,
    /// What holds it.
    pub engine: Engine,
}

impl LoadedModel {
    /// Opens a model directory.
    pub fn open(name: &str, path: &Path, renderer: RendererChoice<'_>, options: EngineOptions) -> Result<Self> {
        let model = || format!("model `{name}`");
        must_be_whole(path).with_context(model)?;
        let renderer = fulgurite_renderers::open_renderer(path, renderer).with_context(model)?;
        let vocabulary = vocabulary(renderer.tokenizer());
        let engine = Engine::open_with_vocabulary(path, vocabulary, options).with_context(model)?;
        let served = SampledModel { name: name.to_owned(), renderer, sampler: engine.sampler() };
        Ok(Self { served, engine })
    }

    /// The model as clients of the Tinker API have it.
    pub fn tinker_base(&self) -> Result<TinkerBase> {
        let model = EmbeddedTinkerModel::new(&self.engine);
        let model = model.with_context(|| format!("model `{}`", self.served.name))?;
        Ok(TinkerBase::new(&self.served.name, Arc::new(model)))
    }
}

/// What the engine must know of a tokenizer to keep answers to a grammar, and to end them with a text.
fn vocabulary(tokenizer: &Tokenizer) -> Vocabulary {
    let text = |id: u32| match tokenizer.id_to_bytes(id) {
        None => TokenText::Unused,
        Some(name) if tokenizer.is_control(id) => TokenText::Control(name.to_vec()),
        Some(bytes) => TokenText::Text(bytes.to_vec()),
    };
    (0..tokenizer.vocabulary_size() as u32).map(text).collect()
}
