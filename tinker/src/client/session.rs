use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::http::{Answer, Http, Request};
use super::patience::Patience;
use crate::wire::{
    ClientConfig, ClientConfigRequest, CreateSessionRequest, CreateSessionResponse, DynamicConfig,
    SessionHeartbeatRequest,
};
use fulgurite_backends::remote::refusal;
use fulgurite_backends::{AnswerFault, BackendError};

/// The version of the official SDK whose wire this client speaks. The hosted service refuses old ones.
const SDK_VERSION: &str = "0.38.0";

/// A session: what a service keeps models and samplers for, as long as somebody says that it is alive.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) config: ClientConfig,
    /// `None` where the service knows nothing of it, as SkyRL's does: it then speaks the wire of 2025.
    dynamic: Option<DynamicConfig>,
    models: AtomicU64,
    sampling_sessions: AtomicU64,
    is_over: Arc<AtomicBool>,
    heartbeat: JoinHandle<()>,
}

impl Session {
    /// Asks a service how it wants to be used, and opens a session. Nothing is tried again: whoever needs the session
    /// does that.
    pub(crate) async fn open(http: Arc<Http>, patience: Patience) -> Result<Self, BackendError> {
        let version = ClientConfigRequest { sdk_version: SDK_VERSION.to_owned() };
        let config: ClientConfig = ask(&http, "client/config", &version, patience.silence).await?;
        if config.pjwt_auth_enabled {
            http.exchange_key();
        }
        let answer = send(&http, "client/dynamic_config", &version, patience.silence).await?;
        let dynamic = match answer.status {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => None,
            _ => Some(read(&http, "client/dynamic_config", &answer)?),
        };
        let request = CreateSessionRequest { sdk_version: SDK_VERSION.to_owned(), ..CreateSessionRequest::default() };
        let created: CreateSessionResponse = ask(&http, "create_session", &request, patience.silence).await?;
        let host = http.name();
        if let Some(message) = &created.info_message {
            tracing::info!(host, message, "the service says");
        }
        for message in [&created.warning_message, &created.error_message].into_iter().flatten() {
            tracing::warn!(host, message, "the service says");
        }
        let is_over = Arc::new(AtomicBool::new(false));
        #[expect(clippy::disallowed_methods, reason = "the session holds it")]
        let heartbeat = tokio::spawn(keep_alive(http, created.session_id.clone(), patience, is_over.clone()));
        Ok(Self {
            id: created.session_id,
            config,
            dynamic,
            models: AtomicU64::new(0),
            sampling_sessions: AtomicU64::new(0),
            is_over,
            heartbeat,
        })
    }

    /// Whether the service has ended it, or must be taken to have.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Takes it for ended: the service does not know it any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether the service speaks the wire as it is since SDK 0.26, with all that came then.
    pub(crate) fn is_current(&self) -> bool {
        self.dynamic.is_some()
    }

    /// Seeds are at most this. The older wire does not say what it takes, and 32 bits with a sign every server does.
    pub(crate) fn greatest_seed(&self) -> i64 {
        if self.is_current() { i64::MAX } else { i32::MAX.into() }
    }

    /// Whether sample requests can be cancelled.
    pub(crate) fn cancels(&self) -> bool {
        self.dynamic.as_ref().is_some_and(|dynamic| dynamic.sample_cancel_enabled)
    }

    /// The place of the next model.
    pub(crate) fn next_model(&self) -> u64 {
        self.models.fetch_add(1, Ordering::Relaxed)
    }

    /// The place of the next sampling session.
    pub(crate) fn next_sampling_session(&self) -> u64 {
        self.sampling_sessions.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.heartbeat.abort();
    }
}

/// Says that a session is alive until the service says that it is not.
async fn keep_alive(http: Arc<Http>, session_id: String, patience: Patience, is_over: Arc<AtomicBool>) {
    let mut ticks = tokio::time::interval(patience.heartbeat);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let request = SessionHeartbeatRequest { session_id };
    loop {
        ticks.tick().await;
        match send(&http, "session_heartbeat", &request, patience.heartbeat).await {
            Ok(answer) if answer.status == StatusCode::GONE => {
                tracing::warn!(host = %http.name(), session = %request.session_id, "the service has ended the session");
                is_over.store(true, Ordering::Release);
                return;
            }
            Ok(answer) if answer.status.is_success() => {}
            Ok(answer) => tracing::warn!(host = %http.name(), status = %answer.status, "a heartbeat is refused"),
            Err(error) => tracing::warn!(%error, "a heartbeat does not arrive"),
        }
    }
}

async fn ask<T: DeserializeOwned>(
    http: &Http,
    path: &str,
    body: &impl Serialize,
    silence: Duration,
) -> Result<T, BackendError> {
    read(http, path, &send(http, path, body, silence).await?)
}

async fn send(http: &Http, path: &str, body: &impl Serialize, silence: Duration) -> Result<Answer, BackendError> {
    http.send(&Request::post(&format!("api/v1/{path}"), body)?, silence).await
}

fn read<T: DeserializeOwned>(http: &Http, path: &str, answer: &Answer) -> Result<T, BackendError> {
    if !answer.status.is_success() {
        return Err(refusal(&http.name(), answer.status, &answer.message()));
    }
    answer.json().map_err(|message| BackendError::BrokenAnswer {
        host: http.name(),
        fault: AnswerFault::Unreadable { message: format!("POST /api/v1/{path}: {message}") },
    })
}
