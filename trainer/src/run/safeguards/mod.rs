//! What keeps an update from spoiling a run: weights out of bounds, spikes of the gradient, updates without one.

pub(super) mod divergence;
pub(super) mod learner_metrics;
pub(super) mod spikes;
pub(super) mod without_gradient;
