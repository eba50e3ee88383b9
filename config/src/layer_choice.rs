//! Layers of a model, as the config names them.

use std::collections::BTreeSet;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Above the number of layers of any model.
const MOST_LAYERS: usize = 1 << 16;

/// Layers by their numbers, from 0 on: a list, or text such as `0-11,20`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LayerChoice(pub BTreeSet<usize>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    List(BTreeSet<usize>),
}

impl<'de> Deserialize<'de> for LayerChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || D::Error::custom("expected a list of layers, from 0 on, or text such as \"0-11,20\"");
        let layers = match Written::deserialize(deserializer).map_err(|_| wrong())? {
            Written::List(layers) => layers,
            Written::Text(text) => of_text(&text).ok_or_else(wrong)?,
        };
        let is_sound = !layers.is_empty() && layers.iter().all(|layer| *layer < MOST_LAYERS);
        if is_sound { Ok(Self(layers)) } else { Err(wrong()) }
    }
}

/// `None` of what is no list of ranges.
fn of_text(text: &str) -> Option<BTreeSet<usize>> {
    let mut layers = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST_LAYERS {
            return None;
        }
        layers.extend(first..=last);
    }
    Some(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Table {
        layers: LayerChoice,
    }

    fn read(value: &str) -> Result<Vec<usize>, String> {
        let table: Table = toml::from_str(&format!("layers = {value}")).map_err(|error| error.to_string())?;
        Ok(table.layers.0.into_iter().collect())
    }

    #[test]
    fn layers_are_a_list_or_ranges() {
        assert_eq!(read("[3, 1]"), Ok(vec![1, 3]));
        assert_eq!(read("\"0-2, 5\""), Ok(vec![0, 1, 2, 5]));
        assert_eq!(read("\"7\""), Ok(vec![7]));
        for wrong in ["[]", "[-1]", "\"\"", "\"2-1\"", "\"all\"", "\"0-99999999999\"", "[70000]", "true"] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("0-11,20"), "{wrong}: {error}");
        }
    }
}
