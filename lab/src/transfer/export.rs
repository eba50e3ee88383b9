//! Records of a store, or what is made of them, written to a file.

use std::path::Path;

use fulgurite_agentlightning::{Conversation, messages as conversations};
use fulgurite_store::Store;
use fulgurite_types::{ArchiveScope, Attempt, ListFilter, Part};
use serde_json::{Value, json};

use super::TransferError;
use super::attempt_triplets::{spans_of, triplets_of};
use super::file_format::{FileFormat, RecordWriter};

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportedRecords {
    /// Records as the store has them.
    Archive(ArchiveScope),
    /// Prompts, responses and rewards of latest attempts.
    Triplets,
    /// Messages and tools of latest attempts' model calls.
    Conversations,
}

/// Writes what is asked for of some rollouts to a file, and says how many records that are. `progress` is told of each part how
/// many there are so far, and what they are called.
///
/// # Errors
/// If the store does not answer, or the file cannot be written.
pub async fn export_records(
    store: &Store,
    what: ExportedRecords,
    filter: ListFilter,
    (format, path): (FileFormat, &Path),
    progress: &mut dyn FnMut(&str, u64),
) -> Result<u64, TransferError> {
    let mut writer = RecordWriter::create(format, path)?;
    let records = match what {
        ExportedRecords::Archive(scope) => write_archive(store, scope, filter, &mut writer, progress).await?,
        ExportedRecords::Conversations => {
            let made = async |attempt: &Attempt| {
                let conversations = conversations(&spans_of(store, attempt).await?).conversations;
                Ok(longest(conversations).into_iter().map(|conversation| json!(conversation)).collect())
            };
            write_of_attempts(store, &filter, &mut writer, &mut |done| progress("conversations", done), made).await?
        }
        ExportedRecords::Triplets => {
            let made = async |attempt: &Attempt| {
                let triplets = triplets_of(store, attempt).await?.into_iter();
                Ok(triplets.map(|triplet| json!({ "record": "triplet", "data": triplet })).collect())
            };
            write_of_attempts(store, &filter, &mut writer, &mut |done| progress("records", done), made).await?
        }
    };
    writer.finish()?;
    Ok(records)
}

async fn write_archive(
    store: &Store,
    scope: ArchiveScope,
    filter: ListFilter,
    writer: &mut RecordWriter,
    progress: &mut dyn FnMut(&str, u64),
) -> Result<u64, TransferError> {
    let mut archive = store.housekeeping().export(scope, filter).await?;
    let mut written = 0;
    loop {
        let records = archive.next().await?;
        if records.is_empty() {
            return Ok(written);
        }
        for record in &records {
            writer.write(json!(record))?;
        }
        written += records.len() as u64;
        progress("records", written);
    }
}

/// What is made of the latest attempts.
async fn write_of_attempts(
    store: &Store,
    filter: &ListFilter,
    writer: &mut RecordWriter,
    progress: &mut dyn FnMut(u64),
    made: impl AsyncFn(&Attempt) -> Result<Vec<Value>, TransferError>,
) -> Result<u64, TransferError> {
    let mut written = 0;
    let every = Part::Newest { limit: None, sort_by: None };
    for rollout in store.queries().list_rollouts(filter, &every).await?.items {
        let Some(attempt) = store.attempts().get(&rollout.rollout_id, "latest").await? else { continue };
        for record in made(&attempt).await? {
            writer.write(record)?;
            written += 1;
        }
        progress(written);
    }
    Ok(written)
}

/// Those that no later one goes on from.
fn longest(mut conversations: Vec<Conversation>) -> Vec<Conversation> {
    for index in (0..conversations.len()).rev() {
        let (earlier, later) = conversations.split_at(index + 1);
        if later.iter().any(|later| later.messages.starts_with(&earlier[index].messages)) {
            conversations.remove(index);
        }
    }
    conversations
}
