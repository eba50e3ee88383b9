use std::path::{Path, PathBuf};

use crate::error::RenderError;

pub(crate) fn file_error(path: &Path, error: &dyn std::fmt::Display) -> RenderError {
    RenderError::File { path: PathBuf::from(path), message: error.to_string() }
}

pub(crate) fn tokenizer_error(error: &dyn std::fmt::Display) -> RenderError {
    RenderError::Tokenizer { message: error.to_string() }
}
