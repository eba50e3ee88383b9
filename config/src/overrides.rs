//! Keys of the config that the command line says in place of the file: `--set KEY=VALUE`, and the arms of a sweep.

use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_backends::{Notation, plain_words};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Spanned, Table, Value};

use crate::setting_key::SettingKey;

/// A key of the config and the value that is put in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The key as `config show` prints it.
    pub key: SettingKey,
    /// What it is from now on.
    pub value: Value,
}

impl FromStr for Override {
    type Err = anyhow::Error;

    /// Reads `KEY=VALUE`; the value is TOML, or else text that needs no quotes.
    fn from_str(text: &str) -> Result<Self> {
        let (key, value) = key_and_rest(text, "VALUE")?;
        let value = value_of(value).with_context(|| format!("{key}: the value"))?;
        Ok(Self { key, value })
    }
}

impl Override {
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
        let mut names = self.key.names().iter().peekable();
        let first = names.next().map_or("", String::as_str);
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

/// The key of `KEY=...`, and what comes after its `=`; blanks around the `=` and at both ends do not count.
pub fn key_and_rest<'a>(text: &'a str, values: &str) -> Result<(SettingKey, &'a str)> {
    let (key, rest) = SettingKey::read_prefix(text.trim())?;
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').ok_or_else(|| match rest {
        "" => anyhow!("write {key}={values}: {text:?} has no ="),
        _ => anyhow!("write {key}={values}: {rest:?} comes after the key"),
    })?;
    Ok((key, rest.trim()))
}

/// One value as a command line has it: what is no TOML is text, which needs no quotes unless it looks like TOML.
///
/// # Errors
/// If it begins as TOML does and is none, is followed by anything, or is plain text with control characters.
pub fn value_of(text: &str) -> Result<Value> {
    if let Some(value) = whole_value(text) {
        return Ok(value);
    }
    if text.starts_with(['"', '\'', '[', '{']) {
        bail!("{text:?} is not one value of TOML: mend it, or put all of it in quotes if it is text");
    }
    if text.contains(char::is_control) {
        bail!(
            "{text:?} has line ends or other control characters: put it in quotes with \\n in their place if it is text"
        );
    }
    Ok(Value::String(text.to_owned()))
}

/// `text` as TOML, if it is one value from its first to its last character, without a comment or a further key.
pub fn whole_value(text: &str) -> Option<Value> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        value: Spanned<Value>,
    }
    const BEFORE: &str = "value = ";
    let line = toml::from_str::<Line>(&format!("{BEFORE}{text}")).ok()?;
    let is_whole = line.value.span() == (BEFORE.len()..BEFORE.len() + text.len());
    is_whole.then(|| line.value.into_inner())
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
        let is_near = |one: &&Override| {
            let key = one.key.to_string();
            key.starts_with(&place) || place.starts_with(&key)
        };
        let near = overrides.iter().rev().find(is_near).or(overrides.last());
        anyhow!("--set {}: {words}", near.map(Override::argument).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declarations::Config;

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
        assert_eq!((config.trainer.common.learning_rate, config.run.name.as_str()), (3.0, "sweep it"));
        assert_eq!(config.models[0].lora_rank, Some(4));
        assert_eq!(serde_json::json!(config)["trainer"]["loss"], "ppo");
    }

    #[test]
    fn a_mistake_names_the_override_that_made_it() {
        let mistake =
            |sets: &[&str]| changed("[[models]]\nname = 'm'\nbackend = 'embedded'\n", sets).unwrap_err().to_string();
        insta::assert_snapshot!(mistake(&["run.seed=1", "trainer.lerning_rate=1"]), @"--set trainer.lerning_rate=1: trainer has no key `lerning_rate`; did you mean `learning_rate`?");
        insta::assert_snapshot!(mistake(&["trainer.learning_rate=fast"]), @r#"--set trainer.learning_rate="fast": trainer.learning_rate is "fast", but must be a number"#);
        insta::assert_snapshot!(mistake(&["models.1.name=x"]), @"models.1.name: the list has 1 items, counted from 0");
        insta::assert_snapshot!(mistake(&["models.0.name.x=y"]), @r#"models.0.name.x: what stands before .x is "m", which has no keys"#);
        assert!("trainer.loss".parse::<Override>().is_err() && "=3".parse::<Override>().is_err());
    }

    #[test]
    fn a_setting_is_one_key_and_one_value() {
        let read = |text: &str| text.parse::<Override>().map(|one| one.argument());
        assert_eq!(read(" trainer.loss = ppo ").unwrap(), "trainer.loss=\"ppo\"");
        assert_eq!(read("a.\"b=c\"={ d = [1] }").unwrap(), "a.\"b=c\"={ d = [1] }");
        assert_eq!(read("run.name=a=b").unwrap(), "run.name=\"a=b\"");
        assert_eq!(read("run.name=\"two\\nlines\"").unwrap().parse::<Override>().unwrap().value_text(), "two\nlines");
        // A comment is no part of a value: what looks like one makes text of it.
        assert_eq!(read("run.name=3 # c").unwrap(), "run.name=\"3 # c\"");
        for wrong in [
            "models.0.backend='vllm' #=1",
            "trainer.beta1=1\ntrainer.beta2=2",
            "trainer.beta1=1\n",
            "trainer.loss=[ppo]",
            "trainer.loss='ppo' # c",
            "trainer.loss={ a = 1 } b",
            "trainer.kl={ a = 1 }\n[models]",
            "trainer.loss=a\nb",
            "models.0.path =x =y\u{1b}",
        ] {
            // Blanks at both ends do not count, so a last line end is none.
            assert_eq!(read(wrong).is_err(), wrong != "trainer.beta1=1\n", "{wrong:?}: {:?}", read(wrong));
        }
    }
}
