use std::path::PathBuf;
use std::time::Duration;

use crate::server::sampling::repeated_seeds::RepeatedSeeds;
use crate::server::training::stable_reinforce::StableReinforce;

/// How the server is.
#[derive(Clone, Debug)]
pub struct TinkerServerOptions {
    /// Keeps what outlives the process: checkpoints, and what there is. Made when it is first needed.
    pub state_directory: PathBuf,
    /// Threads of each training run. Changes no result.
    pub threads: usize,
    /// How long a request for a result is held that is not there yet. Clients wait 45 seconds.
    pub patience: Duration,
    /// How long a session may be silent before it is over, and its models gone.
    pub silence: Duration,
    /// How many requests a training run takes beyond the one that it works at; at least the chunks of one pass, of which
    /// clients send the first last.
    pub requests_ahead: u64,
    /// What stands in for the loss `stable_reinforce`.
    pub stable_reinforce: StableReinforce,
    /// What is done with seeds that come again with the same prompt.
    pub repeated_seeds: RepeatedSeeds,
    /// Greatest request body, in bytes.
    pub body_limit: usize,
}

impl TinkerServerOptions {
    /// As clients expect it.
    pub fn new(state_directory: PathBuf) -> Self {
        Self {
            state_directory,
            threads: std::thread::available_parallelism().map_or(1, |threads| threads.get()),
            patience: Duration::from_secs(20),
            silence: Duration::from_secs(300),
            requests_ahead: 1024,
            stable_reinforce: StableReinforce::default(),
            repeated_seeds: RepeatedSeeds::default(),
            body_limit: 64 * 1024 * 1024,
        }
    }
}
