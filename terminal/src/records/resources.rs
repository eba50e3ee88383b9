//! Resources in a table.

use fulgurite_lab::time;
use fulgurite_lab::visible::cut;
use fulgurite_types::ResourcesUpdate;
use serde_json::Value;

use crate::table::Columns;

/// A line for each, at its present version.
pub fn resources_table(resources: &[ResourcesUpdate]) -> Vec<String> {
    let mut table = Columns::new(&["resources", "version", "updated", "what"]);
    resources.iter().for_each(|update| table.push(row(update)));
    table.lines()
}

fn row(update: &ResourcesUpdate) -> Vec<String> {
    let kind = |resource: &Value| resource["resource_type"].as_str().unwrap_or_default().to_owned();
    let what: Vec<String> =
        update.resources.iter().map(|(name, resource)| format!("{name}: {}", kind(resource))).collect();
    vec![update.resources_id.clone(), update.version.to_string(), time::text(update.update_time), cut(&what.join(", "))]
}
