//! A server's routes, asked with patience: one that is out of reach is asked again until it answers.

use std::fmt::{self, Debug, Formatter};
use std::time::{Duration, Instant};

use fulgurite_types::Backoff;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::ServerError;
use crate::error::describe;
use crate::reply::Reply;

/// How long a request may take, unless its route takes longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a model's hosts may take for new weights: calls under way may end first.
const LOADING_TIMEOUT: Duration = Duration::from_secs(3600);

/// The pause before the second try of a request, doubled for each further one up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long weights are posted again that the server cannot read: a network's file system may show new files late.
const UNREAD_PATIENCE: Duration = Duration::from_secs(60);

/// How often it is told that a server is out of reach.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Where a server is, and how it is asked.
#[derive(Clone)]
pub struct ServerOptions {
    /// Its base URL, such as `http://127.0.0.1:4747`.
    pub url: String,
    /// Its admin key, if it has one.
    pub admin_key: Option<String>,
    /// How long it may be out of reach before that is an error.
    pub patience: Duration,
    /// Bytes that an answer may have.
    pub reply_limit: usize,
}

/// A server, as whoever has its admin key sees it.
#[derive(Clone)]
pub struct Server {
    base: Url,
    client: Client,
    options: ServerOptions,
}

/// Why a try got no answer.
enum Failure {
    /// Another may.
    Passing { reason: String, may_have_arrived: bool },
    /// None will.
    Lasting(ServerError),
}

/// Without the key.
impl Debug for Server {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("url", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Server {
    /// A server; nothing is sent yet.
    pub fn new(options: ServerOptions) -> Result<Self, ServerError> {
        let wrong = |url: &str, reason: &str| ServerError::Url { url: url.to_owned(), reason: reason.to_owned() };
        let base = Url::parse(&options.url).map_err(|error| wrong(&options.url, &error.to_string()))?;
        let Some(host) = base.host_str().filter(|_| !base.cannot_be_a_base()) else {
            return Err(wrong(&options.url, "it has no host"));
        };
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong(host, "it must hold no key: the admin key's place is FULGURITE_ADMIN_KEY"));
        }
        // Whoever it points to must not get the key.
        let client = Client::builder().redirect(Policy::none()).build();
        let client = client.map_err(|error| ServerError::Client { reason: error.to_string() })?;
        Ok(Self { base, client, options })
    }

    /// The server's base URL, without a slash at its end.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// What its requests are sent by. Whoever uses it itself has no patience and no key.
    pub fn http(&self) -> &Client {
        &self.client
    }

    /// The URL of a route, given by the segments of its path.
    pub fn route(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        // `new` has seen to it that the URL has a path.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// What a route gives.
    pub(crate) async fn get<T: DeserializeOwned>(&self, url: &Url) -> Result<T, ServerError> {
        let reply = self.send(url, self.request(Method::GET, url)).await?;
        reply.read(url)
    }

    /// What a route gives, if there is such a thing.
    pub(crate) async fn find<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, ServerError> {
        let reply = self.send(url, self.request(Method::GET, url)).await?;
        match reply.status {
            StatusCode::NOT_FOUND if reply.is_not_found() => Ok(None),
            _ => reply.read(url),
        }
    }

    /// What a route answers to a body. The server takes what it is told twice for told once.
    pub(crate) async fn post<T: DeserializeOwned>(&self, url: &Url, body: &impl Serialize) -> Result<T, ServerError> {
        let reply = self.send(url, self.request(Method::POST, url).json(body)).await?;
        reply.read(url)
    }

    /// As [`Server::post`], of new weights for a model, whose files are at `path`.
    pub(crate) async fn post_weights<T: DeserializeOwned>(
        &self,
        url: &Url,
        body: &impl Serialize,
        path: Option<&str>,
    ) -> Result<T, ServerError> {
        let mut unread_since = None;
        loop {
            let unread = |reply: &Reply| path.is_some_and(|path| reply.has_unread_weights(path));
            let reply = self.send_until(url, self.weights_request(url, body), unread).await?;
            let Some(path) = path.filter(|path| reply.has_unread_weights(path)) else { return reply.read(url) };
            let since = *unread_since.get_or_insert_with(Instant::now);
            if since.elapsed() + LONGEST_PAUSE > UNREAD_PATIENCE.min(self.options.patience) {
                let (url, path, message) = (self.url().to_owned(), path.to_owned(), reply.message());
                return Err(ServerError::UnreadWeights { url, path, message });
            }
            sleep(LONGEST_PAUSE).await;
        }
    }

    /// Tells a route something that it has no answer to.
    pub(crate) async fn tell(&self, url: &Url, body: &impl Serialize) -> Result<(), ServerError> {
        let reply = self.send(url, self.request(Method::POST, url).json(body)).await?;
        reply.accepted(url).map(|_| ())
    }

    pub(crate) fn request(&self, method: Method, url: &Url) -> RequestBuilder {
        self.request_with_key(method, url, self.options.admin_key.as_deref())
    }

    /// As [`Server::request`], with another key than the admin's.
    pub(crate) fn request_with_key(&self, method: Method, url: &Url, key: Option<&str>) -> RequestBuilder {
        let request = self.client.request(method, url.clone()).timeout(REQUEST_TIMEOUT);
        match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// The admin key, if there is one.
    pub(crate) fn admin_key(&self) -> Option<&str> {
        self.options.admin_key.as_deref()
    }

    fn weights_request(&self, url: &Url, body: &impl Serialize) -> RequestBuilder {
        self.request(Method::POST, url).json(body).timeout(LOADING_TIMEOUT)
    }

    /// Sends a request once, and waits for up to `limit`.
    pub(crate) async fn send_once(
        &self,
        url: &Url,
        request: RequestBuilder,
        limit: Duration,
    ) -> Result<Reply, ServerError> {
        self.receive(url, request.timeout(limit), |_| false).await.map_err(|failure| match failure {
            Failure::Lasting(error) => error,
            Failure::Passing { reason, .. } => {
                ServerError::Unreachable { url: url.to_string(), patience: limit, reason }
            }
        })
    }

    /// Sends a request until the server answers it.
    pub(crate) async fn send(&self, url: &Url, request: RequestBuilder) -> Result<Reply, ServerError> {
        self.send_until(url, request, |_| false).await
    }

    /// As [`Server::send`]; what `is_answer` knows for an answer is one, although its status is that of a passing failure.
    async fn send_until(
        &self,
        url: &Url,
        request: RequestBuilder,
        is_answer: impl Fn(&Reply) -> bool,
    ) -> Result<Reply, ServerError> {
        let (mut since, mut warned) = (None, None::<Instant>);
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut earlier_lost = false;
        loop {
            let unreachable = |reason: &str| ServerError::Unreachable {
                url: url.to_string(),
                patience: self.options.patience,
                reason: reason.to_owned(),
            };
            let Some(attempt) = request.try_clone() else { return Err(unreachable("its body can be sent only once")) };
            let reason = match self.receive(url, attempt, &is_answer).await {
                Ok(reply) => return Ok(Reply { earlier_lost, ..reply }),
                Err(Failure::Lasting(error)) => return Err(error),
                Err(Failure::Passing { reason, may_have_arrived }) => {
                    earlier_lost |= may_have_arrived;
                    reason
                }
            };
            let since = *since.get_or_insert_with(Instant::now);
            if since.elapsed() + backoff.peek() > self.options.patience {
                return Err(unreachable(&reason));
            }
            if warned.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL) {
                tracing::warn!(%url, reason, "the server is out of reach; it is asked again until it answers");
                warned = Some(Instant::now());
            }
            sleep(backoff.pause()).await;
        }
    }

    /// Sends a request once.
    async fn receive(
        &self,
        url: &Url,
        request: RequestBuilder,
        is_answer: impl Fn(&Reply) -> bool,
    ) -> Result<Reply, Failure> {
        let passing = |error: reqwest::Error| Failure::Passing {
            may_have_arrived: !error.is_connect(),
            reason: describe(&error),
        };
        let mut response = request.send().await.map_err(passing)?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(passing)? {
            if body.len() + chunk.len() > self.options.reply_limit {
                let limit = self.options.reply_limit;
                return Err(Failure::Lasting(ServerError::TooLarge { url: url.to_string(), limit }));
            }
            body.extend_from_slice(&chunk);
        }
        let reply = Reply { status, headers, body, earlier_lost: false };
        let is_passing =
            status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        if is_passing && !is_answer(&reply) {
            let reason = format!("it answered {status}: {}", reply.message());
            return Err(Failure::Passing { reason, may_have_arrived: true });
        }
        Ok(reply)
    }

    /// An answer that is well made and cannot be right.
    pub(crate) fn wrong(&self, url: &Url, reason: impl Into<String>) -> ServerError {
        ServerError::Reply { url: url.to_string(), reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn server(url: &str) -> Result<Server, ServerError> {
        let url = url.to_owned();
        Server::new(ServerOptions { url, admin_key: None, patience: Duration::ZERO, reply_limit: 1 })
    }

    #[test]
    fn routes_follow_the_base_url_and_ids_cannot_leave_their_segment() {
        let server = server("http://host:1/prefix/").unwrap();
        assert_eq!(server.route(&["v1", "runs"]).as_str(), "http://host:1/prefix/v1/runs");
        assert_eq!(server.route(&["runs", "a/b?c", "uses"]).as_str(), "http://host:1/prefix/runs/a%2Fb%3Fc/uses");
        assert_eq!(server.url(), "http://host:1/prefix");
    }

    #[test]
    fn new_weights_are_waited_for_longer_than_other_answers() {
        let server = server("http://host:1").unwrap();
        let url = server.route(&["v1", "fulgurite", "models", "m", "weights"]);
        let limit = |request: RequestBuilder| request.build().unwrap().timeout().copied();
        assert_eq!(limit(server.request(Method::POST, &url)), Some(REQUEST_TIMEOUT));
        assert_eq!(limit(server.weights_request(&url, &Value::Null)), Some(LOADING_TIMEOUT));
    }

    #[test]
    fn what_is_no_servers_url_is_refused_without_telling_a_key() {
        for url in ["", "localhost:4747", "mailto:someone", "/v1"] {
            assert!(matches!(server(url), Err(ServerError::Url { .. })), "{url}");
        }
        let message = server("http://any:opens-all@host:4747").err().unwrap().to_string();
        assert!(message.contains("FULGURITE_ADMIN_KEY") && !message.contains("opens-all"), "{message}");
    }
}
