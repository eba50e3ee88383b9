//! The name of a model at the hub, as a person writes it.

use std::fmt;
use std::str::FromStr;

/// `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSource {
    /// Who published it.
    pub owner: String,
    /// Its name there.
    pub name: String,
    /// A branch, a tag or a commit.
    pub revision: String,
}

/// Which revision is meant where none is named.
const DEFAULT_REVISION: &str = "main";

impl FromStr for ModelSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("a model is named hf:OWNER/NAME or hf:OWNER/NAME@REVISION{}", suggestion(text));
        let (model, revision) = match text.strip_prefix("hf:").ok_or_else(form)?.split_once('@') {
            Some((model, revision)) => (model, revision),
            None => (text.trim_start_matches("hf:"), DEFAULT_REVISION),
        };
        let (owner, name) = model.split_once('/').ok_or_else(form)?;
        if !is_name(owner) || !is_name(name) {
            return Err(form());
        }
        if !is_revision(revision) {
            return Err(format!("{revision:?} is no revision: a branch, a tag or a commit is"));
        }
        Ok(Self { owner: owner.to_owned(), name: name.to_owned(), revision: revision.to_owned() })
    }
}

/// What was probably meant by a name or an address without `hf:`.
fn suggestion(text: &str) -> String {
    let without_scheme = text.split_once("://").and_then(|(_, rest)| Some(rest.split_once('/')?.1));
    let path = without_scheme.unwrap_or(text.trim_start_matches("hf:"));
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some(owner), Some(name)) if is_name(owner) && is_name(name) => format!(", here probably hf:{owner}/{name}"),
        _ => String::new(),
    }
}

fn is_name(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=96).contains(&text.len()) && text.chars().all(known) && !text.starts_with('.')
}

fn is_revision(text: &str) -> bool {
    let parts_are_names = text.split('/').all(|part| !matches!(part, "" | "." | ".."));
    text.len() <= 200 && parts_are_names && text.chars().all(|c| c.is_ascii_graphic() && c != '\\')
}

impl fmt::Display for ModelSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.owner, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_with_its_owner_and_perhaps_a_revision() {
        let source: ModelSource = "hf:HuggingFaceTB/SmolLM2-135M-Instruct".parse().unwrap();
        assert_eq!(
            (source.to_string().as_str(), source.revision.as_str()),
            ("HuggingFaceTB/SmolLM2-135M-Instruct", "main")
        );
        let source: ModelSource = "hf:a/b@refs/pr/1".parse().unwrap();
        assert_eq!(source.revision, "refs/pr/1");
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_was_probably_meant() {
        let refused = |text: &str| text.parse::<ModelSource>().unwrap_err();
        for text in ["HuggingFaceTB/SmolLM2", "https://hub.example/HuggingFaceTB/SmolLM2/tree/main"] {
            assert!(refused(text).ends_with("here probably hf:HuggingFaceTB/SmolLM2"), "{}", refused(text));
        }
        for text in
            ["", "hf:", "hf:gpt2", "hf:a/", "hf:../x", "hf:a/..", "hf:a/b/c", "hf:a/b c", "hf:a/b?x=1", "hf:a/b@"]
        {
            refused(text);
        }
        for revision in ["../main", "a//b", "a b", "a\\b", "/main", "main/"] {
            assert!(refused(&format!("hf:a/b@{revision}")).contains("is no revision"), "{revision}");
        }
    }
}
