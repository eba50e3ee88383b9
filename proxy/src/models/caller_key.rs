use axum::http::{Extensions, Method};
use fulgurite_api::{Need, Refused};
use fulgurite_store::{KeyHolder, KeyRefused};

use crate::error::ProxyError;

/// Whose key came with a request, and by which method: for what not every key of its route opens.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallerKey {
    holder: Option<KeyHolder>,
    method: Method,
}

impl CallerKey {
    /// Of a request that was let in; its key's holder is in the extensions.
    pub(crate) fn read(method: &Method, extensions: &Extensions) -> Self {
        Self { holder: extensions.get().cloned(), method: method.clone() }
    }

    /// Whether it is a grader's, or the administrator's, who may do all that a grader may.
    pub(crate) fn is_graders(&self) -> bool {
        matches!(self.holder, Some(KeyHolder::Grader { .. } | KeyHolder::Admin))
    }

    /// Refuses a key that does not open what needs that.
    pub(crate) fn check(&self, need: Need) -> Result<(), ProxyError> {
        let opened = match (&self.holder, need) {
            (_, Need::Nothing) => Ok(()),
            (Some(holder), need) => need.is_met_by(holder, &self.method, None),
            (None, _) => Err(KeyRefused::Unknown),
        };
        opened.map_err(|refused| Refused::from(refused).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_the_admin_key_is_closed_to_others_and_to_none() {
        let with = |holder: Option<KeyHolder>| CallerKey { holder, method: Method::POST };
        let attempt = || KeyHolder::Attempt { rollout_id: "r".into(), attempt_id: "a".into() };
        for key in [None, Some(KeyHolder::Admin), Some(attempt())].map(with) {
            assert!(key.check(Need::Nothing).is_ok(), "{key:?}");
        }
        assert!(with(Some(KeyHolder::Admin)).check(Need::Admin).is_ok());
        for (key, words) in [(Some(attempt()), "the API key of a rollout"), (None, "missing API key")] {
            let refused = with(key).check(Need::Admin).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
