mod chat;
mod learning_rate;
mod progress;
mod rewards;
mod sweeps;
mod trackers;
mod watch;
