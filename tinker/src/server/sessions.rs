use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::server::error::run_blocking;
use crate::server::state::records::SampledWeights;
use crate::server::state::records::SamplerRecord;
use crate::server::state::records::SessionRecord;
use crate::wire::{CreateSessionRequest, CreateSessionResponse, FinishSessionRequest};
use axum::http::StatusCode;
use fulgurite_backends::BackendError;
use fulgurite_types::time::now;

use crate::server::refusals::Refusal;
use crate::server::state::names::new_id;
use crate::server::tinker_server::TinkerServer;

impl TinkerServer {
    /// Opens a session.
    pub(crate) async fn create_session(&self, request: CreateSessionRequest) -> Result<CreateSessionResponse, Refusal> {
        let CreateSessionRequest { tags, user_metadata, display_name, project_id, .. } = request;
        let session_id = new_id();
        let record = SessionRecord {
            session_id: session_id.clone(),
            created: now(),
            tags,
            display_name,
            user_metadata,
            project_id,
            is_over: false,
            finish: None,
        };
        self.keep(&record).await?;
        let mut registry = self.registry();
        registry.last_seen.insert(session_id.clone(), Instant::now());
        registry.sessions.insert(session_id.clone(), record);
        Ok(CreateSessionResponse { session_id, ..CreateSessionResponse::default() })
    }

    /// Records that a session is alive; refuses one that is over.
    pub(crate) fn record_heartbeat(&self, session_id: &str) -> Result<(), Refusal> {
        let mut registry = self.registry();
        match registry.sessions.get(session_id) {
            None => Err(Refusal::not_found("session", session_id)),
            Some(session) if session.is_over => {
                Err(Refusal { status: StatusCode::GONE, detail: format!("the session {session_id} is over") })
            }
            Some(_) => {
                registry.last_seen.insert(session_id.to_owned(), Instant::now());
                Ok(())
            }
        }
    }

    /// As [`TinkerServer::record_heartbeat`], for what would belong to the session: clients begin a new one after a
    /// 404.
    pub(crate) fn in_session(&self, session_id: &str) -> Result<(), Refusal> {
        self.record_heartbeat(session_id).map_err(|refusal| Refusal { status: StatusCode::NOT_FOUND, ..refusal })
    }

    /// Sessions without a heartbeat for too long. For one of an earlier process the time runs from when it is first
    /// looked at.
    pub(crate) fn expired_sessions(&self, now: Instant) -> Vec<String> {
        let silence = self.options.silence;
        let mut registry = self.registry();
        let open: Vec<String> = (registry.sessions.values())
            .filter(|session| !session.is_over)
            .map(|session| session.session_id.clone())
            .collect();
        let is_expired = |session_id: &String| {
            let last_seen = registry.last_seen.entry(session_id.clone()).or_insert(now);
            now.saturating_duration_since(*last_seen) >= silence
        };
        open.into_iter().filter(is_expired).collect()
    }

    /// Ends a session: its models and samplers go, its checkpoints stay. `finish` is what its client says, if it does.
    pub(crate) async fn end_session(
        &self,
        session_id: &str,
        finish: Option<FinishSessionRequest>,
    ) -> Result<(), BackendError> {
        let (record, samplers, weights) = {
            let mut registry = self.registry();
            registry.last_seen.remove(session_id);
            registry.models.retain(|_, model| model.session_id != session_id);
            let is_own = |_: &String, sampler: &mut SamplerRecord| sampler.session_id == session_id;
            let samplers: Vec<SamplerRecord> =
                registry.samplers.extract_if(.., is_own).map(|(_, sampler)| sampler).collect();
            let Some(session) = registry.sessions.get_mut(session_id) else { return Ok(()) };
            session.is_over = true;
            session.finish = finish;
            let session = session.clone();
            let runs = registry.runs.values().filter(|run| run.session_id == session_id);
            let in_flight = runs.filter_map(|run| run.inflight.clone());
            let own = samplers.iter().filter_map(|sampler| match &sampler.weights {
                SampledWeights::Own(directory) => Some(directory.clone()),
                _ => None,
            });
            let weights: Vec<PathBuf> = in_flight.chain(own).collect();
            (session, samplers, weights)
        };
        for directory in &weights {
            self.weights.evict(&self.state.resolve(directory)).await;
        }
        let state = Arc::new(self.state.clone());
        run_blocking(move || {
            state.keep(&record)?;
            for sampler in samplers {
                state.delete_record::<SamplerRecord>(&sampler.sampler_id)?;
            }
            weights.iter().try_for_each(|directory| state.delete_weights(directory))
        })
        .await
    }
}
