//! Runs side by side.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::records::config_of_run;

/// The keys of two runs' configs whose values differ, with both.
///
/// # Errors
/// If the config of a run cannot be read.
pub fn differing_keys(first: &Path, second: &Path) -> Result<BTreeMap<String, [String; 2]>> {
    let mut keys = BTreeMap::new();
    for (place, directory) in [first, second].into_iter().enumerate() {
        let config = json!(config_of_run(directory)?.config);
        let mut open = vec![(String::new(), &config)];
        while let Some((key, value)) = open.pop() {
            match value {
                Value::Object(table) => {
                    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
                    open.extend(table.iter().map(|(name, value)| (below(name), value)));
                }
                Value::Null => {}
                value => keys.entry(key).or_insert([const { String::new() }; 2])[place] = value.to_string(),
            }
        }
    }
    keys.retain(|_, [one, other]| one != other);
    Ok(keys)
}
