//! The names of a run's weights in a store.

use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_types::{NamedWeights, NewNamedWeights, WeightsId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::lineage::{KnownWeights, Lineage, VersionDistances};
use crate::{Record, TrainError};

/// Which weights a checkpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WeightsOrigin {
    pub(crate) weights_id: WeightsId,
    /// The weights that they were made of, if they were made by an update.
    pub(crate) parent_id: Option<WeightsId>,
}

/// By which name a run's start goes in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartName {
    /// That of the files that the run starts from, which is any server's that was started with them.
    Files,
    /// One of its own: the run writes them to another place.
    Run,
}

/// Names the weights of one run in the store, and knows how far they are from those that the learner has.
#[derive(Clone)]
pub(crate) struct RunWeights {
    model: String,
    run_id: String,
    instance: String,
    start: WeightsId,
    lineage: Arc<Mutex<Lineage>>,
}

impl RunWeights {
    /// Of a run that trains `model` from the weights `start` on. `instance` is of no other run in the world.
    pub(crate) fn new(model: &str, run_id: &str, instance: &str, start: WeightsId) -> Self {
        let (model, run_id, instance) = (model.to_owned(), run_id.to_owned(), instance.to_owned());
        Self { model, run_id, instance, start, lineage: Arc::default() }
    }

    /// Reads the names that the run's weights have, and says that the learner has those after `step` updates: the start's, or
    /// those of a checkpoint. Checkpoints of older versions do not say which weights they hold.
    pub(crate) async fn begin(
        &self,
        record: &dyn Record,
        step: u64,
        checkpoint: Option<WeightsOrigin>,
        start_name: StartName,
    ) -> Result<(), TrainError> {
        let named = self.read_names(record).await?;
        let start = self.name(record, self.start_of(&named, start_name), 0).await?;
        self.with_lineage(|lineage| lineage.move_to(start));
        if step > 0 {
            let origin = checkpoint.unwrap_or_else(|| self.origin_of_older_checkpoint(step));
            let weights = self.name(record, origin, step).await?;
            self.with_lineage(|lineage| lineage.move_to(weights));
        }
        Ok(())
    }

    /// The same by the name of the files, without giving names: weights that have none get a version that no store gives.
    pub(crate) async fn look(
        &self,
        record: &dyn Record,
        step: u64,
        checkpoint: Option<WeightsOrigin>,
    ) -> Result<(), TrainError> {
        let named = self.read_names(record).await?;
        let seen = |WeightsOrigin { weights_id, parent_id }, step: u64| {
            let version = named.iter().find(|named| named.weights_id == weights_id).map(|named| named.version);
            KnownWeights { weights_id, parent_id, version: version.unwrap_or(u64::MAX - step), step }
        };
        let start = seen(self.start_of(&named, StartName::Files), 0);
        self.with_lineage(|lineage| lineage.move_to(start));
        if step > 0 {
            let origin = checkpoint.unwrap_or_else(|| self.origin_of_older_checkpoint(step));
            self.with_lineage(|lineage| lineage.move_to(seen(origin, step)));
        }
        Ok(())
    }

    /// Reads the names of the model's weights, and adds those that the run can name.
    async fn read_names(&self, record: &dyn Record) -> Result<Vec<NamedWeights>, TrainError> {
        let named = record.named_weights(&self.model, None).await?;
        let is_runs = |named: &NamedWeights| named.run_id.as_deref() == Some(self.run_id.as_str());
        self.with_lineage(|lineage| {
            for named in &named {
                if named.weights_id == self.start {
                    lineage.add(KnownWeights { parent_id: None, ..known(named, 0) });
                } else if is_runs(named) {
                    lineage.add(known(named, named.step.unwrap_or_default()));
                }
            }
        });
        Ok(named)
    }

    /// The run's start: by a name of its own if it has one, or is to have one.
    fn start_of(&self, named: &[NamedWeights], start_name: StartName) -> WeightsOrigin {
        let own = self.own_start();
        let has_own = named.iter().any(|named| named.weights_id == own.weights_id);
        match start_name {
            StartName::Files if !has_own => self.files(),
            StartName::Files | StartName::Run => own,
        }
    }

    /// Says that an update with this digest has made weights of those that the learner had.
    pub(crate) async fn advance(&self, record: &dyn Record, step: u64, learnt: [u8; 32]) -> Result<(), TrainError> {
        let parent_id = self.head().map_or(self.start, |head| head.weights_id);
        let mut digest = Sha256::new_with_prefix("fulgurite weights, by an update\n");
        self.add_instance(&mut digest);
        digest.update(step.to_le_bytes());
        digest.update(parent_id.as_bytes());
        digest.update(learnt);
        let weights_id = WeightsId::of_digest(digest.finalize().into());
        let weights = self.name(record, WeightsOrigin { weights_id, parent_id: Some(parent_id) }, step).await?;
        self.with_lineage(|lineage| lineage.move_to(weights));
        Ok(())
    }

    /// The version of the weights that the learner has; without any, the number of its updates.
    pub(crate) fn version(&self, step: u64) -> u64 {
        self.head().map_or(step, |head| head.version)
    }

    /// The version of the weights after `step` updates, from which the learner's were made: that of the run's own start, if
    /// it has such a name, before that of the files.
    pub(crate) fn version_after(&self, step: u64) -> u64 {
        let own = (step == 0).then(|| self.own_start().weights_id);
        let weights = self.with_lineage(|lineage| {
            let own = own.and_then(|own| lineage.find(own));
            own.or_else(|| lineage.ancestor(step))
        });
        weights.map_or(step, |weights| weights.version)
    }

    /// Which weights the learner has.
    pub(crate) fn origin(&self) -> Option<WeightsOrigin> {
        self.head().map(|KnownWeights { weights_id, parent_id, .. }| WeightsOrigin { weights_id, parent_id })
    }

    /// How far each version is from the weights that the learner has.
    pub(crate) fn distances(&self) -> VersionDistances {
        self.with_lineage(|lineage| lineage.distances())
    }

    fn head(&self) -> Option<KnownWeights> {
        self.with_lineage(|lineage| lineage.head())
    }

    fn with_lineage<T>(&self, work: impl FnOnce(&mut Lineage) -> T) -> T {
        work(&mut self.lineage.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The files that the run starts from.
    fn files(&self) -> WeightsOrigin {
        WeightsOrigin { weights_id: self.start, parent_id: None }
    }

    /// The same weights by a name of the run's own.
    fn own_start(&self) -> WeightsOrigin {
        let mut digest = Sha256::new_with_prefix("fulgurite weights, of a run's start\n");
        self.add_instance(&mut digest);
        digest.update(self.start.as_bytes());
        WeightsOrigin { weights_id: WeightsId::of_digest(digest.finalize().into()), parent_id: Some(self.start) }
    }

    fn origin_of_older_checkpoint(&self, step: u64) -> WeightsOrigin {
        let mut digest = Sha256::new_with_prefix("fulgurite weights, of an older checkpoint\n");
        self.add_instance(&mut digest);
        digest.update(step.to_le_bytes());
        WeightsOrigin { weights_id: WeightsId::of_digest(digest.finalize().into()), parent_id: None }
    }

    fn add_instance(&self, digest: &mut Sha256) {
        for text in [&self.run_id, &self.instance] {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
    }

    async fn name(&self, record: &dyn Record, origin: WeightsOrigin, step: u64) -> Result<KnownWeights, TrainError> {
        let WeightsOrigin { weights_id, parent_id } = origin;
        // The files that a run starts from are not the run's.
        let is_made_here = weights_id != self.start;
        let named = record
            .name_weights(NewNamedWeights {
                model: self.model.clone(),
                weights_id,
                parent_id,
                run_id: is_made_here.then(|| self.run_id.clone()),
                step: is_made_here.then_some(step),
                preferred_version: step,
            })
            .await?;
        Ok(KnownWeights { parent_id, ..known(&named, step) })
    }
}

fn known(named: &NamedWeights, step: u64) -> KnownWeights {
    let NamedWeights { weights_id, parent_id, version, .. } = *named;
    KnownWeights { weights_id, parent_id, version, step }
}
