use std::sync::Arc;

use crate::attempt::attempt_memory::AttemptMemory;
use crate::attempt::attribution::{Attribution, attribute};
use crate::attempt::joined_session::{SessionLogs, SessionSearch, UnnamedConversation};
use crate::call::admit::AdmittedRequest;
use crate::call::respond::AnsweredRequest;
use crate::error::ProxyError;
use crate::models::served_model::SampledModel;
use crate::parts::Parts;
use crate::record::recorded_call::RecordedCall;
use crate::record::recorded_calls::earlier_answers;
use crate::reply::flight::Listener;
use crate::requests::call_target::CallTarget;
use crate::requests::caller::Caller;
use crate::requests::model_request::{ModelRequest, Prompt};
use crate::retries::logged_requests::Identity;
use crate::retries::request_log::{Claim, OpenRequest};
use crate::state::call_services::CallServices;
use fulgurite_store::Store;
use fulgurite_types::time::now;

/// Where a request stands among others of its attempt.
pub(crate) enum Placement<'p> {
    /// The same request is being answered.
    Joined(Box<AnsweredRequest>),
    /// It is ours to answer.
    Open(Box<PlacedRequest<'p>>),
}

/// A request that nobody else answers.
pub(crate) struct PlacedRequest<'p> {
    pub(crate) admitted: AdmittedRequest<'p>,
    /// Whether its client gets token ids and logprobs.
    pub(crate) token_ids: bool,
    pub(crate) attribution: Option<Attribution>,
    /// Of a call that named no rollout.
    pub(crate) unnamed: Option<UnnamedConversation>,
    /// Of the attempt, if it belongs to one.
    pub(crate) memory: Option<Arc<AttemptMemory>>,
    /// What was sampled for its answers before; empty for a new request.
    pub(crate) earlier: Vec<Option<RecordedCall>>,
    pub(crate) open: OpenRequest,
    pub(crate) listener: Listener,
}

/// Finds the attempt of a request, and whether the request came before.
pub(crate) async fn place<'p>(
    parts: &'p Parts,
    mut admitted: AdmittedRequest<'p>,
) -> Result<Placement<'p>, ProxyError> {
    let Parts { options, models, services, .. } = parts;
    let AdmittedRequest { caller, request, model, metrics, .. } = &mut admitted;
    let mut attribution =
        attribute(&services.store, options.rollout_defaults(), &caller.target, caller.maker, caller.begins_attempt)
            .await?;
    let identity = Identity {
        digest: request.digest.clone(),
        idempotency_key: caller.idempotency_key.take(),
        retries: caller.retries,
    };
    let unnamed = unnamed_conversation(parts, caller, request, model).await?;
    if let Some(unnamed) = unnamed.as_ref().filter(|_| !parts.session_requests.knows(&identity)) {
        attribution = session_search(parts).find(unnamed, &identity).await?;
    }
    if let Some(Attribution { rollout_id, attempt_id, .. }) = &attribution {
        caller.facts.attempt.get_or_init(|| (rollout_id.clone(), attempt_id.clone()));
    }
    if let Some(sampling) = attribution.as_ref().and_then(|attribution| attribution.sampling.as_ref()) {
        request.options.set_default(&request.model, sampling);
    }
    let is_attributed = caller.target.named_rollout().is_some();
    let token_ids = request.return_token_ids || (is_attributed && options.token_ids_on_attributed_path);
    let memory = match &attribution {
        Some(attribution) => Some(services.memories.of(&services.store, models, attribution).await?),
        None => None,
    };
    let unseen = match &memory {
        Some(memory) => find_unseen(&services.store, memory, &identity).await?,
        None => None,
    };
    let log = Arc::clone(memory.as_ref().map_or(&parts.session_requests, |memory| &memory.requests));
    let reply_id = format!("{}{}", request.endpoint.id_prefix, uuid::Uuid::now_v7().simple());
    let choices = request.options.choices;
    let (earlier, mut open) = match log.claim(identity, reply_id, now() as u64).await? {
        Claim::Join(joined) => {
            metrics.joined.increment(1);
            let AdmittedRequest { caller, request, model, .. } = admitted;
            let answered = AnsweredRequest { request, model, token_ids, joined, facts: caller.facts };
            return Ok(Placement::Joined(Box::new(answered)));
        }
        Claim::New(open) => (Vec::new(), open),
        Claim::Replay(open) => {
            let earlier = earlier_answers(&services.store, &open.request.reply_id, choices).await?;
            let reply_id = &open.request.reply_id;
            let is_last = memory.as_ref().is_some_and(|memory| memory.is_given_again(reply_id));
            if is_last || unseen.as_ref() == Some(reply_id) {
                give_again(&services.store, &earlier).await?;
            }
            (earlier, open)
        }
    };
    let listener = open.listener.take().ok_or_else(ProxyError::broken_off)?;
    let placed = PlacedRequest { admitted, token_ids, attribution, unnamed, memory, earlier, open, listener };
    Ok(Placement::Open(Box::new(placed)))
}

/// Has a request repeat the last one of its attempt that another server recorded, if that server was killed since: nobody
/// knows then whether the answer arrived. It does so once. Gives the id of the reply that is repeated.
async fn find_unseen(store: &Store, memory: &AttemptMemory, identity: &Identity) -> Result<Option<String>, ProxyError> {
    let Some(last) = memory.take_last_recorded(identity) else { return Ok(None) };
    match store.servers().is_of_killed(&last.reply_id).await {
        Ok(true) => {
            let is_known = memory.requests.may_be_unseen(&last.digest, &last.reply_id);
            Ok(is_known.then_some(last.reply_id))
        }
        Ok(false) => Ok(None),
        Err(error) => {
            memory.note_last_recorded(Some(last));
            Err(error.into())
        }
    }
}

/// Notes that this server gives recorded answers again.
async fn give_again(store: &Store, answers: &[Option<RecordedCall>]) -> Result<(), ProxyError> {
    for answer in answers.iter().flatten() {
        store.servers().give_again(&answer.generation.generation_id).await?;
    }
    Ok(())
}

/// The conversation of a request that names neither a rollout nor a session, if such ones are recognised by content.
async fn unnamed_conversation(
    parts: &Parts,
    caller: &Caller,
    request: &ModelRequest,
    model: &SampledModel,
) -> Result<Option<UnnamedConversation>, ProxyError> {
    let Parts { options, large_requests, .. } = parts;
    match (&caller.target, &request.prompt) {
        (CallTarget::Unnamed, Prompt::Messages(conversation)) if !options.conversation_gap.is_zero() => {
            let key = caller.sent_key.as_deref();
            let unnamed = || UnnamedConversation::new(&conversation.messages, &model.name, key);
            caller.size.work(large_requests, unnamed).await.map(Some)
        }
        _ => Ok(None),
    }
}

fn session_search(parts: &Parts) -> SessionSearch<'_> {
    let Parts { options, models, services, .. } = parts;
    let CallServices { store, memories, .. } = &**services;
    let logs = SessionLogs::OfAttempts { models, memories };
    SessionSearch { store, logs, seed: options.seed, gap: options.conversation_gap }
}
