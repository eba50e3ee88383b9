//! The rollout and attempt that a request names: by its path, by its key, by ids in headers, or by its client's session.

use axum::http::{Extensions, HeaderMap};
use fulgurite_api::Refused;
use fulgurite_store::{KeyHolder, KeyRefused};
use fulgurite_types::{SESSION_HEADERS, session_rollout_id};

use crate::error::ProxyError;

const ROLLOUT: &str = "x-rollout-id";
const ATTEMPT: &str = "x-attempt-id";

/// Whose a call is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum CallTarget {
    /// It names none.
    #[default]
    Unnamed,
    /// That attempt's; with no attempt named, the rollout's latest.
    Attempt { rollout_id: String, attempt_id: Option<String> },
    /// Its client's session's.
    Session(ClientSession),
}

impl CallTarget {
    /// Whose turn the call's work takes: its attempt's or its session's, or that of all that name none.
    pub(crate) fn owner(&self) -> String {
        match self {
            Self::Unnamed => String::new(),
            Self::Attempt { rollout_id, attempt_id: Some(attempt_id) } => format!("{rollout_id}/{attempt_id}"),
            Self::Attempt { rollout_id, attempt_id: None } => rollout_id.clone(),
            Self::Session(session) => session.rollout_id.clone(),
        }
    }
}

/// Who makes a call of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallMaker {
    /// Its agent, or who says nothing else.
    #[default]
    Agent,
    /// Its grader, by the grader's key: the call judges the attempt, and is no part of what it did.
    Grader,
}

impl CallMaker {
    /// Reads whose key came with a request; its holder is in the extensions.
    pub(crate) fn read(extensions: &Extensions) -> Self {
        match extensions.get() {
            Some(KeyHolder::Grader { .. }) => Self::Grader,
            Some(
                KeyHolder::Admin
                | KeyHolder::Attempt { .. }
                | KeyHolder::ModelCalls
                | KeyHolder::Reader
                | KeyHolder::Worker { .. },
            )
            | None => Self::Agent,
        }
    }
}

/// A session as its client counts them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientSession {
    /// The header with its name.
    pub(crate) header: &'static str,
    /// The name that its client gave it; `None` if it is no text.
    pub(crate) name: Option<String>,
    /// Follows from the header's name and value, so that every server finds the same.
    pub(crate) rollout_id: String,
}

/// The path of a model call, which may name no rollout.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct CallPath {
    rollout_id: Option<String>,
    attempt_id: Option<String>,
}

impl CallTarget {
    /// Reads path, key and headers, which must not name different ones. The key was checked against the path before; its
    /// holder is in the extensions.
    pub(crate) fn read(path: CallPath, headers: &HeaderMap, extensions: &Extensions) -> Result<Self, ProxyError> {
        let path = match (path.rollout_id, extensions.get()) {
            (
                None,
                Some(KeyHolder::Attempt { rollout_id, attempt_id } | KeyHolder::Grader { rollout_id, attempt_id }),
            ) => return Self::by_key(rollout_id, attempt_id, headers),
            (rollout_id, _) => CallPath { rollout_id, ..path },
        };
        let rollout_id = agreed(path.rollout_id, ROLLOUT, headers)?;
        let attempt_id = agreed(path.attempt_id, ATTEMPT, headers)?;
        match (rollout_id, attempt_id) {
            (Some(rollout_id), attempt_id) => Ok(CallTarget::Attempt { rollout_id, attempt_id }),
            (None, Some(_)) => {
                let why = "an attempt's id is unique within its rollout only";
                Err(ProxyError::invalid(ATTEMPT, format!("{ATTEMPT} needs {ROLLOUT} beside it: {why}")))
            }
            (None, None) => Ok(ClientSession::read(headers).map_or(CallTarget::Unnamed, CallTarget::Session)),
        }
    }

    /// Of a key's rollout. A header may name another of its attempts.
    fn by_key(rollout_id: &str, attempt_id: &str, headers: &HeaderMap) -> Result<Self, ProxyError> {
        if let Some(requested) = id(ROLLOUT, headers)?.filter(|requested| *requested != rollout_id) {
            let other = KeyRefused::OtherRollout { of: rollout_id.to_owned(), requested: requested.to_owned() };
            return Err(Refused::from(other).into());
        }
        let attempt_id = id(ATTEMPT, headers)?.unwrap_or(attempt_id);
        Ok(CallTarget::Attempt { rollout_id: rollout_id.to_owned(), attempt_id: Some(attempt_id.to_owned()) })
    }

    /// The rollout that it names, and to whose records it is confined.
    pub(crate) fn named_rollout(&self) -> Option<&str> {
        match self {
            CallTarget::Attempt { rollout_id, .. } => Some(rollout_id),
            CallTarget::Unnamed | CallTarget::Session(_) => None,
        }
    }
}

impl ClientSession {
    fn read(headers: &HeaderMap) -> Option<Self> {
        let session = |header| {
            let value = headers.get(header).filter(|value| !value.is_empty())?;
            let name = std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned);
            Some(Self { header, name, rollout_id: session_rollout_id(header, value.as_bytes()) })
        };
        SESSION_HEADERS.into_iter().find_map(session)
    }
}

/// The id that path and header name, or one of them.
fn agreed(path: Option<String>, header: &str, headers: &HeaderMap) -> Result<Option<String>, ProxyError> {
    let given = id(header, headers)?;
    if let (Some(path), Some(given)) = (&path, given)
        && path != given
    {
        let message = format!("the path names `{path}`, but {header} names `{given}`");
        return Err(ProxyError::invalid(header, message));
    }
    Ok(path.or(given.map(str::to_owned)))
}

/// A header's id. One that is empty was meant to name something: it is refused, not passed over.
fn id<'h>(header: &str, headers: &'h HeaderMap) -> Result<Option<&'h str>, ProxyError> {
    let mut values = headers.get_all(header).iter();
    let Some(first) = values.next() else { return Ok(None) };
    match first.to_str() {
        Ok(id) if !id.is_empty() && values.all(|other| other == first) => Ok(Some(id)),
        _ => Err(ProxyError::invalid(header, format!("{header} must be one id, in ASCII"))),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn read(path: Option<(&str, &str)>, headers: &[(&'static str, &'static str)]) -> Result<CallTarget, String> {
        read_with(None, path, headers)
    }

    fn read_with(
        key: Option<KeyHolder>,
        path: Option<(&str, &str)>,
        headers: &[(&'static str, &'static str)],
    ) -> Result<CallTarget, String> {
        let (rollout_id, attempt_id) = path.map(|(rollout, attempt)| (rollout.to_owned(), attempt.to_owned())).unzip();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut extensions = Extensions::new();
        if let Some(key) = key {
            extensions.insert(key);
        }
        CallTarget::read(CallPath { rollout_id, attempt_id }, &map, &extensions).map_err(|error| error.to_string())
    }

    fn attempt(rollout_id: &str, attempt_id: Option<&str>) -> Result<CallTarget, String> {
        Ok(CallTarget::Attempt { rollout_id: rollout_id.to_owned(), attempt_id: attempt_id.map(str::to_owned) })
    }

    #[test]
    fn the_path_comes_before_headers_and_ids_before_sessions() {
        let session = ("x-claude-code-session-id", "s");
        assert_eq!(read(None, &[]), Ok(CallTarget::Unnamed));
        assert_eq!(read(Some(("r", "a")), &[session]), attempt("r", Some("a")));
        assert_eq!(read(Some(("r", "a")), &[("x-rollout-id", "r")]), attempt("r", Some("a")));
        assert_eq!(read(None, &[session, ("x-rollout-id", "r")]), attempt("r", None));
        assert_eq!(read(None, &[("x-attempt-id", "a"), ("x-rollout-id", "r")]), attempt("r", Some("a")));
    }

    #[test]
    fn a_key_says_whose_a_call_is_after_the_path_and_before_headers() {
        let key = || Some(KeyHolder::Attempt { rollout_id: "k".into(), attempt_id: "ka".into() });
        let session = ("x-claude-code-session-id", "s");
        assert_eq!(read_with(key(), None, &[session]), attempt("k", Some("ka")));
        assert_eq!(read_with(key(), None, &[("x-rollout-id", "k")]), attempt("k", Some("ka")));
        assert_eq!(read_with(key(), None, &[("x-attempt-id", "kb")]), attempt("k", Some("kb")));
        assert_eq!(read_with(key(), Some(("r", "a")), &[]), attempt("r", Some("a")));
        let graders = KeyHolder::Grader { rollout_id: "k".into(), attempt_id: "ka".into() };
        assert_eq!(read_with(Some(graders), None, &[session]), attempt("k", Some("ka")));
        let other = read_with(key(), None, &[("x-rollout-id", "r")]).unwrap_err();
        assert_eq!(other, "the API key is of the rollout `k`, and opens nothing of `r`");
        for without_attempt in [KeyHolder::Admin, KeyHolder::ModelCalls] {
            assert_eq!(read_with(Some(without_attempt), None, &[("x-rollout-id", "r")]), attempt("r", None));
        }
    }

    #[test]
    fn what_contradicts_itself_or_names_nothing_is_refused_by_name() {
        let path = Some(("r", "a"));
        for (path, headers, expected) in [
            (path, &[("x-rollout-id", "other")] as &[_], "the path names `r`, but x-rollout-id names `other`"),
            (path, &[("x-attempt-id", "other")], "the path names `a`, but x-attempt-id names `other`"),
            (None, &[("x-rollout-id", "")], "x-rollout-id must be one id, in ASCII"),
            (None, &[("x-rollout-id", "r"), ("x-rollout-id", "s")], "x-rollout-id must be one id, in ASCII"),
        ] {
            assert_eq!(read(path, headers), Err(expected.to_owned()));
        }
        assert!(read(None, &[("x-attempt-id", "a")]).unwrap_err().starts_with("x-attempt-id needs x-rollout-id"));
    }

    #[test]
    fn a_session_is_the_same_by_the_same_header_and_value_only() {
        let session = |headers| match read(None, headers) {
            Ok(CallTarget::Session(session)) => session,
            other => panic!("{other:?}"),
        };
        let first = session(&[("session-id", "s"), ("thread-id", "t")]);
        // printf 'session-id\ns' | sha256sum
        assert_eq!(first.rollout_id, "session-29a1264af627fbcaba0e60598aed6b82");
        assert_eq!(first, session(&[("session-id", "s"), ("thread-id", "u")]));
        assert_ne!(first.rollout_id, session(&[("session-id", "t")]).rollout_id);
        assert_ne!(first.rollout_id, session(&[("x-session-id", "s")]).rollout_id);
        assert_eq!(session(&[("session-id", ""), ("thread-id", "t")]).header, "thread-id");
    }
}
