//! What posted weights may replace, and with which files.

use fulgurite_backends::WeightsSource;
use fulgurite_store::{Store, StoreError};
use fulgurite_types::{NamedWeights, OtherFiles, Publication, PublishedFiles, Replaces, WeightsId, WeightsVersion};
use serde_json::json;

use crate::error::ProxyError;

/// The place behind a model, and what posted weights may replace there.
pub(super) struct Place<'a> {
    pub(super) model: &'a str,
    pub(super) replaces: Replaces,
    pub(super) current: Option<&'a Publication>,
    /// Of the weights that the server started with, where nothing was published.
    pub(super) started_with: Option<WeightsVersion>,
}

impl Place<'_> {
    /// Refuses weights that may not take it. Their version may not be known yet.
    pub(super) fn check(&self, version: Option<u64>) -> Result<(), ProxyError> {
        let (found, current) = match (self.current, self.started_with) {
            (Some(current), _) => (current.weights.version, description(&current.weights)),
            (None, Some(WeightsVersion(found))) if matches!(self.replaces, Replaces::Version(_)) => {
                (found, format!("version {found}, which this server started with"))
            }
            (None, _) => return Ok(()),
        };
        let is_allowed = match (version, self.replaces) {
            (Some(version), replaces) => version == found || replaces.allows(version, found),
            (None, Replaces::Version(expected)) => expected == found,
            (None, Replaces::Older | Replaces::Anything) => true,
        };
        if is_allowed {
            return Ok(());
        }
        let posted = version.map_or_else(|| "a new version".to_owned(), |version| format!("version {version}"));
        Err(ProxyError::WeightsInPlace { model: self.model.to_owned(), posted, current, version: found })
    }
}

/// The files of posted weights, beside what their version was published with before.
pub(super) struct NewFiles {
    pub(super) files_id: Option<WeightsId>,
    pub(super) base_id: Option<WeightsId>,
    pub(super) other: OtherFiles,
}

impl NewFiles {
    /// Refuses other files than those that the version was published with, or another base, before they are loaded.
    pub(super) async fn check(
        &self,
        store: &Store,
        named: &NamedWeights,
        source: &WeightsSource,
    ) -> Result<(), ProxyError> {
        let NamedWeights { model, version, .. } = named;
        match store.weights().published_files(model, *version).await? {
            Some(known) if !known.admit(self.other, &json!(source), self.files_id, self.base_id) => {
                Err(other_files_of_version(model, *version, &known))
            }
            _ => Ok(()),
        }
    }
}

fn other_files_of_version(model: &str, version: u64, known: &PublishedFiles) -> ProxyError {
    let base = known.base_id.map_or_else(String::new, |base| format!(", over {base}"));
    ProxyError::VersionOfOtherFiles { model: model.to_owned(), version, known: format!("{}{base}", known.source) }
}

/// The store's refusal in the words of the route.
pub(super) fn refused(model: &str, version: u64, error: StoreError) -> ProxyError {
    match error {
        StoreError::WeightsInPlace { current, .. } => ProxyError::WeightsInPlace {
            model: model.to_owned(),
            posted: format!("version {version}"),
            current: description(&current.weights),
            version: current.weights.version,
        },
        StoreError::OtherFiles { known, .. } => other_files_of_version(model, version, &known),
        error => error.into(),
    }
}

pub(super) fn of_version(named: &NamedWeights, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", description(named))
}

/// Weights for people: their version, and who made them.
fn description(named: &NamedWeights) -> String {
    match (&named.run_id, named.step) {
        (Some(run), Some(step)) => format!("version {} (run {run}, step {step})", named.version),
        (Some(run), None) => format!("version {} (run {run})", named.version),
        (None, _) => format!("version {}", named.version),
    }
}
