//! `fulgurite enqueue`: tasks for the runners of a server that is there already.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_backends::derive_seed;
use fulgurite_client::{Server, ServerOptions};
use fulgurite_config::admin_key;
use fulgurite_config::runner::tried_again;
use fulgurite_terminal::output;
use fulgurite_trainer::TaskSource;
use fulgurite_types::{NewRollout, Object, Rollout, RolloutMode, mended_json};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::query::arguments::mode;

/// Rollouts that one request enqueues.
const PER_REQUEST: usize = 500;

/// Rollouts in all: more are a slip of the pen.
const MOST: usize = 1_000_000;

/// `fulgurite enqueue`.
#[derive(Debug, Args)]
pub struct EnqueueArguments {
    /// The tasks themselves: JSON, or text where that is none
    #[arg(value_name = "TASK", conflicts_with_all = ["file", "harbor"])]
    pub tasks: Vec<String>,
    /// Tasks of a file of JSON, one a line
    #[arg(long, value_name = "FILE", conflicts_with = "harbor")]
    pub file: Option<PathBuf>,
    /// Tasks in Harbor's format: a task's directory, or one of such directories
    #[arg(long, value_name = "DIR")]
    pub harbor: Option<PathBuf>,
    /// Server whose runners take them; its admin key, if it has one, is taken from FULGURITE_ADMIN_KEY
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4747", env = "FULGURITE_SERVER")]
    pub server: String,
    /// How often each task is tried, as a group
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub samples: usize,
    /// Attempts of a rollout that fails
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub max_attempts: u32,
    /// What they are for: train, val or test
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub mode: Option<RolloutMode>,
    /// Word by which filters find them (repeatable)
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Print JSON, one rollout a line
    #[arg(long)]
    pub json: bool,
}

/// Puts rollouts at the end of a server's queue.
pub async fn enqueue(arguments: EnqueueArguments) -> Result<()> {
    if arguments.samples == 0 || arguments.max_attempts == 0 {
        bail!("--samples and --max-attempts must be at least 1");
    }
    let tasks = tasks(&arguments)?;
    if tasks.len().saturating_mul(arguments.samples) > MOST {
        bail!("{} tasks, {} times each, are more than {MOST} rollouts", tasks.len(), arguments.samples);
    }
    let key = admin_key::of_environment()?;
    let server = Server::new(ServerOptions {
        url: arguments.server.trim_end_matches('/').to_owned(),
        admin_key: key.map(|key| key.expose().to_owned()),
        patience: Duration::ZERO,
        reply_limit: 256 << 20,
    })?;
    let mut enqueued = 0;
    let rollouts = rollouts(&tasks, &arguments);
    for part in rollouts.chunks(PER_REQUEST) {
        let already = || format!("{enqueued} of {} rollouts were enqueued before", rollouts.len());
        let queued = server.enqueue_rollouts(part.to_vec()).await.with_context(already)?;
        enqueued += queued.len();
        for Rollout { rollout_id, .. } in queued {
            match arguments.json {
                true => output::line(json!({ "rollout_id": rollout_id })),
                false => output::line(rollout_id),
            }
        }
    }
    Ok(())
}

fn tasks(arguments: &EnqueueArguments) -> Result<Vec<Value>> {
    let source = match (&arguments.file, &arguments.harbor) {
        (Some(file), _) => TaskSource::File { file: file.clone() },
        (None, Some(harbor)) => TaskSource::Harbor { harbor: harbor.clone() },
        (None, None) => {
            let task = |text: &String| serde_json::from_str(&mended_json(text)).unwrap_or_else(|_| json!(text));
            TaskSource::List(arguments.tasks.iter().map(task).collect())
        }
    };
    match source {
        TaskSource::List(tasks) if tasks.is_empty() => bail!("no task is given: TASK, --file or --harbor says which"),
        source => Ok(source.load("--file", &std::env::current_dir().context("the working directory is gone")?)?),
    }
}

/// Groups, each with a name and a seed by which its members' worlds are made.
fn rollouts(tasks: &[Value], arguments: &EnqueueArguments) -> Vec<NewRollout> {
    let batch = Uuid::now_v7().simple().to_string();
    let config = tried_again(arguments.max_attempts);
    let mut rollouts = Vec::with_capacity(tasks.len() * arguments.samples);
    for (index, task) in tasks.iter().enumerate() {
        let mut metadata = Object::new();
        if !arguments.tag.is_empty() {
            metadata.insert("tags".to_owned(), json!(arguments.tag));
        }
        if arguments.samples > 1 {
            metadata.insert("group".to_owned(), json!(format!("{batch}-{index}")));
            metadata.insert(Rollout::WORLD_SEED.to_owned(), derive_seed(0, &[&batch, &index.to_string()]).into());
        }
        rollouts.extend((0..arguments.samples).map(|_| NewRollout {
            input: task.clone(),
            mode: arguments.mode,
            config: Some(config.clone()),
            metadata: Some(metadata.clone()),
            ..NewRollout::default()
        }));
    }
    rollouts
}
