//! What fuzzers run: plain functions over bytes that hold the laws of this crate, and panic where one breaks.

#![allow(clippy::expect_used, reason = "a fuzzer knows a failure by its panic")]

mod parse;
mod render;

pub use parse::fuzz_parse;
pub use render::fuzz_render;

use std::path::Path;
use std::sync::Arc;

use crate::Tokenizer;

/// A tokenizer of the tests by its name.
fn tokenizer(name: &str) -> Arc<Tokenizer> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/tokenizers").join(name);
    Arc::new(Tokenizer::open(&dir).expect("the tokenizer opens"))
}
