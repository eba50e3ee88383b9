//! `fulgurite config show`.

use std::collections::HashMap;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use fulgurite_config::declarations::{Config, DEFAULT_STORE, LoadedConfig};
use fulgurite_config::models::ModelEntry;
use fulgurite_lab::learning_rate_rule::learning_rate_rule;
use fulgurite_terminal::output;
use serde_json::{Map, Value, json};

use super::arguments::{Cli, Command, ConfigAction, ConfigArguments};
use crate::serve::command as serve;
use crate::train;

/// Command lines whose arguments the environment can say in place of keys of the config. The file is not looked at.
const READERS: [[&str; 3]; 2] = [["fulgurite", "serve", "--config=FILE"], ["fulgurite", "train", "FILE"]];

/// Prints every key that is in force and where its value came from.
pub fn run(arguments: ConfigArguments) -> Result<()> {
    let ConfigAction::Show { config: file, json } = arguments.action;
    let mut loaded = LoadedConfig::read(file.as_deref())?;
    let written = written_keys(&loaded)?;
    let variables = override_by_environment(&mut loaded.config);
    // A run of `train` has a store of its own.
    let store_by_default = loaded.config.store.url.is_none();
    loaded.config.store.url.get_or_insert_with(|| DEFAULT_STORE.to_owned());
    loaded.config.models.iter_mut().for_each(ModelEntry::fill_adapter_defaults);
    let rule = learning_rate_rule(&loaded);
    for (key, value) in flatten(&json!(loaded.config)) {
        let from = match (variables.get(&key), &loaded.file) {
            (Some((variable, command)), _) => format!("{variable} ({command})"),
            (None, Some(file)) if written.contains_key(&key) => file.display().to_string(),
            _ if store_by_default && key == "store.url" => "default (serve)".to_owned(),
            _ => "default".to_owned(),
        };
        let note = rule.as_ref().filter(|_| key == "trainer.learning_rate");
        if json {
            let mut line = json!({ "key": key, "value": value, "from": from });
            if let Some(note) = note {
                line["note"] = json!(note);
            }
            output::line(line);
        } else {
            let text = serde_json::to_string(&value).context("a value cannot be written as JSON")?;
            output::line(format!("{key} = {text}  # {from}"));
            note.into_iter().for_each(|note| output::line(format!("# {key}: {note}")));
        }
    }
    Ok(())
}

/// Puts what the environment says in place of keys, as the commands do that read it. Gives for each such key the variable
/// and the command.
fn override_by_environment(config: &mut Config) -> HashMap<String, (String, &'static str)> {
    let mut overrides = HashMap::new();
    for reader in READERS {
        match Cli::parse_from(reader).command {
            Command::Serve(arguments) => serve::override_by_flags(config, &arguments),
            Command::Train(arguments) => train::override_by_flags(config, arguments),
            _ => {}
        }
        let command = reader[1];
        for (key, variable) in variables_of(command) {
            if std::env::var_os(&variable).is_some() {
                overrides.insert(key, (variable, command));
            }
        }
    }
    overrides
}

/// What the environment can say of a command's arguments: each by its id, which is a key of the config but for that of the
/// config file itself, with the variable.
fn variables_of(command: &str) -> Vec<(String, String)> {
    let all = Cli::command();
    let arguments = all.find_subcommand(command).into_iter().flat_map(clap::Command::get_arguments);
    let named = |argument: &clap::Arg| {
        Some((argument.get_id().to_string(), argument.get_env()?.to_string_lossy().into_owned()))
    };
    arguments.filter_map(named).collect()
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
    fn what_the_environment_can_say_is_named_by_a_key_of_the_config() {
        let keys = flatten(&json!(Config::default()));
        let named: Vec<(String, String)> = READERS.iter().flat_map(|reader| variables_of(reader[1])).collect();
        let variables: Vec<&str> = named.iter().map(|(_, variable)| variable.as_str()).collect();
        assert!(variables.contains(&"FULGURITE_LISTEN") && variables.contains(&"FULGURITE_SEED"), "{variables:?}");
        for (key, variable) in named.iter().filter(|(_, variable)| variable != "FULGURITE_CONFIG") {
            assert!(keys.contains_key(key), "{variable} is put in the place of {key}, which is no key");
        }
    }

    #[test]
    fn nested_keys_are_joined_by_dots() {
        let flat = flatten(&json!({ "a": { "b": 1, "c": [1, 2] }, "models": [{ "name": "x" }] }));
        assert_eq!(json!(flat), json!({ "a.b": 1, "a.c": [1, 2], "models.0.name": "x" }));
    }
}
