//! What a trainer asks of a server about weights: which ones a version names, and which are behind a model.

use fulgurite_types::{NamedWeights, NewNamedWeights, Publication, ServedWeights};
use serde_json::json;

use crate::{Server, ServerError};

/// Generations that are asked about in one request.
const GENERATIONS_PER_REQUEST: usize = 20_000;

impl Server {
    /// Gives weights a version, which names them for ever; weights that have one keep it.
    pub async fn name_weights(&self, new: &NewNamedWeights) -> Result<NamedWeights, ServerError> {
        let url = self.route(&["v1", "fulgurite", "weights"]);
        let named: NamedWeights = self.post(&url, new).await?;
        match (&named.model, named.weights_id) == (&new.model, new.weights_id) {
            true => Ok(named),
            false => Err(self.wrong(&url, format!("it is of weights {} of model {}", named.weights_id, named.model))),
        }
    }

    /// All weights of a model that have a version; those of one run alone if it is given.
    pub async fn named_weights(&self, model: &str, run_id: Option<&str>) -> Result<Vec<NamedWeights>, ServerError> {
        let mut url = self.route(&["v1", "fulgurite", "weights"]);
        url.query_pairs_mut().append_pair("model", model).extend_pairs(run_id.map(|run_id| ("run_id", run_id)));
        let named: Vec<NamedWeights> = self.get(&url).await?;
        match named.iter().find(|named| named.model != model) {
            None => Ok(named),
            Some(other) => Err(self.wrong(&url, format!("it is of model {}", other.model))),
        }
    }

    /// The newest publication of a model, if there was one.
    pub async fn publication(&self, model: &str) -> Result<Option<Publication>, ServerError> {
        let publications: Vec<Publication> = self.get(&self.route(&["v1", "fulgurite", "publications"])).await?;
        Ok(publications.into_iter().find(|published| published.weights.model == model))
    }

    /// What each server of the store samples from.
    pub async fn served_weights(&self) -> Result<Vec<ServedWeights>, ServerError> {
        self.get(&self.route(&["v1", "fulgurite", "servers"])).await
    }

    /// Those of some generations that another run than this one has trained.
    pub async fn trained_elsewhere(&self, run_id: &str, generation_ids: &[String]) -> Result<Vec<String>, ServerError> {
        let url = self.route(&["v1", "fulgurite", "runs", run_id, "trained-elsewhere"]);
        let mut trained = Vec::new();
        for ids in generation_ids.chunks(GENERATIONS_PER_REQUEST) {
            trained.extend(self.post::<Vec<String>>(&url, &json!({ "generation_ids": ids })).await?);
        }
        Ok(trained)
    }
}
