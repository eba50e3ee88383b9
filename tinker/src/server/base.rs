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

    /// Whether it is meant by a name that may be of a variant with a longer context. Fails where its context is shorter than
    /// that variant's.
    pub(crate) fn is_named(&self, name: &str) -> Result<bool, String> {
        let context_length = self.facts().context_length;
        match long_context(name) {
            _ if self.is_called(name) => Ok(true),
            Some((name, _)) if !self.is_called(name) => Ok(false),
            Some((base, context)) if context > context_length as u64 => Err(format!(
                "`{name}` asks for a context of {context} tokens, but `{base}` has {context_length}: \
                 leave `:peft:{context}` out"
            )),
            context => Ok(context.is_some()),
        }
    }
}

/// The base model and the context of `BASE:peft:CONTEXT`, which is how the API calls a variant with a longer context.
fn long_context(name: &str) -> Option<(&str, u64)> {
    let (base, context) = name.rsplit_once(":peft:")?;
    Some((base, context.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_its_base_with_a_context() {
        assert_eq!(long_context("org/m-8B:peft:131072"), Some(("org/m-8B", 131072)));
        for name in ["m", "m:peft:", "m:peft:long", "m:peft:-1", "m:131072", "m:peft:131072:x"] {
            assert_eq!(long_context(name), None, "{name}");
        }
    }
}
