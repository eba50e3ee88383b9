use std::fmt;
use std::str::FromStr;

/// What a checkpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// Weights and optimizer, to train on.
    Weights,
    /// Weights to sample from.
    SamplerWeights,
    /// Weights to take away.
    ExternalWeights,
}

impl CheckpointKind {
    const ALL: [Self; 3] = [Self::Weights, Self::SamplerWeights, Self::ExternalWeights];

    /// Its segment of a path.
    pub fn segment(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::SamplerWeights => "sampler_weights",
            Self::ExternalWeights => "external_weights",
        }
    }
}

/// `tinker://RUN/KIND/NAME`. It is no URL: a run's id holds colons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPath {
    /// The model that was saved.
    pub run: String,
    /// What for.
    pub kind: CheckpointKind,
    /// As whoever saved it called it.
    pub name: String,
}

/// What is no checkpoint's path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is no checkpoint: expected tinker://RUN/weights|sampler_weights|external_weights/NAME")]
pub struct NoCheckpointPath {
    /// What came.
    pub path: String,
}

impl CheckpointPath {
    /// The path that a service reports for what it has saved for `kind`. SkyRL leaves that out where it is for
    /// sampling, `tinker://RUN/NAME`, and takes the whole path for it.
    pub fn of_saved(path: &str, kind: CheckpointKind) -> Result<Self, NoCheckpointPath> {
        let segments = path.strip_prefix("tinker://").and_then(|rest| rest.split_once('/'));
        match segments {
            Some((run, name)) if kind == CheckpointKind::SamplerWeights && !name.contains('/') => {
                format!("tinker://{run}/{}/{name}", kind.segment()).parse()
            }
            _ => path.parse(),
        }
    }
}

impl FromStr for CheckpointPath {
    type Err = NoCheckpointPath;

    fn from_str(path: &str) -> Result<Self, NoCheckpointPath> {
        let refuse = || NoCheckpointPath { path: path.to_owned() };
        let rest = path.strip_prefix("tinker://").ok_or_else(refuse)?;
        let segments: Vec<&str> = rest.split('/').collect();
        let [run, kind, name] = segments.as_slice() else { return Err(refuse()) };
        let kind = CheckpointKind::ALL.into_iter().find(|known| known.segment() == *kind).ok_or_else(refuse)?;
        if run.is_empty() || name.is_empty() {
            return Err(refuse());
        }
        Ok(Self { run: (*run).to_owned(), kind, name: (*name).to_owned() })
    }
}

impl fmt::Display for CheckpointPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "tinker://{}/{}/{}", self.run, self.kind.segment(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_three_segments_and_its_run_may_hold_colons() {
        let path = "tinker://0f-1:train:0/sampler_weights/step-1";
        let read: CheckpointPath = path.parse().unwrap();
        assert_eq!((read.run.as_str(), read.kind), ("0f-1:train:0", CheckpointKind::SamplerWeights));
        assert_eq!((read.name.as_str(), read.to_string().as_str()), ("step-1", path));
        for wrong in [
            "",
            "tinker://",
            "tinker://a/weights",
            "tinker://a/weights/b/c",
            "tinker://a/other/b",
            "tinker:///weights/b",
            "tinker://a/weights/",
            "http://a/weights/b",
        ] {
            assert!(CheckpointPath::from_str(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_of_what_was_saved_for_sampling_need_not_say_what_for() {
        let whole = "tinker://model_1/sampler_weights/v4-10";
        for stated in [whole, "tinker://model_1/v4-10"] {
            let path = CheckpointPath::of_saved(stated, CheckpointKind::SamplerWeights).unwrap();
            assert_eq!(path.to_string(), whole);
        }
        for wrong in ["tinker://model_1", "tinker://model_1/", "tinker:///v4", "model_1/v4", "tinker://a/b/c"] {
            assert!(CheckpointPath::of_saved(wrong, CheckpointKind::SamplerWeights).is_err(), "{wrong}");
        }
        assert!(CheckpointPath::of_saved("tinker://model_1/v4-10", CheckpointKind::Weights).is_err());
    }
}
