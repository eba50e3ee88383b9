//! Weights that have an identity: which set of weights a version names, and which set is behind a model.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Identity of one set of weights: the first 16 bytes of a SHA-256 digest, written as 32 hexadecimal digits.
///
/// Two sets of weights with the same identity compute the same. What the digest is taken of depends on where the weights
/// come from: files, or an update of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct WeightsId([u8; 16]);

impl WeightsId {
    /// The identity that begins with these bytes of a digest.
    pub fn of_digest(digest: [u8; 32]) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Self(id)
    }

    /// Its bytes, as they go into the digest of an update's weights.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for WeightsId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for WeightsId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A text is no identity of weights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no identity of weights, which is 32 lower-case hexadecimal digits")]
pub struct NoWeightsId(String);

impl FromStr for WeightsId {
    type Err = NoWeightsId;

    fn from_str(text: &str) -> Result<Self, NoWeightsId> {
        let mut id = [0; 16];
        let is_read = hex::decode_to_slice(text, &mut id).is_ok();
        let has_capitals = text.bytes().any(|byte| byte.is_ascii_uppercase());
        if is_read && !has_capitals { Ok(Self(id)) } else { Err(NoWeightsId(text.to_owned())) }
    }
}

impl TryFrom<String> for WeightsId {
    type Error = NoWeightsId;

    fn try_from(text: String) -> Result<Self, NoWeightsId> {
        text.parse()
    }
}

impl From<WeightsId> for String {
    fn from(id: WeightsId) -> Self {
        id.to_string()
    }
}

/// Weights that are to have a version in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewNamedWeights {
    /// What agents send in `model`.
    pub model: String,
    /// Which weights.
    pub weights_id: WeightsId,
    /// The weights that they were made of, if they were made by an update.
    pub parent_id: Option<WeightsId>,
    /// The run that made them, if one did.
    pub run_id: Option<String>,
    /// Updates of that run behind them.
    pub step: Option<u64>,
    /// The version that they get, unless other weights of the model have it.
    pub preferred_version: u64,
}

impl NewNamedWeights {
    /// Weights that no run made.
    pub fn of_no_run(model: &str, weights_id: WeightsId, preferred_version: u64) -> Self {
        let model = model.to_owned();
        Self { model, weights_id, parent_id: None, run_id: None, step: None, preferred_version }
    }
}

/// Weights that have a version in a store. A version of a model names one set of weights for ever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedWeights {
    /// What agents send in `model`.
    pub model: String,
    /// What tokens sampled from them are recorded with.
    pub version: u64,
    /// Which weights.
    pub weights_id: WeightsId,
    /// The weights that they were made of, if they were made by an update.
    pub parent_id: Option<WeightsId>,
    /// The run that made them, if one did.
    pub run_id: Option<String>,
    /// Updates of that run behind them.
    pub step: Option<u64>,
    /// When they got their version.
    pub time: f64,
}

/// What a publication may take the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replaces {
    /// Whatever is behind the model.
    Anything,
    /// An older version, or nothing.
    Older,
    /// The weights of this version alone; without a publication, those that a server began with under it.
    Version(u64),
}

impl Replaces {
    /// Whether weights of this version may take the place of those of version `current`.
    pub fn allows(self, version: u64, current: u64) -> bool {
        match self {
            Self::Anything => true,
            Self::Older => current < version,
            Self::Version(expected) => current == expected,
        }
    }
}

/// Why weights were put behind a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublicationCause {
    /// A run made them, or somebody who trains elsewhere.
    Update,
    /// A person took the model back to them.
    Rollback,
}

/// What becomes of a version that is published again, and not with the files that it was published with before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherFiles {
    /// It is not published.
    Refuse,
    /// It is published with them: the run that made the version has made the same update again.
    Accept,
}

/// The files of a version, as it was published.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedFiles {
    /// Where they were, in the words of whoever serves the model.
    pub source: Value,
    /// Their fingerprint, as far as a server could read them.
    pub files_id: Option<WeightsId>,
    /// The whole weights that an adapter is over, if they were named.
    pub base_id: Option<WeightsId>,
}

impl PublishedFiles {
    /// Whether these may be the same files, over the same base. What cannot be read is known by where it is.
    pub fn are(&self, source: &Value, files_id: Option<WeightsId>, base_id: Option<WeightsId>) -> bool {
        let has_same_files = match (self.files_id, files_id) {
            (Some(known), Some(new)) => known == new,
            (None, _) | (_, None) => self.source == *source,
        };
        has_same_files && self.has_base(base_id)
    }

    /// Whether these files, or others if those are accepted, may be what the version was published with.
    pub fn admit(
        &self,
        other: OtherFiles,
        source: &Value,
        files_id: Option<WeightsId>,
        base_id: Option<WeightsId>,
    ) -> bool {
        match other {
            OtherFiles::Refuse => self.are(source, files_id, base_id),
            OtherFiles::Accept => self.has_base(base_id),
        }
    }

    /// Whether an adapter over this base may be the same.
    pub fn has_base(&self, base_id: Option<WeightsId>) -> bool {
        self.base_id.is_none() || base_id.is_none() || self.base_id == base_id
    }
}

/// Weights to be put behind a model at every server of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewPublication {
    /// What agents send in `model`.
    pub model: String,
    /// A version that has a name.
    pub version: u64,
    /// Where the weights are, in the words of whoever serves the model.
    pub source: Value,
    /// Fingerprint of the files that were there; `None` where they could not be read, and for weights that a host keeps.
    pub files_id: Option<WeightsId>,
    /// The whole weights that an adapter is over; `None` for the model that a server was started with, and for whole weights.
    pub base_id: Option<WeightsId>,
    /// Whether the version may have other files than those that it was published with before.
    pub other_files: OtherFiles,
    /// What they may take the place of.
    pub replaces: Replaces,
    /// Why they are put there.
    pub cause: PublicationCause,
}

/// Weights that were put behind a model at every server of a store. The newest of a model is in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Publication {
    /// Its place among all publications of the store.
    pub position: u64,
    /// Which weights, with their version.
    #[serde(flatten)]
    pub weights: NamedWeights,
    /// Where the weights are, in the words of whoever serves the model.
    pub source: Value,
    /// Fingerprint of the files that were there; `None` where they could not be read, and for weights that a host keeps.
    pub files_id: Option<WeightsId>,
    /// The whole weights that an adapter is over; `None` for the model that a server was started with, and for whole weights.
    #[serde(default)]
    pub base_id: Option<WeightsId>,
    /// Why they were put there.
    pub cause: PublicationCause,
    /// When they were put there.
    pub published_time: f64,
}

/// How far a server has got with the weights that are published for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServingState {
    /// It samples from them.
    Serving,
    /// It is loading them.
    Loading,
    /// It could not load them, and samples from those that it had.
    Behind,
    /// It could not load them, and takes no calls.
    Refusing,
}

impl ServingState {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Loading => "loading",
            Self::Behind => "behind",
            Self::Refusing => "refusing",
        }
    }
}

/// What a server samples a model from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServedWeights {
    /// One process of a server.
    pub server_id: String,
    /// Where that process listens.
    pub url: String,
    /// What agents send in `model`.
    pub model: String,
    /// The version that it samples from, where that is known.
    pub version: Option<u64>,
    /// How far it has got.
    pub state: ServingState,
    /// Why it could not load what is published.
    pub message: Option<String>,
    /// When it last said so.
    pub time: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_of_weights_reads_as_it_is_written() {
        let mut digest = [0; 32];
        digest[0] = 0xa0;
        digest[15] = 1;
        let id = WeightsId::of_digest(digest);
        assert_eq!(id.to_string(), "a0000000000000000000000000000001");
        assert_eq!(id.to_string().parse(), Ok(id));
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(
            (json.as_str(), serde_json::from_str::<WeightsId>(&json).unwrap()),
            ("\"a0000000000000000000000000000001\"", id)
        );
        for other in [
            "",
            "a0",
            "A0000000000000000000000000000001",
            "a000000000000000000000000000000g",
            "é0000000000000000000000000000001",
        ] {
            assert!(other.parse::<WeightsId>().is_err(), "{other}");
        }
    }
}
