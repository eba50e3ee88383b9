//! The embedded model host: samples from and trains a small HF-format decoder on this machine.
