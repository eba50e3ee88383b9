//! GGUF files as model directories that are kept, so that a file is converted once however often its model is opened.

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use super::conversion::convert_gguf;
use super::header::malformed;
use crate::checkpoints::tensor_files::CONFIG;
use crate::error::EngineError;

/// Counted up when a file's directory comes out differently than before, so that older ones are not used any more.
const CONVERSION: u64 = 2;
/// Of a file's beginning and of its end, so many bytes are hashed to recognise it.
const FINGERPRINT_BYTES: u64 = 1 << 20;
/// Letters of a file's name in that of its directory.
const NAME_LETTERS: usize = 64;

/// What happens while a file is made into a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GgufProgress<'a> {
    /// Another process is making it.
    Waiting,
    /// It is being made here: the file is one that can be.
    Started(&'a Path),
    /// So many numbers of the weights are written.
    Written {
        /// Until now.
        numbers: u64,
        /// When it is done.
        of: u64,
    },
}

/// The directory below `cache` into which a GGUF file is converted, if that has been done.
pub fn find_converted_gguf(source: &Path, cache: &Path) -> Option<PathBuf> {
    let directory = cache.join(name_of(source).ok()?);
    directory.join(CONFIG).is_file().then_some(directory)
}

/// The directory below `cache` into which a GGUF file is converted; it is made if it is not there. Of several processes one
/// makes it and the others wait; one that is killed leaves nothing that would be taken for a model.
///
/// A file is known by its name, size, time of change, beginning and end, wherever it is.
///
/// # Errors
///
/// As [`convert_gguf`], and where `cache` cannot be written to.
pub fn converted_gguf(source: &Path, cache: &Path, watch: &dyn Fn(GgufProgress<'_>)) -> Result<PathBuf, EngineError> {
    if let Some(directory) = find_converted_gguf(source, cache) {
        return Ok(directory);
    }
    std::fs::create_dir_all(cache).map_err(EngineError::io("create", cache))?;
    let name = name_of(source)?;
    let lock_path = cache.join(format!("{name}.lock"));
    let lock = File::create(&lock_path).map_err(EngineError::io("create", &lock_path))?;
    let wait = || {
        watch(GgufProgress::Waiting);
        lock.lock()
    };
    match lock.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => wait(),
        Err(TryLockError::Error(error)) => Err(error),
    }
    .map_err(EngineError::io("lock", &lock_path))?;
    // The lock is left with the file's closing, whatever happens here.
    match find_converted_gguf(source, cache) {
        Some(directory) => Ok(directory),
        None => make(source, &name, cache, watch),
    }
}

/// Converts beside the directory's place. A file that changed meanwhile is not what it is named after.
fn make(source: &Path, name: &str, cache: &Path, watch: &dyn Fn(GgufProgress<'_>)) -> Result<PathBuf, EngineError> {
    let (directory, unfinished) = (cache.join(name), cache.join(format!("{name}.unfinished")));
    remove(&unfinished)?;
    remove(&directory)?;
    let started = Cell::new(false);
    // Only of a file that is not refused is there anything to wait for.
    let report = |numbers, of| {
        if !started.replace(true) {
            watch(GgufProgress::Started(&directory));
        }
        watch(GgufProgress::Written { numbers, of });
    };
    let written = convert_gguf(source, &unfinished, None, &report);
    if let Err(error) = written {
        // As much as was written may be why the disk is full.
        remove(&cache.join(format!("{name}.unfinished.partial")))?;
        return Err(error);
    }
    if name_of(source)? != name {
        remove(&unfinished)?;
        return Err(malformed(source, "it changed while it was read"));
    }
    std::fs::rename(&unfinished, &directory).map_err(EngineError::io("complete", &directory))?;
    Ok(directory)
}

/// What a crash left.
fn remove(directory: &Path) -> Result<(), EngineError> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(EngineError::io("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// A directory's name for a file: the file's own, and its fingerprint.
fn name_of(source: &Path) -> Result<String, EngineError> {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let stem: String = stem.chars().map(plain).take(NAME_LETTERS).collect();
    let digest = identity(source).map_err(EngineError::io("read", source))?;
    Ok(format!("{stem}-{digest}"))
}

fn identity(source: &Path) -> std::io::Result<String> {
    let mut file = File::open(source)?;
    let facts = file.metadata()?;
    let changed = facts.modified()?.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let mut digest = Sha256::new();
    digest.update(CONVERSION.to_le_bytes());
    digest.update(facts.len().to_le_bytes());
    digest.update(changed.to_le_bytes());
    for start in [0, facts.len().saturating_sub(FINGERPRINT_BYTES)] {
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.by_ref().take(FINGERPRINT_BYTES).read_to_end(&mut bytes)?;
        digest.update(&bytes);
    }
    Ok(hex::encode(&digest.finalize()[..8]))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Barrier;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::inspection::inspect_model::inspect_model;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/gguf/llama.gguf");

    fn home() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let (source, cache) = (home.path().join("a model?.gguf"), home.path().join("cache"));
        std::fs::copy(FILE, &source).unwrap();
        (home, source, cache)
    }

    /// Where the file is, and whether it was made for it.
    fn cached(source: &Path, cache: &Path) -> (PathBuf, bool) {
        let started = RefCell::new(false);
        let watch = |event: GgufProgress<'_>| *started.borrow_mut() |= matches!(event, GgufProgress::Started(_));
        let directory = converted_gguf(source, cache, &watch).unwrap();
        (directory, started.into_inner())
    }

    fn set_time(source: &Path, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(source).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn a_file_is_converted_once_wherever_it_is_and_anew_when_it_changes() {
        let (home, source, cache) = home();
        set_time(&source, 1_000);
        assert_eq!(find_converted_gguf(&source, &cache), None);
        let (directory, made) = cached(&source, &cache);
        assert!(made && directory.file_name().unwrap().to_str().unwrap().starts_with("a_model_-"), "{directory:?}");
        assert_eq!(inspect_model(&directory).unwrap().architecture, "LlamaForCausalLM");
        assert_eq!(
            (cached(&source, &cache), find_converted_gguf(&source, &cache)),
            ((directory.clone(), false), Some(directory.clone()))
        );

        let moved = home.path().join("elsewhere");
        std::fs::create_dir(&moved).unwrap();
        let moved = moved.join("a model?.gguf");
        std::fs::rename(&source, &moved).unwrap();
        assert_eq!(cached(&moved, &cache), (directory.clone(), false));
        set_time(&moved, 1_001);
        let (newer, made) = cached(&moved, &cache);
        assert!(made && newer != directory);
    }

    #[test]
    fn what_a_killed_process_left_is_made_anew() {
        let (_home, source, cache) = home();
        let (directory, _) = cached(&source, &cache);
        let whole = std::fs::read(directory.join("model.safetensors")).unwrap();
        std::fs::remove_file(directory.join(CONFIG)).unwrap();
        let name = directory.file_name().unwrap().to_str().unwrap();
        for left in [".unfinished", ".unfinished.partial"] {
            std::fs::create_dir(cache.join(format!("{name}{left}"))).unwrap();
            std::fs::write(cache.join(format!("{name}{left}/model.safetensors")), "half").unwrap();
        }
        assert_eq!(cached(&source, &cache), (directory.clone(), true));
        assert_eq!(std::fs::read(directory.join("model.safetensors")).unwrap(), whole);
        let mut left: Vec<_> = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort_unstable();
        assert_eq!(left, [name.to_owned(), format!("{name}.lock")].map(std::ffi::OsString::from));
    }

    #[test]
    fn of_many_who_want_a_file_at_once_one_converts_it() {
        let (_home, source, cache) = home();
        let barrier = Barrier::new(8);
        let found = std::thread::scope(|scope| {
            let ask = || {
                barrier.wait();
                cached(&source, &cache)
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(found.iter().filter(|(_, made)| *made).count(), 1);
        assert!(found.iter().all(|(directory, _)| *directory == found[0].0));
    }

    #[test]
    fn a_refused_file_leaves_nothing_but_its_lock() {
        let (_home, source, cache) = home();
        let bytes = std::fs::read(&source).unwrap();
        std::fs::write(&source, &bytes[..bytes.len() / 2]).unwrap();
        let error = converted_gguf(&source, &cache, &|_| ()).unwrap_err().to_string();
        assert!(error.contains("a model?.gguf"), "{error}");
        assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 1);
    }

    #[test]
    fn progress_ends_where_the_weights_do() {
        let (_home, source, cache) = home();
        let events = RefCell::new(Vec::new());
        let note = |event: GgufProgress<'_>| {
            if let GgufProgress::Written { numbers, of } = event {
                events.borrow_mut().push((numbers, of));
            }
        };
        let directory = converted_gguf(&source, &cache, &note).unwrap();
        let parameters = inspect_model(&directory).unwrap().parameters as u64;
        let events = events.into_inner();
        assert_eq!(events.last(), Some(&(parameters, parameters)));
        assert!(events.is_sorted() && events.iter().all(|(_, of)| *of == parameters));
    }
}
