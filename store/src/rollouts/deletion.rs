use serde::Serialize;

use crate::Result;
use crate::database::sql::Sql;
use crate::database::writer::Write;

/// Tables whose rows belong to a rollout, those that refer to others first.
const TABLES: [&str; 6] = ["generations", "spans", "attempts", "gateway_rollouts", "sequence_counters", "rollouts"];

/// How many rows are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Rollouts.
    pub rollouts: u64,
    /// Their attempts.
    pub attempts: u64,
    /// Their spans.
    pub spans: u64,
    /// Their generations.
    pub generations: u64,
    /// The uses of these generations that runs had recorded.
    pub generation_uses: u64,
}

impl std::ops::AddAssign for Pruned {
    fn add_assign(&mut self, other: Self) {
        self.rollouts += other.rollouts;
        self.attempts += other.attempts;
        self.spans += other.spans;
        self.generations += other.generations;
        self.generation_uses += other.generation_uses;
    }
}

/// Deletes rollouts with all that belongs to them.
pub(crate) async fn delete_rollouts(write: &mut Write, rollout_ids: &[&str]) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    if rollout_ids.is_empty() {
        return Ok(pruned);
    }
    let ids = || rollout_ids.iter().copied();
    ids().for_each(|rollout_id| write.rollout_changed(rollout_id));
    let connection = write.connection();
    let mut uses = Sql::new(
        "DELETE FROM generation_uses WHERE generation_id IN
             (SELECT generation_id FROM generations WHERE rollout_id IN ",
    );
    uses.list(ids()).push(")");
    pruned.generation_uses = uses.execute(connection).await?;
    let mut teacher_logprobs = Sql::new(
        "DELETE FROM teacher_logprobs WHERE generation_id IN
             (SELECT generation_id FROM generations WHERE rollout_id IN ",
    );
    teacher_logprobs.list(ids()).push(")");
    teacher_logprobs.execute(connection).await?;
    // Readers of the list of finished rollouts continue after a place, so that places must not change.
    let mut completions = Sql::new("UPDATE completions SET rollout_id = NULL WHERE rollout_id IN ");
    completions.list(ids());
    completions.execute(connection).await?;
    for table in TABLES {
        let mut sql = Sql::new("DELETE FROM ");
        sql.push(table).push(" WHERE rollout_id IN ").list(ids());
        let deleted = sql.execute(connection).await?;
        match table {
            "generations" => pruned.generations = deleted,
            "spans" => pruned.spans = deleted,
            "attempts" => pruned.attempts = deleted,
            "rollouts" => pruned.rollouts = deleted,
            _ => {}
        }
    }
    Ok(pruned)
}
