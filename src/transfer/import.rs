use anyhow::{Context, Result};
use fulgurite_lab::transfer::file_format::FileFormat;
use fulgurite_lab::transfer::import::import_file;
use fulgurite_store::{Store, StoreOptions, redact_url};
use fulgurite_terminal::output;
use fulgurite_terminal::progress::Progress;
use fulgurite_types::Imported;
use serde_json::json;

use super::arguments::ImportArguments;

/// Reads records from files into a store, which is made if it is not there.
pub async fn import(arguments: ImportArguments) -> Result<()> {
    let formats = arguments.files.iter().map(|file| FileFormat::of(file)).collect::<Result<Vec<_>, _>>()?;
    let url = arguments.store.named().url()?;
    let store = Store::open(&url, StoreOptions::default())
        .await
        .with_context(|| format!("cannot open the store {}", redact_url(&url)))?;
    let mut imported = Imported::default();
    let mut progress = Progress::new(arguments.json);
    for (file, format) in arguments.files.iter().zip(formats) {
        let mut show = |records| progress.set("records", records, None);
        import_file(&store, file, format, &mut imported, &mut show).await?;
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
