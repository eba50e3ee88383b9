//! What the lists of models show, for every dialect to write down.

use crate::dialects::listed_model::{AnswerSource, ListedAdapter, ListedModel};
use crate::models::served_model::ServedModel;
use crate::models::served_models::ServedModels;

/// Every served model.
pub(crate) async fn listed_models(models: &ServedModels) -> Vec<ListedModel> {
    let mut listed = Vec::new();
    for model in models.iter() {
        listed.push(listed_model(model).await);
    }
    listed
}

/// One model's entry. A host that cannot be reached now is listed without its limits.
pub(crate) async fn listed_model(model: &ServedModel) -> ListedModel {
    let source = match model {
        ServedModel::Sampled(_) => AnswerSource::Sampled,
        ServedModel::Upstream(_) => AnswerSource::Upstream,
    };
    ListedModel { name: model.name().to_owned(), context_length: model.context_length().await, source }
}

/// Every adapter that was loaded while the server runs.
pub(crate) fn listed_adapters(models: &ServedModels) -> Vec<ListedAdapter> {
    let listed = models.adapters().all().into_iter().map(|adapter| ListedAdapter {
        name: adapter.model.name,
        directory: adapter.directory,
        base_model: adapter.model.base_model,
    });
    listed.collect()
}
