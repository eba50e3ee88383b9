//! Text to token ids and back.
//!
//! - [`model_tokenizer`]: a model's tokenizer.
//! - [`tokenizer_config`]: the files beside it.
//! - [`control_finder`], [`piece`]: control tokens in text.
//! - [`pipeline`]: the steps by which a model's own patterns cut text, bounded.
//! - [`word_splitter`], [`word_tokens`], [`encoded_texts`]: encoding without the library, and what was encoded lately.
//! - [`token_bytes`], [`stream_decoder`], [`stop_strings`]: tokens to text as they come, and texts that end it.
//! - [`tokenizer_training`]: small tokenizers of one's own.
//! - [`fingerprint`], [`tokenizer_errors`]: what tells tokenizers apart; errors.

pub(crate) mod control_finder;
pub(crate) mod encoded_texts;
pub(crate) mod fingerprint;
pub(crate) mod model_tokenizer;
pub(crate) mod piece;
pub(crate) mod pipeline;
pub(crate) mod stop_strings;
pub(crate) mod stream_decoder;
pub(crate) mod token_bytes;
pub(crate) mod tokenizer_config;
pub(crate) mod tokenizer_errors;
pub(crate) mod tokenizer_training;
pub(crate) mod word_splitter;
pub(crate) mod word_tokens;
