use crate::TrainError;
use crate::options::flat::part::OptionsPart;
use crate::options::shared::common::Usual;

/// What each objective says of its keys.
pub(crate) trait Variant: OptionsPart {
    /// What keys are where nobody writes them, in which objectives differ.
    fn usual(&self) -> Usual;

    /// Changes how many updates lie between scores of what is held out.
    fn set_evaluation_every(&mut self, every: u64);

    /// Refuses what cannot work.
    fn check(&self) -> Result<(), TrainError>;
}
