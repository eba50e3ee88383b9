//! What a trainer does at its start where weights are behind its model that it would replace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a trainer does at its start where weights are behind its model that it would replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AtStart {
    /// It does not begin, and says what can be done.
    #[default]
    Refuse,
    /// A new run puts its model's files in their place.
    StartOver,
    /// A run that goes on puts its checkpoint's weights in their place.
    ReplaceWeights,
}

/// One of the ways in which a run begins whose start was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StartChoice {
    /// The tool that is called.
    pub(crate) tool: &'static str,
    /// Its argument; none where it needs no more than it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_start: Option<AtStart>,
    /// The result.
    does: &'static str,
}

/// What the command line has for each choice.
const RESUME: &str = " --resume`";
const REPLACE: &str = " --resume --replace-weights`";
const START_OVER: &str = " --start-over`";
/// Stands where the weights behind the model are a run's, which may be another than the command line's.
const OF_A_RUN: &str = " of run ";

/// The choices that a trainer's last words leave, which hold the commands that go on; none where they are of something else.
pub(crate) fn choices(said: &str) -> Vec<StartChoice> {
    if !said.contains(REPLACE) && !said.contains(START_OVER) {
        return Vec::new();
    }
    let goes_on = StartChoice {
        tool: "train_steps",
        at_start: None,
        does: "goes on with the run whose weights are there, if it is one of list_runs",
    };
    let replaces = StartChoice {
        tool: "train_steps",
        at_start: Some(AtStart::ReplaceWeights),
        does: "goes on with this run, and puts its checkpoint's weights in the place of those that are there",
    };
    let starts_over = StartChoice {
        tool: "start_run",
        at_start: Some(AtStart::StartOver),
        does: "begins a new run, and puts its model's files in the place of the weights that are there",
    };
    let can_replace = said.contains(REPLACE);
    let can_go_on = said.contains(RESUME) || (said.contains(OF_A_RUN) && !can_replace);
    let offered = [(can_go_on, goes_on), (can_replace, replaces), (said.contains(START_OVER), starts_over)];
    offered.into_iter().filter(|(is_offered, _)| *is_offered).map(|(_, choice)| choice).collect()
}

impl StartChoice {
    /// Whether it begins another run.
    pub(crate) fn is_new_run(&self) -> bool {
        self.at_start == Some(AtStart::StartOver)
    }
}

impl AtStart {
    /// What `train` is told of it.
    pub(crate) fn flag(self) -> Option<&'static str> {
        match self {
            Self::Refuse => None,
            Self::StartOver => Some("--start-over"),
            Self::ReplaceWeights => Some("--replace-weights"),
        }
    }
}

impl std::fmt::Display for StartChoice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tool, at_start, does } = self;
        let argument = match at_start {
            None => "",
            Some(AtStart::Refuse) => "at_start = \"refuse\"",
            Some(AtStart::StartOver) => "at_start = \"start_over\"",
            Some(AtStart::ReplaceWeights) => "at_start = \"replace_weights\"",
        };
        write!(formatter, "{tool}({argument}) {does}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_leaves_the_choices_that_its_commands_are_of() {
        let offered = |said: &str| choices(said).iter().map(|choice| choice.at_start).collect::<Vec<_>>();
        let train = "`fulgurite train t.toml --server http://a";
        let in_use = format!("If it is to go on, type {train} --resume`; {train} --start-over` begins a new run");
        assert_eq!(offered(&in_use), [None, Some(AtStart::StartOver)]);
        let of_others = format!("{train} --resume --replace-weights` goes on; {train} --start-over` begins a new run");
        assert_eq!(offered(&of_others), [Some(AtStart::ReplaceWeights), Some(AtStart::StartOver)]);
        let of_another_run =
            format!("`m` has version 1 of run one after 1 updates: {train} --start-over` begins a new run");
        assert_eq!(offered(&of_another_run), [None, Some(AtStart::StartOver)]);
        assert_eq!(offered(&format!("interrupted; {train} --resume` goes on")), []);
    }
}
