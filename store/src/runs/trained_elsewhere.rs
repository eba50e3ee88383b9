//! Generations that other runs have trained.

use fulgurite_types::TokenUse;

use crate::Result;
use crate::database::sql::{Sql, column};
use crate::runs::Runs;

impl Runs {
    /// Those of some generations that another run than this one has trained, in the order of their ids.
    pub async fn trained_elsewhere(&self, run_id: &str, generation_ids: &[String]) -> Result<Vec<String>> {
        let mut sql = Sql::new("SELECT DISTINCT generation_id FROM generation_uses WHERE cause = ");
        sql.text(TokenUse::Trained.as_str()).push(" AND run_id <> ").text(run_id);
        sql.push(" AND generation_id IN ").list(generation_ids.iter().map(String::as_str));
        sql.push(" ORDER BY generation_id");
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        rows.iter().map(|row| column(row, "generation_id")).collect()
    }
}
