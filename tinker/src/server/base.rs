use std::path::Path;
use std::sync::Arc;

use super::host::{HostedModel, ModelFacts};

/// A model that training runs may begin with and that can be sampled from, under its name.
#[derive(Clone, Debug)]
pub struct TinkerBase {
    pub(crate) name: String,
    pub(crate) model: Arc<dyn HostedModel>,
}

impl TinkerBase {
    /// A model under a name. It is known by its directory's absolute path, too.
    pub fn new(name: &str, model: Arc<dyn HostedModel>) -> Self {
        Self { name: name.to_owned(), model }
    }

    pub(crate) fn facts(&self) -> &ModelFacts {
        self.model.facts()
    }

    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.facts().directory == Path::new(name)
    }
}
