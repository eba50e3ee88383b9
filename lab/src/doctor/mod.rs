//! What is wrong with a run, and what to do.

mod facts;
pub mod finding_lines;
pub mod findings;
pub mod machine;
pub(crate) mod routes;
pub mod servers;
mod stale_harvest;

use anyhow::Result;
use fulgurite_store::Store;
use fulgurite_types::Run;

use self::findings::{Answer, Finding};
use self::servers::ServerFacts;

/// All that is amiss with a run, the worst first.
pub async fn findings_of(store: &Store, run: &Run) -> Result<Vec<Finding>> {
    Ok(findings::findings(&facts::facts(store, run).await?))
}

/// What is seen of a run at once.
pub struct Seen {
    /// All that is amiss, the worst first.
    pub findings: Vec<Finding>,
    /// The answer of the rollout that was played last.
    pub answer: Option<Answer>,
    /// What the servers of its store sample from.
    pub servers: ServerFacts,
}

/// The findings, the last answer and the servers of a run.
pub async fn look(store: &Store, run: &Run) -> Result<Seen> {
    let mut facts = facts::facts(store, run).await?;
    Ok(Seen { findings: findings::findings(&facts), answer: facts.answers.pop(), servers: facts.servers })
}
