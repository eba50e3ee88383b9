//! Keys of the config as a command line or a tool names them, such as `trainer.learning_rate` or `models.0.lora_rank`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// Most bytes of a key.
const LONGEST_KEY: usize = 1024;

/// One key of the config: names and places in lists, parsed as TOML parses a dotted key, without blanks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SettingKey(Vec<String>);

impl SettingKey {
    /// Reads the key that `text` begins with, and gives what comes after it.
    ///
    /// # Errors
    /// If `text` begins with no key.
    pub fn read_prefix(text: &str) -> Result<(Self, &str)> {
        let (mut names, mut rest) = (Vec::new(), text);
        loop {
            let length = name_length(rest);
            if length == 0 {
                bail!(
                    "{text:?} does not begin with a key of the config: write one as `fulgurite config show` prints it, such as \
                     trainer.learning_rate; a name of other characters than letters, digits, _ and - stands in quotes"
                );
            }
            let (name, after) = rest.split_at(length);
            names.push(decoded(name)?);
            if text.len() - after.len() > LONGEST_KEY {
                bail!("the key is longer than {LONGEST_KEY} bytes");
            }
            match after.strip_prefix('.') {
                Some(next) => rest = next,
                None => return Ok((Self(names), after)),
            }
        }
    }

    /// Its names, from the top of the config downwards.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The last of its names.
    pub fn last_name(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// Whether `other` is this key or a key below it.
    pub fn holds(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// The key of `name` below this one.
    pub fn below(&self, name: &str) -> Self {
        Self(self.0.iter().cloned().chain([name.to_owned()]).collect())
    }
}

/// Bytes of the name that `text` begins with, its quotes included; 0 if it begins with none.
fn name_length(text: &str) -> usize {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        return text.bytes().position(|byte| !is_plain(&byte)).unwrap_or(text.len());
    };
    let mut is_escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            _ if c == quote => return place + 1,
            _ => {}
        }
    }
    0
}

/// A name without its quotes and escapes.
fn decoded(name: &str) -> Result<String> {
    if !name.starts_with(['"', '\'']) {
        return Ok(name.to_owned());
    }
    let table = toml::from_str::<Table>(&format!("name = {name}")).ok().filter(|table| table.len() == 1);
    match table.and_then(|mut table| table.remove("name")) {
        Some(Value::String(text)) if !text.is_empty() && !text.contains(char::is_control) => Ok(text),
        _ => bail!("{name} is no name of a key: text in quotes, as TOML writes it, which is not empty"),
    }
}

impl FromStr for SettingKey {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (key, rest) = Self::read_prefix(text)?;
        if !rest.is_empty() {
            bail!("{text:?} is no key: {rest:?} comes after {key}, and a setting has one key and one value");
        }
        Ok(key)
    }
}

impl TryFrom<String> for SettingKey {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<SettingKey> for String {
    fn from(key: SettingKey) -> Self {
        key.to_string()
    }
}

impl Display for SettingKey {
    /// As it is read again: names stand in quotes where they need them.
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for (place, name) in self.0.iter().enumerate() {
            if place > 0 {
                formatter.write_str(".")?;
            }
            match name_length(name) == name.len() && !name.starts_with(['"', '\'']) {
                true => formatter.write_str(name)?,
                // Names have no control characters, so that these are all the escapes.
                false => write!(formatter, "\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.parse::<SettingKey>().unwrap().names().to_vec()
    }

    #[test]
    fn a_key_is_read_as_toml_reads_it() {
        assert_eq!(names("models.0.lora_rank"), ["models", "0", "lora_rank"]);
        assert_eq!(names(r#"trainer.stop.held_out."env/all/x.y""#), ["trainer", "stop", "held_out", "env/all/x.y"]);
        assert_eq!(names(r#"models.0."p\u0061th""#), ["models", "0", "path"]);
        assert_eq!(names("'a\\b'.c"), ["a\\b", "c"]);
        assert_eq!(r#"run."seed""#.parse::<SettingKey>().unwrap().to_string(), "run.seed");
    }

    #[test]
    fn what_is_more_or_less_than_a_key_is_refused() {
        for text in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            " a",
            "a ",
            "models.0.path ",
            "models.0 .path",
            "models.0.backend='vllm' #",
            "a=b",
            "a#",
            "a\nb",
            "a\u{a0}",
            "\u{ff41}",
            "höhe",
            "[a]",
            "a[0]",
            "\"a",
            "\"\"",
            "\"\"\"a\"\"\"",
            "'''a'''",
            "\"a\nb\"",
            "\"a\\nb\"",
            "\"a\\u0000\"",
            "\"a\" .b",
            "a/b",
        ] {
            assert!(text.parse::<SettingKey>().is_err(), "{text:?}");
        }
        assert!("a.".repeat(600).parse::<SettingKey>().is_err());
    }

    proptest! {
        #[test]
        fn a_key_is_printed_as_it_is_read(names in prop::collection::vec("[^\\p{Cc}]{1,8}", 1..5)) {
            let key = SettingKey(names);
            prop_assert_eq!(&key.to_string().parse::<SettingKey>().unwrap(), &key);
        }

        #[test]
        fn whatever_is_read_holds_no_second_key_or_value(text in "[a.\"'=# \\\\\n\\[\\{0]{0,12}") {
            if let Ok(key) = text.parse::<SettingKey>() {
                let table: Table = toml::from_str(&format!("{text} = 1")).unwrap();
                let mut place = Value::Table(table);
                for name in key.names() {
                    let Value::Table(mut table) = place else { panic!("{text:?}") };
                    prop_assert_eq!(table.len(), 1);
                    place = table.remove(name).unwrap();
                }
                prop_assert_eq!(place, Value::Integer(1));
            }
        }
    }
}
