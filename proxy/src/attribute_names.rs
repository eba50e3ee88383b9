//! Names of attributes of a call's span, beside those of its messages.

/// Attribute of how many tokens of a prompt its host had in its cache.
pub(crate) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";

/// Prefixes of the attributes that describe how the prompt continues earlier calls.
pub(crate) const PLACE: [&str; 2] = ["fulgurite.continues", "fulgurite.departure."];

/// Attribute of an answer to a request for several.
pub(crate) const CHOICE: &str = "fulgurite.choice";

/// Attribute of an answer to a request that carried a key.
pub(crate) const IDEMPOTENCY_KEY: &str = "fulgurite.request.idempotency_key";

/// Attribute of a call of a model whose template shows no tools: how many its request declares.
pub const UNSEEN_TOOLS: &str = "fulgurite.request.unseen_tools";

/// JSON text of a request's fields that have no attributes of their own.
pub(crate) const REQUEST_EXTRA: &str = "fulgurite.request.extra";

/// Attribute of a call whose request held halves of surrogate pairs: the places in which U+FFFD replaced them.
pub(crate) const REPLACED_CHARACTERS: &str = "fulgurite.request.replaced_characters";
