//! What a request tells a model's chat template: `chat_template_kwargs`, as vLLM and SGLang call it, and its caller's wishes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_renderers::Renderer;
use serde_json::{Map, Value, json};

use crate::error::ProxyError;
use crate::models::caller_preferences::{CallerPreference, preferences_of};
use crate::models::served_model::SampledModel;
use crate::models::template_work::{TemplateWork, WorkStart};
use crate::request_fields::TEMPLATE_ARGUMENTS;

/// Renderers that are kept. Nearly all requests have one of a few arguments, if any.
const KEPT: usize = 64;

/// Renderers of models with template arguments, each created once.
pub(crate) struct TemplateRenderers {
    work: TemplateWork,
    /// By model, arguments and wishes.
    kept: Mutex<HashMap<(String, String), AdaptedRenderer>>,
}

#[derive(Clone)]
struct AdaptedRenderer {
    renderer: Arc<dyn Renderer>,
    ignored: Arc<[&'static str]>,
}

/// A model whose template was told what a request has for it.
pub(crate) struct AdaptedModel {
    pub(crate) model: SampledModel,
    /// Fields with wishes that the template does not know.
    pub(crate) ignored: Arc<[&'static str]>,
}

impl TemplateRenderers {
    /// No renderers yet; they are made by that work.
    pub(crate) fn new(work: TemplateWork) -> Self {
        Self { work, kept: Mutex::default() }
    }

    /// The model with the template arguments and the wishes in the fields of one of `owner`'s requests.
    pub(crate) async fn of(
        &self,
        model: &SampledModel,
        extra: &Map<String, Value>,
        owner: impl FnOnce() -> String,
    ) -> Result<AdaptedModel, ProxyError> {
        let no_arguments = Map::new();
        let arguments = extra.get(TEMPLATE_ARGUMENTS).and_then(Value::as_object).unwrap_or(&no_arguments);
        let preferences = preferences_of(extra);
        if arguments.is_empty() && preferences.is_empty() {
            return Ok(AdaptedModel { model: model.clone(), ignored: Arc::default() });
        }
        let requested: Vec<_> =
            preferences.iter().map(|CallerPreference { field, variables }| (field, variables)).collect();
        let key = (model.name.clone(), json!([arguments, requested]).to_string());
        let requested = match self.kept(&key) {
            Some(requested) => requested,
            None => {
                let (renderer, arguments) = (Arc::clone(&model.renderer), arguments.clone());
                let work = move || adapted_renderer(&renderer, &arguments, &preferences);
                let requested = self.work.run(WorkStart::Here, owner, work).await??;
                self.keep(key, requested.clone());
                requested
            }
        };
        Ok(AdaptedModel {
            model: SampledModel { renderer: requested.renderer, ..model.clone() },
            ignored: requested.ignored,
        })
    }

    fn kept(&self, key: &(String, String)) -> Option<AdaptedRenderer> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn keep(&self, key: (String, String), adapted: AdaptedRenderer) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, adapted);
    }
}

fn adapted_renderer(
    renderer: &Arc<dyn Renderer>,
    arguments: &Map<String, Value>,
    preferences: &[CallerPreference],
) -> Result<AdaptedRenderer, ProxyError> {
    let mut renderer = match arguments.is_empty() {
        true => Arc::clone(renderer),
        false => renderer.with_template_arguments(arguments)?,
    };
    let mut ignored = Vec::new();
    for CallerPreference { field, variables } in preferences {
        match renderer.with_preferences(variables) {
            Some(adapted) => renderer = adapted,
            None => ignored.push(*field),
        }
    }
    Ok(AdaptedRenderer { renderer, ignored: ignored.into() })
}
