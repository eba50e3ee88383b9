//! Keys: the admin key opens everything; issued keys open one attempt, or model calls alone, for a time. Issued keys are
//! not stored: they are verified by the server's secret.

use crate::keys::admin_key::AdminKey;
use crate::keys::holder::{KeyHolder, KeyRefused};
use crate::keys::issued_keys::IssuedKeys;
use fulgurite_types::time::now;

/// The keys that a server takes.
#[derive(Clone, Debug)]
pub struct Keyring {
    /// The admin key, if one is set.
    pub admin: Option<AdminKey>,
    /// The keys that it issues itself.
    pub issued: IssuedKeys,
}

impl Keyring {
    /// Who bears a key, at this moment.
    pub fn holder(&self, key: &str) -> Result<KeyHolder, KeyRefused> {
        if self.admin.as_ref().is_some_and(|admin| admin.is(key)) {
            return Ok(KeyHolder::Admin);
        }
        self.issued.holder(key, now() as u64)
    }

    /// Seconds until a key opens nothing any more; `None` if it never ends, as the admin key, or opens nothing now.
    pub fn seconds_left(&self, key: &str) -> Option<u64> {
        self.issued.seconds_left(key, now() as u64)
    }
}
