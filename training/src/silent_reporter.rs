use fulgurite_trainer::{Reporter, TrainEvent};

/// A reporter that reports nothing.
pub struct SilentReporter;

impl Reporter for SilentReporter {
    fn report(&mut self, _: TrainEvent) {}
}
