use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use fulgurite_types::WeightsId;
use sha2::{Digest, Sha256};

use crate::file_digests::{DamagedFiles, listed_digests};
use crate::{BackendError, FileDigests};

/// Bytes of a block that is read.
const BLOCK: u64 = 64 * 1024;
/// Blocks of one file: the first, the last, and those between at even distances.
const BLOCKS: u64 = 16;
/// Files by these endings hold weights.
const WEIGHTS: [&str; 7] = ["safetensors", "bin", "gguf", "pt", "pth", "npz", "msgpack"];
/// Files by these names say how they are computed with.
const CONFIGURATIONS: [&str; 2] = ["config.json", "adapter_config.json"];

/// The identity of the weights in a directory, by its files: a model's, or an adapter's. What is beside them, such as a
/// tokenizer or an optimizer's state, is not part of it.
///
/// Where the directory has a list of digests, it is taken of those. Else it is taken of each file's name, size and up to 16
/// blocks, so that it takes no longer for large files. It blocks.
///
/// # Errors
/// [`BackendError::Files`] for what cannot be read; [`BackendError::Damaged`] for a list of digests that is none.
pub fn weights_fingerprint(directory: &Path) -> Result<WeightsId, BackendError> {
    let listed = listed_digests(directory);
    let listed = listed.map_err(|damage| DamagedFiles { directory: directory.to_owned(), damage });
    match listed.map_err(BackendError::Damaged)? {
        Some(digests) => Ok(of_digests(&digests)),
        None => of_content(directory),
    }
}

fn of_digests(digests: &FileDigests) -> WeightsId {
    let mut state = Sha256::new_with_prefix("fulgurite weights, by the digests of their files\n");
    for file in parts_of_weights(digests.keys().cloned().collect()) {
        text(&mut state, &file);
        text(&mut state, &digests[&file]);
    }
    WeightsId::of_digest(state.finalize().into())
}

fn of_content(directory: &Path) -> Result<WeightsId, BackendError> {
    let wrong = |path: &Path, error: std::io::Error| BackendError::Files {
        path: path.to_owned(),
        message: format!("cannot be read: {error}"),
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|error| wrong(directory, error))? {
        let entry = entry.map_err(|error| wrong(directory, error))?;
        // Files of the hub's cache are links.
        let is_file = std::fs::metadata(entry.path()).is_ok_and(|found| found.is_file());
        names.extend(entry.file_name().into_string().ok().filter(|name| is_file && !name.starts_with('.')));
    }
    names.sort_unstable();
    let mut state = Sha256::new_with_prefix("fulgurite weights, by the content of their files\n");
    let mut block = vec![0; BLOCK as usize];
    for name in parts_of_weights(names) {
        let path = directory.join(&name);
        text(&mut state, &name);
        add_file(&mut state, &path, &mut block).map_err(|error| wrong(&path, error))?;
    }
    Ok(WeightsId::of_digest(state.finalize().into()))
}

/// The files that weights consist of; all of them where none is known to be one.
fn parts_of_weights(names: Vec<String>) -> Vec<String> {
    let is_part = |name: &String| {
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        WEIGHTS.contains(&ending) || CONFIGURATIONS.contains(&name.as_str())
    };
    match names.iter().any(is_part) {
        true => names.into_iter().filter(is_part).collect(),
        false => names,
    }
}

/// A text that nothing else reads like: its length comes first.
fn text(state: &mut Sha256, text: &str) {
    state.update((text.len() as u64).to_le_bytes());
    state.update(text);
}

fn add_file(state: &mut Sha256, path: &Path, block: &mut [u8]) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    state.update(size.to_le_bytes());
    if size <= BLOCK * BLOCKS {
        return std::io::copy(&mut file, state).map(drop);
    }
    for place in 0..BLOCKS {
        // No product of a size overflows so.
        let start = (size - BLOCK) / (BLOCKS - 1) * place;
        let start = if place == BLOCKS - 1 { size - BLOCK } else { start };
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(block)?;
        state.update(&*block);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DIGEST_LIST, digest_list, file_digest};

    #[test]
    fn weights_are_known_by_their_files_and_not_by_what_is_beside_them() {
        let home = tempfile::tempdir().unwrap();
        let write = |file: &str, bytes: &[u8]| std::fs::write(home.path().join(file), bytes).unwrap();
        let id = || weights_fingerprint(home.path()).unwrap();
        write("config.json", b"{}");
        write("model.safetensors", b"abc");
        let first = id();
        for other in ["tokenizer.json", "README.md", ".hidden.safetensors", "optimizer.state"] {
            write(other, b"x");
            assert_eq!(id(), first, "{other}");
        }
        std::fs::create_dir(home.path().join("more.bin")).unwrap();
        assert_eq!(id(), first);
        write("model.safetensors", b"abd");
        let second = id();
        write("config.json", b"{ }");
        let third = id();
        write("adapter_model.bin", b"");
        assert!(first != second && second != third && id() != third && id() != first);
        let missing = weights_fingerprint(&home.path().join("missing")).unwrap_err();
        assert!(matches!(&missing, BackendError::Files { path, .. } if path.ends_with("missing")), "{missing}");
    }

    #[test]
    fn of_large_files_the_beginning_and_the_end_are_read() {
        let home = tempfile::tempdir().unwrap();
        let mut bytes = vec![7; (BLOCK * BLOCKS) as usize * 3 + 1];
        let mut id = |changed: Option<usize>| {
            if let Some(place) = changed {
                bytes[place] += 1;
            }
            std::fs::write(home.path().join("model.safetensors"), &bytes).unwrap();
            weights_fingerprint(home.path()).unwrap()
        };
        let last = (BLOCK * BLOCKS) as usize * 3;
        let ids = [id(None), id(Some(0)), id(Some(last)), id(Some(last / 15 + 10))];
        assert!((1..ids.len()).all(|count| !ids[..count].contains(&ids[count])), "{ids:?}");
    }

    #[test]
    fn a_list_of_digests_stands_for_the_files() {
        let home = tempfile::tempdir().unwrap();
        let id = |files: &[&str]| {
            let digest = |file: &&str| ((*file).to_owned(), file_digest(&home.path().join(file)).unwrap());
            std::fs::write(home.path().join(DIGEST_LIST), digest_list(&files.iter().map(digest).collect())).unwrap();
            weights_fingerprint(home.path()).unwrap()
        };
        for (file, bytes) in [("config.json", "{}"), ("model.safetensors", "abc"), ("optimizer.state", "x")] {
            std::fs::write(home.path().join(file), bytes).unwrap();
        }
        let first = id(&["config.json", "model.safetensors"]);
        assert_eq!(id(&["config.json", "model.safetensors", "optimizer.state"]), first);
        std::fs::write(home.path().join("model.safetensors"), "abd").unwrap();
        assert_ne!(id(&["config.json", "model.safetensors"]), first);
        std::fs::write(home.path().join(DIGEST_LIST), "no list\n").unwrap();
        assert!(matches!(weights_fingerprint(home.path()), Err(BackendError::Damaged(_))));
    }
}
