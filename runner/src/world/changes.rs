//! What differs between two states of a world.

use std::path::Path;
use std::time::Duration;

use fulgurite_types::{FileChange, WorldChanges};
use similar::{Algorithm, TextDiff};

use super::snapshot::{Content, Entry, Snapshot};

/// Files that are named.
const NAMED: usize = 500;
/// Bytes of a file's diff that are kept.
const DIFF: usize = 16 << 10;
/// Bytes of all diffs that are kept.
const DIFFS: usize = 128 << 10;
/// Lines around a difference.
const CONTEXT: usize = 3;
/// How long a file's shortest diff is looked for, before a longer one is good enough.
const PATIENCE: Duration = Duration::from_secs(1);

/// What differs between `before` and `after`.
pub(crate) fn changes(before: &Snapshot, after: &Snapshot) -> WorldChanges {
    let mut found = Found { changes: WorldChanges::default(), named: 0, left: DIFFS };
    for (path, new) in &after.files {
        match before.files.get(path) {
            None => found.add(path, None, Some(new), |changes| &mut changes.created),
            Some(old) if (old.kind, old.bytes, &old.content) != (new.kind, new.bytes, &new.content) => {
                found.add(path, Some(old), Some(new), |changes| &mut changes.changed);
            }
            Some(_) => {}
        }
    }
    for (path, old) in &before.files {
        if !after.files.contains_key(path) {
            found.add(path, Some(old), None, |changes| &mut changes.deleted);
        }
    }
    found.changes
}

struct Found {
    changes: WorldChanges,
    named: usize,
    left: usize,
}

impl Found {
    fn add(
        &mut self,
        path: &Path,
        old: Option<&Entry>,
        new: Option<&Entry>,
        list: fn(&mut WorldChanges) -> &mut Vec<FileChange>,
    ) {
        let Some(entry) = new.or(old) else { return };
        if self.named == NAMED {
            self.changes.more += 1;
            return;
        }
        self.named += 1;
        let sides = (text(old), text(new));
        let diff = if let (Some(old), Some(new)) = sides { unified(old, new) } else { String::new() };
        let kept = beginning(&diff, DIFF.min(self.left));
        self.left -= kept.len();
        let change = FileChange {
            path: path.to_string_lossy().into_owned(),
            bytes: entry.bytes,
            sha256: match &entry.content {
                Content::Digest(digest) => Some(digest.clone()).filter(|digest| !digest.is_empty()),
                Content::Changed(..) => None,
            },
            diff_is_cut: kept.len() < diff.len(),
            diff: Some(kept.to_owned()).filter(|kept| !kept.is_empty()),
        };
        list(&mut self.changes).push(change);
    }
}

/// What one side of a diff holds: nothing if there is no file, and `None` if it is no text.
fn text(entry: Option<&Entry>) -> Option<&str> {
    entry.map_or(Some(""), |entry| entry.text.as_deref())
}

/// The lines that differ, without the names of files, which stand elsewhere.
fn unified(old: &str, new: &str) -> String {
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(PATIENCE).diff_lines(old, new);
    diff.unified_diff().context_radius(CONTEXT).missing_newline_hint(true).to_string()
}

/// At most so many bytes of a text, whole lines.
fn beginning(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = text.as_bytes()[..bytes].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::snapshot::Kind;
    use super::*;

    fn world(files: &[(&str, &str)]) -> Snapshot {
        let entry = |text: &str| Entry {
            bytes: text.len() as u64,
            kind: Kind::File,
            content: Content::Digest(format!("digest of {text}")),
            text: (!text.contains('\0')).then(|| text.to_owned()),
        };
        Snapshot { files: files.iter().map(|(path, text)| (PathBuf::from(path), entry(text))).collect() }
    }

    #[test]
    fn what_was_created_changed_and_deleted_is_told_with_its_lines() {
        let before = world(&[("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"), ("b", "same"), ("c", "gone\n"), ("d", "\0")]);
        let after = world(&[("a", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"), ("b", "same"), ("d", "\0\0"), ("e/f", "new")]);
        let expected = "created e/f (3 bytes)\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n\
                        changed a (21 bytes)\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
                        changed d (2 bytes)\n\
                        deleted c (5 bytes)\n@@ -1 +0,0 @@\n-gone\n";
        assert_eq!(changes(&before, &after).to_string(), expected);
        assert!(changes(&after, &after).is_empty());
    }

    #[test]
    fn a_file_that_became_a_program_has_changed_though_its_text_has_not() {
        let before = world(&[("a", "x")]);
        let mut after = before.clone();
        after.files.get_mut(Path::new("a")).unwrap().kind = Kind::Program;
        let [changed] = &changes(&before, &after).changed[..] else { panic!("nothing changed") };
        assert_eq!((changed.path.as_str(), &changed.diff), ("a", &None));
    }

    #[test]
    fn much_is_cut_at_a_line_and_many_are_counted() {
        let long = "0123456789\n".repeat(3_000);
        let [created] = &changes(&world(&[]), &world(&[("a", &long)])).created[..] else { panic!("one file") };
        let kept = created.diff.as_deref().unwrap();
        assert!(created.diff_is_cut && kept.ends_with("9\n") && kept.len() <= DIFF && kept.len() > DIFF - 20);

        let names: Vec<String> = (0..NAMED + 7).map(|index| format!("{index:04}")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), long.as_str())).collect();
        let many = changes(&world(&[]), &world(&files));
        assert_eq!((many.created.len(), many.more), (NAMED, 7));
        assert!(many.created.iter().filter_map(|file| file.diff.as_ref()).map(String::len).sum::<usize>() <= DIFFS);
    }

    #[test]
    fn the_diff_of_files_that_share_nothing_ends() {
        let lines = |from: usize| (from..from + 100_000).map(|line| format!("{line:x}\n")).collect::<String>();
        assert!(changes(&world(&[("a", &lines(0))]), &world(&[("a", &lines(500_000))])).changed[0].diff_is_cut);
    }
}
