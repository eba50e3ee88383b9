use std::time::Duration;

use prost::bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::credentials::{Credentials, secret};
use crate::wire::AuthTokenResponse;
use fulgurite_backends::BackendError;
use fulgurite_backends::remote::{CONNECT_LIMIT, base_url, describe, error_message, refusal};

pub(crate) const JSON: &str = "application/json";
pub(crate) const PROTOBUF: &str = "application/x-protobuf";

/// More than any result has, in bytes.
const BODY_LIMIT: usize = 1 << 30;
/// How long a connection may be silent before its other end is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The greatest wait that a service may ask for.
const LONGEST_RETRY_AFTER: f64 = 60.0;

/// A request that may be sent more than once.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Below the service's URL.
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) content_type: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Request {
    /// A POST of JSON.
    pub(crate) fn post<B: Serialize>(path: &str, body: &B) -> Result<Self, BackendError> {
        let body = serde_json::to_vec(body).map_err(|error| BackendError::Internal { message: error.to_string() })?;
        Ok(Self { body: body.into(), ..Self::empty(Method::POST, path) })
    }

    /// A POST of a binary message.
    pub(crate) fn post_message(path: &str, message: &impl prost::Message) -> Self {
        let body = message.encode_to_vec().into();
        Self { body, content_type: PROTOBUF, ..Self::empty(Method::POST, path) }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::empty(Method::GET, path)
    }

    pub(crate) fn delete(path: &str) -> Self {
        Self::empty(Method::DELETE, path)
    }

    fn empty(method: Method, path: &str) -> Self {
        let path = path.to_owned();
        Self { method, path, body: Bytes::new(), content_type: JSON, accept: JSON, headers: Vec::new() }
    }
}

/// What a service answers, whatever the status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: String,
    /// How long the service asks to wait before the next try.
    pub(crate) retry_after: Option<Duration>,
    /// Whether it is the key's short-lived token that is refused.
    pub(crate) refuses_token: bool,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.body).map_err(|error| error.to_string())
    }

    pub(crate) fn message_of<M: prost::Message + Default>(&self) -> Result<M, String> {
        if !self.content_type.starts_with(PROTOBUF) {
            return Err(format!("a binary message was asked for, and `{}` came", self.content_type));
        }
        M::decode(self.body.as_slice()).map_err(|error| error.to_string())
    }

    /// The service's words for what went wrong.
    pub(crate) fn message(&self) -> String {
        match serde_json::from_slice::<Value>(&self.body) {
            Ok(value) => error_message(&value),
            Err(_) => format!("an answer of type `{}`", self.content_type),
        }
    }
}

/// The connection to a service: requests out, whole answers in.
#[derive(Debug)]
pub(crate) struct Http {
    client: Client,
    base: Url,
    credentials: Credentials,
}

impl Http {
    pub(crate) fn new(url: &str, api_key: Option<&str>) -> Result<Self, BackendError> {
        let base = base_url(url, "/api/v1")?;
        let client = Client::builder().connect_timeout(CONNECT_LIMIT).tcp_keepalive(KEEP_ALIVE);
        // A key is for the service alone that it was given for.
        let client = client.redirect(Policy::none()).build();
        let client = client.map_err(|error| BackendError::Configuration {
            message: format!("there is no HTTP client for {base}: {}", describe(error)),
        })?;
        let credentials = Credentials::new(api_key, base.as_str())?;
        Ok(Self { client, base, credentials })
    }

    /// Its URL, as errors and logs show it.
    pub(crate) fn name(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    /// Exchanges the key for short-lived tokens from now on.
    pub(crate) fn exchange_key(&self) {
        self.credentials.exchange_from_now_on();
    }

    /// Sends a request once, with a key that is good. `silence` is how long nothing may come.
    pub(crate) async fn send(&self, request: &Request, silence: Duration) -> Result<Answer, BackendError> {
        let token = self.token(silence, None).await?;
        let answer = self.send_with(request, token.as_ref(), silence).await?;
        if !answer.refuses_token || !self.credentials.are_exchanged() {
            return Ok(answer);
        }
        let fresh = self.token(silence, token.as_ref()).await?;
        self.send_with(request, fresh.as_ref(), silence).await
    }

    async fn token(
        &self,
        silence: Duration,
        refused: Option<&HeaderValue>,
    ) -> Result<Option<HeaderValue>, BackendError> {
        self.credentials.token(refused, self.exchange(silence)).await
    }

    /// A short-lived token for the key.
    async fn exchange(&self, silence: Duration) -> Result<HeaderValue, BackendError> {
        let request = Request::post("api/v1/auth/token", &json!({}))?;
        let answer = self.send_with(&request, self.credentials.key(), silence).await?;
        if !answer.status.is_success() {
            return Err(refusal(&self.name(), answer.status, &answer.message()));
        }
        let unreadable = || self.unavailable("POST /api/v1/auth/token gives no token".to_owned());
        let token: AuthTokenResponse = answer.json().map_err(|_| unreadable())?;
        secret(&token.jwt).map_err(|_| unreadable())
    }

    /// Sends a request once, with this key.
    async fn send_with(
        &self,
        request: &Request,
        key: Option<&HeaderValue>,
        silence: Duration,
    ) -> Result<Answer, BackendError> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{}", self.base.path(), request.path));
        let mut builder = self.client.request(request.method.clone(), url).header(ACCEPT, request.accept);
        if request.method == Method::POST {
            builder = builder.header(CONTENT_TYPE, request.content_type).body(request.body.clone());
        }
        if let Some(key) = key {
            builder = builder.header("X-API-Key", key);
        }
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        let silent = |_| self.unavailable(format!("no answer within {} seconds", silence.as_secs()));
        let broken = |error| self.unavailable(describe(error));
        let mut response = tokio::time::timeout(silence, builder.send()).await.map_err(silent)?.map_err(broken)?;
        let mut answer = Answer {
            status: response.status(),
            content_type: header(&response, CONTENT_TYPE.as_str()).to_owned(),
            retry_after: retry_after(&response),
            refuses_token: response.status() == StatusCode::UNAUTHORIZED
                && header(&response, WWW_AUTHENTICATE.as_str()).contains("error=\"invalid_token\""),
            body: Vec::new(),
        };
        while let Some(bytes) =
            tokio::time::timeout(silence, response.chunk()).await.map_err(silent)?.map_err(broken)?
        {
            if answer.body.len() + bytes.len() > BODY_LIMIT {
                return Err(self.unavailable(format!("an answer has more than {BODY_LIMIT} bytes")));
            }
            answer.body.extend_from_slice(&bytes);
        }
        Ok(answer)
    }

    pub(crate) fn unavailable(&self, message: String) -> BackendError {
        BackendError::Unavailable { message: format!("{}: {message}", self.name()) }
    }
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn retry_after(response: &Response) -> Option<Duration> {
    let milliseconds = header(response, "retry-after-ms").parse::<f64>().ok().map(|milliseconds| milliseconds / 1000.0);
    let seconds = milliseconds.or_else(|| header(response, RETRY_AFTER.as_str()).parse().ok())?;
    (seconds > 0.0 && seconds <= LONGEST_RETRY_AFTER).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The key went wherever a service pointed.
    #[tokio::test]
    async fn a_key_does_not_follow_a_redirect() {
        let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", service.local_addr().unwrap());
        let http = Http::new(&url, Some("tml-secret")).unwrap();
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let location = other.local_addr().unwrap();
        let redirecting = async {
            let (mut stream, _) = service.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            let answer =
                format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{location}/\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        };
        let request = Request::get("api/v1/healthz");
        let (answer, ()) = tokio::join!(http.send(&request, Duration::from_secs(10)), redirecting);
        assert_eq!(answer.unwrap().status, StatusCode::TEMPORARY_REDIRECT);
    }
}
