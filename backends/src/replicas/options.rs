use std::time::Duration;

/// How hosts of one model are used.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// The model's name, as metrics show it.
    pub model: String,
    /// Requests that run at one host at a time; the others wait. From 1 to tokio's limit of a semaphore.
    pub max_concurrency: usize,
    /// Failures one after another that give a host up.
    pub failures_to_open: u32,
    /// How long a host that is given up is left alone.
    pub reopen_after: Duration,
    /// How often hosts are checked for health; `None`: never.
    pub health_interval: Option<Duration>,
}

impl Default for ReplicaOptions {
    fn default() -> Self {
        let interval = Duration::from_secs(5);
        Self {
            model: String::new(),
            max_concurrency: 256,
            failures_to_open: 3,
            reopen_after: interval,
            health_interval: Some(interval),
        }
    }
}
