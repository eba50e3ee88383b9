//! New weights behind a running vLLM: a whole model from disk by the routes of its development mode, or an adapter.

use serde_json::{Value, json};

use crate::remote::sampler::{Remote, with_hint};
use crate::remote::served_models::lists;
use crate::remote::weights_label::BEING_REPLACED;
use crate::{BackendError, Changeover};

const NEEDS_DEVELOPMENT_MODE: &str = "start vLLM with VLLM_SERVER_DEV_MODE=1 to have its whole model replaced";
const NEEDS_ADAPTERS: &str = "start vLLM with --enable-lora, --max-loras 2 and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True";

/// The route that tells the label of the whole model.
const WEIGHT_INFO: &str = "weight_info";

/// Pauses, replaces, and resumes even if that fails: other requests are not to wait for ever.
pub(super) async fn load_model(
    remote: &Remote,
    directory: &str,
    label: &str,
    changeover: Changeover,
) -> Result<(), BackendError> {
    let host = &remote.host;
    let mode = match changeover {
        Changeover::Drain => "wait",
        Changeover::InFlight => "keep",
    };
    let replaced = match host.post("pause", &[("mode", mode)], &json!({})).await {
        Ok(_) => replace(remote, directory, label, changeover).await,
        Err(error @ BackendError::Configuration { .. }) => return Err(with_hint(error, NEEDS_DEVELOPMENT_MODE)),
        // It may be paused all the same.
        Err(error) => Err(error),
    };
    let resumed = host.post("resume", &[], &json!({})).await;
    replaced?;
    resumed?;
    remote.confirm_weights(&host.get(WEIGHT_INFO).await?, label)
}

async fn replace(remote: &Remote, directory: &str, label: &str, changeover: Changeover) -> Result<(), BackendError> {
    let host = &remote.host;
    let name = |label: &str| json!({ "new_version": label });
    host.post("update_weight_version", &[], &name(BEING_REPLACED)).await?;
    let reload = json!({ "method": "reload_weights", "kwargs": { "weights_path": directory } });
    host.post("collective_rpc", &[], &reload).await?;
    // What was computed of prompts belongs to the old weights, those of frozen requests as well.
    let running = if changeover == Changeover::InFlight { "true" } else { "false" };
    let reset = host.post("reset_prefix_cache", &[("reset_running_requests", running)], &json!({})).await?;
    if reset["success"] == json!(false) {
        return Err(remote.unusable("it does not let go of what the old weights have computed of prompts"));
    }
    host.post("update_weight_version", &[], &name(label)).await.map(drop)
}

/// The label of the whole model; none outside of the development mode, where no route replaces it.
pub(super) async fn model_label(remote: &Remote) -> Result<Option<String>, BackendError> {
    match remote.host.get(WEIGHT_INFO).await {
        Ok(found) => Ok(found["weight_version"].as_str().map(str::to_owned)),
        Err(BackendError::Configuration { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) async fn load_adapter(remote: &Remote, name: &str, directory: &str) -> Result<(), BackendError> {
    let body = json!({ "lora_name": name, "lora_path": directory });
    let loaded = remote.host.post("v1/load_lora_adapter", &[], &body).await;
    loaded.map_err(|error| with_hint(error, NEEDS_ADAPTERS))?;
    match lists(&remote.host, name).await? {
        true => Ok(()),
        false => Err(remote.unusable(&format!("it took the adapter `{name}` and does not list it"))),
    }
}

pub(super) async fn unload_adapter(remote: &Remote, name: &str) -> Result<(), BackendError> {
    let body: Value = json!({ "lora_name": name });
    remote.host.post("v1/unload_lora_adapter", &[], &body).await.map(drop)
}
