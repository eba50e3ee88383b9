use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use fulgurite_backends::{KeptModel, SamplerInfo};
use serde_json::{Map, Value};

use crate::error::ProxyError;
use crate::models::caller_key::CallerKey;
use crate::models::gate::Gate;
use crate::models::loaded_adapters::LoadedAdapters;
use crate::models::named_weights::NamedWeights;
use crate::models::served_model::{SampledModel, ServedModel, UpstreamModel};
use crate::models::template_arguments::{AdaptedModel, TemplateRenderers};
use crate::models::template_work::TemplateWork;
use crate::models::weights::model_weights::ModelWeights;
use crate::models::weights::reports::ModelHealth;

/// The models that are served, by name.
pub(crate) struct ServedModels {
    models: BTreeMap<String, Served>,
    /// Beside these.
    named_weights: Option<NamedWeights>,
    adapters: LoadedAdapters,
    template_renderers: TemplateRenderers,
    /// Models that only graders call, once that is known.
    reserved: OnceLock<BTreeSet<String>>,
}

/// A model with what holds its calls and what puts weights behind it.
struct Served {
    model: ServedModel,
    gate: Gate,
    /// The same for calls of weights that are named in its place.
    others_gate: Gate,
    weights: ModelWeights,
    /// Whether it was logged that the model is shown no tools.
    is_warned_of_tools: AtomicBool,
    /// The fields of requests of which it was logged that they are ignored.
    ignored_fields: Mutex<BTreeSet<String>>,
    /// What its host can do, as it told last.
    limits: Mutex<Option<SamplerInfo>>,
}

/// Who samples a call.
pub(crate) struct CalledModel<'m> {
    /// A model that is served, or weights under their own name with the tokenizer and template of the model they are of.
    pub(crate) model: SampledModel,
    /// The served model's name: the calls of weights that clients name are counted as calls of theirs.
    pub(crate) served: &'m str,
    /// What holds the served model's calls.
    pub(crate) gate: &'m Gate,
}

/// Names of ignored fields that are remembered of a model, which clients choose.
const REMEMBERED_FIELDS: usize = 256;

impl ServedModels {
    pub(crate) fn new(models: Vec<ServedModel>, template_work: TemplateWork) -> Self {
        let served = models.into_iter().map(|model| {
            let gate = Gate::default();
            let (others_gate, weights) = (gate.of_other_weights(), ModelWeights::new(gate.clone()));
            let name = model.name().to_owned();
            let is_warned_of_tools = AtomicBool::new(false);
            (
                name,
                Served {
                    model,
                    gate,
                    others_gate,
                    weights,
                    is_warned_of_tools,
                    ignored_fields: Mutex::default(),
                    limits: Mutex::default(),
                },
            )
        });
        Self {
            models: served.collect(),
            named_weights: None,
            adapters: LoadedAdapters::default(),
            template_renderers: TemplateRenderers::new(template_work),
            reserved: OnceLock::new(),
        }
    }

    /// The same, and weights that calls may name.
    pub(crate) fn with_named_weights(self, named_weights: Option<NamedWeights>) -> Self {
        Self { named_weights, ..self }
    }

    /// Adapters that were loaded over them.
    pub(crate) fn adapters(&self) -> &LoadedAdapters {
        &self.adapters
    }

    /// All of them, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ServedModel> {
        self.models.values().map(|served| &served.model)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.models.keys()
    }

    /// What holds the calls of each.
    pub(crate) fn gates(&self) -> impl Iterator<Item = &Gate> {
        self.models.values().map(|served| &served.gate)
    }

    /// The model of that name, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<&ServedModel> {
        self.models.get(name).map(|served| &served.model)
    }

    pub(crate) fn model(&self, name: &str) -> Result<&ServedModel, ProxyError> {
        Ok(&self.served(name)?.model)
    }

    /// A model that is sampled here.
    pub(crate) fn sampled(&self, name: &str) -> Result<&SampledModel, ProxyError> {
        self.model(name)?.sampled().ok_or_else(|| {
            ProxyError::invalid("model", format!("the calls of `{name}` are passed on, and not sampled here"))
        })
    }

    /// From now on only graders and administrators call these. What was reserved before stays so, and nothing else becomes.
    pub(crate) fn reserve(&self, names: BTreeSet<String>) {
        self.reserved.get_or_init(|| names);
    }

    /// Refuses a call of a reserved model by who has no key for it.
    pub(crate) fn check_reserved(&self, name: &str, key: &CallerKey) -> Result<(), ProxyError> {
        let is_reserved = self.reserved.get().is_some_and(|names| names.contains(name));
        match is_reserved && !key.is_graders() {
            true => Err(ProxyError::ModelReserved { model: name.to_owned() }),
            false => Ok(()),
        }
    }

    /// Who samples a call that names this, for who has that key.
    pub(crate) fn called(&self, name: &str, key: &CallerKey) -> Result<CalledModel<'_>, ProxyError> {
        self.check_reserved(name, key)?;
        if let Some(adapter) = self.adapters.get(name) {
            self.check_reserved(&adapter.model.base_model, key)?;
            return self.of_kept(adapter.model);
        }
        let named = self.named_weights.as_ref().filter(|_| !self.models.contains_key(name));
        match named.map(|weights| weights.find_for(key, name)).transpose()?.flatten() {
            Some(kept) => self.of_kept(kept),
            None => {
                let model = self.sampled(name)?.clone();
                let (served, Served { gate, .. }) = self.entry(name)?;
                Ok(CalledModel { model, served, gate })
            }
        }
    }

    /// The model of a recorded call, if it is still there.
    pub(crate) fn recorded(&self, name: &str) -> Option<SampledModel> {
        if let Some(model) = self.get(name) {
            return model.sampled().cloned();
        }
        let adapter = self.adapters.get(name).map(|adapter| adapter.model);
        let kept = match adapter {
            Some(kept) => kept,
            None => self.named_weights.as_ref()?.find(name).ok()??,
        };
        self.of_kept(kept).ok().map(|called| called.model)
    }

    /// What a client sees of the model of that name.
    pub(crate) fn shown(&self, name: &str, key: &CallerKey) -> Result<ServedModel, ProxyError> {
        match self.get(name) {
            Some(model) => Ok(model.clone()),
            None => self.called(name, key).map(|called| ServedModel::Sampled(called.model)),
        }
    }

    fn of_kept(&self, kept: KeptModel) -> Result<CalledModel<'_>, ProxyError> {
        let KeptModel { name, base_model, sampler } = kept;
        let renderer = self.sampled(&base_model)?.renderer.clone();
        let (served, Served { others_gate, .. }) = self.entry(&base_model)?;
        Ok(CalledModel { model: SampledModel { name, renderer, sampler }, served, gate: others_gate })
    }

    /// The model of a request that names none: the only one that is sampled here.
    pub(crate) fn only_sampled(&self) -> Result<&SampledModel, ProxyError> {
        let mut sampled = self.iter().filter_map(ServedModel::sampled);
        match (sampled.next(), sampled.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(ProxyError::invalid("model", "model: name one of those that are served (GET /v1/models)")),
        }
    }

    /// The model of that name, if its calls are forwarded.
    pub(crate) fn upstream(&self, name: &str) -> Option<&UpstreamModel> {
        match self.get(name)? {
            ServedModel::Upstream(model) => Some(model),
            ServedModel::Sampled(_) => None,
        }
    }

    /// The model that a request's body names, if its calls are forwarded.
    pub(crate) fn upstream_of(&self, fields: &Map<String, Value>) -> Option<&UpstreamModel> {
        self.upstream(fields.get("model")?.as_str()?)
    }

    /// What holds a model's calls.
    pub(crate) fn gate(&self, name: &str) -> Result<&Gate, ProxyError> {
        Ok(&self.served(name)?.gate)
    }

    /// What each model is sampled from here, by its name.
    pub(crate) fn weights_health(&self) -> BTreeMap<&str, ModelHealth> {
        self.models
            .iter()
            .filter_map(|(name, served)| {
                let version = served.model.sampled()?.sampler.weights_version().map(|version| version.0);
                Some((name.as_str(), ModelHealth::new(&served.weights.status(), version)))
            })
            .collect()
    }

    /// What puts weights behind a model.
    pub(crate) fn weights(&self, name: &str) -> Result<&ModelWeights, ProxyError> {
        Ok(&self.served(name)?.weights)
    }

    /// The model with the template arguments and wishes in the fields of one of `owner`'s requests.
    pub(crate) async fn with_template_arguments(
        &self,
        model: &SampledModel,
        extra: &Map<String, Value>,
        owner: impl FnOnce() -> String,
    ) -> Result<AdaptedModel, ProxyError> {
        self.template_renderers.of(model, extra, owner).await
    }

    /// Whether to log that a model is shown no tools, which is done once.
    pub(crate) fn is_first_warning_of_tools(&self, name: &str) -> bool {
        self.models.get(name).is_some_and(|served| !served.is_warned_of_tools.swap(true, Ordering::Relaxed))
    }

    /// Remembers what a model's host can do.
    pub(crate) fn note_limits(&self, name: &str, info: &SamplerInfo) {
        if let Some(served) = self.models.get(name) {
            *served.limits.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.clone());
        }
    }

    /// What a model's host could do when it last told.
    pub(crate) fn last_limits(&self, name: &str) -> Option<SamplerInfo> {
        self.models.get(name)?.limits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether to log that a field of a model's requests is ignored, which is done once.
    pub(crate) fn is_first_ignored(&self, name: &str, field: &str) -> bool {
        let Some(served) = self.models.get(name) else { return false };
        let mut known = served.ignored_fields.lock().unwrap_or_else(PoisonError::into_inner);
        !known.contains(field) && known.len() < REMEMBERED_FIELDS && known.insert(field.to_owned())
    }

    fn served(&self, name: &str) -> Result<&Served, ProxyError> {
        self.entry(name).map(|(_, served)| served)
    }

    fn entry(&self, name: &str) -> Result<(&str, &Served), ProxyError> {
        let found = self.models.get_key_value(name).map(|(name, served)| (name.as_str(), served));
        found.ok_or_else(|| ProxyError::UnknownModel {
            model: name.to_owned(),
            served: match self.models.keys().cloned().collect::<Vec<_>>() {
                names if names.is_empty() => "none".to_owned(),
                names => names.join(", "),
            },
        })
    }
}
