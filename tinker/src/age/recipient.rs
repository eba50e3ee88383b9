use std::str::FromStr;

use super::bech32;

/// What the text of a recipient begins with.
const PREFIX: &str = "age";

/// The public half of an X25519 identity of age (`age1...`): whoever has the other half reads what is encrypted to it.
#[derive(Clone, Debug)]
pub(crate) struct Recipient {
    text: String,
    /// The point of the curve, as RFC 7748 writes it.
    pub(super) key: [u8; 32],
}

/// A text that is no recipient.
#[derive(Debug)]
pub(crate) struct NoRecipient;

impl FromStr for Recipient {
    type Err = NoRecipient;

    fn from_str(text: &str) -> Result<Self, NoRecipient> {
        let bytes = bech32::decode(text, PREFIX).ok_or(NoRecipient)?;
        let key = bytes.try_into().map_err(|_| NoRecipient)?;
        Ok(Self { text: text.to_owned(), key })
    }
}

impl Recipient {
    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}
