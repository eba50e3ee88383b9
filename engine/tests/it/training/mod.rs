//! What the learner does to the weights, and what it computes on the way.

mod comparisons;
mod learning;
