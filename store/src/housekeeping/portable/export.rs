//! A store as a sequence of records from which it can be made again.

use std::collections::{HashMap, VecDeque};

use fulgurite_types::{
    ArchiveRecord, ArchiveScope, ArchivedCheckpoint, ArchivedGatewayRollout, ArchivedGeneration, ArchivedRollout,
    ArchivedUse, Cursor, Generation, ListFilter, Part, Span,
};
use sqlx::AnyConnection;

use crate::Result;
use crate::call_records::conversations::conversations;
use crate::database::dialect::Dialect;
use crate::database::readers::Reader;
use crate::database::sql::{Sql, column, count, json, optional_json, word};
use crate::generations::reading::generations_of_spans;
use crate::housekeeping::Housekeeping;
use crate::queries::listing::{ATTEMPTS, ROLLOUTS, SPANS, page, start};
use crate::resources::resources_from_row;
use crate::rollouts::attempts::rows::attempt_from_row;
use crate::rollouts::rows::rollout_from_row;
use crate::rollouts::workers::rows::worker_from_row;
use crate::runs::record::{run_from_row, step_from_row};
use crate::runs::teacher_logprobs;
use crate::spans::rows::span_from_row;
use crate::spans::with_tokens::add_tokens;

/// Records of the big tables that are read at a time.
const PAGE: u64 = 256;

/// One part of an archive; they follow each other so that what a record refers to comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Runs,
    Steps,
    Checkpoints,
    Resources,
    Workers,
    Rollouts,
    Attempts,
    /// Spans and generations as they are stored, and what became of the tokens.
    Calls,
    /// Spans as readers get them.
    Spans,
    /// Generations only.
    Generations,
}

/// An archive that is being read, of one moment of the store.
pub struct Export {
    connection: Reader,
    filter: ListFilter,
    stages: VecDeque<Stage>,
    cursor: Cursor,
}

impl Housekeeping {
    /// Begins to read the store as it is at this moment. A filter narrows rollouts and what belongs to them.
    pub async fn export(&self, scope: ArchiveScope, filter: ListFilter) -> Result<Export> {
        use Stage::{Attempts, Calls, Checkpoints, Generations, Resources, Rollouts, Runs, Spans, Steps, Workers};

        let stages = match scope {
            ArchiveScope::All => vec![Runs, Steps, Checkpoints, Resources, Workers, Rollouts, Attempts, Calls],
            ArchiveScope::Rollouts => vec![Rollouts, Attempts],
            ArchiveScope::Spans => vec![Spans],
            ArchiveScope::Generations => vec![Generations],
        };
        // It ends with its transaction open.
        let mut connection = self.database.own_reader().await?;
        let begin = Dialect::of(&connection).begin_snapshot();
        sqlx::raw_sql(begin).execute(&mut *connection).await?;
        Ok(Export { connection, filter, stages: stages.into(), cursor: Cursor::default() })
    }
}

impl Export {
    /// The next records; none at the end.
    pub async fn next(&mut self) -> Result<Vec<ArchiveRecord>> {
        while let Some(stage) = self.stages.front().copied() {
            let (records, last) = self.read(stage).await?;
            if last {
                self.stages.pop_front();
                self.cursor = Cursor::default();
            }
            if !records.is_empty() {
                return Ok(records);
            }
        }
        Ok(Vec::new())
    }

    /// Some records of a stage, and whether they are its last.
    async fn read(&mut self, stage: Stage) -> Result<(Vec<ArchiveRecord>, bool)> {
        let connection = &mut *self.connection;
        let whole = match stage {
            Stage::Runs => read_runs(connection).await?,
            Stage::Steps => read_steps(connection).await?,
            Stage::Checkpoints => read_checkpoints(connection).await?,
            Stage::Resources => read_resources(connection).await?,
            Stage::Workers => read_workers(connection).await?,
            Stage::Rollouts => return self.rollouts().await,
            Stage::Attempts => return self.attempts().await,
            Stage::Calls | Stage::Spans | Stage::Generations => return self.spans(stage).await,
        };
        Ok((whole, true))
    }

    fn part(&self) -> Part {
        Part::After { cursor: self.cursor.clone(), limit: Some(PAGE) }
    }

    async fn rollouts(&mut self) -> Result<(Vec<ArchiveRecord>, bool)> {
        let (rows, cursor) =
            page(start(&ROLLOUTS, &self.filter), &ROLLOUTS, &self.part(), &mut self.connection).await?;
        self.cursor = cursor;
        let mut records = Vec::with_capacity(rows.len());
        for row in &rows {
            let rollout = rollout_from_row(row)?;
            let connection = &mut *self.connection;
            let counter = "SELECT COALESCE(MAX(value), 0) AS value FROM sequence_counters WHERE rollout_id = ";
            let counter = Sql::new(counter).text(&rollout.rollout_id).one(connection).await?;
            let place = "SELECT MAX(position) AS position FROM completions WHERE rollout_id = ";
            let place = Sql::new(place).text(&rollout.rollout_id).one(connection).await?;
            let gateway = read_gateway_rollout(connection, &rollout.rollout_id).await?;
            records.push(ArchiveRecord::Rollout(ArchivedRollout {
                queue_position: column(row, "queue_position")?,
                last_sequence_id: count(&counter, "value")?,
                completion_position: column(&place, "position")?,
                rollout,
            }));
            records.extend(gateway);
        }
        Ok((records, rows.is_empty()))
    }

    async fn attempts(&mut self) -> Result<(Vec<ArchiveRecord>, bool)> {
        let (rows, cursor) =
            page(start(&ATTEMPTS, &self.filter), &ATTEMPTS, &self.part(), &mut self.connection).await?;
        self.cursor = cursor;
        let records =
            rows.iter().map(|row| Ok(ArchiveRecord::Attempt(attempt_from_row(row)?))).collect::<Result<_>>()?;
        Ok((records, rows.is_empty()))
    }

    async fn spans(&mut self, stage: Stage) -> Result<(Vec<ArchiveRecord>, bool)> {
        let (rows, cursor) = page(start(&SPANS, &self.filter), &SPANS, &self.part(), &mut self.connection).await?;
        self.cursor = cursor;
        let spans: Vec<Span> = rows.iter().map(span_from_row).collect::<Result<_>>()?;
        let mut records = Vec::with_capacity(spans.len());
        // Neighbours are mostly of one rollout, as its generations are read together.
        for of_one_rollout in spans.chunk_by(|one, other| one.rollout_id == other.rollout_id) {
            records.extend(records_of(&mut self.connection, stage, of_one_rollout).await?);
        }
        Ok((records, rows.is_empty()))
    }
}

/// The records that some spans of one rollout become.
async fn records_of(connection: &mut AnyConnection, stage: Stage, spans: &[Span]) -> Result<Vec<ArchiveRecord>> {
    if stage == Stage::Spans {
        let mut spans = spans.to_vec();
        add_tokens(connection, &mut spans).await?;
        return Ok(spans.into_iter().map(|span| ArchiveRecord::Span(Box::new(span))).collect());
    }
    let Some(rollout_id) = spans.first().map(|span| &span.rollout_id) else { return Ok(Vec::new()) };
    let span_ids: Vec<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
    let generations = generations_of_spans(connection, rollout_id, &span_ids, &[]).await?;
    let ids: Vec<String> = generations.iter().map(|generation| generation.generation_id.clone()).collect();
    let mut by_span: HashMap<(String, String), Generation> = generations
        .into_iter()
        .map(|generation| ((generation.attempt_id.clone(), generation.span_id.clone()), generation))
        .collect();
    let by_generation = conversations(connection, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let mut records = Vec::with_capacity(spans.len());
    for span in spans {
        match by_span.remove(&(span.attempt_id.clone(), span.span_id.clone())) {
            Some(generation) => {
                let mut span = span.clone();
                if let Some(conversation) = by_generation.get(&generation.generation_id) {
                    conversation.put_back(&mut span.attributes);
                }
                let archived = ArchivedGeneration { generation, span };
                records.push(ArchiveRecord::Generation(Box::new(archived)));
            }
            None if stage == Stage::Calls => records.push(ArchiveRecord::Span(Box::new(span.clone()))),
            None => {}
        }
    }
    if stage == Stage::Calls && !ids.is_empty() {
        records.extend(read_uses(connection, &ids).await?);
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let of_teachers = teacher_logprobs::read(connection, &ids).await?;
        records.extend(of_teachers.into_iter().map(ArchiveRecord::TeacherLogprobs));
    }
    Ok(records)
}

async fn read_runs(connection: &mut AnyConnection) -> Result<Vec<ArchiveRecord>> {
    let rows = Sql::new("SELECT * FROM runs ORDER BY position").all(connection).await?;
    rows.iter().map(|row| Ok(ArchiveRecord::Run(run_from_row(row)?))).collect()
}

async fn read_steps(connection: &mut AnyConnection) -> Result<Vec<ArchiveRecord>> {
    let rows = Sql::new("SELECT * FROM steps ORDER BY run_id, step").all(connection).await?;
    rows.iter().map(|row| Ok(ArchiveRecord::Step(step_from_row(row)?))).collect()
}

async fn read_checkpoints(connection: &mut AnyConnection) -> Result<Vec<ArchiveRecord>> {
    let rows = Sql::new("SELECT * FROM checkpoints ORDER BY run_id, step").all(connection).await?;
    rows.iter()
        .map(|row| {
            Ok(ArchiveRecord::Checkpoint(ArchivedCheckpoint {
                run_id: column(row, "run_id")?,
                step: count(row, "step")?,
                directory: column(row, "directory")?,
                state: json(row, "state")?,
            }))
        })
        .collect()
}

async fn read_resources(connection: &mut AnyConnection) -> Result<Vec<ArchiveRecord>> {
    let rows = Sql::new("SELECT * FROM resources ORDER BY position").all(connection).await?;
    rows.iter().map(|row| Ok(ArchiveRecord::Resources(resources_from_row(row)?))).collect()
}

async fn read_workers(connection: &mut AnyConnection) -> Result<Vec<ArchiveRecord>> {
    let rows = Sql::new("SELECT * FROM workers ORDER BY position").all(connection).await?;
    rows.iter().map(|row| Ok(ArchiveRecord::Worker(worker_from_row(row)?))).collect()
}

async fn read_gateway_rollout(connection: &mut AnyConnection, rollout_id: &str) -> Result<Vec<ArchiveRecord>> {
    let rows = Sql::new("SELECT * FROM gateway_rollouts WHERE rollout_id = ").text(rollout_id).all(connection).await?;
    rows.iter()
        .map(|row| {
            Ok(ArchiveRecord::GatewayRollout(ArchivedGatewayRollout {
                rollout_id: rollout_id.to_owned(),
                local_config: optional_json(row, "local_config")?,
                k8s_config: optional_json(row, "k8s_config")?,
                k8s_job_name: column(row, "k8s_job_name")?,
                last_attempt_id: column(row, "last_attempt_id")?,
                error_message: column(row, "error_message")?,
                version: column(row, "version")?,
                updated_at: column(row, "updated_at")?,
            }))
        })
        .collect()
}

async fn read_uses(connection: &mut AnyConnection, generation_ids: &[String]) -> Result<Vec<ArchiveRecord>> {
    let mut sql = Sql::new("SELECT * FROM generation_uses WHERE generation_id IN ");
    sql.list(generation_ids.iter().map(String::as_str)).push(" ORDER BY run_id, generation_id, cause");
    sql.all(connection)
        .await?
        .iter()
        .map(|row| {
            Ok(ArchiveRecord::GenerationUse(ArchivedUse {
                run_id: column(row, "run_id")?,
                generation_id: column(row, "generation_id")?,
                cause: word(row, "cause")?,
                step: column(row, "step")?,
                tokens: count(row, "tokens")?,
            }))
        })
        .collect()
}
