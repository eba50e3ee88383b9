use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac;
use serde::{Deserialize, Serialize};

use crate::keys::admin_key::new_hmac;
use crate::keys::holder::{KeyHolder, KeyRefused};
use fulgurite_types::time::now;

/// Seconds for which a key that is issued opens its door. An attempt that has ended takes no more calls, however long its
/// key would last.
pub const ISSUED_KEY_SECONDS: u64 = 7 * 24 * 3600;

/// What issued keys begin with, so that people and scanners know them.
const PREFIX: &str = "fgr-";
/// Bytes of the secret, as many as its hash has.
pub(super) const SECRET_BYTES: usize = 32;

/// Makes keys, and knows them again. A key's text is `fgr-CLAIMS.CODE`: what it opens until when, and the HMAC-SHA256
/// of that under the servers' secret, both in base64 for URLs.
#[derive(Clone)]
pub struct IssuedKeys {
    secret: [u8; SECRET_BYTES],
}

impl fmt::Debug for IssuedKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("IssuedKeys(..)")
    }
}

/// The claims in a key.
#[derive(Serialize, Deserialize)]
struct Claims {
    opens: Opens,
    /// Seconds since the epoch.
    expires: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Opens {
    Attempt { rollout_id: String, attempt_id: String },
    Grader { rollout_id: String, attempt_id: String },
    ModelCalls,
    Reader,
    Worker { name: String },
}

impl IssuedKeys {
    /// The keys under a secret.
    pub(super) fn new(secret: [u8; SECRET_BYTES]) -> Self {
        Self { secret }
    }

    /// The key of an attempt's agent, from now on.
    pub fn attempt_key(&self, rollout_id: &str, attempt_id: &str) -> String {
        let (rollout_id, attempt_id) = (rollout_id.to_owned(), attempt_id.to_owned());
        self.key(Opens::Attempt { rollout_id, attempt_id }, now() as u64 + ISSUED_KEY_SECONDS)
    }

    /// The key for the grader of an attempt, from now on; the agent never gets it.
    pub fn grader_key(&self, rollout_id: &str, attempt_id: &str) -> String {
        let (rollout_id, attempt_id) = (rollout_id.to_owned(), attempt_id.to_owned());
        self.key(Opens::Grader { rollout_id, attempt_id }, now() as u64 + ISSUED_KEY_SECONDS)
    }

    /// A key to model calls of any rollout, from now on for `seconds`.
    pub fn model_calls_key(&self, seconds: u64) -> String {
        self.key(Opens::ModelCalls, now() as u64 + seconds)
    }

    /// A key that reads everything and changes nothing, from now on for `seconds`.
    pub fn reader_key(&self, seconds: u64) -> String {
        self.key(Opens::Reader, now() as u64 + seconds)
    }

    /// A key for runners of this name, from now on for `seconds`.
    pub fn worker_key(&self, name: &str, seconds: u64) -> String {
        self.key(Opens::Worker { name: name.to_owned() }, now() as u64 + seconds)
    }

    fn key(&self, opens: Opens, expires: u64) -> String {
        // Texts and numbers can always be written.
        let claims = serde_json::to_vec(&Claims { opens, expires }).unwrap_or_default();
        let claims = URL_SAFE_NO_PAD.encode(claims);
        let code = new_hmac(&self.secret).chain_update(&claims).finalize().into_bytes();
        format!("{PREFIX}{claims}.{}", URL_SAFE_NO_PAD.encode(code))
    }

    /// Who bears a key at that time, in seconds since the epoch.
    pub(super) fn holder(&self, key: &str, now: u64) -> std::result::Result<KeyHolder, KeyRefused> {
        let Claims { opens, expires } = self.claims(key).ok_or(KeyRefused::Unknown)?;
        if expires <= now {
            return Err(KeyRefused::Expired { expired: expires });
        }
        Ok(match opens {
            Opens::Attempt { rollout_id, attempt_id } => KeyHolder::Attempt { rollout_id, attempt_id },
            Opens::Grader { rollout_id, attempt_id } => KeyHolder::Grader { rollout_id, attempt_id },
            Opens::ModelCalls => KeyHolder::ModelCalls,
            Opens::Reader => KeyHolder::Reader,
            Opens::Worker { name } => KeyHolder::Worker { name },
        })
    }

    /// Seconds for which a key goes on to open anything at that time; `None` if it opens nothing, or was not made here.
    pub(super) fn seconds_left(&self, key: &str, now: u64) -> Option<u64> {
        self.claims(key)?.expires.checked_sub(now).filter(|left| *left > 0)
    }

    /// The claims of a key, if it was made under this secret.
    fn claims(&self, key: &str) -> Option<Claims> {
        let (claims, code) = key.strip_prefix(PREFIX)?.split_once('.')?;
        let code = URL_SAFE_NO_PAD.decode(code).ok()?;
        // Takes the same time wherever the two differ.
        new_hmac(&self.secret).chain_update(claims).verify_slice(&code).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: IssuedKeys = IssuedKeys { secret: [7; SECRET_BYTES] };

    fn attempt(rollout_id: &str, attempt_id: &str) -> Opens {
        Opens::Attempt { rollout_id: rollout_id.to_owned(), attempt_id: attempt_id.to_owned() }
    }

    #[test]
    fn a_key_is_the_same_text_for_the_same_claims() {
        // Its second part was computed by Python's hmac.
        let key = KEYS.key(attempt("ro-1", "at-1"), 2_000_000_000);
        let claims = URL_SAFE_NO_PAD
            .encode(r#"{"opens":{"attempt":{"rollout_id":"ro-1","attempt_id":"at-1"}},"expires":2000000000}"#);
        assert_eq!(key, format!("fgr-{claims}.bMCn1Ln-ElG_5fxq-gf8m_QRQe5_1lRVLlgSKA1YTPA"));
    }

    #[test]
    fn a_key_opens_until_its_time_is_over() {
        let key = KEYS.key(Opens::ModelCalls, 100);
        assert_eq!(KEYS.holder(&key, 99), Ok(KeyHolder::ModelCalls));
        assert_eq!(KEYS.holder(&key, 100), Err(KeyRefused::Expired { expired: 100 }));
        assert_eq!((KEYS.seconds_left(&key, 99), KEYS.seconds_left(&key, 100)), (Some(1), None));
        // Of a key that was not issued here, not even its expiry is reported.
        let other = IssuedKeys { secret: [8; SECRET_BYTES] };
        assert_eq!(other.holder(&key, 100), Err(KeyRefused::Unknown));
        assert_eq!(other.seconds_left(&key, 0), None);
    }

    proptest! {
        #[test]
        fn whatever_the_ids_a_key_tells_them_and_can_stand_in_a_header_and_a_url(rollout in ".*", other in ".*") {
            let key = KEYS.key(attempt(&rollout, &other), 100);
            let expected = KeyHolder::Attempt { rollout_id: rollout, attempt_id: other };
            prop_assert_eq!(KEYS.holder(&key, 0), Ok(expected));
            prop_assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)));
        }

        #[test]
        fn a_key_with_any_other_character_is_nobodys(place in 0_usize..1000, character in "[A-Za-z0-9._-]") {
            let key = KEYS.key(attempt("ro-1", "at-1"), 100);
            let place = place % key.len();
            prop_assume!(key[place..=place] != *character);
            let changed = format!("{}{character}{}", &key[..place], &key[place + 1..]);
            prop_assert_eq!(KEYS.holder(&changed, 0), Err(KeyRefused::Unknown));
        }

        #[test]
        fn a_text_that_is_no_key_is_nobodys(text in "(fgr-)?.*") {
            prop_assert_eq!(KEYS.holder(&text, 0), Err(KeyRefused::Unknown));
        }
    }
}
