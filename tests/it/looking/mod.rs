mod chat;
mod learning_rate;
mod progress;
mod sweeps;
mod trackers;
mod watch;
