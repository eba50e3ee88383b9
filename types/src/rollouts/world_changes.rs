use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// What an attempt's agent changed in its world: the files that differ between before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldChanges {
    /// Files that were not there before, in order of their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<FileChange>,
    /// Files that hold something else, or are of another kind, than before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<FileChange>,
    /// Files that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<FileChange>,
    /// Further files that changed, of which nothing is said for want of room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

/// One file that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Where it is, from the world's directory.
    pub path: String,
    /// Its length now, or before if it is gone.
    pub bytes: u64,
    /// SHA-256 of what it holds now, or held before if it is gone, in hexadecimal; `None` of what is too large to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The lines that differ, as a unified diff; `None` where either side is no text, or too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// This is only the beginning of the diff.
    #[serde(default, skip_serializing_if = "is_false")]
    pub diff_is_cut: bool,
}

impl WorldChanges {
    /// Key of an attempt's metadata that holds them.
    pub const KEY: &str = "world_changes";

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A text for people and judges: a line for each file, its diff below.
impl Display for WorldChanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [("created", &self.created), ("changed", &self.changed), ("deleted", &self.deleted)];
        for (word, files) in kinds {
            for FileChange { path, bytes, diff, diff_is_cut, .. } in files {
                writeln!(formatter, "{word} {path} ({bytes} bytes)")?;
                if let Some(diff) = diff {
                    formatter.write_str(diff)?;
                }
                if *diff_is_cut {
                    writeln!(formatter, "... (cut)")?;
                }
            }
        }
        match self.more {
            0 => Ok(()),
            more => writeln!(formatter, "... and {more} more"),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_there_is_not_written_and_all_of_it_is_read_back() {
        assert_eq!(serde_json::to_value(WorldChanges::default()).unwrap(), json!({}));
        let written = json!({
            "created": [{ "path": "a", "bytes": 2, "sha256": "00", "diff": "+x\n", "diff_is_cut": true }],
            "deleted": [{ "path": "b", "bytes": 1 }],
            "more": 3,
        });
        let changes: WorldChanges = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&changes).unwrap(), written);
        assert_eq!(changes.to_string(), "created a (2 bytes)\n+x\n... (cut)\ndeleted b (1 bytes)\n... and 3 more\n");
    }
}
