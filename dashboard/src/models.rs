//! The models that the server samples, and what their weights make of recorded tokens.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::serving::Reply;
use fulgurite_backends::{BackendError, Sampler};
use fulgurite_renderers::Renderer;
use fulgurite_store::Store;
use fulgurite_types::Generation;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::rollout::generations_of;

/// How long a host may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(2);
/// Conversations that are scored at a time, for all pages together: agents' calls come first.
const AT_ONCE: usize = 1;

/// A model that the server samples.
#[derive(Clone)]
pub struct PageModel {
    /// As agents know it.
    pub name: String,
    /// Conversation to tokens and back.
    pub renderer: Arc<dyn Renderer>,
    /// Tokens to tokens, and to logprobs.
    pub sampler: Arc<dyn Sampler>,
}

/// The models, and whose turn it is to have tokens scored.
pub(super) struct Models {
    models: Vec<PageModel>,
    turns: Semaphore,
}

impl Models {
    pub(super) fn new(models: Vec<PageModel>) -> Arc<Self> {
        Arc::new(Self { models, turns: Semaphore::new(AT_ONCE) })
    }
}

/// A model as a row.
#[derive(Serialize)]
pub(super) struct ModelRow {
    name: String,
    weights_version: Option<u64>,
    context_length: Option<usize>,
    /// Whether its host answers.
    healthy: bool,
    /// What the host said instead.
    failure: Option<String>,
    renderer: String,
}

/// `GET /ui/data/models`.
pub(super) async fn list(Extension(models): Extension<Arc<Models>>) -> Reply<Vec<ModelRow>> {
    Ok(Json(futures::future::join_all(models.models.iter().map(row)).await))
}

async fn row(model: &PageModel) -> ModelRow {
    let asking = tokio::time::timeout(PATIENCE, async {
        model.sampler.check_health().await?;
        model.sampler.info().await
    });
    let (info, failure) = match asking.await {
        Ok(Ok(info)) => (Some(info), None),
        Ok(Err(error)) => (None, Some(error.to_string())),
        Err(_) => (None, Some(format!("no answer within {} s", PATIENCE.as_secs()))),
    };
    ModelRow {
        name: model.name.clone(),
        weights_version: model.sampler.weights_version().map(|version| version.0),
        context_length: info.map(|info| info.context_length),
        healthy: failure.is_none(),
        failure,
        renderer: model.renderer.name().to_owned(),
    }
}

/// Whose tokens, under whose weights.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScoreQuery {
    model: String,
    attempt_id: Option<String>,
}

/// `GET /ui/data/rollouts/{rollout_id}/scores`: the tokens of an attempt, in the places that [`super::tokens`] gives them, under the
/// weights that a model has now. Three columns, little-endian: logprobs (`f32`, NaN where nothing is known), logprobs of
/// the likeliest token in each place (`f32`), and that token (`u32`).
pub(super) async fn scores(
    State(store): State<Store>,
    Extension(models): Extension<Arc<Models>>,
    Path(rollout_id): Path<String>,
    Query(query): Query<ScoreQuery>,
) -> Result<Response, RestError> {
    let Some(model) = models.models.iter().find(|model| model.name == query.model) else {
        return Err(RestError::NotFound(format!("this server samples no model {:?}", query.model)));
    };
    let generations = generations_of(&store, rollout_id, query.attempt_id).await?;
    let fingerprint = model.renderer.tokenizer().fingerprint();
    if generations.iter().any(|generation| generation.tokenizer != fingerprint) {
        let why = format!("{:?} has another tokenizer than the model that sampled these tokens", query.model);
        return Err(RestError::BadRequest(why));
    }
    let Ok(_turn) = models.turns.acquire().await else {
        return Err(RestError::NotFound("the server stops".to_owned()));
    };
    match scored(&generations, model.sampler.as_ref()).await {
        Ok(bytes) => Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response()),
        Err(error) => {
            let detail = json!({ "detail": format!("{:?} cannot score these tokens: {error}", query.model) });
            Ok((StatusCode::NOT_IMPLEMENTED, Json(detail)).into_response())
        }
    }
}

/// Where the tokens of a call stand: its own in the columns, behind those of the call that it goes on from.
struct Place {
    first: usize,
    continued: usize,
    own: usize,
}

fn places(generations: &[Generation]) -> Vec<Place> {
    let mut first = 0;
    let place = |generation: &Generation| {
        let continued = super::tokens::continued(generations, generation);
        let whole = generation.prompt_tokens.len() + generation.sampled_tokens.len();
        let place = Place { first, continued, own: whole - continued.min(whole) };
        first += place.own;
        place
    };
    generations.iter().map(place).collect()
}

async fn scored(generations: &[Generation], sampler: &dyn Sampler) -> Result<Vec<u8>, BackendError> {
    let places = places(generations);
    let tokens = places.iter().map(|place| place.own).sum();
    let (mut logprobs, mut best, mut likeliest) = (vec![f32::NAN; tokens], vec![f32::NAN; tokens], vec![0u32; tokens]);
    let mut is_done = HashSet::new();
    // The last call of a conversation has all of it, so that those before cost nothing.
    for (generation, _) in generations.iter().zip(&places).rev() {
        if is_done.contains(generation.generation_id.as_str()) {
            continue;
        }
        let whole = [generation.prompt_tokens.as_slice(), &generation.sampled_tokens].concat();
        let scores = sampler.score_prompt(&whole, 1).await?;
        let mut call = Some(generation.generation_id.as_str());
        while let Some(id) = call {
            let Some(index) = generations.iter().position(|other| other.generation_id == id) else { break };
            if !is_done.insert(id) {
                break;
            }
            let Place { first, continued, own } = places[index];
            // Nothing says how likely a conversation's first token is: the scores begin with the second.
            for offset in 0..own {
                let Some(at) = (continued + offset).checked_sub(1) else { continue };
                logprobs[first + offset] = scores.logprobs.get(at).copied().unwrap_or(f32::NAN);
                if let Some((token, logprob)) = scores.likeliest.get(at).and_then(|row| row.first()) {
                    (best[first + offset], likeliest[first + offset]) = (*logprob, *token);
                }
            }
            call = generations[index].parent_id.as_deref();
        }
    }
    let mut bytes = Vec::with_capacity(12 * tokens);
    bytes.extend(logprobs.iter().chain(&best).flat_map(|logprob| logprob.to_le_bytes()));
    bytes.extend(likeliest.iter().flat_map(|token| token.to_le_bytes()));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use fulgurite_backends::{PromptScores, SampleRequest, SampleStream, SamplerInfo};
    use fulgurite_types::WeightsVersion;
    use std::sync::Mutex;

    use super::*;
    use crate::tokens::tests::generation;

    /// Says that a token's logprob is less than nothing by as much as its place.
    #[derive(Default)]
    struct ByPlace {
        prompts: Mutex<Vec<Vec<u32>>>,
    }

    #[async_trait]
    impl Sampler for ByPlace {
        async fn info(&self) -> Result<SamplerInfo, BackendError> {
            unreachable!()
        }

        fn weights_version(&self) -> Option<WeightsVersion> {
            None
        }

        async fn sample(&self, _: SampleRequest) -> Result<SampleStream, BackendError> {
            unreachable!()
        }

        async fn score_prompt(&self, prompt: &[u32], _: usize) -> Result<PromptScores, BackendError> {
            self.prompts.lock().unwrap().push(prompt.to_vec());
            let logprobs = (1..prompt.len()).map(|place| -(place as f32)).collect();
            let likeliest = prompt.iter().skip(1).map(|token| vec![(token + 100, -0.5)]).collect();
            Ok(PromptScores { logprobs, likeliest, ..PromptScores::default() })
        }
    }

    #[tokio::test]
    async fn a_conversation_is_scored_once_however_many_calls_it_has() {
        let calls = [
            generation("1", None, &[1, 2, 3], &[4, 5]),
            generation("2", Some("1"), &[1, 2, 3, 4, 5, 6], &[7]),
            generation("3", None, &[9], &[8]),
            generation("4", Some("1"), &[1, 2, 3, 4, 5], &[9]),
        ];
        let sampler = ByPlace::default();
        let bytes = scored(&calls, &sampler).await.unwrap();
        let prompts = sampler.prompts.lock().unwrap().clone();
        assert_eq!(prompts, [vec![1, 2, 3, 4, 5, 9], vec![9, 8], vec![1, 2, 3, 4, 5, 6, 7]]);
        let words: Vec<[u8; 4]> = bytes.chunks_exact(4).map(|word| word.try_into().unwrap()).collect();
        let logprobs: Vec<f32> = words[..10].iter().map(|word| f32::from_le_bytes(*word)).collect();
        assert!(logprobs[0].is_nan() && logprobs[7].is_nan());
        assert_eq!(logprobs[1..7], [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
        assert_eq!(logprobs[8..], [-1.0, -5.0]);
        let likeliest: Vec<u32> = words[20..].iter().map(|word| u32::from_le_bytes(*word)).collect();
        assert_eq!(likeliest[..3], [0, 102, 103]);
    }
}
