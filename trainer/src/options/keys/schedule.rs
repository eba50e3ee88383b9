use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::refusal::{refuse, wrong};
use crate::TrainError;

/// How the step size goes on after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LearningRateSchedule {
    /// It stays.
    #[default]
    Constant,
    /// It falls along a line: `1 - s / T` after `s` of `T` steps.
    Linear,
    /// It falls along half a cosine: `(1 + cos(pi s / T)) / 2`.
    Cosine,
    /// It stays, and falls along half a cosine at the end (warm-up, stable, decay).
    Wsd,
    /// It falls with the root of the updates: `1 / sqrt(1 + s / W)` after a warm-up of `W` updates.
    InverseSqrt,
}

impl LearningRateSchedule {
    /// As a config names it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear => "linear",
            Self::Cosine => "cosine",
            Self::Wsd => "wsd",
            Self::InverseSqrt => "inverse_sqrt",
        }
    }

    /// Refuses a floor of a schedule that has none, and a decay that is not part of it.
    pub(crate) fn check(self, floor: f64, decay: UpdateCount) -> Result<(), TrainError> {
        if !(0.0..=1.0).contains(&floor) {
            let message = "must be a share of learning_rate, from 0 to 1";
            return refuse("[trainer] learning_rate_floor", floor, message);
        }
        if matches!(self, Self::Constant | Self::InverseSqrt) && floor > 0.0 {
            let message = format!(
                "is of learning_rate_schedule = \"linear\", \"cosine\" and \"wsd\", not of \"{}\": leave it out",
                self.as_str()
            );
            return wrong("[trainer] learning_rate_floor", message);
        }
        if decay != UpdateCount::DECAY && self != Self::Wsd {
            let message = format!("is of learning_rate_schedule = \"wsd\", not of \"{}\": leave it out", self.as_str());
            return wrong("[trainer] learning_rate_decay", message);
        }
        Ok(())
    }
}

/// A part of a run's updates: so many, or a share of all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpdateCount {
    /// So many.
    Updates(u64),
    /// A share of all, above 0 and below 1.
    Share(f64),
}

impl UpdateCount {
    /// The decay of `wsd` unless it is configured.
    pub(crate) const DECAY: Self = Self::Share(0.1);

    /// How many updates it is of `all`; a share is rounded up, as in transformers.
    pub(crate) fn of(self, all: u64) -> u64 {
        match self {
            Self::Updates(updates) => updates,
            Self::Share(share) => (share * all as f64).ceil() as u64,
        }
    }
}

impl Serialize for UpdateCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Updates(updates) => serializer.serialize_u64(*updates),
            Self::Share(share) => serializer.serialize_f64(*share),
        }
    }
}

impl<'de> Deserialize<'de> for UpdateCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = UpdateCount;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a whole number of updates, 0 or more, or a share of all below 1, such as 0.1")
            }

            fn visit_u64<E: de::Error>(self, updates: u64) -> Result<UpdateCount, E> {
                Ok(UpdateCount::Updates(updates))
            }

            fn visit_i64<E: de::Error>(self, updates: i64) -> Result<UpdateCount, E> {
                let negative = |_| E::invalid_value(de::Unexpected::Signed(updates), &self);
                u64::try_from(updates).map(UpdateCount::Updates).map_err(negative)
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<UpdateCount, E> {
                if number > 0.0 && number < 1.0 {
                    return Ok(UpdateCount::Share(number));
                }
                // A number of JSON or of a sweep may have a point: 3.0 are three.
                if number >= 0.0 && number.fract() == 0.0 && number < (1u64 << 53) as f64 {
                    return Ok(UpdateCount::Updates(number as u64));
                }
                Err(E::invalid_value(de::Unexpected::Float(number), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn a_count_of_updates_is_a_whole_number_or_a_share() {
        let read = |value: Value| from_value::<UpdateCount>(value);
        assert_eq!(read(json!(3)).unwrap(), UpdateCount::Updates(3));
        assert_eq!(read(json!(3.0)).unwrap(), UpdateCount::Updates(3));
        assert_eq!(read(json!(0.25)).unwrap(), UpdateCount::Share(0.25));
        for wrong in [json!(-1), json!(1.5), json!(-0.1), json!("3")] {
            let error = read(wrong.clone()).unwrap_err().to_string();
            assert!(error.contains("a share of all below 1"), "{wrong}: {error}");
        }
        for count in [UpdateCount::Updates(7), UpdateCount::Share(0.03)] {
            assert_eq!(read(json!(count)).unwrap(), count);
        }
        assert_eq!([0, 1, 33, 100].map(|all| UpdateCount::Share(0.03).of(all)), [0, 1, 1, 3]);
        assert_eq!(UpdateCount::Updates(7).of(3), 7);
    }

    #[test]
    fn what_a_schedule_has_no_use_for_is_refused_by_name() {
        use LearningRateSchedule::{Constant, Cosine, InverseSqrt, Wsd};
        let refused =
            |schedule: LearningRateSchedule, floor, decay| schedule.check(floor, decay).unwrap_err().to_string();
        Cosine.check(0.1, UpdateCount::DECAY).unwrap();
        Wsd.check(0.0, UpdateCount::Updates(5)).unwrap();
        assert_eq!(
            refused(Constant, 0.1, UpdateCount::DECAY),
            "[trainer] learning_rate_floor is of learning_rate_schedule = \"linear\", \"cosine\" and \"wsd\", not of \
             \"constant\": leave it out"
        );
        assert!(refused(InverseSqrt, 0.1, UpdateCount::DECAY).contains("not of \"inverse_sqrt\""));
        assert!(refused(Cosine, 1.5, UpdateCount::DECAY).starts_with("[trainer] learning_rate_floor is 1.5"));
        assert!(refused(Cosine, f64::NAN, UpdateCount::DECAY).starts_with("[trainer] learning_rate_floor is NaN"));
        assert_eq!(
            refused(Cosine, 0.0, UpdateCount::Share(0.2)),
            "[trainer] learning_rate_decay is of learning_rate_schedule = \"wsd\", not of \"cosine\": leave it out"
        );
    }
}
