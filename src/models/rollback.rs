//! `fulgurite model rollback`: an earlier checkpoint's weights behind a model that is served.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fulgurite_backends::WeightsSource;
use fulgurite_client::{Server, ServerOptions};
use fulgurite_types::{Object, WeightsVersion};
use serde_json::json;

use crate::cli::output;
use crate::config::admin_key;
use crate::models::arguments::ModelRollbackArguments;
use crate::models::named_weights::{NamedWeights, WeightsKind, run_model};
use crate::runs::checkpoints::checkpoints;
use crate::runs::registry;
use crate::runs::which_checkpoint::WhichCheckpoint;
use crate::train::exclusive_lock::is_run_held;

/// How long a server may be out of reach: somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of its answer.
const REPLY_LIMIT: usize = 1 << 20;
/// The directory in a run's own that keeps what was put back, so that the server finds it after a restart when the run
/// has long removed the checkpoint.
const ROLLED_BACK: &str = "rolled-back";

/// Puts the weights there, and says what was there before.
pub async fn rollback(arguments: &ModelRollbackArguments) -> Result<()> {
    let server = server(&arguments.server)?;
    let run = registry::directory(&arguments.source).ok();
    let model = match (&arguments.model, &run) {
        (Some(model), _) => model.clone(),
        (None, Some(run)) => run_model(run)?.0,
        (None, None) => {
            let weights = NamedWeights::find(&arguments.source, WhichCheckpoint::Newest)?;
            let run = weights.run.context("this is a checkpoint of no run: say by --model which model gets it")?;
            run_model(&run)?.0
        }
    };
    let cannot = || format!("cannot put earlier weights behind `{model}`");
    let served = server.weights_version(&model).await.with_context(cannot)?;
    let which = match (arguments.checkpoint, &run) {
        (Some(which), _) => which,
        (None, Some(run)) => before(run, served)?,
        (None, None) => WhichCheckpoint::Newest,
    };
    let weights = NamedWeights::find(&arguments.source, which)?;
    let Some((run, step)) = weights.run.clone().zip(weights.step) else {
        bail!("{} is no checkpoint of a run", weights.directory.display());
    };
    let kept = keep(&weights.directory, &run, step)?;
    let version = WeightsVersion(step);
    let source = json!(match weights.kind {
        WeightsKind::Model => WeightsSource::Model(kept.clone()),
        WeightsKind::Adapter => WeightsSource::Adapter(kept.clone()),
    });
    let source: Object = serde_json::from_value(source).context("a source of weights has no name")?;
    if let Err(error) = server.load_weights(&model, version, source).await {
        if served != Some(version) {
            let _ = std::fs::remove_dir_all(&kept);
        }
        return Err(error).with_context(cannot);
    }
    remove_others(&kept)?;
    let before = served.map_or_else(|| "an unknown version".to_owned(), |served| format!("version {}", served.0));
    output::line(format!("{model}: version {step} in place of {before}"));
    if is_run_held(&run) {
        output::note(format_args!(
            "warning: {} is being trained: its next update replaces these weights",
            run.display()
        ));
    }
    Ok(())
}

fn server(url: &str) -> Result<Server> {
    let admin_key = admin_key::of_environment()?.map(|key| key.expose().to_owned());
    let options = ServerOptions { url: url.to_owned(), admin_key, patience: PATIENCE, reply_limit: REPLY_LIMIT };
    Ok(Server::new(options)?)
}

/// The newest checkpoint that is older than what is served.
fn before(run: &Path, served: Option<WeightsVersion>) -> Result<WhichCheckpoint> {
    let Some(served) = served else {
        bail!("the server does not know the version of what it serves: say by --checkpoint what is to be put back")
    };
    let older = checkpoints(run).into_iter().rfind(|checkpoint| checkpoint.step < served.0);
    let older = older.with_context(|| {
        format!(
            "{} has no checkpoint older than version {}, which is served: --checkpoint names another",
            run.display(),
            served.0
        )
    })?;
    Ok(WhichCheckpoint::Step(older.step))
}

/// The same files in a place where the run removes none.
fn keep(checkpoint: &Path, run: &Path, step: u64) -> Result<PathBuf> {
    let kept = run.join(ROLLED_BACK).join(format!("{step:06}"));
    let partial = kept.with_extension("partial");
    let clear = |directory: &Path| match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    let copied = || -> std::io::Result<()> {
        clear(&partial)?;
        std::fs::create_dir_all(&partial)?;
        for entry in std::fs::read_dir(checkpoint)? {
            let file = entry?.path();
            let Some(name) = file.file_name().filter(|_| file.is_file()) else { continue };
            let to = partial.join(name);
            // Nobody writes into the files of a checkpoint.
            std::fs::hard_link(&file, &to).or_else(|_| std::fs::copy(&file, &to).map(drop))?;
        }
        clear(&kept)?;
        std::fs::rename(&partial, &kept)
    };
    copied().with_context(|| format!("cannot keep {} in {}", checkpoint.display(), kept.display()))?;
    Ok(kept)
}

/// Removes what was put back before, and is behind the model no longer.
fn remove_others(kept: &Path) -> Result<()> {
    let Some(parent) = kept.parent() else { return Ok(()) };
    for entry in std::fs::read_dir(parent).with_context(|| format!("cannot read {}", parent.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", parent.display()))?.path();
        if path != kept {
            std::fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}
