//! What a config says of the entropy's worth.

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::TrainError;
use crate::options::keys::refusal::{not_negative, positive_number, refuse};

/// What the mean entropy of trained tokens is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EntropyBonus {
    /// The same in each update; 0 is nothing.
    Fixed(f64),
    /// What keeps the entropy from falling below a target.
    Adapted(EntropyTarget),
}

/// How the entropy's worth follows a target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntropyTarget {
    /// Nats a token.
    pub target: f64,
    /// What the worth grows or falls by with each update.
    #[serde(default = "EntropyTarget::step")]
    pub step: f64,
    /// The worth that the run begins with.
    #[serde(default)]
    pub start: f64,
    /// The greatest worth.
    #[serde(default = "EntropyTarget::greatest")]
    pub greatest: f64,
}

impl EntropyTarget {
    fn step() -> f64 {
        0.005
    }

    fn greatest() -> f64 {
        1.0
    }

    fn check(self) -> Result<(), TrainError> {
        let key = |name: &str| format!("[trainer] entropy_bonus.{name}");
        positive_number(&key("target"), self.target)?;
        positive_number(&key("step"), self.step)?;
        positive_number(&key("greatest"), self.greatest)?;
        not_negative(&key("start"), self.start)?;
        if self.start > self.greatest {
            return refuse(&key("start"), self.start, &format!("entropy_bonus.greatest is {}", self.greatest));
        }
        Ok(())
    }
}

impl EntropyBonus {
    /// Whether the entropy is ever worth anything.
    pub fn is_set(self) -> bool {
        self != Self::Fixed(0.0)
    }

    pub(crate) fn check(self) -> Result<(), TrainError> {
        match self {
            Self::Fixed(worth) => not_negative("[trainer] entropy_bonus", worth),
            Self::Adapted(target) => target.check(),
        }
    }
}

impl Serialize for EntropyBonus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(worth) => serializer.serialize_f64(*worth),
            Self::Adapted(target) => target.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for EntropyBonus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = EntropyBonus;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a number, or { target = NATS } with step, start and greatest")
            }

            fn visit_f64<E: de::Error>(self, worth: f64) -> Result<EntropyBonus, E> {
                Ok(EntropyBonus::Fixed(worth))
            }

            fn visit_i64<E: de::Error>(self, worth: i64) -> Result<EntropyBonus, E> {
                Ok(EntropyBonus::Fixed(worth as f64))
            }

            fn visit_u64<E: de::Error>(self, worth: u64) -> Result<EntropyBonus, E> {
                Ok(EntropyBonus::Fixed(worth as f64))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, table: A) -> Result<EntropyBonus, A::Error> {
                EntropyTarget::deserialize(MapAccessDeserializer::new(table)).map(EntropyBonus::Adapted)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_bonus_is_a_number_or_follows_a_target() {
        let read = |value| from_value::<EntropyBonus>(value);
        assert_eq!(read(json!(0)).unwrap(), EntropyBonus::Fixed(0.0));
        assert_eq!(read(json!(0.5)).unwrap(), EntropyBonus::Fixed(0.5));
        let expected = EntropyTarget { target: 0.3, step: 0.005, start: 0.0, greatest: 1.0 };
        let adapted = read(json!({ "target": 0.3 })).unwrap();
        assert_eq!(adapted, EntropyBonus::Adapted(expected));
        assert_eq!(read(json!(adapted)).unwrap(), adapted);
        assert!(read(json!("much")).unwrap_err().to_string().contains("a number, or { target = NATS }"));
        assert!(read(json!({})).unwrap_err().to_string().contains("missing field `target`"));
        let refused = |value| read(value).unwrap().check().unwrap_err().to_string();
        assert_eq!(
            refused(json!({ "target": 0.0 })),
            "[trainer] entropy_bonus.target is 0, but must be a finite number above 0"
        );
        assert_eq!(
            refused(json!({ "target": 1.0, "start": 2.0 })),
            "[trainer] entropy_bonus.start is 2, but entropy_bonus.greatest is 1"
        );
    }
}
