//! Files encrypted to X25519 recipients in age's format (age-encryption.org/v1), which the SDK's and the cookbook's downloads
//! decrypt.

mod bech32;
mod encryption;
mod recipient;

pub(crate) use encryption::encrypt;
pub(crate) use recipient::Recipient;
