use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::{Deserialize, Serialize};

use crate::remote::http::address::{CONNECT_LIMIT, read_url};
use crate::remote::http::error_words::describe;
use crate::replicas::{Replica, Turn, order};
use crate::{AnswerFault, BackendError, ReplicaOptions};

/// The dialect of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamDialect {
    /// OpenAI's.
    OpenAi,
    /// Anthropic's.
    Anthropic,
}

impl UpstreamDialect {
    /// As a config names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// Where routes begin, seen from the URL that the dialect's own clients are given: OpenAI's have the version in it,
    /// so that only a URL without any path lacks it; Anthropic's add it.
    fn base(self, url: &Url) -> String {
        let path = url.path().trim_end_matches('/');
        match self {
            Self::OpenAi if path.is_empty() => "/v1/".to_owned(),
            Self::OpenAi => format!("{path}/"),
            Self::Anthropic => format!("{}/v1/", path.strip_suffix("/v1").unwrap_or(path)),
        }
    }

    /// Where the dialect's owner looks for keys.
    fn key_header(self) -> KeyHeader {
        match self {
            Self::OpenAi => KeyHeader::Authorization,
            Self::Anthropic => KeyHeader::XApiKey,
        }
    }
}

/// The header that carries an upstream's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyHeader {
    /// `authorization: Bearer KEY`
    Authorization,
    /// `x-api-key: KEY`
    XApiKey,
}

impl KeyHeader {
    /// The one of that name, as a config has it.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Authorization, Self::XApiKey].into_iter().find(|header| header.name() == name)
    }

    fn name(self) -> HeaderName {
        match self {
            Self::Authorization => AUTHORIZATION,
            Self::XApiKey => HeaderName::from_static("x-api-key"),
        }
    }

    fn value(self, key: &str) -> String {
        match self {
            Self::Authorization => format!("Bearer {key}"),
            Self::XApiKey => key.to_owned(),
        }
    }
}

/// How an upstream is reached.
#[derive(Clone)]
pub struct UpstreamOptions {
    /// Where it is: one URL for each of its hosts, as the dialect's own clients take it.
    pub urls: Vec<String>,
    /// Its dialect.
    pub dialect: UpstreamDialect,
    /// Never shown.
    pub api_key: Option<String>,
    /// What the key is sent in; as the dialect sends keys unless configured otherwise.
    pub key_header: Option<KeyHeader>,
    /// How several hosts are used. Their health is seen by how they answer, and never asked for.
    pub replicas: ReplicaOptions,
}

impl std::fmt::Debug for UpstreamOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("UpstreamOptions")
            .field("urls", &self.urls)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

/// A request as it goes on.
#[derive(Clone, Debug)]
pub struct UpstreamRequest {
    /// Its method.
    pub method: Method,
    /// Its path below the version, such as `chat/completions`.
    pub path: String,
    /// What follows the `?`, if anything does.
    pub query: Option<String>,
    /// Its headers, without a key.
    pub headers: HeaderMap,
    /// Its body; empty for none.
    pub body: Bytes,
    /// Requests of one affinity go to one host, as long as it is well.
    pub affinity: Option<String>,
}

/// Servers that take requests in their own dialect, and whose replies are forwarded as they come.
///
/// Of several hosts, one that gives no answer at all is passed over for another. A status is an answer, whatever it
/// says; those from 500 on count against the host. A host may be silent for as long as somebody waits for it.
pub struct Upstream {
    dialect: UpstreamDialect,
    hosts: Vec<Arc<Replica<UpstreamHost>>>,
    api_key: Option<String>,
}

struct UpstreamHost {
    client: Client,
    /// Without a slash at its end.
    name: String,
    base: Url,
}

impl Upstream {
    /// Hosts that are looked at when they are first needed. Fails for a URL or a key that cannot be used.
    pub fn new(options: &UpstreamOptions) -> Result<Self, BackendError> {
        let host = |url: &String| {
            let host = UpstreamHost::new(url, options)?;
            Ok(Arc::new(Replica::new(url.clone(), host, &options.replicas)))
        };
        let hosts = options.urls.iter().map(host).collect::<Result<_, BackendError>>()?;
        Ok(Self { dialect: options.dialect, hosts, api_key: options.api_key.clone() })
    }

    /// Its dialect.
    pub fn dialect(&self) -> UpstreamDialect {
        self.dialect
    }

    /// Its key, which must be in nothing that leaves.
    pub fn api_key(&self) -> Option<&str> {
        self.api_key.as_deref()
    }

    /// Sends a request, and waits for the head of the answer. Dropping what comes of it, before or after, ends the
    /// request there too. Fails if no host answers at all.
    pub async fn send(&self, request: &UpstreamRequest) -> Result<UpstreamReply, BackendError> {
        let mut failure = BackendError::Configuration { message: "the upstream has no URLs".to_owned() };
        for replica in order(self.hosts.clone(), request.affinity.as_deref()) {
            let mut turn = replica.turn().await?;
            match replica.host.send(request).await {
                Ok(response) => {
                    turn.decide(!response.status().is_server_error());
                    return Ok(UpstreamReply::new(response, turn, replica.host.name.clone()));
                }
                Err(error) => {
                    turn.decide(false);
                    tracing::warn!(host = %replica.name, %error, "an upstream gave no answer");
                    failure = error;
                }
            }
        }
        Err(failure)
    }
}

impl UpstreamHost {
    fn new(url: &str, options: &UpstreamOptions) -> Result<Self, BackendError> {
        let refuse = |message: String| BackendError::Configuration { message };
        let mut base = read_url(url)?;
        base.set_query(None);
        base.set_fragment(None);
        let name = base.as_str().trim_end_matches('/').to_owned();
        base.set_path(&options.dialect.base(&base));
        let mut headers = HeaderMap::new();
        if let Some(key) = &options.api_key {
            let header = options.key_header.unwrap_or(options.dialect.key_header());
            let mut value = HeaderValue::from_str(&header.value(key))
                .map_err(|_| refuse(format!("the key of {name} has characters that no HTTP header can have")))?;
            value.set_sensitive(true);
            headers.insert(header.name(), value);
        }
        let client = Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            .default_headers(headers)
            // Another server has no business with the key.
            .redirect(Policy::none())
            .build()
            .map_err(|error| refuse(format!("there is no HTTP client for {name}: {}", describe(error))))?;
        Ok(Self { client, name, base })
    }

    async fn send(&self, request: &UpstreamRequest) -> Result<Response, BackendError> {
        self.built(request)
            .send()
            .await
            .map_err(|error| BackendError::Unavailable { message: format!("{}: {}", self.name, describe(error)) })
    }

    fn built(&self, request: &UpstreamRequest) -> RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{}", self.base.path(), request.path));
        url.set_query(request.query.as_deref());
        let built = self.client.request(request.method.clone(), url).headers(request.headers.clone());
        if request.body.is_empty() { built } else { built.body(request.body.clone()) }
    }
}

/// An upstream's answer: its head, and its body as it comes. Dropped before its end, it ends the request.
pub struct UpstreamReply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// The URL of the host that gives it.
    pub url: String,
    response: Response,
    /// Its place at the host is held until the end.
    turn: Turn<UpstreamHost>,
}

impl UpstreamReply {
    fn new(mut response: Response, turn: Turn<UpstreamHost>, url: String) -> Self {
        let headers = std::mem::take(response.headers_mut());
        Self { status: response.status(), headers, url, response, turn }
    }

    /// All of the body that has not come yet. Fails where [`UpstreamReply::chunk`] does, and for more than `limit` bytes.
    pub async fn body(&mut self, limit: usize) -> Result<Vec<u8>, BackendError> {
        let mut body = Vec::new();
        while let Some(bytes) = self.chunk().await? {
            body.extend_from_slice(&bytes);
            if body.len() > limit {
                return Err(self.broken(AnswerFault::TooLong { limit }));
            }
        }
        Ok(body)
    }

    /// The error that a fault in the answer is.
    pub fn broken(&self, fault: AnswerFault) -> BackendError {
        BackendError::BrokenAnswer { host: self.url.clone(), fault }
    }

    /// The next bytes of the body, at once when they are there; `None` at its end. Fails if the connection breaks.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BackendError> {
        match self.response.chunk().await {
            Ok(chunk) => Ok(chunk),
            Err(error) => {
                self.turn.decide(false);
                Err(self.broken(AnswerFault::BrokenOff { message: format!(": {}", describe(error)) }))
            }
        }
    }
}
