//! Memory of this machine, where the embedded engine samples or trains, or PyTorch trains on the processors.

use fulgurite_engine::{MemoryNeed, available_memory};
use serde::Serialize;

use crate::plan::gpu::gibibytes;
use crate::plan::learner::LearnerNeed;

/// What this machine's memory is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostNeed {
    /// The embedded engine's part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<MemoryNeed>,
    /// That of a learner in PyTorch without a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torch: Option<LearnerNeed>,
    /// Bytes of both.
    pub needed: u64,
    /// Bytes that are available now (`MemAvailable`), where the system reports them.
    pub available: Option<u64>,
}

/// What the embedded engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineWork {
    /// It samples, and others train.
    Sample,
    /// It trains, and samples or not.
    Train,
}

impl HostNeed {
    /// Of an engine, a learner, or both.
    pub fn of(engine: Option<(MemoryNeed, EngineWork)>, torch: Option<LearnerNeed>) -> Option<Self> {
        let of_engine = engine.map_or(0, |(need, work)| match work {
            EngineWork::Sample => need.sampling(),
            EngineWork::Train => need.training(),
        });
        let needed = of_engine + torch.map_or(0, |need| need.sum());
        let engine = engine.map(|(need, _)| need);
        (needed > 0).then(|| Self { engine, torch, needed, available: available_memory() })
    }

    /// Whether it fits into the memory that is available now.
    pub fn fits(&self) -> bool {
        self.available.is_none_or(|available| self.needed <= available)
    }

    /// As people read it.
    pub fn text(&self) -> String {
        let fits = if self.fits() { "fits" } else { "does not fit" };
        let available = self.available.map_or_else(|| "an unknown amount".to_owned(), gibibytes);
        format!("{} of {available} that this machine has available now: {fits}", gibibytes(self.needed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::job::{Elements, Job, job};

    #[test]
    fn a_machine_needs_what_engine_and_learner_need() {
        assert_eq!(HostNeed::of(None, None), None);
        let job = Job { elements: Elements::Float32, ..job("Qwen2.5-0.5B", 8) };
        let learner = LearnerNeed::of(&job, true);
        let need = HostNeed::of(None, Some(learner)).unwrap();
        assert_eq!(need.needed, learner.sum());
        let small = HostNeed { available: Some(need.needed - 1), ..need };
        assert!(!small.fits() && small.text().ends_with("does not fit"));
        assert!(HostNeed { available: None, ..need }.fits());
    }
}
