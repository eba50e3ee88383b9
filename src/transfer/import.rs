use std::path::Path;

use anyhow::{Context, Error, Result, anyhow};
use fulgurite_backends::{Notation, plain_words};
use fulgurite_store::{Store, StoreOptions, redact_url};
use fulgurite_types::{ArchiveRecord, Imported};
use serde_json::{Value, json};

use super::Format;
use super::jsonl::JsonlReader;
use super::parquet::ParquetReader;
use crate::query::arguments::ImportArguments;
use crate::query::url;
use crate::terminal::output;
use crate::terminal::progress::Progress;

/// Records in one transaction.
const BATCH: usize = 500;

/// Reads records from files into a store, which is made if it is not there.
pub async fn import(arguments: ImportArguments) -> Result<()> {
    let formats = arguments.files.iter().map(|file| Format::of(file)).collect::<Result<Vec<_>>>()?;
    let url = url(&arguments.store)?;
    let store = Store::open(&url, StoreOptions::default())
        .await
        .with_context(|| format!("cannot open the store {}", redact_url(&url)))?;
    let mut imported = Imported::default();
    let mut progress = Progress::new(arguments.json);
    for (file, format) in arguments.files.iter().zip(formats) {
        import_file(&store, file, format, &mut imported, &mut progress).await.with_context(|| {
            let before = imported.new + imported.known;
            format!("cannot import {}; {before} records before it went well", file.display())
        })?;
    }
    progress.finish();
    store.close().await;
    if arguments.json {
        output::line(json!(imported));
    } else {
        output::line(format!("imported {} records; {} were there already", imported.new, imported.known));
    }
    Ok(())
}

/// Where records come from.
enum Reader {
    Jsonl(JsonlReader),
    Parquet(Box<ParquetReader>),
}

impl Reader {
    fn next(&mut self) -> Result<Option<(String, Value)>> {
        match self {
            Self::Jsonl(reader) => reader.next(),
            Self::Parquet(reader) => reader.next(),
        }
    }
}

/// A batch of records, with their places in the file.
#[derive(Default)]
struct Batch {
    places: Vec<String>,
    records: Vec<ArchiveRecord>,
}

async fn import_file(
    store: &Store,
    file: &Path,
    format: Format,
    imported: &mut Imported,
    progress: &mut Progress,
) -> Result<()> {
    let mut reader = match format {
        Format::Jsonl => Reader::Jsonl(JsonlReader::open(file)?),
        Format::Parquet => Reader::Parquet(Box::new(ParquetReader::open(file)?)),
    };
    let mut batch = Batch::default();
    while let Some((place, value)) = reader.next()? {
        let record = record(value).with_context(|| format!("{place} is not a record"))?;
        batch.places.push(place);
        batch.records.push(record);
        if batch.records.len() == BATCH {
            store_batch(store, std::mem::take(&mut batch), imported).await?;
            progress.set("records", imported.new + imported.known, None);
        }
    }
    store_batch(store, batch, imported).await
}

fn record(value: Value) -> Result<ArchiveRecord> {
    if value["record"] == "triplet" {
        return Err(anyhow!("triplets are made of generations and rewards; export those (--what all) to import them"));
    }
    serde_json::from_value(value).map_err(|error| anyhow!(plain_words(&error.to_string(), "record", Notation::Json)))
}

async fn store_batch(store: &Store, batch: Batch, imported: &mut Imported) -> Result<()> {
    let refused = |(index, error)| {
        let place = batch.places.get(index).map_or("a record", String::as_str);
        Error::new(error).context(format!("{place} cannot be stored"))
    };
    let stored = store.import(batch.records).await.map_err(refused)?;
    imported.new += stored.new;
    imported.known += stored.known;
    Ok(())
}
