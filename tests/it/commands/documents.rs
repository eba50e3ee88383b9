//! The documents that name files.

use std::path::Path;

/// What stands between backquotes and looks like a path: folders, or a file of ours.
fn paths(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| {
        let is_plain = word.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_./-".contains(&c));
        is_plain && word.contains("/src/") && !word.contains("...")
    };
    quoted.filter(is_path).collect()
}

#[test]
fn every_file_that_the_architecture_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents = vec![root.join("ARCHITECTURE.md")];
    documents.extend(std::fs::read_dir(root.join("docs/how")).unwrap().map(|entry| entry.unwrap().path()));
    let mut named = 0;
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for path in paths(&text) {
            named += 1;
            assert!(root.join(path).exists(), "{} names {path}, which is not there", document.display());
        }
        for page in text.split("](docs/how/").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(root.join("docs/how").join(page).exists(), "{page}");
        }
    }
    assert!(named > 50, "{named}");
}
