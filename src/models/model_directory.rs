//! The directory of a model that may be a GGUF file, and how far its conversion has come.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::Result;
use fulgurite_engine::{GgufProgress, is_gguf};

use crate::terminal::output;
use crate::terminal::progress::Progress;

/// Numbers of the weights are counted in millions.
const MILLION: u64 = 1_000_000;

/// The model directory at `path`, or that of the GGUF file which is there. Making it takes a while, and says so.
pub fn model_directory(path: &Path) -> Result<PathBuf> {
    if !is_gguf(path) {
        return fulgurite_hub::model_directory(path, &|_| {});
    }
    let progress = RefCell::new(Progress::new(false));
    let watch = |event: GgufProgress<'_>| match event {
        GgufProgress::Waiting => {
            output::note(format_args!("{}: another process is converting it", path.display()));
        }
        GgufProgress::Started(directory) => {
            output::note(format_args!("{}: converting it into {}, once", path.display(), directory.display()));
        }
        GgufProgress::Written { numbers, of } => show_conversion(&mut progress.borrow_mut(), numbers, of),
    };
    let directory = fulgurite_hub::model_directory(path, &watch);
    progress.borrow().finish();
    directory
}

/// How far a conversion has come.
pub fn show_conversion(progress: &mut Progress, numbers: u64, of: u64) {
    progress.set("million numbers converted", numbers / MILLION, Some(of.div_ceil(MILLION)));
}

/// Whether a directory may hold more of a model than its tokenizer and template.
pub fn holds_weights(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        path.extension().is_some_and(|ending| ["safetensors", "gguf", "bin"].iter().any(|known| ending == *known))
    })
}
