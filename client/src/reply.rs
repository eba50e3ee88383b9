use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ServerError;

/// An answer that has arrived whole.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// An earlier try of the same request may have reached the server, its answer lost.
    pub(crate) earlier_lost: bool,
}

impl Reply {
    /// The answer, unless the server refuses in it to do what was asked.
    pub(crate) fn accepted(self, url: &Url) -> Result<Self, ServerError> {
        let (url, status) = (url.to_string(), self.status.as_u16());
        match self.status {
            accepted if accepted.is_success() => Ok(self),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(ServerError::Key { url, status, message: self.message() })
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED if !self.is_not_found() => {
                Err(ServerError::NoRoute { url, status })
            }
            _ => Err(ServerError::Refused { url, status, message: self.message() }),
        }
    }

    /// What an accepted answer holds.
    pub(crate) fn read<T: DeserializeOwned>(self, url: &Url) -> Result<T, ServerError> {
        let reply = self.accepted(url)?;
        serde_json::from_slice(&reply.body)
            .map_err(|error| ServerError::Reply { url: url.to_string(), reason: error.to_string() })
    }

    /// The body, which of an error may be any text of a proxy in between.
    fn json_or_null(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// What is said of an error: the store's words or the proxy's, or the beginning of whatever it is.
    pub(crate) fn message(&self) -> String {
        const GREATEST: usize = 500;
        let json = self.json_or_null();
        let message = match (&json["detail"], &json["error"]["message"]) {
            (Value::String(message), _) | (_, Value::String(message)) => message.clone(),
            (Value::Null, _) => String::from_utf8_lossy(&self.body).into_owned(),
            (mistakes, _) => mistakes.to_string(),
        };
        message.chars().take(GREATEST).collect()
    }

    /// Whether the server cannot read posted weights at `path`. Servers of earlier releases say so by naming the file in an
    /// internal error.
    pub(crate) fn has_unread_weights(&self, path: &str) -> bool {
        let json = self.json_or_null();
        let (code, message) = (&json["error"]["code"], json["error"]["message"].as_str());
        let names_file = message.is_some_and(|message| message.contains(path));
        code == "weights_unread" || self.status == StatusCode::INTERNAL_SERVER_ERROR && names_file
    }

    /// Whether a thing is not there, rather than the route to it: the store says which in words, the proxy in a code.
    pub(crate) fn is_not_found(&self) -> bool {
        let json = self.json_or_null();
        let code = json["error"]["code"].as_str();
        code.is_some_and(|code| code.ends_with("_not_found"))
            || json["detail"].as_str().is_some_and(|detail| detail.contains("not found: "))
    }
}
