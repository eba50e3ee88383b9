//! The beginning of a new run: an id that no other run has, the lease on it, and its record.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::run_files::CONFIG_FILE;
use fulgurite_trainer::Record;

use super::held_run::HeldRun;
use super::identity::started_in;
use super::owner::StoreAccess;
use super::run_directory::{id_of_directory, new_run, new_run_file, write_run_file};
use super::uploaded_runs::run_archive;
use crate::notices::Notices;

/// A new run that is to begin in a directory which this process has locked.
pub(crate) struct NewRunIn<'r> {
    pub record: &'r Arc<dyn Record>,
    /// The model that is trained, where other runs may have named weights of it.
    pub model: Option<&'r str>,
    pub loaded: &'r LoadedConfig,
    pub directory: &'r Path,
    /// That of the server beside which it trains.
    pub servers_store: Option<&'r str>,
    pub access: StoreAccess,
    pub notices: &'r dyn Notices,
}

/// A new run that is this process's, and recorded.
pub(crate) struct StartedRun {
    pub run_id: String,
    pub held: HeldRun,
}

impl NewRunIn<'_> {
    /// Gets the run an id and records it. It is called like its directory, unless the record has a run of that name from
    /// elsewhere: then it gets the next free id, and says so.
    ///
    /// # Errors
    /// If the record cannot be written. Nothing is left of the run then.
    pub(crate) async fn begin(self) -> Result<StartedRun> {
        let wanted = id_of_directory(self.directory);
        let mut started_before = None;
        for number in 1_u64.. {
            let run_id = if number == 1 { wanted.clone() } else { format!("{wanted}-{number}") };
            if let Some(by) = self.started_under(&run_id).await? {
                if self.loaded.config.trainer.common.checkpoint_url.is_some() {
                    bail!(
                        "run {run_id} is there already (begun{by}), and what is uploaded to [trainer] checkpoint_url is found \
                         again by the name of the run's directory: begin this one with --run-directory and another name"
                    );
                }
                started_before.get_or_insert(by);
                continue;
            }
            // The id is this process's from here on: another one that begins at the same moment gets the next.
            let held = HeldRun::claim_free(self.record, &run_id, self.directory, self.access).await?;
            let Some(held) = held else { continue };
            let recorded = self.recorded(&run_id).await;
            let Err(error) = recorded else {
                if run_id != wanted {
                    let started = started_before.unwrap_or_default();
                    self.notices
                        .note(format_args!("run {wanted} is there already (begun{started}): this one is {run_id}"));
                }
                return Ok(StartedRun { run_id, held });
            };
            held.give_back().await;
            self.forget_file();
            if self.started_under(&run_id).await?.is_none() {
                return Err(error.context(format!("cannot begin run {run_id}")));
            }
        }
        bail!("no id is free for run {wanted}")
    }

    /// Who has an id, in words that follow "begun"; `None` if nobody has.
    async fn started_under(&self, run_id: &str) -> Result<Option<String>> {
        if let Some(run) = self.record.run(run_id).await? {
            return Ok(Some(started_in(&run)));
        }
        // Of a run whose record is elsewhere, or was pruned.
        let Some(model) = self.model else { return Ok(None) };
        let has_weights = !self.record.named_weights(model, Some(run_id)).await?.is_empty();
        Ok(has_weights.then(|| " at another store".to_owned()))
    }

    /// The file first: a run whose process dies between the two is recorded as it goes on.
    async fn recorded(&self, run_id: &str) -> Result<()> {
        let file = new_run_file(self.loaded, self.directory, run_id, self.servers_store);
        write_run_file(self.directory, &file)?;
        // What another run has uploaded refuses this one before it is recorded.
        run_archive(self.loaded, self.directory, run_id).await?;
        self.record.create_run(new_run(self.loaded, run_id, file)).await?;
        Ok(())
    }

    fn forget_file(&self) {
        let path = self.directory.join(CONFIG_FILE);
        if let Err(error) = std::fs::remove_file(&path).with_context(|| path.display().to_string()) {
            tracing::debug!(%error, "the file of a run that did not begin is not removed");
        }
    }
}
