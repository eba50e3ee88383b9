//! Rollbacks: an earlier checkpoint's weights behind a model that is served.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fulgurite_backends::{WeightsSource, weights_fingerprint};
use fulgurite_client::{PostedWeights, Server, ServerOptions};
use fulgurite_config::admin_key;
use fulgurite_lab::records::run_file;
use fulgurite_lab::runs::checkpoints::checkpoints;
use fulgurite_lab::runs::registry;
use fulgurite_lab::runs::which_checkpoint::WhichCheckpoint;
use fulgurite_types::{
    NamedWeights as NamedVersion, NewNamedWeights, Object, Publication, PublicationCause, Replaces, ServedWeights,
    ServingState, WeightsId, WeightsVersion,
};
use serde_json::json;

use super::named_weights::{NamedWeights, WeightsKind, run_model};
use crate::notices::Notices;

/// How long a server may be out of reach: somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long other servers may take to follow before they are said not to have.
const FOLLOWING: Duration = Duration::from_secs(10);
/// Time between looks at them.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of its answer.
const REPLY_LIMIT: usize = 1 << 20;
/// The directory in a run's own that keeps what was put back, so that the server finds it after a restart when the run
/// has long removed the checkpoint.
const ROLLED_BACK: &str = "rolled-back";

/// What is put back, and where.
#[derive(Clone, Debug)]
pub struct Rollback {
    /// A run, or one of its checkpoints.
    pub source: PathBuf,
    /// Of a run: which checkpoint; without it, the newest that is older than what is served.
    pub checkpoint: Option<WhichCheckpoint>,
    /// The model as agents call it, in place of the run's own name for it.
    pub model: Option<String>,
    /// Server that serves the model.
    pub server: String,
}

/// What a rollback has put behind a model.
#[derive(Clone, Debug)]
pub struct RolledBack {
    /// The model.
    pub model: String,
    /// The version that it has now.
    pub version: WeightsVersion,
    /// Updates that made it.
    pub step: u64,
    /// The version that it had before, if that is known.
    pub before: Option<u64>,
    /// The run that the weights are of. If a process trains it, it ends at its next update.
    pub run: PathBuf,
    server: Server,
}

impl Rollback {
    /// Puts the weights there.
    ///
    /// # Errors
    /// If nothing says which weights or which model, or if the server does not take them. What it had stays then.
    pub async fn put_back(&self, notices: &dyn Notices) -> Result<RolledBack> {
        let server = server(&self.server)?;
        let run = registry::directory(&self.source).ok();
        let model = match (&self.model, &run) {
            (Some(model), _) => model.clone(),
            (None, Some(run)) => run_model(run)?.0,
            (None, None) => {
                let weights = NamedWeights::find(&self.source, WhichCheckpoint::Newest, notices)?;
                let run = weights.run.context("this is a checkpoint of no run: say by --model which model gets it")?;
                run_model(&run)?.0
            }
        };
        let cannot = || format!("cannot put earlier weights behind `{model}`");
        let in_force = WeightsInForce::find(&server, &model).await.with_context(cannot)?;
        let which = match (self.checkpoint, &run) {
            (Some(which), _) => which,
            (None, Some(run)) => before(run, in_force.version, in_force.steps_of(run)?)?,
            (None, None) => WhichCheckpoint::Newest,
        };
        let weights = NamedWeights::find(&self.source, which, notices)?;
        let Some((run, step)) = weights.run.clone().zip(weights.step) else {
            bail!("{} is no checkpoint of a run", weights.directory.display());
        };
        let kept = keep(&weights.directory, &run, step)?;
        let named = name(&server, &model, &run, step, &kept).await;
        let (version, run_id) = match named {
            Ok(named) => (WeightsVersion(named.version), named.run_id),
            Err(error) => {
                forget(&kept, is_in_use(&server, &model, &kept).await);
                return Err(error).with_context(cannot);
            }
        };
        let source = json!(match weights.kind {
            WeightsKind::Model => WeightsSource::Model(kept.clone()),
            WeightsKind::Adapter => WeightsSource::Adapter(kept.clone()),
        });
        let source: Object = serde_json::from_value(source).context("a source of weights has no name")?;
        let base = match weights.kind {
            WeightsKind::Model => None,
            WeightsKind::Adapter => base_of(&server, &model, &run, &weights, notices).await.with_context(cannot)?,
        };
        let (replaces, cause) = (Replaces::Anything, PublicationCause::Rollback);
        let posted = PostedWeights { version, source, base, run_id, replaces, cause };
        if let Err(error) = server.load_weights(&model, posted).await {
            forget(&kept, is_in_use(&server, &model, &kept).await);
            return Err(error).with_context(cannot);
        }
        remove_others(&kept)?;
        Ok(RolledBack { model, version, step, before: in_force.version, run, server })
    }
}

impl RolledBack {
    /// Waits a few seconds for the servers of the store to follow; gives how far each has got, or nothing where there is only
    /// one and it has followed.
    ///
    /// # Errors
    /// If the server does not say.
    pub async fn servers(&self) -> Result<Vec<ServedWeights>> {
        let (model, version) = (&self.model, self.version);
        let servers = followed(&self.server, model, version).await;
        servers.with_context(|| format!("cannot tell which servers have `{model}`"))
    }
}

async fn followed(server: &Server, model: &str, version: WeightsVersion) -> Result<Vec<ServedWeights>> {
    let follows = |served: &ServedWeights| served.version == Some(version.0) && served.state == ServingState::Serving;
    let deadline = Instant::now() + FOLLOWING;
    let servers = loop {
        let mut servers = server.served_weights().await?;
        servers.retain(|served| served.model == model);
        let is_over = servers.iter().all(follows) || Instant::now() >= deadline;
        if is_over {
            break servers;
        }
        tokio::time::sleep(LOOK).await;
    };
    let has_followed = servers.len() <= 1 && servers.iter().all(follows);
    Ok(if has_followed { Vec::new() } else { servers })
}

/// The version of a run's weights in the server's store. Those of a run that recorded none there get one.
async fn name(server: &Server, model: &str, run: &Path, step: u64, kept: &Path) -> Result<NamedVersion> {
    let run_id = run_id_of(run)?;
    let known = server.named_weights(model, Some(&run_id)).await?;
    // A run that went back to a checkpoint made the same step again, and its checkpoint is of the last one.
    if let Some(named) = known.into_iter().rfind(|named| named.step == Some(step)) {
        return Ok(named);
    }
    let new = NewNamedWeights {
        model: model.to_owned(),
        weights_id: weights_fingerprint(kept)?,
        parent_id: None,
        run_id: Some(run_id),
        step: Some(step),
        preferred_version: step,
    };
    Ok(server.name_weights(&new).await?)
}

/// Whether a server may have to read the directory again.
async fn is_in_use(server: &Server, model: &str, kept: &Path) -> bool {
    let published = server.publication(model).await;
    published.map_or(true, |published| {
        published.is_some_and(|published| {
            published.source.as_object().is_some_and(|source| source.values().any(|path| *path == json!(kept)))
        })
    })
}

fn forget(kept: &Path, is_in_use: bool) {
    if !is_in_use {
        // What stays is removed by the next rollback.
        let _ = std::fs::remove_dir_all(kept);
    }
}

fn server(url: &str) -> Result<Server> {
    let admin_key = admin_key::of_environment()?.map(|key| key.expose().to_owned());
    let options = ServerOptions { url: url.to_owned(), admin_key, patience: PATIENCE, reply_limit: REPLY_LIMIT };
    Ok(Server::new(options)?)
}

/// What is to be behind a model at every server of the store, whatever the server that is asked has got to.
struct WeightsInForce {
    version: Option<u64>,
    /// What the store knows of it.
    named: Option<NamedVersion>,
}

impl WeightsInForce {
    /// What is published; without a publication, what the server was started with.
    async fn find(server: &Server, model: &str) -> Result<Self> {
        // A name that the server does not know is refused here.
        let served = server.weights_version(model).await?;
        if let Some(Publication { weights, .. }) = server.publication(model).await? {
            return Ok(Self { version: Some(weights.version), named: Some(weights) });
        }
        let version = served.map(|served| served.0);
        let named = server.named_weights(model, None).await?.into_iter().find(|named| Some(named.version) == version);
        Ok(Self { version, named })
    }

    /// The updates of a run that made it: those that its version is named for, or else as many as it counts.
    fn steps_of(&self, run: &Path) -> Result<u64> {
        let Some(version) = self.version else {
            bail!("the server does not know the version of what it serves: say by --checkpoint what is to be put back")
        };
        let run_id = run_id_of(run)?;
        match &self.named {
            Some(NamedVersion { run_id: Some(other), .. }) if *other != run_id => bail!(
                "version {version}, which is served, is of run {other} and not of {}: say by --checkpoint what is to be \
                 put back",
                run.display()
            ),
            Some(NamedVersion { step: Some(step), .. }) => Ok(*step),
            _ => Ok(version),
        }
    }
}

fn run_id_of(run: &Path) -> Result<String> {
    Ok(run_file(run)?["run_id"].as_str().unwrap_or_default().to_owned())
}

/// The whole weights that a run's adapter is over: what the run started from, as the store knows it, or else the files of the
/// model that the run names. `None` where neither is there: then it is what servers were started with.
async fn base_of(
    server: &Server,
    model: &str,
    run: &Path,
    weights: &NamedWeights,
    notices: &dyn Notices,
) -> Result<Option<WeightsId>> {
    let named = server.named_weights(model, Some(&run_id_of(run)?)).await?;
    let starts = named.iter().filter_map(|one| one.parent_id);
    let start = starts.into_iter().find(|parent| named.iter().all(|one| one.weights_id != *parent));
    Ok(start.or_else(|| weights_fingerprint(&weights.base(None, notices).ok()?).ok()))
}

/// The newest checkpoint that is older than what is served.
fn before(run: &Path, served: Option<u64>, steps: u64) -> Result<WhichCheckpoint> {
    let older = checkpoints(run).into_iter().rfind(|checkpoint| checkpoint.step < steps);
    let older = older.with_context(|| {
        let version = served.map_or_else(|| "unknown".to_owned(), |served| served.to_string());
        format!(
            "{} has no checkpoint older than version {version}, which is served: --checkpoint names another",
            run.display(),
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
