//! Spans and generations to triplets, trajectories and training datums.
