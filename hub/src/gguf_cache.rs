//! Models that are GGUF files: each is made once into a model directory, which is kept in the user's cache.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_engine::{GgufProgress, converted_gguf, find_converted_gguf, is_gguf};

use crate::named_model::must_exist;

/// The model directory at `path`, or that of the GGUF file which is there; making it takes a while, which `watch` hears of.
///
/// # Errors
/// If nothing is there, or a file of another kind; if the GGUF file cannot be converted.
pub fn model_directory(path: &Path, watch: &dyn Fn(GgufProgress<'_>)) -> Result<PathBuf> {
    if !is_gguf(path) {
        if path.is_file() {
            bail!("{} is neither a model directory nor a GGUF file", path.display());
        }
        must_exist(path)?;
        return Ok(path.to_path_buf());
    }
    let cache = cache_directory().context("set XDG_CACHE_HOME or HOME: GGUF files are converted into a cache there")?;
    let directory = converted_gguf(path, &cache, watch);
    directory.with_context(|| format!("{} cannot be converted into a directory in {}", path.display(), cache.display()))
}

/// The model directory at `path` where nothing is made: a GGUF file that was not converted yet has none.
pub fn known_model_directory(path: &Path) -> Option<PathBuf> {
    match is_gguf(path) {
        true => find_converted_gguf(path, &cache_directory()?),
        false => Some(path.to_path_buf()),
    }
}

fn cache_directory() -> Option<PathBuf> {
    below(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

/// By the XDG base directory specification, which does not believe in relative paths.
fn below(cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let cache = cache.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")))?;
    Some(cache.join("fulgurite/models"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_system_keeps_caches() {
        let found = |cache: Option<&str>, home: Option<&str>| {
            below(cache.map(OsString::from), home.map(OsString::from)).map(|path| path.display().to_string())
        };
        assert_eq!(found(Some("/c"), Some("/h")).as_deref(), Some("/c/fulgurite/models"));
        for unset in [None, Some(""), Some("relative")] {
            assert_eq!(found(unset, Some("/h")).as_deref(), Some("/h/.cache/fulgurite/models"));
            assert_eq!(found(unset, None), None);
        }
    }
}
