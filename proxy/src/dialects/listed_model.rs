use std::path::PathBuf;

/// A served model, as the lists of every dialect describe it.
pub(crate) struct ListedModel {
    pub(crate) name: String,
    /// Tokens that prompt and answer may have together, as far as that is known.
    pub(crate) context_length: Option<usize>,
    pub(crate) source: AnswerSource,
}

/// Where the answers of a model come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerSource {
    /// They are sampled here.
    Sampled,
    /// Its calls are forwarded.
    Upstream,
}

/// An adapter that was loaded over a served model.
pub(crate) struct ListedAdapter {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    /// The name of the model that it is over.
    pub(crate) base_model: String,
}
