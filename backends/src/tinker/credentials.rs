use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::HeaderValue;
use serde_json::json;
use tokio::sync::Mutex;

use super::http::{Http, Request};
use super::wire::AuthTokenResponse;
use crate::BackendError;
use crate::remote::host::refusal;

/// A service's key, and the short-lived token that stands for it where the service wants one. Neither is ever shown.
pub(super) struct Credentials {
    key: Option<HeaderValue>,
    are_exchanged: AtomicBool,
    token: Mutex<Option<HeaderValue>>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    pub(super) fn new(key: Option<&str>, host: &str) -> Result<Self, BackendError> {
        let key = key.map(secret).transpose().map_err(|_| BackendError::Configuration {
            message: format!("the key of {host} has characters that no HTTP header can have"),
        })?;
        Ok(Self { key, are_exchanged: AtomicBool::new(false), token: Mutex::new(None) })
    }

    pub(super) fn exchange_from_now_on(&self) {
        self.are_exchanged.store(true, Ordering::Release);
    }

    pub(super) fn are_exchanged(&self) -> bool {
        self.are_exchanged.load(Ordering::Acquire)
    }

    /// What requests are to carry: the key, or a token that is not the one that was `refused`.
    pub(super) async fn token(
        &self,
        http: &Http,
        silence: Duration,
        refused: Option<&HeaderValue>,
    ) -> Result<Option<HeaderValue>, BackendError> {
        if !self.are_exchanged() {
            return Ok(self.key.clone());
        }
        // Whoever else was refused waits here, and then finds the new one.
        let mut token = self.token.lock().await;
        if token.is_none() || token.as_ref() == refused {
            *token = Some(self.exchange(http, silence).await?);
        }
        Ok(token.clone())
    }

    async fn exchange(&self, http: &Http, silence: Duration) -> Result<HeaderValue, BackendError> {
        let request = Request::post("api/v1/auth/token", &json!({}))?;
        let answer = http.send_with(&request, self.key.as_ref(), silence).await?;
        if !answer.status.is_success() {
            return Err(refusal(&http.name(), answer.status, &answer.message()));
        }
        let unreadable = || http.unavailable("POST /api/v1/auth/token gives no token".to_owned());
        let token: AuthTokenResponse = answer.json().map_err(|_| unreadable())?;
        secret(&token.jwt).map_err(|_| unreadable())
    }
}

fn secret(text: &str) -> Result<HeaderValue, reqwest::header::InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
