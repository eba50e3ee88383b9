//! Which GPU has what, and whether that fits.

use serde::Serialize;

use crate::plan::gpu::Gpus;
use crate::plan::job::{Job, Turns};
use crate::plan::learner::{self, LearnerNeed};
use crate::plan::sampler::{self, SamplerNeed};

/// Assumed: what the driver keeps of each GPU.
const DRIVER: u64 = 512 << 20;

/// What GPUs are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Sample and train.
    Both,
    /// Sample; this machine's processors or others train.
    Sample,
    /// Train; others sample.
    Train,
}

/// What is on the GPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placement {
    /// The learner, on each of its GPUs.
    pub learner: Option<LearnerNeed>,
    /// vLLM, on each of its GPUs.
    pub sampler: Option<SamplerNeed>,
    /// Whether both are on the only GPU.
    pub is_shared: bool,
    /// Whether they have it by turns.
    pub by_turns: bool,
    /// Bytes of the fullest GPU.
    #[serde(rename = "taken")]
    pub needed: u64,
    /// GPUs that train.
    pub training_gpus: u64,
    /// Whether there are so many GPUs, with one left to sample.
    pub has_gpus: bool,
    /// Bytes of a GPU without what the driver keeps.
    pub usable: u64,
    /// vLLM's `--gpu-memory-utilization`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_memory_utilization: Option<f64>,
}

impl Placement {
    /// One GPU has both. Of several the last ones train, one for each process, and the others sample, each by itself where the
    /// model fits, else in twos, fours or eights.
    pub fn of(job: &Job, gpus: &Gpus, work: Work) -> Self {
        let usable = gpus.memory.saturating_sub(DRIVER);
        let is_shared = work == Work::Both && gpus.count == 1;
        let sampler = match work {
            Work::Train => None,
            Work::Both if !is_shared => {
                Some(place_sampler(job, gpus.count.saturating_sub(job.processes).max(1), usable))
            }
            Work::Both | Work::Sample => Some(place_sampler(job, gpus.count, usable)),
        };
        let of_sampler = sampler.map_or(0, |sampler| sampler.sum());
        let by_turns = is_shared && job.turns == Turns::On;
        // The learner asks for its free memory before vLLM first sleeps.
        let free = if is_shared { usable.saturating_sub(of_sampler) } else { usable };
        let learner = (work != Work::Sample).then(|| LearnerNeed::configured(job, free));
        let of_learner = learner.map_or(0, |learner| learner.sum());
        Self {
            learner,
            sampler,
            is_shared,
            by_turns,
            needed: match (is_shared, by_turns) {
                (true, true) => (of_sampler + learner::CONTEXT).max(of_learner + sampler::CONTEXT),
                (true, false) => of_sampler + of_learner,
                (false, _) => of_sampler.max(of_learner),
            },
            usable,
            training_gpus: if work == Work::Sample { 0 } else { job.processes },
            has_gpus: match work {
                Work::Sample => true,
                Work::Train => job.processes <= gpus.count,
                Work::Both => job.processes < gpus.count || is_shared && job.processes == 1,
            },
            gpu_memory_utilization: sampler.map(|sampler| sampler.utilization(gpus)),
        }
    }

    /// Whether it fits.
    pub fn fits(&self) -> bool {
        self.has_gpus && self.needed <= self.usable
    }
}

fn place_sampler(job: &Job, count: u64, usable: u64) -> SamplerNeed {
    // Heads are dealt out evenly.
    let divides = |size: &u64| *size <= count && job.shape.heads.is_multiple_of(*size);
    let of = |size: u64| SamplerNeed::of(job, count / size, size);
    let sizes: Vec<u64> = [1, 2, 4, 8].into_iter().filter(divides).collect();
    let fitting = sizes.iter().map(|size| of(*size)).find(|need| need.sum() <= usable);
    fitting.unwrap_or_else(|| of(sizes.last().copied().unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::job::job;

    fn gpus(text: &str) -> Gpus {
        text.parse().unwrap()
    }

    #[test]
    fn one_gpu_has_both_and_of_several_one_trains() {
        let small = job("Qwen2.5-0.5B", 32);
        let placement = Placement::of(&small, &gpus("24GiB"), Work::Both);
        let (learner, sampler) = (placement.learner.unwrap(), placement.sampler.unwrap());
        assert!(placement.is_shared && placement.fits());
        assert_eq!(placement.needed, learner.sum() + sampler.sum());
        let apart = Placement::of(&small, &gpus("8x24GiB"), Work::Both);
        let sampler = apart.sampler.unwrap();
        assert_eq!((apart.is_shared, sampler.servers, sampler.tensor_parallel), (false, 7, 1));
        assert_eq!(apart.needed, apart.learner.unwrap().sum().max(sampler.sum()));
        let trains = Placement::of(&small, &gpus("24GiB"), Work::Train);
        assert_eq!((trains.sampler, trains.gpu_memory_utilization), (None, None));
    }

    #[test]
    fn each_process_trains_on_a_gpu_of_its_own() {
        let large = Job { processes: 4, ..job("Qwen3-32B", 32) };
        let gpus = gpus("8x48GiB");
        let placement = Placement::of(&large, &gpus, Work::Both);
        let sampler = placement.sampler.unwrap();
        assert!(placement.fits());
        assert_eq!((placement.training_gpus, sampler.servers * sampler.tensor_parallel), (4, 4));
        assert!(!Placement::of(&Job { processes: 1, ..large.clone() }, &gpus, Work::Both).fits());
        assert!(!Placement::of(&Job { processes: 8, ..large }, &gpus, Work::Both).fits());
    }

    #[test]
    fn by_turns_the_one_leaves_its_context_to_the_other() {
        let (gpu, apart) = (gpus("24GiB"), job("Qwen3-4B", 32));
        let placement = Placement::of(&Job { turns: Turns::On, ..apart.clone() }, &gpu, Work::Both);
        let (learner, sampler) = (placement.learner.unwrap(), placement.sampler.unwrap());
        assert!(placement.by_turns && placement.fits());
        // 1536 MiB of vLLM's stay, and 768 MiB of the learner's.
        assert_eq!(placement.needed, (learner.sum() + (1536 << 20)).max(sampler.sum() + (768 << 20)));
        assert!(!Placement::of(&apart, &gpu, Work::Both).fits());
        assert!(!Placement::of(&Job { turns: Turns::On, ..apart }, &gpus("2x24GiB"), Work::Both).by_turns);
    }

    #[test]
    fn a_model_that_is_too_large_for_a_gpu_is_sampled_by_several() {
        // 61 GiB of weights.
        let large = job("Qwen3-32B", 32);
        let sampler = Placement::of(&large, &gpus("8x48GiB"), Work::Sample).sampler.unwrap();
        assert_eq!((sampler.servers, sampler.tensor_parallel), (4, 2));
        assert!(!Placement::of(&large, &gpus("80GiB"), Work::Both).fits());
    }
}
