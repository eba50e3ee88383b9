//! `fulgurite resources`.

use anyhow::{Result, bail};
use fulgurite_lab::time;
use fulgurite_lab::visible::cut;
use fulgurite_terminal::output;
use fulgurite_terminal::table::Columns;
use fulgurite_types::{Page, ResourcesUpdate, TextFilter};
use serde_json::{Value, json};

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
    let mut table = Columns::new(&["resources", "version", "updated", "what"]);
    for resources in &found {
        if arguments.json {
            output::line(json!(resources));
        } else {
            table.push(row(resources));
        }
    }
    if !arguments.json {
        table.print();
    }
    Ok(())
}

fn row(update: &ResourcesUpdate) -> Vec<String> {
    let kind = |resource: &Value| resource["resource_type"].as_str().unwrap_or_default().to_owned();
    let what: Vec<String> =
        update.resources.iter().map(|(name, resource)| format!("{name}: {}", kind(resource))).collect();
    vec![update.resources_id.clone(), update.version.to_string(), time::text(update.update_time), cut(&what.join(", "))]
}
