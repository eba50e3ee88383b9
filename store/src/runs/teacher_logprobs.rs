//! What teachers made of the tokens that a run learnt from.

use fulgurite_types::{RecordedTeacherLogprobs, TeacherLogprobs, pack_logprobs, unpack_logprobs};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::database::sql::{Sql, checked_id, column, count};
use crate::runs::Runs;
use crate::{Result, StoreError};

impl Runs {
    /// What teachers made of these generations, in the order of generation, run and teacher.
    pub async fn teacher_logprobs(&self, generation_ids: &[&str]) -> Result<Vec<RecordedTeacherLogprobs>> {
        read(&mut *self.database.reader().await?, generation_ids).await
    }
}

/// Puts these in the place of whatever the run had recorded of the same generations and teachers.
pub(crate) async fn replace(connection: &mut AnyConnection, run_id: &str, values: &[TeacherLogprobs]) -> Result<()> {
    for TeacherLogprobs { generation_id, teacher, logprobs } in values {
        check_length(connection, generation_id, logprobs.len()).await?;
        sqlx::query(
            "INSERT INTO teacher_logprobs (generation_id, run_id, teacher, logprobs) VALUES ($1, $2, $3, $4)
             ON CONFLICT (generation_id, run_id, teacher) DO UPDATE SET logprobs = excluded.logprobs",
        )
        .bind(generation_id.as_str())
        .bind(run_id)
        .bind(checked_id("teacher", teacher)?)
        .bind(pack_logprobs(logprobs))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Stores what an archive holds; whether it was not there before.
pub(crate) async fn import(connection: &mut AnyConnection, archived: RecordedTeacherLogprobs) -> Result<bool> {
    let RecordedTeacherLogprobs { run_id, values: TeacherLogprobs { generation_id, teacher, logprobs } } = archived;
    check_length(connection, &generation_id, logprobs.len()).await?;
    let inserted = sqlx::query(
        "INSERT INTO teacher_logprobs (generation_id, run_id, teacher, logprobs) VALUES ($1, $2, $3, $4)
         ON CONFLICT (generation_id, run_id, teacher) DO NOTHING",
    )
    .bind(generation_id.as_str())
    .bind(run_id.as_str())
    .bind(checked_id("teacher", &teacher)?)
    .bind(pack_logprobs(&logprobs))
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

pub(crate) async fn read(
    connection: &mut AnyConnection,
    generation_ids: &[&str],
) -> Result<Vec<RecordedTeacherLogprobs>> {
    let mut sql = Sql::new("SELECT * FROM teacher_logprobs WHERE generation_id IN ");
    sql.list(generation_ids.iter().copied()).push(" ORDER BY generation_id, run_id, teacher");
    sql.all(connection).await?.iter().map(from_row).collect()
}

fn from_row(row: &AnyRow) -> Result<RecordedTeacherLogprobs> {
    let logprobs = unpack_logprobs(column(row, "logprobs")?).ok_or_else(|| StoreError::Corrupt {
        column: "logprobs".to_owned(),
        message: "its length is not a multiple of 4".to_owned(),
    })?;
    let values =
        TeacherLogprobs { generation_id: column(row, "generation_id")?, teacher: column(row, "teacher")?, logprobs };
    Ok(RecordedTeacherLogprobs { run_id: column(row, "run_id")?, values })
}

/// Refuses another number of logprobs than a generation has sampled tokens.
async fn check_length(connection: &mut AnyConnection, generation_id: &str, logprobs: usize) -> Result<()> {
    let row = sqlx::query("SELECT sampled_length FROM generations WHERE generation_id = $1")
        .bind(generation_id)
        .fetch_optional(connection)
        .await?
        .ok_or_else(|| StoreError::not_found("generation", generation_id))?;
    let sampled: usize = count(&row, "sampled_length")?;
    if logprobs == sampled {
        return Ok(());
    }
    let message = format!("{logprobs} logprobs of generation {generation_id}, which has {sampled} sampled tokens");
    Err(StoreError::invalid("teacher_logprobs", message))
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NewRun, StepRecord};
    use serde_json::json;

    use super::*;
    use crate::testing::{TestStore, generation};

    fn of(generation_id: &str, logprobs: &[f32]) -> TeacherLogprobs {
        let (generation_id, teacher) = (generation_id.to_owned(), "large".to_owned());
        TeacherLogprobs { generation_id, teacher, logprobs: logprobs.to_vec() }
    }

    #[tokio::test]
    async fn a_step_records_what_teachers_made_of_its_tokens() {
        let store = TestStore::new().await;
        let run = NewRun { run_id: "run".into(), name: "run".into(), config: json!({}), seed: 1 };
        store.runs().create(run).await.unwrap();
        let attempted = store.start().await;
        store.recording().record(generation("a", &attempted, &[9], &[1, 2])).await.unwrap();
        let step = |step: u64, teacher_logprobs: Vec<TeacherLogprobs>| StepRecord {
            run_id: "run".into(),
            step,
            metrics: json!({}),
            weights_version: step,
            uses: vec![],
            teacher_logprobs,
            checkpoint: None,
        };
        for (wrong, expected) in [
            (of("a", &[-0.5]), "teacher_logprobs: 1 logprobs of generation a, which has 2 sampled tokens"),
            (of("b", &[-0.5]), "generation not found: b"),
        ] {
            assert_eq!(store.runs().record_step(step(1, vec![wrong])).await.unwrap_err().to_string(), expected);
        }
        assert_eq!(store.runs().steps("run").await.unwrap(), [], "all of a step is recorded, or none");
        store.runs().record_step(step(1, vec![of("a", &[-0.5, -1e-45])])).await.unwrap();
        store.runs().record_step(step(2, vec![of("a", &[-0.5, -3.0])])).await.unwrap();
        let recorded = RecordedTeacherLogprobs { run_id: "run".into(), values: of("a", &[-0.5, -3.0]) };
        assert_eq!(store.runs().teacher_logprobs(&["a", "b"]).await.unwrap(), [recorded]);
        store.runs().rewind("run", 0).await.unwrap();
        assert_eq!(store.runs().teacher_logprobs(&["a"]).await.unwrap().len(), 1, "what was sampled is still there");
    }
}
