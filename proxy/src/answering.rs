use std::sync::Arc;

use axum::response::Response;
use fulgurite_backends::{SamplerInfo, derive_seed};
use serde_json::{Map, Value, json};

use crate::attribution::{self, Attribution, CallPath, Owner, PathIds};
use crate::call::{self, Call, Reading};
use crate::error::ProxyError;
use crate::gateway::InFlight;
use crate::message_attributes::{REQUEST_EXTRA, add_messages, add_tools};
use crate::model_request::{Endpoint, ModelRequest, Prompt};
use crate::reply_writer::ReplyContext;
use crate::responding;
use crate::{Proxy, ServedModel};

/// Whose request it is.
pub(crate) struct Caller {
    /// If its path says.
    pub(crate) ids: Option<PathIds>,
    /// Whether the attempt is made if it is not there.
    pub(crate) begins_attempt: bool,
    /// If the gateway counts it.
    pub(crate) in_flight: Option<InFlight>,
}

impl Caller {
    pub(crate) fn of(path: CallPath) -> Self {
        Self { ids: path.ids(), begins_attempt: false, in_flight: None }
    }
}

/// Answers a checked request.
pub(crate) async fn answer(proxy: &Proxy, caller: Caller, request: ModelRequest) -> Result<Response, Arc<ProxyError>> {
    let model = proxy.model(&request.model)?.clone();
    let info = model.sampler.info().await.map_err(ProxyError::from)?;
    check_capabilities(&request, &info)?;
    let prompt: Arc<[u32]> = prompt_tokens(&request, &model, &info)?.into();
    let attribution = attribute(proxy, &caller).await?;
    let is_attributed = attribution.is_some();
    let (owner, calls) =
        prepare(proxy, attribution, &request, &model, &info, &prompt).await.map_err(ProxyError::from)?;
    let token_ids = request.return_token_ids || (is_attributed && proxy.shared.options.token_ids_on_attributed_path);
    let context = ReplyContext {
        id: calls.first().map(|call| call.generation_id.clone()).unwrap_or_default(),
        created: call::now() as u64,
        tokenizer: Arc::clone(model.renderer.tokenizer()),
        model: model.name,
        prompt,
        logprobs: request.asked.logprobs || token_ids,
        token_ids,
        choices: calls.len(),
    };
    let writer = request.reply.writer(context);
    let choices = calls.len();
    let listener = call::start(proxy, owner, calls, caller.in_flight);
    match request.stream {
        true => responding::stream(listener, writer, choices, proxy.shared.options.keep_alive).await,
        false => responding::whole(listener, writer, choices).await,
    }
}

/// Refuses by name what the model's host cannot do.
fn check_capabilities(request: &ModelRequest, info: &SamplerInfo) -> Result<(), ProxyError> {
    let asked = &request.asked;
    match info.capabilities.missing(&asked.sampling, asked.top_logprobs) {
        None => Ok(()),
        Some(field) => Err(ProxyError::invalid(field, format!("{field} is not supported by this model's host"))),
    }
}

/// The prompt's tokens, which leave room for an answer.
fn prompt_tokens(request: &ModelRequest, model: &ServedModel, info: &SamplerInfo) -> Result<Vec<u32>, ProxyError> {
    let prompt = match &request.prompt {
        Prompt::Messages { messages, tools } => model.renderer.render_prompt(messages, tools)?.tokens,
        Prompt::Text(text) => model.renderer.tokenizer().encode_with_specials(text)?,
        Prompt::Tokens(tokens) => tokens.clone(),
    };
    let field = request.endpoint.prompt_field;
    if let Some(unknown) = prompt.iter().find(|token| **token as usize >= info.vocabulary_size) {
        let known = info.vocabulary_size;
        return Err(ProxyError::invalid(field, format!("{field}: there is no token {unknown}; ids are below {known}")));
    }
    if prompt.len() >= info.context_length {
        return Err(ProxyError::PromptTooLong {
            parameter: field,
            prompt_tokens: prompt.len(),
            context_length: info.context_length,
        });
    }
    Ok(prompt)
}

/// Whose call it is, if that is said.
async fn attribute(proxy: &Proxy, caller: &Caller) -> Result<Option<Attribution>, ProxyError> {
    let Some(ids) = &caller.ids else { return Ok(None) };
    if caller.begins_attempt {
        proxy.shared.store.open_attempt(&ids.rollout_id, &ids.attempt_id).await?;
    }
    attribution::resolve(proxy, ids).await.map(Some)
}

/// A call for each of the answers that a request asks for.
async fn prepare(
    proxy: &Proxy,
    attribution: Option<Attribution>,
    request: &ModelRequest,
    model: &ServedModel,
    info: &SamplerInfo,
    prompt: &Arc<[u32]>,
) -> Result<(Arc<Owner>, Vec<Call>), fulgurite_store::StoreError> {
    let reply_id = format!("{}{}", request.endpoint.id_prefix, uuid::Uuid::now_v7().simple());
    let seed = seed_of(proxy, attribution.as_ref(), request, &reply_id).await?;
    let owner = Arc::new(Owner::of(attribution));
    let asked = &request.asked;
    let room = info.context_length - prompt.len();
    let call = |choice: usize| Call {
        owner: Arc::clone(&owner),
        model: model.clone(),
        generation_id: if choice == 0 { reply_id.clone() } else { format!("{reply_id}-{choice}") },
        prompt: Arc::clone(prompt),
        sampling: asked.sampling.clone(),
        max_tokens: asked.max_tokens.unwrap_or(room).min(room),
        top_logprobs: asked.top_logprobs,
        stop_strings: asked.stop_strings.clone(),
        reading: match &request.prompt {
            Prompt::Messages { tools, .. } => Reading::Message { tools: tools.clone() },
            Prompt::Text(_) | Prompt::Tokens(_) => Reading::Text,
        },
        seed: if choice == 0 { seed } else { derive_seed(seed, &["choice", &choice.to_string()]) },
        request_digest: request.digest.clone(),
        span_name: request.endpoint.span_name,
        attributes: attributes(request, choice),
    };
    let calls = (0..asked.choices).map(call).collect();
    Ok((owner, calls))
}

/// The seed of a request's first answer.
async fn seed_of(
    proxy: &Proxy,
    attribution: Option<&Attribution>,
    request: &ModelRequest,
    reply_id: &str,
) -> Result<u64, fulgurite_store::StoreError> {
    let Some(Attribution { rollout_id, attempt_id, rollout_seed }) = attribution else {
        return Ok(match request.seed {
            Some(seed) => seed.cast_unsigned(),
            None => derive_seed(proxy.shared.options.seed, &[reply_id]),
        });
    };
    let index = proxy.next_call_index(rollout_id, attempt_id).await?;
    // A client's own seed is one more part: a group whose agents all send the same still differs.
    let client_seed = request.seed.map(|seed| seed.to_string()).unwrap_or_default();
    Ok(derive_seed(*rollout_seed, &[&index.to_string(), &client_seed]))
}

fn attributes(request: &ModelRequest, choice: usize) -> Map<String, Value> {
    let asked = &request.asked;
    let Endpoint { operation_name, .. } = request.endpoint;
    let mut attributes = Map::new();
    let mut set = |key: &str, value: Value| attributes.insert(key.to_owned(), value);
    set("gen_ai.operation.name", json!(operation_name));
    set("gen_ai.provider.name", json!("fulgurite"));
    set("gen_ai.request.model", json!(request.model));
    set("gen_ai.request.temperature", json!(asked.sampling.temperature));
    set("gen_ai.request.top_p", json!(asked.sampling.top_p));
    if let Some(top_k) = asked.sampling.top_k {
        set("gen_ai.request.top_k", json!(top_k));
    }
    if let Some(max_tokens) = asked.max_tokens {
        set("gen_ai.request.max_tokens", json!(max_tokens));
    }
    if asked.choices > 1 {
        set("gen_ai.request.choice.count", json!(asked.choices));
        set("fulgurite.choice", json!(choice));
    }
    set("gen_ai.request.is_stream", json!(request.stream));
    if !request.extra.is_empty() {
        set(REQUEST_EXTRA, json!(json!(request.extra).to_string()));
    }
    if !request.ignored_tools.is_empty() {
        set("fulgurite.request.ignored_tools", json!(json!(request.ignored_tools).to_string()));
    }
    if let Prompt::Messages { messages, tools } = &request.prompt {
        add_messages(&mut attributes, messages);
        add_tools(&mut attributes, tools);
    }
    attributes
}
