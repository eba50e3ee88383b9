//! The tokens of an attempt, in columns of bytes: each once, although every prompt repeats those before it.
//!
//! The answer is a length in four bytes, so many bytes of JSON that say which call has which tokens, and the columns one
//! after another, little-endian: ids (`u32`), logprobs (`f32`, NaN where nothing was sampled), where each token's text ends
//! (`u32`), who made it (`u8`), and all texts (UTF-8). Where it is recorded what an update made of the tokens, the JSON says
//! `"trained": true`, two columns stand before those who made them, advantages and logprobs under the weights that the update
//! began with (`f32`, NaN where nothing was trained), and one behind them, what became of each token (`u8`). With `"entropies":
//! true` a third column of `f32` is before those who made them, the entropies under the same weights. Spaces behind the JSON have
//! the columns begin at a multiple of four.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use fulgurite_api::conventions::error::RestError;
use fulgurite_renderers::Tokenizer;
use fulgurite_store::Store;
use fulgurite_types::{Generation, GenerationUse, TokenFate, TokenUse, TrainedTokens};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Tokenizers;
use crate::rollout::generations_of;
use crate::trained;

/// Who made a token.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Maker {
    /// Whoever wrote the messages: the user, the agent, its tools.
    Messages = 0,
    /// The model.
    Sampled = 1,
    /// The template.
    Template = 2,
}

/// Which attempt.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttemptQuery {
    attempt_id: Option<String>,
}

/// A call's place in the columns.
#[derive(Serialize)]
struct CallTokens<'g> {
    generation_id: &'g str,
    model: &'g str,
    /// Its first token in the columns.
    first: usize,
    /// Tokens of its prompt that an earlier call's end are, and stand there.
    continued: usize,
    /// Further tokens of its prompt.
    prompt: usize,
    /// Tokens that it sampled.
    sampled: usize,
    /// Whose end it continues.
    parent_id: Option<&'g str>,
    /// Why it continues none.
    branch_reason: Option<&'g str>,
    stop_reason: String,
    weights_versions: &'g [fulgurite_types::WeightsFrom],
    defect: Option<&'g str>,
    /// What became of the tokens that it sampled, in its own run.
    uses: Vec<UseOfTokens<'g>>,
    /// Whether its answer was held to a grammar or a schema.
    grammar: bool,
    /// Whether the texts of its tokens are known.
    has_text: bool,
}

/// What became of so many tokens.
#[derive(Serialize)]
struct UseOfTokens<'u> {
    cause: &'u TokenUse,
    tokens: u64,
}

/// What the answer is made of.
#[derive(Default)]
struct Columns {
    ids: Vec<u32>,
    logprobs: Vec<f32>,
    text_ends: Vec<u32>,
    makers: Vec<u8>,
    text: String,
    /// What an update made of the tokens, where that is recorded of any.
    trained: Option<TrainedColumns>,
}

/// What an update made of each token.
#[derive(Default)]
struct TrainedColumns {
    advantages: Vec<f32>,
    logprobs: Vec<f32>,
    /// Where they are recorded of any.
    entropies: Option<Vec<f32>>,
    fates: Vec<u8>,
}

/// `GET /ui/data/rollouts/{rollout_id}/tokens`: of an attempt, or of the latest.
pub(super) async fn read(
    State(store): State<Store>,
    Extension(tokenizers): Extension<Arc<Tokenizers>>,
    Path(rollout_id): Path<String>,
    Query(query): Query<AttemptQuery>,
) -> Result<Response, RestError> {
    let rollout_id = store.rollouts().id_of(&rollout_id).await?;
    let (uses, trained) = used(&store, &rollout_id).await?;
    let generations = generations_of(&store, rollout_id, query.attempt_id).await?;
    let bytes = fulgurite_store::aside(|| {
        packed(&generations, &uses, &trained, |fingerprint| Some(tokenizers.get(fingerprint)?.tokenizer()))
    });
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// What became of the tokens of a rollout's calls in the run that it was made for, and what its updates made of each.
async fn used(
    store: &Store,
    rollout_id: &str,
) -> Result<(Vec<GenerationUse>, HashMap<String, TrainedTokens>), RestError> {
    let rollout = store.rollouts().get(rollout_id).await.map_err(RestError::Store)?;
    let run_id = rollout.as_ref().and_then(|(rollout, _)| rollout.noted("run_id")?.as_str());
    let Some(run_id) = run_id else { return Ok((Vec::new(), HashMap::new())) };
    let uses = store.runs().uses_of_rollout(run_id, rollout_id).await.map_err(RestError::Store)?;
    let trained = trained::of_rollout(store, run_id, rollout_id, &uses).await.map_err(RestError::Store)?;
    Ok((uses, trained))
}

/// Tokens of a call's prompt that stand with the call which it goes on from.
pub(super) fn continued(generations: &[Generation], generation: &Generation) -> usize {
    let parent = generation.parent_id.as_ref();
    let parent = parent.and_then(|id| generations.iter().find(|other| other.generation_id == *id));
    parent.map_or(0, |parent| parent.prompt_tokens.len() + parent.sampled_tokens.len())
}

/// A prompt that was made of a call's messages, in the same columns: as a call that has sampled nothing yet.
pub(super) fn of_prompt(call: Generation, prompt_tokens: Vec<u32>, tokenizer: &Tokenizer) -> Vec<u8> {
    let call = Generation {
        prompt_tokens,
        sampled_tokens: Vec::new(),
        logprobs: None,
        weights_versions: Vec::new(),
        parent_id: None,
        branch_reason: None,
        defect: None,
        ..call
    };
    packed(&[call], &[], &HashMap::new(), |_| Some(tokenizer))
}

fn packed<'t>(
    generations: &[Generation],
    uses: &[GenerationUse],
    trained: &HashMap<String, TrainedTokens>,
    tokenizer: impl Fn(&str) -> Option<&'t Tokenizer>,
) -> Vec<u8> {
    let calls_trained = || generations.iter().filter_map(|generation| trained.get(&generation.generation_id));
    let is_trained = calls_trained().next().is_some();
    let has_entropies = calls_trained().any(|call| call.entropies.is_some());
    let of_update = || TrainedColumns { entropies: has_entropies.then(Vec::new), ..TrainedColumns::default() };
    let mut columns = Columns { trained: is_trained.then(of_update), ..Columns::default() };
    let mut calls = Vec::new();
    for generation in generations {
        let continued = continued(generations, generation);
        let tokenizer = tokenizer(&generation.tokenizer);
        let first = columns.ids.len();
        let prompt = generation.prompt_tokens.get(continued..).unwrap_or_default();
        columns.add(prompt, None, Maker::Messages, tokenizer);
        columns.add(&generation.sampled_tokens, generation.logprobs.as_deref(), Maker::Sampled, tokenizer);
        if let Some(columns) = &mut columns.trained {
            columns.add(prompt.len(), None);
            columns.add(generation.sampled_tokens.len(), trained.get(&generation.generation_id));
        }
        calls.push(CallTokens {
            generation_id: &generation.generation_id,
            model: &generation.model,
            first,
            continued,
            prompt: prompt.len(),
            sampled: generation.sampled_tokens.len(),
            parent_id: generation.parent_id.as_deref(),
            branch_reason: generation.branch_reason.as_ref().map(|reason| reason.as_str()),
            stop_reason: generation.stop_reason.as_str().to_owned(),
            weights_versions: &generation.weights_versions,
            defect: generation.defect.as_ref().map(|defect| defect.as_str()),
            uses: (uses.iter().filter(|used| used.generation_id == generation.generation_id))
                .map(|used| UseOfTokens { cause: &used.cause, tokens: used.tokens })
                .collect(),
            grammar: generation.sampling.parameters().is_some_and(|sampling| sampling.constraint.is_some()),
            has_text: tokenizer.is_some(),
        });
    }
    let tokens = columns.ids.len();
    let header = json!({ "calls": calls, "tokens": tokens, "trained": is_trained, "entropies": has_entropies });
    columns.bytes(header.to_string())
}

impl Columns {
    fn add(&mut self, tokens: &[u32], logprobs: Option<&[f32]>, maker: Maker, tokenizer: Option<&Tokenizer>) {
        // A character may be in several tokens: it stands with the one that ends it.
        let mut unfinished: Vec<u8> = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            self.ids.push(*token);
            self.logprobs.push(logprobs.and_then(|logprobs| logprobs.get(index)).copied().unwrap_or(f32::NAN));
            let is_of_template =
                matches!(maker, Maker::Messages) && tokenizer.is_some_and(|tokenizer| tokenizer.is_control(*token));
            self.makers.push(if is_of_template { Maker::Template } else { maker } as u8);
            unfinished.extend_from_slice(tokenizer.and_then(|tokenizer| tokenizer.id_to_bytes(*token)).unwrap_or(b""));
            let is_last = index + 1 == tokens.len();
            let whole = match std::str::from_utf8(&unfinished) {
                Ok(_) => unfinished.len(),
                Err(error) if error.error_len().is_none() && !is_last => error.valid_up_to(),
                Err(_) => unfinished.len(),
            };
            let rest = unfinished.split_off(whole);
            self.text.push_str(&String::from_utf8_lossy(&std::mem::replace(&mut unfinished, rest)));
            self.text_ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
        }
    }

    fn bytes(&self, mut header: String) -> Vec<u8> {
        header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(4) - header.len()));
        let mut bytes = Vec::with_capacity(4 + header.len() + 26 * self.ids.len() + self.text.len());
        bytes.extend(u32::try_from(header.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(self.ids.iter().flat_map(|id| id.to_le_bytes()));
        bytes.extend(self.logprobs.iter().flat_map(|logprob| logprob.to_le_bytes()));
        bytes.extend(self.text_ends.iter().flat_map(|end| end.to_le_bytes()));
        let floats = |column: &[f32]| column.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        if let Some(TrainedColumns { advantages, logprobs, entropies, .. }) = &self.trained {
            bytes.extend(floats(advantages));
            bytes.extend(floats(logprobs));
            bytes.extend(floats(entropies.as_deref().unwrap_or_default()));
        }
        bytes.extend(&self.makers);
        if let Some(TrainedColumns { fates, .. }) = &self.trained {
            bytes.extend(fates);
        }
        bytes.extend(self.text.as_bytes());
        bytes
    }
}

impl TrainedColumns {
    /// Adds so many tokens: those of a call that was trained, or others.
    fn add(&mut self, tokens: usize, call: Option<&TrainedTokens>) {
        // A file that has another number of tokens is not of this call.
        let call = call.filter(|call| call.fates.len() == tokens);
        let length = self.fates.len() + tokens;
        if let Some(TrainedTokens { advantages, logprobs, entropies, fates, .. }) = call {
            if let (Some(column), Some(entropies)) = (&mut self.entropies, entropies) {
                column.extend(entropies);
            }
            self.advantages.extend(advantages);
            self.logprobs.extend(logprobs);
            self.fates.extend(fates.iter().map(|fate| *fate as u8));
        }
        self.advantages.resize(length, f32::NAN);
        self.logprobs.resize(length, f32::NAN);
        if let Some(column) = &mut self.entropies {
            column.resize(length, f32::NAN);
        }
        self.fates.resize(length, TokenFate::NotTrained as u8);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Value;

    use super::*;

    /// A call with these tokens, each sampled one with a logprob of its own id below nothing.
    pub(crate) fn generation(id: &str, parent: Option<&str>, prompt: &[u32], sampled: &[u32]) -> Generation {
        let logprobs: Vec<f32> = sampled.iter().map(|token| -(*token as f32)).collect();
        serde_json::from_value(json!({
            "generation_id": id, "rollout_id": "r", "attempt_id": "a", "span_id": "s", "trace_id": "t", "name": "n",
            "sequence_id": 1, "parent_id": parent, "branch_reason": null, "start_time": 0.0, "end_time": 1.0, "model": "m",
            "prompt_tokens": prompt, "sampled_tokens": sampled, "logprobs": logprobs, "stop_reason": "stop",
            "weights_versions": [], "sampling": {}, "seed": 1, "renderer": "x", "tokenizer": "f", "request_digest": "d",
            "client_gone": false, "defect": null,
        }))
        .unwrap()
    }

    #[test]
    fn what_a_prompt_repeats_is_sent_once() {
        let calls = [
            generation("1", None, &[1, 2, 3], &[4, 5]),
            generation("2", Some("1"), &[1, 2, 3, 4, 5, 6], &[7]),
            generation("3", None, &[9], &[]),
        ];
        let uses = [GenerationUse { generation_id: "2".into(), cause: TokenUse::Trained, tokens: 1 }];
        let bytes = packed(&calls, &uses, &HashMap::new(), |_| None);
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
        assert_eq!((length % 4, &header["tokens"]), (0, &json!(8)));
        assert_eq!(header["calls"][1]["uses"], json!([{ "cause": "trained", "tokens": 1 }]));
        let places = ["first", "continued", "prompt", "sampled"];
        let of = |call: usize| places.map(|place| header["calls"][call][place].as_u64().unwrap());
        assert_eq!([of(0), of(1), of(2)], [[0, 0, 3, 2], [5, 5, 1, 1], [7, 0, 1, 0]]);
        let words: Vec<u32> = bytes[4 + length..4 + length + 64]
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words[..8], [1, 2, 3, 4, 5, 6, 7, 9]);
        let logprobs: Vec<f32> = words[8..].iter().map(|bits| f32::from_bits(*bits)).collect();
        assert!(logprobs[0].is_nan() && logprobs[5].is_nan());
        assert_eq!((logprobs[3], logprobs[6]), (-4.0, -7.0));
        assert_eq!(bytes[4 + length + 96..], [0, 0, 0, 1, 1, 0, 1, 0]);
        assert_eq!(header["trained"], false);
    }

    #[test]
    fn what_an_update_made_of_tokens_stands_beside_those_that_it_trained() {
        let calls = [generation("1", None, &[1, 2], &[4, 5]), generation("2", Some("1"), &[1, 2, 4, 5, 6], &[7])];
        let update = |id: &str, fates: &[TokenFate]| TrainedTokens {
            generation_id: id.into(),
            advantages: vec![0.5; fates.len()],
            logprobs: vec![-2.0; fates.len()],
            entropies: (id == "1").then(|| vec![0.25, f32::NAN]),
            fates: fates.to_vec(),
        };
        // The second has more tokens than its call sampled.
        let trained = [
            update("1", &[TokenFate::Trained, TokenFate::Clipped]),
            update("2", &[TokenFate::Trained, TokenFate::Trained]),
        ];
        let trained = trained.map(|call| (call.generation_id.clone(), call)).into();
        let bytes = packed(&calls, &[], &trained, |_| None);
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
        assert_eq!(
            (&header["trained"], &header["entropies"], &header["tokens"]),
            (&json!(true), &json!(true), &json!(6))
        );
        let columns = &bytes[4 + length + 3 * 4 * 6..];
        let floats: Vec<f32> =
            columns[..72].chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect();
        let known = |at: std::ops::Range<usize>| floats[at].iter().map(|value| (!value.is_nan()).then_some(*value));
        let (none, half, two) = (None, Some(0.5), Some(-2.0));
        assert_eq!(known(0..6).collect::<Vec<_>>(), [none, none, half, half, none, none]);
        assert_eq!(known(6..12).collect::<Vec<_>>(), [none, none, two, two, none, none]);
        assert_eq!(known(12..18).collect::<Vec<_>>(), [none, none, Some(0.25), none, none, none]);
        assert_eq!(columns[72..], [0, 0, 1, 1, 0, 1, 0, 0, 1, 3, 0, 0]);
        // A host that tells none: no column of them.
        let without_fates = trained.into_values().map(|call| {
            let call = TrainedTokens { entropies: None, ..call };
            (call.generation_id.clone(), call)
        });
        let bytes = packed(&calls, &[], &without_fates.collect(), |_| None);
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
        assert_eq!((&header["trained"], &header["entropies"]), (&json!(true), &json!(false)));
        assert_eq!(bytes.len(), 4 + length + 6 * (3 * 4 + 2 * 4 + 2));
    }
}
