use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::server::state::records::{CheckpointRecord, RunRecord, SamplerRecord, SessionRecord};
use crate::server::training::model::Model;

/// What there is.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) sessions: BTreeMap<String, SessionRecord>,
    pub(crate) runs: BTreeMap<String, RunRecord>,
    pub(crate) checkpoints: BTreeMap<String, CheckpointRecord>,
    pub(crate) samplers: BTreeMap<String, SamplerRecord>,
    /// Training runs that are in memory.
    pub(crate) models: HashMap<String, Model>,
    /// When each session was last heard from by this process.
    pub(crate) last_seen: HashMap<String, Instant>,
}

impl Registry {
    /// The project that a training run belongs to.
    pub(crate) fn project_of<'a>(&'a self, run: &'a RunRecord) -> Option<&'a str> {
        let of_session = || self.sessions.get(&run.session_id)?.project_id.as_deref();
        run.project_id.as_deref().or_else(of_session)
    }
}
