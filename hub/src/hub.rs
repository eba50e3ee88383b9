//! The hub's HTTP: what a repository holds, and its files.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use reqwest::header::{AUTHORIZATION, ETAG, HeaderMap, HeaderValue, LOCATION, RANGE, RETRY_AFTER};
use reqwest::{Certificate, Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::Deserialize;

use crate::digest::Digest;
use crate::patience::{Patience, Trouble, Waiting};
use crate::selection::HubFile;
use crate::source::ModelSource;

/// Where models are, unless `HF_ENDPOINT` says otherwise.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// In the environment: another hub.
const ENDPOINT: &str = "HF_ENDPOINT";
/// In the environment: who asks.
const TOKEN: &str = "HF_TOKEN";
/// In the environment: a file of certificates to trust beside the usual ones, as of a network that looks into TLS.
const CERTIFICATES: &str = "SSL_CERT_FILE";

/// A listing of more bytes is not read.
const LONGEST_LISTING: usize = 64 << 20;
/// More redirects in a row lead nowhere.
const MOST_REDIRECTS: usize = 10;
/// So long a host may be silent.
const SILENCE: Duration = Duration::from_secs(60);

/// A model at a hub.
pub(crate) struct Hub {
    source: ModelSource,
    endpoint: Url,
    token: Option<HeaderValue>,
    client: Client,
    /// Hears of tries that will be made again.
    waiting: Waiting,
}

/// What a model's repository holds at one commit.
pub(crate) struct Listing {
    /// The commit.
    pub(crate) commit: String,
    /// Its files.
    pub(crate) files: Vec<HubFile>,
}

/// An answer, and what the hub itself said on the way to it.
pub(crate) struct Answer {
    /// The answer, of whichever host.
    pub(crate) response: Response,
    /// The file's size by the hub.
    size: Option<u64>,
    /// The file's digest by the hub.
    digest: Option<Digest>,
}

#[derive(Deserialize)]
struct Repository {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    sha256: Option<String>,
    size: Option<u64>,
}

impl From<Sibling> for HubFile {
    fn from(sibling: Sibling) -> Self {
        let of_large = sibling.lfs.as_ref().map(|large| large.sha256.as_deref().and_then(Digest::from_digits));
        // Git's id of a large file is that of the note which stands for it.
        let digest = of_large.unwrap_or_else(|| sibling.blob_id.as_deref().and_then(Digest::from_digits));
        let size = sibling.lfs.and_then(|large| large.size).or(sibling.size);
        Self { path: sibling.rfilename, size, digest }
    }
}

impl Hub {
    /// The hub and the token that the environment names.
    pub(crate) fn from_environment(source: ModelSource, waiting: Waiting) -> Result<Self> {
        let named = std::env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.is_empty());
        let endpoint = endpoint(named.as_deref().unwrap_or(DEFAULT_ENDPOINT))?;
        let token =
            std::env::var(TOKEN).ok().filter(|token| !token.is_empty()).map(|token| bearer(&token)).transpose()?;
        ensure!(
            token.is_none() || endpoint.scheme() == "https" || is_loopback(&endpoint),
            "{TOKEN} would go to {endpoint} in the clear: name an https address in {ENDPOINT}, or unset {TOKEN}"
        );
        let client = certificates()?
            .into_iter()
            .fold(Client::builder(), ClientBuilder::add_root_certificate)
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_secs(30))
            .read_timeout(SILENCE)
            .user_agent(concat!("fulgurite/", env!("CARGO_PKG_VERSION")));
        Ok(Self { source, endpoint, token, client: client.build().context("there is no HTTP client")?, waiting })
    }

    /// What the repository holds at the revision that was asked for.
    pub(crate) async fn listing(&self) -> Result<Listing> {
        let mut url =
            self.url(["api", "models", &self.source.owner, &self.source.name, "revision", &self.source.revision]);
        url.set_query(Some("blobs=true"));
        let mut patience = Patience::default();
        let bytes = loop {
            match self.listing_bytes(&url).await {
                Ok(bytes) => break bytes,
                Err(trouble) => self.wait(&mut patience, trouble).await?,
            }
        };
        let unreadable = || format!("{} tells of {} what cannot be read", self.endpoint, self.source);
        let repository: Repository = serde_json::from_slice(&bytes).with_context(unreadable)?;
        ensure!(
            matches!(Digest::from_digits(&repository.sha), Some(Digest::GitBlob(_))),
            "{}: the commit {:?} is none",
            unreadable(),
            repository.sha
        );
        Ok(Listing { commit: repository.sha, files: repository.siblings.into_iter().map(HubFile::from).collect() })
    }

    async fn listing_bytes(&self, url: &Url) -> Result<Vec<u8>, Trouble> {
        let mut response = self.request(Method::GET, url.clone(), 0).await?.response;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(Trouble::broken)? {
            if bytes.len() + chunk.len() > LONGEST_LISTING {
                return Err(Trouble::Lasting(anyhow!("the listing of {} is too long", self.source)));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Adds what the listing left out of a file.
    pub(crate) async fn complete(&self, commit: &str, file: &mut HubFile) -> Result<()> {
        if file.size.is_some() && file.digest.is_some() {
            return Ok(());
        }
        let mut patience = Patience::default();
        let answer = loop {
            match self.request(Method::HEAD, self.file_url(commit, &file.path), 0).await {
                Ok(answer) => break answer,
                Err(trouble) => self.wait(&mut patience, trouble).await?,
            }
        };
        file.size = file.size.or(answer.size).or_else(|| number(answer.response.headers(), "content-length"));
        file.digest = file.digest.take().or(answer.digest);
        Ok(())
    }

    /// Asks for a file from a place on.
    pub(crate) async fn file(&self, commit: &str, path: &str, from: u64) -> Result<Answer, Trouble> {
        self.request(Method::GET, self.file_url(commit, path), from).await
    }

    /// Waits before the next try, or gives up.
    pub(crate) async fn wait(&self, patience: &mut Patience, trouble: Trouble) -> Result<()> {
        patience.wait_after(trouble, &self.waiting).await
    }

    fn file_url(&self, commit: &str, path: &str) -> Url {
        let beginning = [self.source.owner.as_str(), &self.source.name, "resolve", commit];
        self.url(beginning.into_iter().chain(path.split('/')))
    }

    fn url<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// Follows redirects by itself: what the hub says of a file stands in the first answer, and the token is for no other
    /// host.
    async fn request(&self, method: Method, url: Url, from: u64) -> Result<Answer, Trouble> {
        let (mut url, mut size, mut digest) = (url, None, None);
        for _ in 0..=MOST_REDIRECTS {
            let request = self.addressed(self.client.request(method.clone(), url.clone()), &url, from);
            let response = request.send().await.map_err(Trouble::broken)?;
            if self.is_own(&url) {
                size = size.or_else(|| number(response.headers(), "x-linked-size"));
                digest = digest.or_else(|| stated_digest(response.headers()));
            }
            if response.status().is_redirection() {
                url = next_url(&url, response.headers()).map_err(Trouble::Lasting)?;
            } else if response.status().is_success() {
                return Ok(Answer { response, size, digest });
            } else {
                return Err(self.refusal(&url, &response));
            }
        }
        Err(Trouble::Lasting(anyhow!("{} redirects in a circle: {MOST_REDIRECTS} were followed", host(&url))))
    }

    fn addressed(&self, request: RequestBuilder, url: &Url, from: u64) -> RequestBuilder {
        let request = if from > 0 { request.header(RANGE, format!("bytes={from}-")) } else { request };
        match &self.token {
            Some(token) if self.is_own(url) => request.header(AUTHORIZATION, token.clone()),
            _ => request,
        }
    }

    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin()
    }

    /// What an answer that is none means, and what can be done about it.
    fn refusal(&self, url: &Url, response: &Response) -> Trouble {
        let (status, headers) = (response.status(), response.headers());
        let passing = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
        // Addresses at other hosts are signed for a while only, and a new one is to be had.
        if passing || (!self.is_own(url) && matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)) {
            let wait = number(headers, RETRY_AFTER.as_str()).map(Duration::from_secs);
            return Trouble::Passing { error: anyhow!("{} answers {status}", host(url)), wait };
        }
        Trouble::Lasting(anyhow!("{}{}", self.meaning(url, status, headers), hub_message(headers)))
    }

    fn meaning(&self, url: &Url, status: StatusCode, headers: &HeaderMap) -> String {
        let Self { source, endpoint, .. } = self;
        let page = self.url([source.owner.as_str(), &source.name]);
        let code = headers.get("x-error-code").and_then(|code| code.to_str().ok()).unwrap_or_default();
        let token_page = self.url(["settings", "tokens"]);
        match (status, code) {
            (StatusCode::NOT_FOUND, "RevisionNotFound") => format!("{source} has no revision {:?}", source.revision),
            (StatusCode::UNAUTHORIZED, _) if self.token.is_none() => format!(
                "{endpoint} shows no {source} to strangers: either the name is wrong, or the model is gated or private. \
                 Then accept its terms at {page} and set {TOKEN} to a token from {token_page}"
            ),
            (StatusCode::UNAUTHORIZED, _) => {
                format!(
                    "{endpoint} does not take {TOKEN} for {source}: is it right, of {token_page}, and the name too?"
                )
            }
            (StatusCode::FORBIDDEN, _) => format!(
                "{endpoint} does not let {} have {source}: accept the model's terms at {page}, and see that the token \
                 may read gated repositories ({token_page})",
                if self.token.is_some() { format!("the owner of {TOKEN}") } else { "strangers".to_owned() }
            ),
            (StatusCode::NOT_FOUND, _) => {
                format!("{endpoint} has no {source} at {:?} ({})", source.revision, url.path())
            }
            _ => format!("{} answers {status}", host(url)),
        }
    }
}

fn endpoint(address: &str) -> Result<Url> {
    let url = Url::parse(address).with_context(|| format!("{ENDPOINT} is {address:?}, which is no address"))?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.host().is_some();
    ensure!(is_http && url.query().is_none(), "{ENDPOINT} is {address:?}, but must be like {DEFAULT_ENDPOINT}");
    Ok(url)
}

fn certificates() -> Result<Vec<Certificate>> {
    let Some(file) = std::env::var_os(CERTIFICATES).filter(|file| !file.is_empty()) else { return Ok(vec![]) };
    let context = || format!("{CERTIFICATES} is {}: no certificates can be read there", Path::new(&file).display());
    let bundle = std::fs::read(&file).with_context(context)?;
    let found = Certificate::from_pem_bundle(&bundle).with_context(context)?;
    ensure!(!found.is_empty(), "{}", context());
    Ok(found)
}

fn bearer(token: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
        .map_err(|_| anyhow!("{TOKEN} holds characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A redirect's target, which must be no less private than where it comes from.
fn next_url(url: &Url, headers: &HeaderMap) -> Result<Url> {
    let Some(location) = headers.get(LOCATION).and_then(|location| location.to_str().ok()) else {
        bail!("{} redirects to nowhere", host(url));
    };
    let next = url.join(location).with_context(|| format!("{} redirects to what is no address", host(url)))?;
    let allowed = next.scheme() == "https" || (next.scheme() == "http" && url.scheme() == "http");
    ensure!(allowed, "{} redirects from https to {}, which is not followed", host(url), next.scheme());
    Ok(next)
}

/// The file's digest by the hub, in the header for large files or the one for others.
fn stated_digest(headers: &HeaderMap) -> Option<Digest> {
    let linked = headers.get("x-linked-etag").or_else(|| headers.get(ETAG))?;
    Digest::from_etag(linked.to_str().ok()?)
}

/// A header that is a number.
fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// The host alone: the rest of an address may be signed.
fn host(url: &Url) -> String {
    url.host_str().unwrap_or("the hub").to_owned()
}

/// What the hub itself says, as far as it can be shown on a terminal.
fn hub_message(headers: &HeaderMap) -> String {
    let Some(message) = headers.get("x-error-message") else { return String::new() };
    let text = String::from_utf8_lossy(message.as_bytes());
    let shown: String = text.chars().filter(|c| !c.is_control()).take(300).collect();
    format!(" (it says: {shown})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_leads_from_https_to_http() {
        let next = |from: &str, to: &'static str| {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(to))]);
            next_url(&Url::parse(from).unwrap(), &headers)
        };
        assert_eq!(next("https://hub.example/a/b", "/c").unwrap().as_str(), "https://hub.example/c");
        assert_eq!(
            next("http://hub.example/a", "https://other.example/c").unwrap().as_str(),
            "https://other.example/c"
        );
        for to in ["http://hub.example/c", "file:///etc/passwd", "ftp://x/y"] {
            assert!(next("https://hub.example/a", to).is_err(), "{to}");
        }
    }

    #[test]
    fn a_token_goes_in_the_clear_to_this_machine_alone() {
        let loopback = |url: &str| is_loopback(&Url::parse(url).unwrap());
        assert!(loopback("http://127.0.0.1:8000") && loopback("http://[::1]:8000") && loopback("http://localhost"));
        assert!(!loopback("http://hub.example") && !loopback("http://127.0.0.1.hub.example"));
    }

    #[test]
    fn git_s_id_of_a_large_file_s_note_is_not_taken_for_the_file_s() {
        let sibling = |text: &str| HubFile::from(serde_json::from_str::<Sibling>(text).unwrap());
        let (git, sha256) = ("a".repeat(40), "b".repeat(64));
        let large = format!(
            r#"{{"rfilename":"x","size":5,"blobId":"{git}","lfs":{{"sha256":"{sha256}","size":7,"pointerSize":3}}}}"#
        );
        assert_eq!(sibling(&large), HubFile { path: "x".into(), size: Some(7), digest: Some(Digest::Sha256(sha256)) });
        let odd = format!(r#"{{"rfilename":"x","blobId":"{git}","lfs":{{}}}}"#);
        assert_eq!(sibling(&odd), HubFile { path: "x".into(), size: None, digest: None });
        let small = format!(r#"{{"rfilename":"x","size":5,"blobId":"{git}"}}"#);
        assert_eq!(sibling(&small), HubFile { path: "x".into(), size: Some(5), digest: Some(Digest::GitBlob(git)) });
    }
}
