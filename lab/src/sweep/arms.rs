//! The arms of a sweep: which keys of the config have which values in it, and what each is called.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use toml::Value;

use fulgurite_config::overrides::{Override, key_and_rest, value_of, whole_value};
use fulgurite_config::setting_key::SettingKey;

/// Longest name of an arm, in bytes: it is part of a directory's name.
const LONGEST_NAME: usize = 120;

/// Keys that the sweep itself gives to its runs.
const OWN_KEYS: [(&str, &str); 3] =
    [("run.seed", "--seeds says them"), ("run.directory", "-o says it"), ("run.name", "every run is named by its arm")];

/// The key of a list's line that names its arm.
const NAME: &str = "name";

/// A key of the config and the values that it has in a sweep: `KEY=A,B,C`.
#[derive(Clone, Debug, PartialEq)]
pub struct SweptKey {
    key: SettingKey,
    values: Vec<Value>,
}

impl FromStr for SweptKey {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (key, values) = key_and_rest(text, "A,B,C")?;
        let values = match whole_value(&format!("[{values}]")) {
            Some(Value::Array(values)) => values,
            // Words without quotes are no TOML.
            _ => {
                let read = values.split(',').map(|value| value_of(value.trim()));
                read.collect::<Result<_>>().with_context(|| format!("{key}: its values"))?
            }
        };
        if values.is_empty() {
            bail!("{key} has no values: write them after the =, with commas between them");
        }
        Ok(Self { key, values })
    }
}

/// What one arm of a sweep has in place of the config's values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// What it is called, which can be part of a file's name.
    pub name: String,
    /// Its keys and their values, in the order in which they were told.
    pub overrides: Vec<(SettingKey, Value)>,
}

impl Arm {
    /// What `train` is told.
    pub fn overrides(&self) -> Vec<Override> {
        let overrides = self.overrides.iter();
        overrides.map(|(key, value)| Override { key: key.clone(), value: value.clone() }).collect()
    }
}

/// Every combination of the keys' values; the last key changes fastest.
pub fn of_grid(keys: &[SweptKey]) -> Result<Vec<Arm>> {
    let mut combinations: Vec<Vec<(SettingKey, Value)>> = vec![Vec::new()];
    for SweptKey { key, values } in keys {
        let grown = |before: &Vec<(SettingKey, Value)>| -> Vec<Vec<(SettingKey, Value)>> {
            let with = |value: &Value| before.iter().cloned().chain([(key.clone(), value.clone())]).collect();
            values.iter().map(with).collect()
        };
        combinations = combinations.iter().flat_map(grown).collect();
    }
    named(combinations.into_iter().map(|overrides| (None, overrides)).collect())
}

/// The arms of a file of JSON lines, each an object of keys and values.
pub fn of_list(file: &Path) -> Result<Vec<Arm>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let arms =
        lines.map(|(number, line)| of_line(line).with_context(|| format!("{}, line {}", file.display(), number + 1)));
    let arms = arms.collect::<Result<Vec<_>>>()?;
    if arms.is_empty() {
        bail!("{} holds no arm: write one a line, {{\"trainer.learning_rate\": 1e-3}}", file.display());
    }
    named(arms).with_context(|| file.display().to_string())
}

/// An arm that may have a name, and its keys.
type Unnamed = (Option<String>, Vec<(SettingKey, Value)>);

fn of_line(line: &str) -> Result<Unnamed> {
    let mut keys: Map<String, serde_json::Value> =
        serde_json::from_str(line).context("an arm is a JSON object of keys of the config")?;
    let name = match keys.remove(NAME) {
        None => None,
        Some(serde_json::Value::String(name)) if !name.is_empty() => Some(name),
        Some(other) => bail!("name is {other}, but must be text"),
    };
    let read = |(key, value): (String, serde_json::Value)| {
        let value = Value::deserialize(value).map_err(|_| anyhow!("{key} has a value that TOML cannot have, null"))?;
        Ok((key.parse()?, value))
    };
    Ok((name, keys.into_iter().map(read).collect::<Result<_>>()?))
}

/// Gives every arm a name, and refuses what would be run twice or is not an arm's to say.
fn named(arms: Vec<Unnamed>) -> Result<Vec<Arm>> {
    let mut seen = HashSet::new();
    let mut names = BTreeSet::new();
    let mut all = Vec::with_capacity(arms.len());
    for (name, overrides) in arms {
        for (own, hint) in OWN_KEYS {
            let own_key: SettingKey = own.parse()?;
            if overrides.iter().any(|(key, _)| key.holds(&own_key)) {
                bail!("{own} is no key of a sweep: {hint}");
            }
        }
        let keys: BTreeSet<String> = overrides.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let described = keys.iter().cloned().collect::<Vec<_>>().join(" ");
        if !seen.insert(keys) {
            bail!("two arms are the same: {}", if described.is_empty() { "the config as it is" } else { &described });
        }
        let plain = name.map_or_else(|| name_of(&overrides), |name| file_name_part(&name));
        let mut name = plain.clone();
        for number in 2.. {
            if names.insert(name.clone()) {
                break;
            }
            name = format!("{plain}~{number}");
        }
        all.push(Arm { name, overrides });
    }
    Ok(all)
}

/// `learning_rate=0.001,loss=ppo`: the last name of each key, and its value.
fn name_of(overrides: &[(SettingKey, Value)]) -> String {
    if overrides.is_empty() {
        return "as-it-is".to_owned();
    }
    let part = |(key, value): &(SettingKey, Value)| {
        let short = key.last_name();
        let text = Override { key: key.clone(), value: value.clone() }.value_text();
        format!("{}={}", file_name_part(short), file_name_part(&text))
    };
    let mut name = overrides.iter().map(part).collect::<Vec<_>>().join(",");
    // All characters are ASCII.
    name.truncate(LONGEST_NAME);
    name
}

/// Text of which every character can be part of a file's name and of a URL.
fn file_name_part(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.+".contains(c) { c } else { '_' };
    let text: String = text.chars().map(plain).take(LONGEST_NAME).collect();
    if text.starts_with('.') { format!("_{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(keys: &[&str]) -> Result<Vec<String>> {
        let keys = keys.iter().map(|key| key.parse()).collect::<Result<Vec<SweptKey>>>()?;
        Ok(of_grid(&keys)?.into_iter().map(|arm| arm.name).collect())
    }

    fn list(text: &str) -> Result<Vec<Arm>> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("arms.jsonl");
        std::fs::write(&file, text).unwrap();
        of_list(&file)
    }

    #[test]
    fn a_grid_has_every_combination_and_readable_names() {
        let names = grid(&["trainer.learning_rate=1e-4,0.003", "trainer.loss=ppo,cispo"]).unwrap();
        assert_eq!(
            names,
            [
                "learning_rate=0.0001,loss=ppo",
                "learning_rate=0.0001,loss=cispo",
                "learning_rate=0.003,loss=ppo",
                "learning_rate=0.003,loss=cispo"
            ]
        );
        let names = grid(&["trainer.importance_mask=[0.5, 2],[0.1, 9]"]).unwrap();
        assert_eq!(names, ["importance_mask=_0.5__2_", "importance_mask=_0.1__9_"]);
    }

    #[test]
    fn arms_of_a_list_may_have_names() {
        let arms =
            list("{\"trainer.group_size\": 4, \"name\": \"../small\"}\n\n{}\n{\"trainer.group_size\": 8}\n").unwrap();
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["_.._small", "as-it-is", "group_size=8"]);
        assert_eq!(arms[0].overrides()[0].argument(), "trainer.group_size=4");
        let same_name = list("{\"a.b\": 1, \"name\": \"x\"}\n{\"a.b\": 2, \"name\": \"x\"}\n").unwrap();
        assert_eq!(same_name[1].name, "x~2");
    }

    #[test]
    fn what_is_no_arm_is_refused() {
        let message = |error: anyhow::Error| format!("{error:#}");
        insta::assert_snapshot!(message(grid(&["trainer.group_size=4,4"]).unwrap_err()), @"two arms are the same: trainer.group_size=4");
        insta::assert_snapshot!(message(grid(&["run.seed=1,2"]).unwrap_err()), @"run.seed is no key of a sweep: --seeds says them");
        insta::assert_snapshot!(message(grid(&["trainer.group_size="]).unwrap_err()), @"trainer.group_size has no values: write them after the =, with commas between them");
        insta::assert_snapshot!(message(grid(&["trainer"]).unwrap_err()), @r#"write trainer=A,B,C: "trainer" has no ="#);
        let of_file = |text: &str| message(list(text).unwrap_err()).rsplit_once("arms.jsonl").unwrap().1.to_owned();
        insta::assert_snapshot!(of_file("{\"trainer.loss\": null}\n"), @", line 1: trainer.loss has a value that TOML cannot have, null");
        insta::assert_snapshot!(of_file(""), @r#" holds no arm: write one a line, {"trainer.learning_rate": 1e-3}"#);
    }
}
