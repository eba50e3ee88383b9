//! Tokenizers that the tests of this crate share.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use crate::{Tokenizer, train_byte_level_tokenizer, write_tokenizer_directory};

/// Tokenizers under `tests/vectors/tokenizers`.
pub(crate) const TOKENIZERS: [&str; 5] = ["deepseek", "gpt_oss", "kimi", "llama3", "qwen3"];

/// The directory of a tokenizer by its name.
pub(crate) fn vector_dir(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/tokenizers").join(name)
}

/// A tokenizer by its name.
pub(crate) fn vector_tokenizer(name: &str) -> Arc<Tokenizer> {
    Arc::new(Tokenizer::open(&vector_dir(name)).unwrap())
}

/// A tokenizer directory as this crate's own trainer makes it.
pub(crate) fn tiny_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let texts = ["The quick brown fox jumps over the lazy dog 1234 times.", "assistant user system\n\n"];
    let json = train_byte_level_tokenizer(texts, 320, &["<think>"]).unwrap();
    write_tokenizer_directory(dir.path(), &json).unwrap();
    dir
}

/// The tokenizer of [`tiny_directory`].
pub(crate) fn tiny_tokenizer() -> Arc<Tokenizer> {
    static TINY: LazyLock<Arc<Tokenizer>> =
        LazyLock::new(|| Arc::new(Tokenizer::open(tiny_directory().path()).unwrap()));
    TINY.clone()
}
