//! A gateway of Agent-lightning 1.0, which is somebody else's process.

use anyhow::{Context, Result, ensure};
use reqwest::Client;
use serde_json::{Value, json};

use super::script::{Attempt, MODEL, PROMPT_TOKENS, SAMPLED_TOKENS};

/// The one attempt of each of its rollouts.
const ATTEMPT: &str = "0";

/// Tells the gateway where the model is, instead of where it was in an earlier run.
pub async fn register(client: &Client, url: &str, host: &str) -> Result<()> {
    let models = json!([{ "model": MODEL, "endpoint": format!("{host}/v1") }]);
    client.delete(format!("{url}/api/models")).send().await?.error_for_status()?;
    client.post(format!("{url}/api/models")).json(&models).send().await?.error_for_status()?;
    Ok(())
}

/// Makes a rollout there.
pub async fn start(client: Client, url: String) -> Result<Attempt> {
    let request = client.post(format!("{url}/api/rollouts")).json(&json!([{ "input": { "question": "1 + 1" } }]));
    let rollouts: Value = request.send().await?.error_for_status()?.json().await?;
    let rollout_id = rollouts[0]["rollout_id"].as_str().context("a rollout of the gateway has no id")?.to_owned();
    let path = format!("/proxy/rollout/{rollout_id}/attempt/{ATTEMPT}/mode/train/openai");
    Ok(Attempt { rollout_id, attempt_id: ATTEMPT.to_owned(), path })
}

/// Fails unless the gateway has recorded the tokens of the one call of an attempt.
pub async fn check_recorded(client: &Client, url: &str, attempt: &Attempt) -> Result<()> {
    let request = client.get(format!("{url}/api/rollouts/{}/events?format=triplet", attempt.rollout_id));
    let events: Value = request.send().await?.error_for_status()?.json().await?;
    let count = |name: &str| events[0]["data"][name].as_array().map_or(0, Vec::len);
    let counted = (count("prompt_token_ids"), count("response_token_ids"));
    ensure!(counted == (PROMPT_TOKENS, SAMPLED_TOKENS), "the gateway has not recorded a call's tokens: {events}");
    Ok(())
}

/// Lets the gateway forget a rollout, which it keeps in memory otherwise.
pub async fn forget(client: Client, url: String, attempt: Attempt) -> Result<()> {
    let url = format!("{url}/api/rollouts/{}", attempt.rollout_id);
    client.delete(url).send().await?.error_for_status()?;
    Ok(())
}
