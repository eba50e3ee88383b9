use crate::TrainError;
use crate::options::flat::part::OptionsPart;
use crate::options::shared::common::Usual;

/// What each objective says of its keys.
pub(crate) trait Variant: OptionsPart {
    /// What keys are where nobody writes them, in which objectives differ.
    fn usual(&self) -> Usual;

    /// Changes how many updates lie between scores of what is held out.
    fn set_evaluation_every(&mut self, every: u64);

    /// Puts this objective's defaults in the place of those of its own keys that are not written.
    fn set_own_defaults(&mut self, _is_written: &dyn Fn(&str) -> bool) {}

    /// Refuses what cannot work.
    fn check(&self) -> Result<(), TrainError>;
}
