//! The directory of a model that may be a GGUF file, and how far its conversion has come.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::Result;
use fulgurite_engine::{GgufProgress, is_gguf};

use crate::notices::{Notices, ShownProgress};

/// Numbers of the weights are counted in millions.
const MILLION: u64 = 1_000_000;

/// The model directory at `path`, or that of the GGUF file which is there. Making it takes a while, and is shown.
///
/// # Errors
/// If nothing is there, or the file cannot be converted.
pub fn model_directory(path: &Path, notices: &dyn Notices) -> Result<PathBuf> {
    if !is_gguf(path) {
        return fulgurite_hub::model_directory(path, &|_| {});
    }
    let progress = RefCell::new(notices.progress());
    let watch = |event: GgufProgress<'_>| match event {
        GgufProgress::Waiting => {
            notices.note(format_args!("{}: another process is converting it", path.display()));
        }
        GgufProgress::Started(directory) => {
            notices.note(format_args!("{}: converting it into {}, once", path.display(), directory.display()));
        }
        GgufProgress::Written { numbers, of } => show_conversion(progress.borrow_mut().as_mut(), numbers, of),
    };
    fulgurite_hub::model_directory(path, &watch)
}

/// Shows how far a conversion has come.
pub fn show_conversion(progress: &mut dyn ShownProgress, numbers: u64, of: u64) {
    progress.set("million numbers converted", numbers / MILLION, Some(of.div_ceil(MILLION)));
}

/// Whether a directory may hold more of a model than its tokenizer and template.
pub fn holds_weights(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        path.extension().is_some_and(|ending| ["safetensors", "gguf", "bin"].iter().any(|known| ending == *known))
    })
}
