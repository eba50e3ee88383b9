use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::header::HeaderValue;
use tokio::sync::Mutex;

use fulgurite_backends::BackendError;

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

    /// The key itself.
    pub(super) fn key(&self) -> Option<&HeaderValue> {
        self.key.as_ref()
    }

    pub(super) fn exchange_from_now_on(&self) {
        self.are_exchanged.store(true, Ordering::Release);
    }

    pub(super) fn are_exchanged(&self) -> bool {
        self.are_exchanged.load(Ordering::Acquire)
    }

    /// What requests are to carry: the key, or a token that is not the one that was `refused`.
    /// `exchange` gets a new token for the key; it is run only where one is needed.
    pub(super) async fn token(
        &self,
        refused: Option<&HeaderValue>,
        exchange: impl Future<Output = Result<HeaderValue, BackendError>>,
    ) -> Result<Option<HeaderValue>, BackendError> {
        if !self.are_exchanged() {
            return Ok(self.key.clone());
        }
        // Whoever else was refused waits here, and then finds the new one.
        let mut token = self.token.lock().await;
        if token.is_none() || token.as_ref() == refused {
            *token = Some(exchange.await?);
        }
        Ok(token.clone())
    }
}

/// A value that no log shows.
pub(super) fn secret(text: &str) -> Result<HeaderValue, reqwest::header::InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
