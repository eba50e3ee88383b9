use serde::Deserialize;

use crate::BackendError;
use crate::remote::http::host::Host;

/// A model that a server lists under `/v1/models`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ListedModel {
    /// What requests call it.
    pub(crate) id: String,
    /// Tokens of prompt and answer together.
    pub(crate) max_model_len: Option<usize>,
    /// Of an adapter, the model that it belongs to.
    parent: Option<String>,
}

#[derive(Deserialize)]
struct ListedModels {
    data: Vec<ListedModel>,
}

/// Whether a host lists a model or an adapter of that name.
pub(crate) async fn lists(host: &Host, name: &str) -> Result<bool, BackendError> {
    Ok(listed(host).await?.iter().any(|model| model.id == name))
}

/// The model that a host serves under a name, or its only one.
pub(crate) async fn served_model(host: &Host, name: &str) -> Result<ListedModel, BackendError> {
    choose(listed(host).await?, name).map_err(|message| unusable(host, &message))
}

async fn listed(host: &Host) -> Result<Vec<ListedModel>, BackendError> {
    let models: ListedModels = serde_json::from_value(host.get("v1/models").await?)
        .map_err(|error| unusable(host, &format!("GET /v1/models gives no list of models: {error}")))?;
    Ok(models.data)
}

fn unusable(host: &Host, message: &str) -> BackendError {
    BackendError::Configuration { message: format!("{}: {message}", host.name()) }
}

fn choose(models: Vec<ListedModel>, name: &str) -> Result<ListedModel, String> {
    let models: Vec<ListedModel> = models.into_iter().filter(|model| model.parent.is_none()).collect();
    let ids: Vec<String> = models.iter().map(|model| model.id.clone()).collect();
    let is_only_one = models.len() == 1;
    let mut found = models.into_iter().filter(|model| is_only_one || model.id == name);
    found
        .next()
        .ok_or_else(|| format!("it serves several models, and none of them is called `{name}`: {}", ids.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(ids: &[&str]) -> Vec<ListedModel> {
        ids.iter().map(|id| ListedModel { id: id.to_string(), max_model_len: None, parent: None }).collect()
    }

    #[test]
    fn the_model_of_that_name_is_asked_for_or_else_the_only_one() {
        assert_eq!(choose(models(&["a", "tiny"]), "tiny").unwrap().id, "tiny");
        assert_eq!(choose(models(&["a"]), "tiny").unwrap().id, "a");
        assert!(choose(models(&["a", "b"]), "tiny").unwrap_err().ends_with("a, b"));
        assert!(choose(models(&[]), "tiny").is_err());
        let adapter = ListedModel { parent: Some("a".into()), ..models(&["tiny"]).remove(0) };
        assert_eq!(
            choose([adapter, models(&["a"]).remove(0)].into(), "tiny").unwrap().id,
            "a",
            "an adapter is no model"
        );
    }
}
