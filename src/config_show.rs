//! `fulgurite config show`.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::cli::{ConfigAction, ConfigArguments};
use crate::config::LoadedConfig;
use crate::output;

/// Prints every key that is in force and where its value came from.
pub fn run(arguments: ConfigArguments) -> Result<()> {
    let ConfigAction::Show { config: file, json } = arguments.action;
    let loaded = LoadedConfig::read(file.as_deref())?;
    let written = written_keys(&loaded)?;
    for (key, value) in flatten(&json!(loaded.config)) {
        let from = match &loaded.file {
            Some(file) if written.contains_key(&key) => file.display().to_string(),
            _ => "default".to_owned(),
        };
        if json {
            output::line(json!({ "key": key, "value": value, "from": from }));
        } else {
            let text = serde_json::to_string(&value).context("a value cannot be written as JSON")?;
            output::line(format!("{key} = {text}  # {from}"));
        }
    }
    Ok(())
}

/// What the config file itself says, defaults left out.
fn written_keys(loaded: &LoadedConfig) -> Result<Map<String, Value>> {
    let Some(file) = &loaded.file else { return Ok(Map::new()) };
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let written: Value = toml::from_str(&text).with_context(|| file.display().to_string())?;
    Ok(flatten(&written))
}

/// Nested objects as `a.b.c`, lists of objects as `a.0.b`; everything else stays whole.
fn flatten(value: &Value) -> Map<String, Value> {
    let mut flat = Map::new();
    flatten_into(String::new(), value, &mut flat);
    flat
}

fn flatten_into(prefix: String, value: &Value, flat: &mut Map<String, Value>) {
    let key = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, value)| flatten_into(key(name), value, flat));
        }
        Value::Array(items) if items.first().is_some_and(Value::is_object) => {
            items.iter().enumerate().for_each(|(index, value)| flatten_into(key(&index.to_string()), value, flat));
        }
        other => {
            flat.insert(prefix, other.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_keys_are_joined_by_dots() {
        let flat = flatten(&json!({ "a": { "b": 1, "c": [1, 2] }, "models": [{ "name": "x" }] }));
        assert_eq!(json!(flat), json!({ "a.b": 1, "a.c": [1, 2], "models.0.name": "x" }));
    }
}
