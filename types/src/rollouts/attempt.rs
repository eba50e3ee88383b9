use serde::{Deserialize, Serialize};

use crate::text::words::words;
use crate::{EpisodeStop, Object, WorldChanges};

words! {
    /// Where one attempt at a rollout stands.
    AttemptStatus {
        /// Handed to a worker; nothing heard yet.
        Preparing = "preparing",
        /// Heard of.
        Running = "running",
        /// Ended without success.
        Failed = "failed",
        /// Ended well.
        Succeeded = "succeeded",
        /// Not heard of for too long, or its worker went away.
        Unresponsive = "unresponsive",
        /// Took too long.
        Timeout = "timeout",
    }
}

impl AttemptStatus {
    /// Whether nothing more is expected of it.
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Preparing | Self::Running)
    }
}

/// One try at a rollout, by one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The rollout that it tries.
    pub rollout_id: String,
    /// `at-` and 8 hexadecimal digits; unique within its rollout.
    pub attempt_id: String,
    /// 1 for the first attempt, then counting up.
    pub sequence_id: u32,
    /// When it was handed out.
    pub start_time: f64,
    /// When it ended; `None` while it has not.
    pub end_time: Option<f64>,
    /// Where it stands.
    pub status: AttemptStatus,
    /// Who runs it.
    pub worker_id: Option<String>,
    /// When a span or a report of it last arrived.
    pub last_heartbeat_time: Option<f64>,
    /// Whatever its worker wants to find again.
    pub metadata: Option<Object>,
    /// What gives its rewards, as its worker called it when it took the rollout; nothing is written where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grader: Option<String>,
}

words! {
    /// Who failed an attempt, as the runner says that played it.
    Fault {
        /// The agent's program, whatever the model had told it.
        Agent = "agent",
        /// What was to grade it.
        Grader = "grader",
        /// The runner itself, or the machine under it.
        Runner = "runner",
        /// What made the attempt's world, or looked at it.
        World = "world",
    }
}

impl Fault {
    /// Key of an attempt's metadata that holds it.
    pub const KEY: &str = "fault";
}

/// Key of an attempt's metadata under which the server says which limit ended it.
const STOP: &str = "fulgurite_stop";
/// Key under which it says how a model host failed the attempt.
const HOST_ERROR: &str = "fulgurite_host_error";

/// What a server notes of an attempt: the first of each kind stays, whatever else is said of the attempt later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptNote {
    /// A limit refused the attempt a call.
    Stop(EpisodeStop),
    /// A model host failed to answer a call; the error's code.
    HostError(&'static str),
}

impl AttemptNote {
    /// The keys of notes, which nobody else may write.
    pub const KEYS: [&str; 2] = [STOP, HOST_ERROR];

    /// Key and value in the metadata.
    pub fn entry(self) -> (&'static str, &'static str) {
        match self {
            Self::Stop(stop) => (STOP, stop.as_str()),
            Self::HostError(code) => (HOST_ERROR, code),
        }
    }
}

impl Attempt {
    /// Key of the metadata under which a runner keeps what the agent printed; of much, the end.
    pub const OUTPUT: &str = "output";
    /// Key that says that this is not all of it, or not as it was.
    pub const OUTPUT_IS_PARTIAL: &str = "output_is_partial";
    /// Key under which a runner keeps a digest of the attempt's world before its agent came.
    pub const WORLD_DIGEST: &str = "world_digest";

    /// Key under which a runner keeps why the attempt failed, in words for people.
    pub const REASON: &str = "reason";
    /// Key under which it keeps the part of the reason that attempts which failed alike have in common, where the reason's own
    /// beginning is not that.
    pub const CAUSE: &str = "cause";

    /// Why it failed, if its runner says so.
    pub fn reason(&self) -> Option<&str> {
        self.word(Self::REASON)
    }

    /// What it has in common with other attempts that failed alike: the reason without what is of this task, this output or
    /// this moment.
    pub fn failure_cause(&self) -> Option<String> {
        self.word(Self::CAUSE).map(str::to_owned).or_else(|| self.reason().map(cause_of))
    }

    /// What the agent printed, if its runner kept all of it.
    pub fn whole_output(&self) -> Option<&str> {
        let is_partial = self.metadata.as_ref()?.contains_key(Self::OUTPUT_IS_PARTIAL);
        self.word(Self::OUTPUT).filter(|_| !is_partial)
    }

    /// What its agent changed in its world, if it had one and its runner looked.
    pub fn world_changes(&self) -> Option<WorldChanges> {
        WorldChanges::deserialize(self.metadata.as_ref()?.get(WorldChanges::KEY)?).ok()
    }

    /// The state that its world was in before its agent came, if it had one: the same text for the same files.
    pub fn world_digest(&self) -> Option<&str> {
        self.word(Self::WORLD_DIGEST)
    }

    /// Which limit refused it a call, if one did.
    pub fn limit(&self) -> Option<EpisodeStop> {
        EpisodeStop::from_word(self.word(STOP)?)
    }

    /// How a model host failed it, if one did.
    pub fn host_error(&self) -> Option<&str> {
        self.word(HOST_ERROR)
    }

    /// Who failed it, if its runner says so.
    pub fn fault(&self) -> Option<Fault> {
        Fault::from_word(self.word(Fault::KEY)?)
    }

    fn word(&self, key: &str) -> Option<&str> {
        self.metadata.as_ref()?.get(key)?.as_str()
    }
}

/// Changes to an attempt: `None` keeps what is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptUpdate {
    /// A new status, which the rollout follows if this is its latest attempt.
    pub status: Option<AttemptStatus>,
    /// Who runs it.
    pub worker_id: Option<String>,
    /// When it was last heard of.
    pub last_heartbeat_time: Option<f64>,
    /// New metadata, replacing the old.
    pub metadata: Option<Object>,
}

/// Begins the advice at the end of a reason.
const HELP: &str = " (help: ";

/// The beginning of a reason, up to what differs between attempts, which stands behind a colon. The type of an exception
/// that an agent reports is still a part of it.
fn cause_of(reason: &str) -> String {
    let reason = reason.split(HELP).next().unwrap_or_default();
    let Some((cause, detail)) = reason.split_once(": ") else { return reason.to_owned() };
    let is_type = |name: &&str| {
        let fits = |character: char| character.is_ascii_alphanumeric() || "._".contains(character);
        (name.ends_with("Error") || name.ends_with("Exception")) && name.chars().all(fits)
    };
    match detail.split([':', '(', '\n']).next().filter(is_type) {
        Some(exception) => format!("{cause}: {exception}"),
        None => cause.to_owned(),
    }
}

impl AttemptUpdate {
    /// Only a new status.
    pub fn status(status: AttemptStatus) -> Self {
        Self { status: Some(status), ..Self::default() }
    }
}

/// Which attempt of a rollout is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptRef {
    /// The one with the greatest sequence id.
    Latest,
    /// The one with this id.
    Id(String),
}

impl From<&str> for AttemptRef {
    /// The word `latest` means the latest attempt, as on the wire.
    fn from(text: &str) -> Self {
        if text == "latest" { Self::Latest } else { Self::Id(text.to_owned()) }
    }
}

impl From<&String> for AttemptRef {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<String> for AttemptRef {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_holds_neither_the_task_nor_the_output_that_the_reason_holds() {
        for (reason, cause) in [
            ("agent failed: boom 1000", "agent failed"),
            ("agent failed: ValueError: boom 1000", "agent failed: ValueError"),
            (
                "agent failed: openai.APIConnectionError: x (help: the task's base_url)",
                "agent failed: openai.APIConnectionError",
            ),
            ("agent exited with status 3", "agent exited with status 3"),
            ("agent exited with status 1 (help: the model is at: x)", "agent exited with status 1"),
            ("no reward: none was posted, and of the agent's output: its last line is 7", "no reward"),
        ] {
            assert_eq!(cause_of(reason), cause);
        }
    }
}
