//! Arguments for a model's chat template: `chat_template_kwargs`, as vLLM and SGLang call it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_renderers::Renderer;
use serde_json::{Map, Value};

use crate::error::ProxyError;
use crate::models::served_model::SampledModel;
use crate::requests::request_fields::TEMPLATE_ARGUMENTS;

/// Renderers that are kept. Nearly all requests have one of a few arguments, if any.
const KEPT: usize = 64;

/// Renderers of models with template arguments, each created once.
#[derive(Default)]
pub(crate) struct TemplateRenderers {
    /// By model and arguments.
    kept: Mutex<HashMap<(String, String), Arc<dyn Renderer>>>,
}

impl TemplateRenderers {
    /// The model with the template arguments in the request's unknown fields.
    pub(crate) fn of(&self, model: &SampledModel, extra: &Map<String, Value>) -> Result<SampledModel, ProxyError> {
        let arguments = match extra.get(TEMPLATE_ARGUMENTS) {
            Some(Value::Object(arguments)) if !arguments.is_empty() => arguments,
            _ => return Ok(model.clone()),
        };
        let key = (model.name.clone(), Value::from(arguments.clone()).to_string());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let renderer = match kept.get(&key) {
            Some(renderer) => Arc::clone(renderer),
            None => {
                let renderer = model.renderer.with_template_arguments(arguments)?;
                if kept.len() >= KEPT {
                    kept.clear();
                }
                kept.insert(key, Arc::clone(&renderer));
                renderer
            }
        };
        Ok(SampledModel { renderer, ..model.clone() })
    }
}
