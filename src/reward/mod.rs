//! `fulgurite reward`: a reward for a rollout that was recorded, given at its server or in its store.

pub mod arguments;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use fulgurite_client::{Server, ServerOptions};
use fulgurite_config::admin_key;
use fulgurite_config::declarations::StoreConfig;
use fulgurite_lab::queries::rollout_reading::existing_rollout;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::open_store::open_store;
use fulgurite_store::Sender;
use fulgurite_terminal::output;
use fulgurite_types::{AttemptRef, NewReward, RecordedReward, Repeat, Reward};
use serde_json::json;

use crate::query::arguments::StoreArguments;
use crate::query::open;
use arguments::RewardArguments;

/// Names the server where the command line does not.
const VARIABLE: &str = "FULGURITE_SERVER";
/// The server that is meant if nothing names one.
const DEFAULT_SERVER: &str = "http://127.0.0.1:4747";

/// Gives the reward.
pub async fn reward(arguments: RewardArguments) -> Result<()> {
    let new = NewReward {
        rollout_id: arguments.rollout.clone(),
        attempt: arguments.attempt.clone().map(AttemptRef::Id),
        generation_id: arguments.generation.clone(),
        reward: Reward {
            value: number("the reward", &arguments.value)?,
            name: arguments.name.clone(),
            components: arguments.component.iter().map(|text| component(text)).collect::<Result<_>>()?,
        },
        giver: arguments.giver,
        repeat: Repeat::New,
    };
    let StoreArguments { store, run, config } = &arguments.store;
    let given = match (store, run, config) {
        (None, None, None) => give_at_server(&arguments, &new).await?,
        _ => give_in_store(&arguments.store, new).await?,
    };
    if arguments.json {
        output::line(json!(given));
        return Ok(());
    }
    let target = match &given.generation_id {
        Some(generation_id) => format!("the model call {generation_id}"),
        None => format!("the attempt {}", given.attempt_id),
    };
    let by = given.giver.map_or_else(String::new, |giver| format!(", given by {giver}"));
    let Reward { value, name, .. } = &given.reward;
    output::line(format!("rewarded {target} of {} with {value} ({name}){by}", arguments.rollout));
    Ok(())
}

async fn give_at_server(arguments: &RewardArguments, new: &NewReward) -> Result<RecordedReward> {
    let key = admin_key::of_environment()?;
    let url = match &arguments.server {
        Some(url) => url.clone(),
        // To the parser it would be an argument like `--server`, which it refuses beside `--store`.
        None => std::env::var(VARIABLE).unwrap_or_else(|_| DEFAULT_SERVER.to_owned()),
    };
    let server = Server::new(ServerOptions {
        url: url.trim_end_matches('/').to_owned(),
        admin_key: key.map(|key| key.expose().to_owned()),
        patience: Duration::ZERO,
        reply_limit: 1 << 20,
    })?;
    server.give_reward(new).await.with_context(|| format!("cannot reward `{}`", new.rollout_id))
}

async fn give_in_store(arguments: &StoreArguments, new: NewReward) -> Result<RecordedReward> {
    let store_url = arguments.named().url()?;
    // Opening it for writing would make one that is not there.
    open(arguments).await?.close().await;
    let _store_lock = ExclusiveLock::of_store(&store_url, "fulgurite reward")?;
    let store = open_store(&store_url, &StoreConfig::default()).await?;
    let rollout_id = existing_rollout(&store, &new.rollout_id).await?;
    let cannot = format!("cannot reward `{}`", new.rollout_id);
    let given = store.rewards().give(&Sender::Server, NewReward { rollout_id, ..new }).await;
    store.close().await;
    given.context(cannot)
}

fn component(text: &str) -> Result<(String, f64)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok((name.to_owned(), number(&format!("the component `{name}`"), value)?))
        }
        _ => bail!("--component {text}: give NAME=VALUE"),
    }
}

/// A finite number.
fn number(what: &str, text: &str) -> Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => bail!("{what} is {text}, but must be a finite number"),
        Err(_) => bail!("{what} is `{text}`, but must be a number"),
    }
}
