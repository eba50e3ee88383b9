//! Keys of the config that the command line says in place of the file: `--set KEY=VALUE`, and the arms of a sweep.

use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use fulgurite_backends::{Notation, plain_words};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// A key of the config and the value that is put in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The key as `config show` prints it: names and places in lists, joined by dots.
    pub key: String,
    /// What it is from now on.
    pub value: Value,
}

impl FromStr for Override {
    type Err = anyhow::Error;

    /// Reads `KEY=VALUE`; the value is TOML, or else text that needs no quotes.
    fn from_str(text: &str) -> Result<Self> {
        let (key, value) = text.split_once('=').ok_or_else(|| anyhow!("write KEY=VALUE: {text:?} has no ="))?;
        Self::new(key, value_of(value.trim()))
    }
}

impl Override {
    /// Puts `value` in the place of `key`.
    pub fn new(key: &str, value: Value) -> Result<Self> {
        let key = key.trim();
        if key.split('.').any(str::is_empty) {
            bail!("{key:?} is no key: write one as `fulgurite config show` prints it, such as trainer.learning_rate");
        }
        Ok(Self { key: key.to_owned(), value })
    }

    /// The value as a file name or a table would show it: text without its quotes.
    pub fn value_text(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// As the command line takes it.
    pub fn argument(&self) -> String {
        format!("{}={}", self.key, self.value)
    }

    fn apply(&self, table: &mut Table) -> Result<()> {
        let mut names = self.key.split('.').peekable();
        let first = names.next().unwrap_or_default();
        if names.peek().is_none() {
            table.insert(first.to_owned(), self.value.clone());
            return Ok(());
        }
        let mut place = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
        while let Some(name) = names.next() {
            let below = match place {
                Value::Table(table) => table.entry(name).or_insert_with(|| Value::Table(Table::new())),
                Value::Array(items) => {
                    let count = items.len();
                    let item = name.parse::<usize>().ok().and_then(|index| items.get_mut(index));
                    item.ok_or_else(|| anyhow!("{}: the list has {count} items, counted from 0", self.key))?
                }
                other => bail!("{}: what stands before .{name} is {other}, which has no keys", self.key),
            };
            if names.peek().is_none() {
                *below = self.value.clone();
                return Ok(());
            }
            place = below;
        }
        Ok(())
    }
}

/// A value as a command line has it: what is no TOML is text.
pub fn value_of(text: &str) -> Value {
    let read = toml::from_str::<Table>(&format!("value = {text}"));
    match read {
        Ok(mut table) if table.len() == 1 => table.remove("value").unwrap_or_else(|| Value::String(text.to_owned())),
        _ => Value::String(text.to_owned()),
    }
}

/// Puts `overrides` in the place of what a config file says, the later ones last.
pub fn apply(table: &mut Table, overrides: &[Override]) -> Result<()> {
    overrides.iter().try_for_each(|one| one.apply(table))
}

/// Reads what came of a config file and `overrides`; a mistake is told with the one that made it.
pub fn read<T: DeserializeOwned>(table: &Table, overrides: &[Override]) -> Result<T> {
    serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|error: serde_path_to_error::Error<_>| {
        let place = error.path().to_string();
        let inner: &toml::de::Error = error.inner();
        let words = plain_words(inner.message(), &place, Notation::Toml);
        let is_near = |one: &&Override| one.key.starts_with(&place) || place.starts_with(&one.key);
        let near = overrides.iter().rev().find(is_near).or(overrides.last());
        anyhow!("--set {}: {words}", near.map(Override::argument).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::declarations::Config;

    fn changed(text: &str, sets: &[&str]) -> Result<Config> {
        let mut table: Table = toml::from_str(text).unwrap();
        let overrides: Vec<Override> = sets.iter().map(|set| set.parse().unwrap()).collect();
        apply(&mut table, &overrides)?;
        read(&table, &overrides)
    }

    #[test]
    fn a_key_is_said_in_place_of_the_file() {
        let text = "[trainer]\nlearning_rate = 1e-3\n[[models]]\nname = 'm'\nbackend = 'embedded'\npath = 'p'\n";
        let sets = ["trainer.learning_rate=3", "trainer.loss=ppo", "run.name = sweep it", "models.0.lora_rank=4"];
        let config = changed(text, &sets).unwrap();
        assert_eq!((config.trainer.learning_rate, config.run.name.as_str()), (3.0, "sweep it"));
        assert_eq!(config.models[0].lora_rank, Some(4));
        assert_eq!(serde_json::json!(config)["trainer"]["loss"], "ppo");
    }

    #[test]
    fn a_mistake_names_the_override_that_made_it() {
        let said =
            |sets: &[&str]| changed("[[models]]\nname = 'm'\nbackend = 'embedded'\n", sets).unwrap_err().to_string();
        insta::assert_snapshot!(said(&["run.seed=1", "trainer.lerning_rate=1"]), @"--set trainer.lerning_rate=1: trainer has no key `lerning_rate`; did you mean `learning_rate`?");
        insta::assert_snapshot!(said(&["trainer.learning_rate=fast"]), @r#"--set trainer.learning_rate="fast": trainer.learning_rate is "fast", but must be a number"#);
        insta::assert_snapshot!(said(&["models.1.name=x"]), @"models.1.name: the list has 1 items, counted from 0");
        insta::assert_snapshot!(said(&["models.0.name.x=y"]), @r#"models.0.name.x: what stands before .x is "m", which has no keys"#);
        assert!("trainer.loss".parse::<Override>().is_err() && "=3".parse::<Override>().is_err());
    }
}
