//! Which names a server goes by, and which web pages may ask it: a browser sends whatever a page tells it to, to loopback
//! addresses too.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, bail};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use fulgurite_api::Refused;

use fulgurite_config::declarations::ServerConfig;

/// Seconds for which a browser need not ask again.
const PREFLIGHT_SECONDS: &str = "600";

/// What a page may send, in the answer to a browser's question.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Asked by a browser on behalf of a page of the public web that wants something of a private network.
const ASKS_FOR_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The names of a server, and the origins of other pages that may ask it.
#[derive(Clone, Debug)]
pub(crate) struct WebOrigins {
    /// Names without ports, in lower case; those that the config gives.
    hosts: HashSet<String>,
    /// The host of the address that is listened on, if only its own names are taken.
    listen_host: Option<String>,
    /// Scheme, host and port, in lower case.
    allowed: HashSet<String>,
}

/// Whose page it is that a browser asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// No page's, or one of the server's own.
    Own,
    /// One of another origin, which is allowed.
    Allowed(HeaderValue),
}

impl WebOrigins {
    /// Those of a server that listens on `address`. Beyond loopback any name is taken unless the config gives some, for who
    /// reaches a server there needs a key.
    ///
    /// # Errors
    /// For a name or an origin that no browser sends.
    pub(crate) fn new(config: &ServerConfig, address: SocketAddr) -> Result<Self> {
        let hosts = config.hosts.iter().map(|host| host_name(host)).collect::<Result<HashSet<_>>>()?;
        let allowed = config.cors_origins.iter().map(|origin| page_origin(origin)).collect::<Result<_>>()?;
        let checks = address.ip().is_loopback() || !hosts.is_empty();
        let listen_host = checks.then(|| host_of(&config.listen).to_ascii_lowercase());
        Ok(Self { hosts, listen_host, allowed })
    }

    /// Whose page a request comes from, if it may come at all.
    pub(crate) fn check(&self, request: &Parts) -> Result<Page, Refused> {
        let named = named_hosts(&request.uri, &request.headers);
        if let Some(foreign) = named.iter().find(|host| !self.is_own(host_of(host))) {
            return Err(Refused::ForeignHost { host: shown(host_of(foreign)) });
        }
        let mut origins = request.headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return without_origin(request).map(|()| Page::Own) };
        let text = String::from_utf8_lossy(origin.as_bytes()).to_ascii_lowercase();
        let foreign = Refused::ForeignOrigin { origin: shown(&text) };
        match origins.next() {
            None if self.allowed.contains(&text) => Ok(Page::Allowed(origin.clone())),
            None if self.is_same_origin(&text, &named) => Ok(Page::Own),
            _ => Err(foreign),
        }
    }

    /// The answer to a browser that asks whether a page may ask, if that is what a request is.
    pub(crate) fn preflight(&self, request: &Parts, page: &Page) -> Option<Response> {
        let asks = request.method == Method::OPTIONS
            && request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
            && matches!(page, Page::Allowed(_));
        asks.then(|| {
            let mut response = StatusCode::NO_CONTENT.into_response();
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
            if let Some(wanted) = request.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
                headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
            }
            if request.headers.contains_key(ASKS_FOR_PRIVATE) {
                headers.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
            }
            response
        })
    }

    /// Lets an allowed page read a response.
    pub(crate) fn mark(&self, response: &mut Response, page: &Page) {
        if self.allowed.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        headers.append(header::VARY, HeaderValue::from_name(header::ORIGIN));
        if let Page::Allowed(origin) = page {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        match &self.listen_host {
            None => true,
            Some(listen) => {
                let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
                host == "localhost"
                    || host == *listen
                    || self.hosts.contains(&host)
                    || address.is_ok_and(|address| address.is_loopback())
            }
        }
    }

    /// Whether a page was served under the name and port that it asks for, or under a name that the config gives.
    fn is_same_origin(&self, origin: &str, named: &[String]) -> bool {
        let Some((_, authority)) = origin.split_once("://") else { return false };
        self.hosts.contains(host_of(authority)) || named.iter().any(|host| host.eq_ignore_ascii_case(authority))
    }
}

/// A request without an origin: of no browser, or of one that does not send it with what a page cannot read, such as an
/// image. Such a browser says that it comes from another site; a link that a person follows may.
fn without_origin(request: &Parts) -> Result<(), Refused> {
    let value = |name: &str| request.headers.get(name).map(HeaderValue::as_bytes);
    let is_foreign = matches!(value("sec-fetch-site"), Some(b"cross-site" | b"same-site"));
    match is_foreign && value("sec-fetch-mode") != Some(b"navigate") {
        true => Err(Refused::ForeignOrigin { origin: "another site".to_owned() }),
        false => Ok(()),
    }
}

/// Every host that a request names. None is named by who is no browser.
fn named_hosts(uri: &Uri, headers: &HeaderMap) -> Vec<String> {
    let of_target = uri.authority().map(|authority| authority.as_str().to_owned());
    let of_headers = headers.get_all(header::HOST).iter();
    of_target.into_iter().chain(of_headers.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned())).collect()
}

/// A host and port without the port, as it is written.
fn host_of(authority: &str) -> &str {
    let port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match authority.rsplit_once(':') {
        Some((host, digits)) if port(digits) && (host.ends_with(']') || !host.contains(':')) => host,
        _ => authority,
    }
}

/// So much of what a client sent as an error may repeat.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// A name of `[server] hosts`.
fn host_name(text: &str) -> Result<String> {
    let is_name =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.[]:".contains(&byte));
    if !is_name || host_of(text) != text {
        bail!("server.hosts: {text:?} is no name of a host; write it without scheme, port and path, as `box.local`");
    }
    Ok(text.to_ascii_lowercase())
}

/// An origin of `[server] cors_origins`.
fn page_origin(text: &str) -> Result<String> {
    let origin = text.trim_end_matches('/');
    let is_origin = origin.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty()
            && !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/*?#@".contains(&byte))
    });
    if !is_origin {
        bail!(
            "server.cors_origins: {text:?} is no origin of a page; write scheme, host and port, as `http://localhost:3000`"
        );
    }
    Ok(origin.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn origins(listen: &str, hosts: &[&str], cors: &[&str]) -> Result<WebOrigins> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let config = ServerConfig {
            listen: listen.to_owned(),
            hosts: owned(hosts),
            cors_origins: owned(cors),
            ..ServerConfig::default()
        };
        let address = listen.replace("localhost", "127.0.0.1").parse().unwrap();
        WebOrigins::new(&config, address)
    }

    fn request(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/v1/models");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_server_on_loopback_takes_its_own_names_alone() {
        let own = origins("127.0.0.1:4747", &["Box.local"], &[]).unwrap();
        for host in ["localhost:4747", "LOCALHOST", "127.0.0.1:9", "127.1.2.3", "[::1]:4747", "box.local:80"] {
            assert_eq!(own.check(&request(&[("host", host)])), Ok(Page::Own), "{host}");
        }
        assert_eq!(own.check(&request(&[])), Ok(Page::Own), "who is no browser may name none");
        for host in
            ["evil.example:4747", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.0.7", "[::2]", ""]
        {
            assert!(matches!(own.check(&request(&[("host", host)])), Err(Refused::ForeignHost { .. })), "{host}");
        }
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert!(own.check(&request(&two)).is_err());
        let absolute = Request::builder().uri("http://evil.example/v1").header("host", "localhost").body(()).unwrap();
        assert!(own.check(&absolute.into_parts().0).is_err());
    }

    #[test]
    fn beyond_loopback_names_count_if_some_are_given() {
        let any = origins("0.0.0.0:4747", &[], &[]).unwrap();
        assert_eq!(any.check(&request(&[("host", "box.local:4747")])), Ok(Page::Own));
        let named = origins("0.0.0.0:4747", &["box.local"], &[]).unwrap();
        assert_eq!(named.check(&request(&[("host", "box.local:4747")])), Ok(Page::Own));
        assert!(named.check(&request(&[("host", "evil.example:4747")])).is_err());
    }

    #[test]
    fn a_page_is_own_under_the_name_and_port_that_it_asks_for() {
        let own = origins("127.0.0.1:4747", &["box.local"], &["http://localhost:3000/"]).unwrap();
        let at = |host, origin| own.check(&request(&[("host", host), ("origin", origin)]));
        assert_eq!(at("localhost:4747", "http://localhost:4747"), Ok(Page::Own));
        assert_eq!(at("localhost:9999", "http://LOCALHOST:9999"), Ok(Page::Own), "as through a tunnel");
        assert_eq!(at("127.0.0.1:4747", "https://box.local"), Ok(Page::Own), "as behind a reverse proxy");
        let allowed = Page::Allowed(HeaderValue::from_static("http://localhost:3000"));
        assert_eq!(at("localhost:4747", "http://localhost:3000"), Ok(allowed));
        for origin in ["http://evil.example", "null", "", "http://localhost:8888", "http://127.0.0.1:4747", "file://"] {
            assert!(matches!(at("localhost:4747", origin), Err(Refused::ForeignOrigin { .. })), "{origin}");
        }
    }

    #[test]
    fn what_a_browser_sends_without_an_origin_for_another_site_is_refused_but_a_link_may_be_followed() {
        let own = origins("127.0.0.1:4747", &[], &[]).unwrap();
        let fetched = |site, mode| own.check(&request(&[("sec-fetch-site", site), ("sec-fetch-mode", mode)]));
        assert!(fetched("cross-site", "no-cors").is_err());
        assert!(fetched("same-site", "no-cors").is_err());
        assert_eq!(fetched("cross-site", "navigate"), Ok(Page::Own));
        assert_eq!(fetched("same-origin", "cors"), Ok(Page::Own));
        assert_eq!(fetched("none", "no-cors"), Ok(Page::Own));
    }

    #[test]
    fn what_no_browser_sends_is_refused_in_the_config() {
        for host in ["", "http://box.local", "box.local:80", "a b", "*"] {
            assert!(
                origins("127.0.0.1:1", &[host], &[]).unwrap_err().to_string().starts_with("server.hosts"),
                "{host}"
            );
        }
        for origin in ["", "*", "null", "localhost:3000", "http://", "http://*", "http://a/b"] {
            let error = origins("127.0.0.1:1", &[], &[origin]).unwrap_err().to_string();
            assert!(error.starts_with("server.cors_origins"), "{origin}");
        }
    }
}
