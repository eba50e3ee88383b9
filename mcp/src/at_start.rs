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
pub(crate) struct StartChoice {
    /// The tool that is called.
    pub(crate) tool: &'static str,
    /// Its argument; none where it needs no more than it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_start: Option<AtStart>,
    /// The result.
    does: &'static str,
}

/// What a trainer prints where the weights behind its model are in its way: the event `weights_in_place`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WeightsInPlace {
    /// For people, with the command line's own commands.
    pub(crate) message: String,
    /// The run whose weights are there.
    published_run: Option<String>,
    ways: Vec<StartWay>,
}

/// A way to begin or go on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct StartWay {
    way: StartWayKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StartWayKind {
    NewRun,
    StartOver,
    Resume,
    ReplaceWeights,
    /// Of a later release.
    #[serde(other)]
    Unknown,
}

/// The tools by which an agent begins a run and goes on with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartTools {
    pub(crate) begins: &'static str,
    pub(crate) goes_on: &'static str,
    /// Of whose runs those are that go on.
    pub(crate) runs: RunsInReach,
}

/// Which runs a set of tools goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunsInReach {
    /// Any of list_runs.
    Listed,
    /// The latest session.
    LatestSession,
}

/// The tools of our own set.
pub(crate) const OWN_TOOLS: StartTools =
    StartTools { begins: "start_run", goes_on: "train_steps", runs: RunsInReach::Listed };

impl WeightsInPlace {
    /// The choices that are left.
    pub(crate) fn choices(&self, tools: StartTools) -> Vec<StartChoice> {
        let has = |way| self.ways.iter().any(|offered| offered.way == way);
        let goes_on = StartChoice {
            tool: tools.goes_on,
            at_start: None,
            does: match tools.runs {
                RunsInReach::Listed => "goes on with the run whose weights are there, if it is one of list_runs",
                RunsInReach::LatestSession => {
                    "goes on with the latest session, if the weights that are there are its own"
                }
            },
        };
        let replaces = StartChoice {
            tool: tools.goes_on,
            at_start: Some(AtStart::ReplaceWeights),
            does: "goes on with this run, and puts its checkpoint's weights in the place of those that are there",
        };
        let begins = StartChoice { tool: tools.begins, at_start: None, does: "begins a new run" };
        let starts_over = StartChoice {
            tool: tools.begins,
            at_start: Some(AtStart::StartOver),
            does: "begins a new run, and puts its model's files in the place of the weights that are there",
        };
        let can_replace = has(StartWayKind::ReplaceWeights);
        let can_go_on = has(StartWayKind::Resume) || (self.published_run.is_some() && !can_replace);
        let offered = [
            (can_go_on, goes_on),
            (can_replace, replaces),
            (has(StartWayKind::NewRun), begins),
            (has(StartWayKind::StartOver), starts_over),
        ];
        offered.into_iter().filter(|(is_offered, _)| *is_offered).map(|(_, choice)| choice).collect()
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_leaves_the_choices_of_its_data_whatever_its_words_are() {
        let offered = |published: Option<&str>, ways: &[&str], tools: StartTools| -> Vec<_> {
            let ways: Vec<_> = ways.iter().map(|way| json!({ "way": way, "run_id": null, "command": "x" })).collect();
            let event =
                json!({ "event": "weights_in_place", "message": "m", "published_run": published, "ways": ways });
            let in_place: WeightsInPlace = serde_json::from_value(event).unwrap();
            in_place.choices(tools).iter().map(|choice| (choice.tool, choice.at_start)).collect()
        };
        let (replaces, starts_over) = (Some(AtStart::ReplaceWeights), Some(AtStart::StartOver));
        let in_use = offered(Some("one"), &["resume", "start_over"], OWN_TOOLS);
        assert_eq!(in_use, [("train_steps", None), ("start_run", starts_over)]);
        let of_others = offered(Some("two"), &["replace_weights", "start_over"], OWN_TOOLS);
        assert_eq!(of_others, [("train_steps", replaces), ("start_run", starts_over)]);
        let of_another_run = offered(Some("one"), &["start_over"], OWN_TOOLS);
        assert_eq!(of_another_run, [("train_steps", None), ("start_run", starts_over)]);
        assert_eq!(offered(None, &["new_run", "of_a_later_release"], OWN_TOOLS), [("start_run", None)]);
        assert_eq!(offered(None, &[], OWN_TOOLS), []);
        let session = StartTools { begins: "init_sft", goes_on: "train_sft_step", runs: RunsInReach::LatestSession };
        let of_others = offered(Some("two"), &["replace_weights", "start_over"], session);
        assert_eq!(of_others, [("train_sft_step", replaces), ("init_sft", starts_over)]);
    }
}
