//! Records of files, put into a store.

use std::path::Path;

use fulgurite_backends::{Notation, plain_words};
use fulgurite_store::Store;
use fulgurite_types::{ArchiveRecord, Imported};
use serde_json::Value;

use super::TransferError;
use super::error::NotARecord;
use super::file_format::{FileFormat, RecordReader};

/// Records in one transaction.
const BATCH: usize = 500;

/// A batch of records, with their places in the file.
#[derive(Default)]
struct Batch {
    places: Vec<String>,
    records: Vec<ArchiveRecord>,
}

/// Puts the records of a file into a store, and adds what became of them to `imported`. `progress` is told after each batch how
/// many records there are so far.
///
/// # Errors
/// Names the file, and the line or row that is no record or that the store refuses.
pub async fn import_file(
    store: &Store,
    file: &Path,
    format: FileFormat,
    imported: &mut Imported,
    progress: &mut dyn FnMut(u64),
) -> Result<(), TransferError> {
    let read = import_records(store, file, format, imported, progress).await;
    read.map_err(|source| TransferError::Import {
        file: file.to_owned(),
        before: imported.new + imported.known,
        source: Box::new(source),
    })
}

async fn import_records(
    store: &Store,
    file: &Path,
    format: FileFormat,
    imported: &mut Imported,
    progress: &mut dyn FnMut(u64),
) -> Result<(), TransferError> {
    let mut reader = RecordReader::open(format, file)?;
    let mut batch = Batch::default();
    while let Some((place, value)) = reader.next()? {
        match record(value) {
            Ok(record) => batch.records.push(record),
            Err(source) => return Err(TransferError::NotARecord { place, source }),
        }
        batch.places.push(place);
        if batch.records.len() == BATCH {
            store_batch(store, std::mem::take(&mut batch), imported).await?;
            progress(imported.new + imported.known);
        }
    }
    store_batch(store, batch, imported).await
}

fn record(value: Value) -> Result<ArchiveRecord, NotARecord> {
    if value["record"] == "triplet" {
        return Err(NotARecord::Triplet);
    }
    let in_words = |error: serde_json::Error| plain_words(&error.to_string(), "record", Notation::Json);
    serde_json::from_value(value).map_err(|error| NotARecord::Fields { message: in_words(error) })
}

async fn store_batch(store: &Store, batch: Batch, imported: &mut Imported) -> Result<(), TransferError> {
    let stored = store.housekeeping().import(batch.records).await.map_err(|(index, source)| {
        let place = batch.places.get(index).map_or("a record", String::as_str).to_owned();
        TransferError::CannotBeStored { place, source }
    })?;
    imported.new += stored.new;
    imported.known += stored.known;
    Ok(())
}
