//! How a checkpoint of a run is named on the command line.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Which checkpoint of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichCheckpoint {
    /// That of the run's final weights: the newest, or with `[trainer] final_weights = "best"` the best.
    Final,
    /// The one with the most updates.
    Newest,
    /// The one whose held-out score is the best.
    Best,
    /// The one after so many updates.
    Step(u64),
}

impl FromStr for WhichCheckpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("final", _) => Ok(Self::Final),
            ("newest", _) => Ok(Self::Newest),
            ("best", _) => Ok(Self::Best),
            (_, Ok(step)) => Ok(Self::Step(step)),
            _ => Err("it is neither final, newest, best, nor a number of updates".to_owned()),
        }
    }
}

impl Display for WhichCheckpoint {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Final => formatter.write_str("final"),
            Self::Newest => formatter.write_str("newest"),
            Self::Best => formatter.write_str("best"),
            Self::Step(step) => write!(formatter, "{step}"),
        }
    }
}
