//! What a request tells a model's chat template: `chat_template_kwargs`, as vLLM and SGLang call it, and its caller's wishes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_renderers::Renderer;
use serde_json::{Map, Value, json};

use crate::error::ProxyError;
use crate::models::caller_wishes::{Wish, wishes_of};
use crate::models::served_model::SampledModel;
use crate::models::template_work::{TemplateWork, WorkStart};
use crate::request_fields::TEMPLATE_ARGUMENTS;

/// Renderers that are kept. Nearly all requests have one of a few arguments, if any.
const KEPT: usize = 64;

/// Renderers of models with template arguments, each created once.
pub(crate) struct TemplateRenderers {
    work: TemplateWork,
    /// By model, arguments and wishes.
    kept: Mutex<HashMap<(String, String), ToldRenderer>>,
}

#[derive(Clone)]
struct ToldRenderer {
    renderer: Arc<dyn Renderer>,
    ignored: Arc<[&'static str]>,
}

/// A model whose template was told what a request has for it.
pub(crate) struct ToldModel {
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
    ) -> Result<ToldModel, ProxyError> {
        let no_arguments = Map::new();
        let arguments = extra.get(TEMPLATE_ARGUMENTS).and_then(Value::as_object).unwrap_or(&no_arguments);
        let wishes = wishes_of(extra);
        if arguments.is_empty() && wishes.is_empty() {
            return Ok(ToldModel { model: model.clone(), ignored: Arc::default() });
        }
        let told: Vec<_> = wishes.iter().map(|Wish { field, variables }| (field, variables)).collect();
        let key = (model.name.clone(), json!([arguments, told]).to_string());
        let told = match self.kept(&key) {
            Some(told) => told,
            None => {
                let (renderer, arguments) = (Arc::clone(&model.renderer), arguments.clone());
                let work = move || told_renderer(&renderer, &arguments, &wishes);
                let told = self.work.run(WorkStart::Here, owner, work).await??;
                self.keep(key, told.clone());
                told
            }
        };
        Ok(ToldModel { model: SampledModel { renderer: told.renderer, ..model.clone() }, ignored: told.ignored })
    }

    fn kept(&self, key: &(String, String)) -> Option<ToldRenderer> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn keep(&self, key: (String, String), told: ToldRenderer) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, told);
    }
}

fn told_renderer(
    renderer: &Arc<dyn Renderer>,
    arguments: &Map<String, Value>,
    wishes: &[Wish],
) -> Result<ToldRenderer, ProxyError> {
    let mut renderer = match arguments.is_empty() {
        true => Arc::clone(renderer),
        false => renderer.with_template_arguments(arguments)?,
    };
    let mut ignored = Vec::new();
    for Wish { field, variables } in wishes {
        match renderer.with_preferences(variables) {
            Some(told) => renderer = told,
            None => ignored.push(*field),
        }
    }
    Ok(ToldRenderer { renderer, ignored: ignored.into() })
}
