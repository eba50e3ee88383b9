//! The loops that change weights: GRPO, and supervised training of a base model.
