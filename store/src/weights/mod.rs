//! Weights of served models: which ones a version names, which are published, and what each server samples from.

mod names;
mod publications;
mod served;
