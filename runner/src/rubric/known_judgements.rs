//! Judgements that were made before: the same question is not asked twice.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::question::Judgement;

/// By the SHA-256 of what was asked; in a directory, so that a runner that is started again knows them too.
#[derive(Debug)]
pub(super) struct KnownJudgements {
    directory: Option<PathBuf>,
    known: Mutex<HashMap<String, Judgement>>,
}

/// Names a question.
pub(super) fn digest(request: &Value) -> String {
    format!("{:x}", Sha256::digest(request.to_string()))
}

impl KnownJudgements {
    pub(super) fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, known: Mutex::default() }
    }

    /// The judgement on a question, if it is known.
    pub(super) fn get(&self, digest: &str) -> Option<Judgement> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(judgement) = known.get(digest) {
            return Some(judgement.clone());
        }
        let text = fs::read(file(self.directory.as_deref()?, digest)).ok()?;
        // What a runner that died has left half written counts for nothing.
        let judgement: Judgement = serde_json::from_slice(&text).ok()?;
        known.insert(digest.to_owned(), judgement.clone());
        Some(judgement)
    }

    /// Keeps a judgement; one that cannot be written is known to this process alone.
    pub(super) fn keep(&self, digest: String, judgement: &Judgement) {
        if let Some(directory) = &self.directory {
            let text = json!({ "reason": judgement.reason, "met": judgement.met }).to_string();
            let written = fs::create_dir_all(directory).and_then(|()| write(&file(directory, &digest), &text));
            if let Err(error) = written {
                tracing::warn!(%error, directory = %directory.display(), "a judgement cannot be kept");
            }
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(digest, judgement.clone());
    }
}

fn file(directory: &Path, digest: &str) -> PathBuf {
    directory.join(format!("{digest}.json"))
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text)?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_is_known_again_and_half_of_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let judgement = Judgement { reason: "r".to_owned(), met: true };
        let known = KnownJudgements::new(Some(directory.path().join("judgements")));
        assert_eq!(known.get("a"), None);
        known.keep("a".to_owned(), &judgement);
        assert_eq!(known.get("a"), Some(judgement.clone()));
        let again = KnownJudgements::new(Some(directory.path().join("judgements")));
        assert_eq!(again.get("a"), Some(judgement));
        fs::write(directory.path().join("judgements/b.json"), "{\"met\"").unwrap();
        assert_eq!(again.get("b"), None);
        assert_ne!(digest(&json!({ "a": 1 })), digest(&json!({ "a": 2 })));
    }
}
