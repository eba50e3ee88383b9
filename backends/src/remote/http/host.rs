use std::sync::Arc;
use std::time::Duration;

use fulgurite_types::without_objects;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Serialize;
use serde_json::Value;

use crate::remote::http::address::{CONNECT_LIMIT, HEALTH_LIMIT, base_url};
use crate::remote::http::connections::{Connections, ReplyBody};
use crate::remote::http::error_words::{MESSAGE_LIMIT, describe, error_message, error_text, fault_of_error, refusal};
use crate::{AnswerFault, BackendError, Changeover};

/// What is read of an answer that is no stream, in bytes.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
/// One model host that is reached over HTTP.
#[derive(Clone)]
pub struct RemoteOptions {
    /// Where it is: scheme, address and, behind a gateway, a path. A `/v1` at the end is left out.
    pub url: String,
    /// The model's name here. A host that serves one model is asked for that one, whatever its name.
    pub model: String,
    /// Token ids are below this.
    pub vocabulary_size: usize,
    /// Sent as a bearer token. Never shown.
    pub api_key: Option<String>,
    /// How long a host may be silent in the middle of a request before it is given up.
    pub silence_limit: Duration,
    /// What becomes of answers under way when the whole model is replaced.
    pub changeover: Changeover,
}

impl std::fmt::Debug for RemoteOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RemoteOptions")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// One server: requests to it, and what its refusals mean.
#[derive(Debug)]
pub(crate) struct Host {
    client: Client,
    /// For what is streamed, where neither TLS nor a proxy is between.
    connections: Option<Arc<Connections>>,
    base: Url,
    /// Of a request on one of those.
    fields: SecretFields,
    silence_limit: Duration,
}

/// Header fields as they are sent, the key among them.
struct SecretFields(Vec<u8>);

impl std::fmt::Debug for SecretFields {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SecretFields")
    }
}

/// An answer of which no more than the head has come.
#[derive(Debug)]
struct HostReply {
    status: StatusCode,
    /// In words, where there is none.
    content_type: String,
    body: ReplyBody,
}

impl HostReply {
    fn new(status: StatusCode, content_type: Option<&str>, body: ReplyBody) -> Self {
        let content_type = content_type.unwrap_or("nothing").chars().take(MESSAGE_LIMIT).collect();
        Self { status, content_type, body }
    }
}

impl From<reqwest::Response> for HostReply {
    fn from(response: reqwest::Response) -> Self {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let (status, content_type) = (response.status(), content_type.map(str::to_owned));
        Self::new(status, content_type.as_deref(), ReplyBody::Client(response.into()))
    }
}

impl Host {
    pub(crate) fn new(options: &RemoteOptions) -> Result<Self, BackendError> {
        let refuse = |message: String| BackendError::Configuration { message };
        let base = base_url(&options.url, "/v1")?;
        let mut headers = HeaderMap::new();
        if let Some(key) = &options.api_key {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                .map_err(|_| refuse(format!("the key of {base} has characters that no HTTP header can have")))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            .default_headers(headers.clone())
            .build()
            .map_err(|error| refuse(format!("there is no HTTP client for {base}: {}", describe(error))))?;
        let connections = direct_address(&base).map(|address| Arc::new(Connections::new(address)));
        let mut fields = format!("host: {}\r\ncontent-type: application/json\r\n", base.authority()).into_bytes();
        if let Some(key) = headers.get(AUTHORIZATION) {
            fields.extend([b"authorization: ", key.as_bytes(), b"\r\n"].concat());
        }
        let fields = SecretFields(fields);
        Ok(Self { client, connections, base, fields, silence_limit: options.silence_limit })
    }

    /// The error that a fault in an answer is.
    pub(crate) fn broken_answer(&self, fault: AnswerFault) -> BackendError {
        match fault {
            AnswerFault::Refused { .. } => BackendError::InvalidRequest { message: fault.to_string() },
            fault => BackendError::BrokenAnswer { host: self.name(), fault },
        }
    }

    /// Its URL, as errors and logs show it.
    pub(crate) fn name(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    pub(crate) fn silence_limit(&self) -> Duration {
        self.silence_limit
    }

    /// The JSON of a GET.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, BackendError> {
        self.get_with(path, &[]).await
    }

    /// The JSON of a GET with a query.
    pub(crate) async fn get_with(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, BackendError> {
        let mut request = self.client.get(self.url(path));
        if !query.is_empty() {
            request = request.query(query);
        }
        let reply = self.successful(self.send(request).await?).await?;
        let body = self.read(reply.body).await?;
        serde_json::from_slice(&body).map_err(|error| {
            let message = format!("{} answers GET /{path} with no JSON: {error}", self.name());
            BackendError::Unavailable { message }
        })
    }

    /// What a POST that changes the host is answered with: JSON, or null for anything else. A host that tried and failed is
    /// there, and would fail again.
    pub(crate) async fn post(&self, path: &str, query: &[(&str, &str)], body: &Value) -> Result<Value, BackendError> {
        let mut request = self.client.post(self.url(path)).json(body);
        if !query.is_empty() {
            request = request.query(query);
        }
        let reply = self.send(request).await?;
        let has_failed = reply.status == StatusCode::INTERNAL_SERVER_ERROR;
        let reply = self.successful(reply).await.map_err(|error| match error {
            BackendError::Unavailable { message } if has_failed => BackendError::Internal { message },
            error => error,
        })?;
        // Some say in plain words that it is done.
        Ok(serde_json::from_slice(&self.read(reply.body).await?).unwrap_or(Value::Null))
    }

    /// The JSON that a POST is answered with, however much of it there is.
    pub(crate) async fn post_for_json(&self, path: &str, body: &Value) -> Result<Value, BackendError> {
        let reply = self.successful(self.send(self.client.post(self.url(path)).json(body)).await?).await?;
        let body = self.read_up_to(reply.body, usize::MAX).await?;
        serde_json::from_slice(&body).map_err(|error| {
            let message = format!("no JSON: {error}");
            self.broken_answer(AnswerFault::Unreadable { message })
        })
    }

    /// Whether `GET /health` succeeds.
    pub(crate) async fn check_health(&self) -> Result<(), BackendError> {
        let reply = self.send(self.client.get(self.url("health")).timeout(HEALTH_LIMIT)).await?;
        self.successful(reply).await.map(drop)
    }

    /// The status of a POST of an empty object, which tells a route that is there from one that is not.
    pub(crate) async fn status_of_empty_post(&self, path: &str) -> Result<StatusCode, BackendError> {
        Ok(self.send(self.client.post(self.url(path)).json(&Value::Object(Default::default()))).await?.status)
    }

    /// The stream of events that a POST is answered with.
    pub(crate) async fn stream(&self, path: &str, body: &impl Serialize) -> Result<ReplyBody, BackendError> {
        let body =
            serde_json::to_string(body).map_err(|error| BackendError::Internal { message: error.to_string() })?;
        // Schemas may hold numbers beyond 64 bits.
        let body = without_objects(body).into_bytes();
        let reply = match &self.connections {
            Some(connections) => {
                let request = format!("POST {}{path} HTTP/1.1\r\ncontent-length: {}\r\n", self.base.path(), body.len());
                let request = [request.into_bytes().as_slice(), &self.fields.0, b"\r\n", &body].concat();
                let sent = async {
                    let (head, body) = connections.send(&request).await?;
                    Ok(HostReply::new(head.status, head.content_type.as_deref(), body))
                };
                self.in_time(sent, |error: std::io::Error| error_text(&error)).await?
            }
            None => {
                let request = self.client.post(self.url(path)).header(CONTENT_TYPE, "application/json").body(body);
                self.send(request).await?
            }
        };
        let HostReply { content_type, body, .. } = self.successful(reply).await?;
        if content_type.starts_with("text/event-stream") {
            return Ok(body);
        }
        // Some servers answer with status 200 and an error.
        let fault = match serde_json::from_slice::<Value>(&self.read(body).await?) {
            Ok(value) => fault_of_error(value.get("error").unwrap_or(&value)),
            Err(_) => AnswerFault::NotAStream { content_type },
        };
        Err(self.broken_answer(fault))
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        url
    }

    async fn successful(&self, reply: HostReply) -> Result<HostReply, BackendError> {
        if reply.status.is_success() {
            return Ok(reply);
        }
        let message = match serde_json::from_slice(&self.read(reply.body).await?) {
            Ok(value) => error_message(&value),
            Err(_) => format!("an answer of type `{}`", reply.content_type),
        };
        Err(refusal(&self.name(), reply.status, &message))
    }

    async fn send(&self, request: RequestBuilder) -> Result<HostReply, BackendError> {
        self.in_time(async { request.send().await.map(HostReply::from) }, describe).await
    }

    /// The head of an answer, unless it takes too long.
    async fn in_time<E>(
        &self,
        sent: impl Future<Output = Result<HostReply, E>>,
        error_text: impl Fn(E) -> String,
    ) -> Result<HostReply, BackendError> {
        match tokio::time::timeout(self.silence_limit, sent).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.unavailable(&error_text(error))),
            Err(_) => Err(self.unavailable(&format!("no answer within {} seconds", self.silence_limit.as_secs()))),
        }
    }

    async fn read(&self, reply: ReplyBody) -> Result<Vec<u8>, BackendError> {
        self.read_up_to(reply, BODY_LIMIT).await
    }

    async fn read_up_to(&self, mut reply: ReplyBody, limit: usize) -> Result<Vec<u8>, BackendError> {
        let mut body = Vec::new();
        while body.len() < limit {
            match tokio::time::timeout(self.silence_limit, reply.data()).await {
                Ok(Some(Ok(bytes))) => body.extend_from_slice(&bytes),
                Ok(None) => break,
                Ok(Some(Err(error))) => return Err(self.unavailable(&error)),
                Err(_) => return Err(self.unavailable("it stopped in the middle of an answer")),
            }
        }
        Ok(body)
    }

    fn unavailable(&self, message: &str) -> BackendError {
        BackendError::Unavailable { message: format!("{}: {message}", self.name()) }
    }
}

/// Host and port of a server that is reached without TLS, and without a proxy that the environment tells of.
fn direct_address(base: &Url) -> Option<String> {
    let is_proxied = || Matcher::from_system().intercept(&base.as_str().parse().ok()?).map(|_| ());
    let address = format!("{}:{}", base.host_str()?, base.port_or_known_default()?);
    (base.scheme() == "http" && is_proxied().is_none()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> RemoteOptions {
        RemoteOptions {
            url: url.into(),
            model: "tiny".into(),
            vocabulary_size: 10,
            api_key: Some("secret".into()),
            silence_limit: Duration::from_secs(1),
            changeover: Changeover::default(),
        }
    }

    #[test]
    fn a_url_is_taken_with_and_without_the_version_that_clients_write() {
        for url in ["http://h:1/a", "http://h:1/a/", "http://h:1/a/v1", "http://h:1/a/v1/", "http://h:1/a?x=1"] {
            let host = Host::new(&options(url)).unwrap();
            assert_eq!(host.name(), "http://h:1/a");
            assert_eq!(host.url("v1/models").path(), "/a/v1/models");
        }
        for url in ["", "h:1", "ftp://h", "http://", "http://u:pass@h:1"] {
            let error = Host::new(&options(url)).unwrap_err();
            assert!(
                matches!(error, BackendError::Configuration { .. }) && !error.to_string().contains("pass@"),
                "{url}"
            );
        }
    }

    #[test]
    fn a_key_is_never_shown() {
        let options = options("http://h:1");
        let shown = format!("{options:?} {:?}", Host::new(&options).unwrap());
        assert!(!shown.contains("secret"), "{shown}");
        let error = Host::new(&RemoteOptions { api_key: Some("secret\n".into()), ..options }).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
