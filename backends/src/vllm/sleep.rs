//! A vLLM that sleeps: its weights go to the machine's memory and its cache is dropped, so that a learner has the GPU.

use serde_json::{Value, json};

use crate::BackendError;
use crate::remote::sampler::{Remote, with_hint};

const NEEDS_SLEEP_MODE: &str = "[torch] shares_gpu needs a vLLM that can sleep (help: VLLM_SERVER_DEV_MODE=1 \
    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve MODEL --enable-sleep-mode --enable-lora --max-loras 2)";

/// Whether it sleeps.
///
/// # Errors
/// [`BackendError::Configuration`] of a server that was not started for it, with the command line.
pub(super) async fn is_asleep(remote: &Remote) -> Result<bool, BackendError> {
    let found = remote.host.get("is_sleeping").await.map_err(|error| with_hint(error, NEEDS_SLEEP_MODE))?;
    let Some(is_asleep) = found["is_sleeping"].as_bool() else { return Err(remote.unusable(NEEDS_SLEEP_MODE)) };
    // Without the mode the routes are there, and free no memory.
    let config = remote.host.get_with("server_info", &[("config_format", "json")]).await.unwrap_or(Value::Null);
    match config["vllm_config"]["model_config"]["enable_sleep_mode"].as_bool() {
        Some(false) => Err(remote.unusable(NEEDS_SLEEP_MODE)),
        _ => Ok(is_asleep),
    }
}

pub(super) async fn sleep(remote: &Remote) -> Result<(), BackendError> {
    let slept = remote.host.post("sleep", &[("level", "1")], &json!({})).await;
    slept.map(drop).map_err(|error| with_hint(error, NEEDS_SLEEP_MODE))
}

pub(super) async fn wake(remote: &Remote) -> Result<(), BackendError> {
    let woken = remote.host.post("wake_up", &[], &json!({})).await;
    let name = remote.host.name();
    let with_help = |message: String| format!("{message}; {name} may be asleep (help: curl -X POST {name}/wake_up)");
    woken.map(drop).map_err(|error| match error {
        BackendError::Unavailable { message } => BackendError::Unavailable { message: with_help(message) },
        BackendError::Internal { message } => BackendError::Internal { message: with_help(message) },
        other => other,
    })
}
