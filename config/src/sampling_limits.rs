//! How long `[proxy]` lets a model's host take.

use std::time::Duration;

use anyhow::{Result, anyhow};
use fulgurite_proxy::SamplingLimits;

use crate::declarations::ProxyConfig;
use crate::seconds::seconds;

/// How long a model's host may take.
pub fn sampling_limits(config: &ProxyConfig) -> Result<SamplingLimits> {
    Ok(SamplingLimits {
        first_token: seconds("proxy.first_token_seconds", config.first_token_seconds)?,
        silence: seconds("proxy.silence_seconds", config.silence_seconds)?,
        whole: seconds("proxy.call_seconds", config.call_seconds)?,
        host_patience: host_patience(config.host_patience_seconds)?,
    })
}

fn host_patience(patience: f64) -> Result<Duration> {
    match patience {
        0.0 => Ok(Duration::ZERO),
        patience => {
            let time = seconds("proxy.host_patience_seconds", patience);
            time.map_err(|error| anyhow!("{error} (0 refuses calls at once while no host answers)"))
        }
    }
}
