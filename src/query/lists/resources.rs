//! `fulgurite resources`.

use anyhow::{Result, bail};
use fulgurite_terminal::output;
use fulgurite_terminal::records::resources_table;
use fulgurite_types::{Page, TextFilter};
use serde_json::json;

use crate::query::arguments::ResourcesArguments;
use crate::query::open;

/// Lists resources at their present versions.
pub async fn resources(arguments: ResourcesArguments) -> Result<()> {
    let store = open(&arguments.store).await?;
    let filter = TextFilter { equals: arguments.id.clone(), contains: None };
    let found = store.resources().query(&filter, &Page::default()).await?.items;
    if let (true, Some(id)) = (found.is_empty(), &arguments.id) {
        bail!("there are no resources `{id}` in this store");
    }
    match arguments.json {
        true => output::lines(found.iter().map(|resources| json!(resources))),
        false => output::lines(resources_table(&found)),
    }
    Ok(())
}
