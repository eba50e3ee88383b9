//! A recorded conversation as renderers write it: what the model of a call would be given in another format.
//!
//! The messages and tools of the call's prompt are rendered anew, with the tokenizer of the model that was called, on the day of the
//! call, and without what a request may have set for a template. Nothing of it is recorded.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::serving::Reply;
use fulgurite_renderers::{FormatOptions, RenderError, Tokenizer, renderer_names, renderer_of};
use fulgurite_store::Store;
use fulgurite_store::message_attributes::{CallMessages, messages_of};
use fulgurite_types::{Generation, GenerationFilter, Object, time};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::Tokenizers;
use crate::rollout::generations_of;
use crate::tokens::of_prompt;

/// Bytes of a conversation's text that are rendered at most.
const TEXT: usize = 4 << 20;
/// Conversations that are rendered at a time, for all pages together: agents' calls come first.
const AT_ONCE: usize = 1;

/// Whose turn it is to have a conversation rendered, and which renderers each tokenizer has the tokens for.
pub(super) struct Renderings {
    turns: Semaphore,
    names: Mutex<HashMap<String, Vec<&'static str>>>,
}

impl Renderings {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { turns: Semaphore::new(AT_ONCE), names: Mutex::default() })
    }

    /// Does what takes a while, once nobody else does.
    async fn in_turn<T>(&self, work: impl FnOnce() -> T) -> Result<T, RestError> {
        let Ok(_turn) = self.turns.acquire().await else {
            return Err(RestError::NotFound("the server stops".to_owned()));
        };
        Ok(fulgurite_store::aside(work))
    }

    /// The renderers that a tokenizer has the tokens for: each is opened, the first time that somebody asks.
    fn names(&self, tokenizer: &Arc<Tokenizer>) -> Vec<&'static str> {
        let opens = |name: &&str| renderer_of(Arc::clone(tokenizer), name, &FormatOptions::default()).is_ok();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || renderer_names().iter().copied().filter(opens).collect();
        names.entry(tokenizer.fingerprint().to_owned()).or_insert_with(open).clone()
    }
}

/// Which calls of a rollout can be rendered, and how.
#[derive(Serialize)]
pub(super) struct Renderable {
    /// Of its latest attempt, in their order.
    calls: Vec<RenderableCall>,
    /// Names of renderers by the tokenizer that they are for. It has no tokenizer that this server does not have.
    renderers: BTreeMap<String, Vec<&'static str>>,
}

#[derive(Serialize)]
struct RenderableCall {
    generation_id: String,
    model: String,
    /// What rendered it when it was made.
    renderer: String,
    tokenizer: String,
}

/// `GET /ui/data/rollouts/{rollout_id}/renderers`.
pub(super) async fn list(
    State(store): State<Store>,
    Extension(tokenizers): Extension<Arc<Tokenizers>>,
    Extension(renderings): Extension<Arc<Renderings>>,
    Path(rollout_id): Path<String>,
) -> Reply<Renderable> {
    let generations = generations_of(&store, rollout_id, None).await?;
    let used = generations.iter().filter_map(|generation| tokenizers.get_key_value(&generation.tokenizer));
    let used: BTreeMap<&String, &Arc<Tokenizer>> = used.map(|(key, renderer)| (key, renderer.tokenizer())).collect();
    let names =
        |(fingerprint, tokenizer): (&String, &Arc<Tokenizer>)| (fingerprint.clone(), renderings.names(tokenizer));
    let renderers = renderings.in_turn(|| used.into_iter().map(names).collect()).await?;
    let call = |generation: Generation| {
        let Generation { generation_id, model, renderer, tokenizer, .. } = generation;
        RenderableCall { generation_id, model, renderer, tokenizer }
    };
    Ok(Json(Renderable { calls: generations.into_iter().map(call).collect(), renderers }))
}

/// Which call, and how it is to be rendered.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenderingQuery {
    renderer: String,
    /// The latest attempt's last, if it is not said.
    generation_id: Option<String>,
}

/// `GET /ui/data/rollouts/{rollout_id}/rendering`: the prompt that a renderer makes of the messages and tools of a call, in the columns of
/// [`super::tokens`].
pub(super) async fn read(
    State(store): State<Store>,
    Extension(tokenizers): Extension<Arc<Tokenizers>>,
    Extension(renderings): Extension<Arc<Renderings>>,
    Path(rollout_id): Path<String>,
    Query(query): Query<RenderingQuery>,
) -> Result<Response, RestError> {
    let (generation, attributes) = recorded_call(&store, rollout_id, query.generation_id).await?;
    let called = messages_of(&attributes).map_err(RestError::Store)?;
    if called.messages.is_empty() {
        let why = format!(
            "the call {} was given a text or tokens: no messages are recorded that could be rendered",
            generation.generation_id
        );
        return Err(RestError::NotFound(why));
    }
    let Some(tokenizer) = tokenizers.get(&generation.tokenizer).map(|renderer| Arc::clone(renderer.tokenizer())) else {
        let detail = format!(
            "this server has no tokenizer of the model {:?}: `fulgurite serve` has those of the models that it samples, \
             `fulgurite dashboard STORE --model DIRECTORY` those that it is given",
            generation.model
        );
        return Ok((StatusCode::NOT_IMPLEMENTED, Json(json!({ "detail": detail }))).into_response());
    };
    let bytes: usize = attributes.values().filter_map(Value::as_str).map(str::len).sum();
    if bytes > TEXT {
        let why = format!("the conversation has {bytes} bytes of text, and at most {TEXT} are rendered for the page");
        return Err(RestError::BadRequest(why));
    }
    let answer = renderings.in_turn(|| match rendered(&tokenizer, &query.renderer, &called, generation.start_time) {
        Ok(tokens) => Ok(of_prompt(generation, tokens, &tokenizer)),
        Err(error) => Err(RestError::BadRequest(explained(&error, || renderings.names(&tokenizer)))),
    });
    let bytes = answer.await??;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// A call of a rollout with the attributes of its span.
async fn recorded_call(
    store: &Store,
    name: String,
    generation_id: Option<String>,
) -> Result<(Generation, Object), RestError> {
    let rollout_id = store.rollouts().id_of(&name).await?;
    let generation_id = match generation_id {
        Some(generation_id) => generation_id,
        None => {
            let last = generations_of(store, rollout_id.clone(), None).await?.pop();
            let none =
                || format!("no model call of the rollout {rollout_id} is recorded, and so no messages to render");
            last.ok_or_else(|| RestError::NotFound(none()))?.generation_id
        }
    };
    let none = RestError::NotFound(format!("the rollout {rollout_id} has no model call {generation_id}"));
    let filter = GenerationFilter {
        generation_id: Some(generation_id),
        rollout_id: Some(rollout_id),
        ..GenerationFilter::default()
    };
    store.spans().generations_with_attributes(&filter).await.map_err(RestError::Store)?.pop().ok_or(none)
}

/// `time` is when the prompt is rendered, in seconds since 1970, for formats that write the date into it.
fn rendered(tokenizer: &Arc<Tokenizer>, name: &str, called: &CallMessages, time: f64) -> Result<Vec<u32>, RenderError> {
    let options = FormatOptions { current_date: Some(time::date(time)), ..FormatOptions::default() };
    let renderer = renderer_of(Arc::clone(tokenizer), name, &options)?;
    Ok(renderer.render_prompt(&called.messages, &called.tools)?.tokens)
}

/// An error with what can be chosen instead.
fn explained(error: &RenderError, names: impl FnOnce() -> Vec<&'static str>) -> String {
    match error {
        RenderError::MissingToken { .. } | RenderError::NoTemplate { .. } => {
            format!("{error}; it has the tokens of {}", names().join(", "))
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_renderers::{train_byte_level_tokenizer, write_tokenizer_directory};
    use fulgurite_types::Message;

    use super::*;

    #[test]
    fn a_tokenizer_has_the_renderers_whose_tokens_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let json = train_byte_level_tokenizer(["user assistant"; 2], 280, &[]).unwrap();
        write_tokenizer_directory(directory.path(), &json).unwrap();
        let tokenizer = Arc::new(Tokenizer::open(directory.path()).unwrap());
        let renderings = Renderings::new();
        let names = renderings.names(&tokenizer);
        for (name, is_there) in [("auto", true), ("chatml", true), ("qwen3", true), ("llama3", false)] {
            assert_eq!(names.contains(&name), is_there, "{name}: {names:?}");
        }
        assert_eq!(renderings.names(&tokenizer), names, "the second time");
        let called = CallMessages { messages: vec![Message::text("user", "Hi")], ..CallMessages::default() };
        let tokens = |name: &str| rendered(&tokenizer, name, &called, 0.0).map(|tokens| tokenizer.decode(&tokens));
        assert_eq!(tokens("chatml").unwrap(), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
        let refused = |name: &str| explained(&tokens(name).unwrap_err(), || names.clone());
        let lacking = refused("llama3");
        assert!(lacking.starts_with("the llama3 format needs the token `<|eot_id|>`"), "{lacking}");
        assert!(lacking.contains("it has the tokens of auto, template, chatml"), "{lacking}");
        assert!(refused("nobody").starts_with("there is no renderer `nobody`; there are auto, template, chatml, "));
    }
}
