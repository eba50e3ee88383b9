//! Tasks, tries at them, who tries, and what they earned.

pub(crate) mod attempt;
pub(crate) mod attempted_rollout;
pub(crate) mod episode_stop;
pub(crate) mod resources;
pub(crate) mod reward;
pub(crate) mod rollout;
pub(crate) mod rollout_record;
pub(crate) mod session;
pub(crate) mod worker;
pub(crate) mod world_changes;
