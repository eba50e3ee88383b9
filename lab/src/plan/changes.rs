//! What to change where a run does not fit, found by trying.

use serde::Serialize;

use crate::plan::gpu::Gpus;
use crate::plan::job::{AdapterShape, Checkpointing, Elements, Job, Turns};
use crate::plan::model_shape::LAYER_MODULES;
use crate::plan::placement::{Placement, Work};

/// The key of an adapter's rank.
pub const LORA_RANK: &str = "[[models]] lora_rank";
/// The key of how many GPUs train.
pub const PROCESSES: &str = "[torch] processes";
/// Rank of an adapter in place of all weights.
const RANK: u64 = 32;
/// The least rank that is proposed.
const LEAST_RANK: u64 = 8;
/// The fewest rollouts at a time that are proposed.
const LEAST_PARALLEL: u64 = 4;

/// A key of the config and the value that it is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// As the config has it.
    pub key: &'static str,
    /// In TOML.
    pub value: String,
}

impl Change {
    /// As the config has it, with its table.
    pub fn text(&self) -> String {
        format!("{} = {}", self.key, self.value)
    }

    /// The same without its table.
    pub fn short(&self) -> String {
        let name = self.key.rsplit(' ').next().unwrap_or(self.key);
        format!("{name} = {}", self.value)
    }
}

/// Changes, and whether they suffice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changes {
    /// What to change; nothing where no value of these keys makes it fit.
    pub changes: Vec<Change>,
    /// The job with them, or with the least that was tried.
    #[serde(skip)]
    pub job: Job,
    /// Where it then is.
    pub placement: Placement,
}

impl Changes {
    /// Whether the run fits with them.
    pub fn fits(&self) -> bool {
        self.placement.fits()
    }
}

/// The changes that make a run fit which does not; the least costly first, and none that is not needed.
pub fn changes(job: &Job, gpus: &Gpus, work: Work) -> Changes {
    let fits = |job: &Job| Placement::of(job, gpus, work).fits();
    // All weights become an adapter only where no number of processes has room for them.
    let tried = [AllWeights::Stay, AllWeights::BecomeAdapter].into_iter().flat_map(|all_weights| {
        processes(job, gpus, work)
            .into_iter()
            .map(move |processes| smaller(&Job { processes, ..job.clone() }, gpus, work, all_weights))
    });
    let mut least = job.clone();
    let fitting = tried.inspect(|tried| least.clone_from(tried)).find(&fits);
    let mut found = fitting.unwrap_or(least);
    if !fits(&found) {
        return Changes { changes: Vec::new(), placement: Placement::of(&found, gpus, work), job: found };
    }
    // A later change may have made an earlier one needless.
    for revert in REVERTS {
        let mut without = found.clone();
        revert(&mut without, job);
        if fits(&without) {
            found = without;
        }
    }
    Changes { changes: difference(job, &found), placement: Placement::of(&found, gpus, work), job: found }
}

/// Whether an adapter may be trained in place of all weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllWeights {
    Stay,
    BecomeAdapter,
}

/// The numbers of training processes that come into question, the fewest first.
fn processes(job: &Job, gpus: &Gpus, work: Work) -> Vec<u64> {
    // One GPU is left to sample, but for one that has both.
    let most = match work {
        Work::Sample => return vec![job.processes],
        Work::Both => gpus.count.saturating_sub(1).max(1),
        Work::Train => gpus.count,
    };
    let first = job.processes.min(most);
    std::iter::successors(Some(first), |count| (2 * count <= most).then_some(2 * count)).collect()
}

/// The job one step after another smaller until it fits, or the smallest.
fn smaller(job: &Job, gpus: &Gpus, work: Work, all_weights: AllWeights) -> Job {
    let mut found = job.clone();
    while !Placement::of(&found, gpus, work).fits() {
        let mut steps = steps(&found, gpus, work).into_iter();
        let stays =
            |next: &Job| all_weights == AllWeights::BecomeAdapter || next.adapter.is_some() == job.adapter.is_some();
        let Some(next) = steps.find(stays) else { break };
        found = next;
    }
    found
}

/// The jobs that are one step smaller, the least costly first.
fn steps(job: &Job, gpus: &Gpus, work: Work) -> Vec<Job> {
    let mut steps = Vec::new();
    let trains = work != Work::Sample;
    if trains && job.elements == Elements::Float32 {
        steps.push(Job { elements: Elements::Bfloat16, ..job.clone() });
    }
    if trains && job.checkpointing != Checkpointing::On {
        steps.push(Job { checkpointing: Checkpointing::On, ..job.clone() });
    }
    if trains && job.max_tokens_per_pass > job.rollout_tokens {
        steps.push(Job { max_tokens_per_pass: (job.max_tokens_per_pass / 2).max(job.rollout_tokens), ..job.clone() });
    }
    if work != Work::Train && job.parallel > LEAST_PARALLEL {
        steps.push(Job { parallel: (job.parallel / 2).max(LEAST_PARALLEL), ..job.clone() });
    }
    let is_one = work == Work::Both && gpus.count == 1 && job.processes == 1;
    if is_one && job.turns == Turns::Off && job.elements != Elements::Nf4 {
        steps.push(Job { turns: Turns::On, ..job.clone() });
    }
    let adapter = match &job.adapter {
        None if trains => Some(AdapterShape { rank: RANK, modules: LAYER_MODULES.into() }),
        Some(adapter) if adapter.rank > LEAST_RANK => {
            Some(AdapterShape { rank: (adapter.rank / 2).max(LEAST_RANK), modules: adapter.modules.clone() })
        }
        _ => None,
    };
    let has_adapter = job.adapter.is_some();
    steps.extend(adapter.map(|adapter| Job { adapter: Some(adapter), ..job.clone() }));
    // Weights of 4 bits stay on their GPU.
    if trains && has_adapter && job.elements == Elements::Bfloat16 && job.turns != Turns::On {
        steps.push(Job { elements: Elements::Nf4, ..job.clone() });
    }
    steps
}

/// Each takes one change back.
const REVERTS: [fn(&mut Job, &Job); 7] = [
    |job, from| job.adapter.clone_from(&from.adapter),
    |job, from| job.turns = from.turns,
    |job, from| job.parallel = from.parallel,
    |job, from| job.max_tokens_per_pass = from.max_tokens_per_pass,
    |job, from| job.checkpointing = from.checkpointing,
    |job, from| job.elements = from.elements,
    |job, from| job.processes = from.processes,
];

fn difference(from: &Job, to: &Job) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut change = |key, value: String| changes.push(Change { key, value });
    if from.elements != to.elements {
        change("[torch] dtype", format!("{:?}", to.elements.name()));
    }
    if from.turns != to.turns {
        change("[torch] shares_gpu", "true".to_owned());
    }
    if from.checkpointing != to.checkpointing {
        change("[torch] gradient_checkpointing", "\"on\"".to_owned());
    }
    if from.processes != to.processes {
        change(PROCESSES, to.processes.to_string());
    }
    if from.max_tokens_per_pass != to.max_tokens_per_pass {
        change("[torch] max_tokens_per_pass", to.max_tokens_per_pass.to_string());
    }
    if from.parallel != to.parallel {
        change("[runner] parallel", to.parallel.to_string());
    }
    if from.adapter != to.adapter {
        change(LORA_RANK, to.adapter.as_ref().map_or(0, |adapter| adapter.rank).to_string());
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::job::job;

    fn texts(changes: &Changes) -> Vec<String> {
        changes.changes.iter().map(Change::text).collect()
    }

    #[test]
    fn changes_make_it_fit_and_none_of_them_is_needless() {
        let gpus = "24GiB".parse().unwrap();
        let wanted = Job { max_tokens_per_pass: 32_768, checkpointing: Checkpointing::Off, ..job("Qwen2.5-1.5B", 32) };
        assert!(!Placement::of(&wanted, &gpus, Work::Both).fits());
        let found = changes(&wanted, &gpus, Work::Both);
        assert!(found.fits() && !found.changes.is_empty(), "{found:?}");
        for revert in REVERTS {
            let mut without = found.job.clone();
            revert(&mut without, &wanted);
            assert!(without == found.job || !Placement::of(&without, &gpus, Work::Both).fits(), "{without:?}");
        }
    }

    #[test]
    fn all_weights_become_an_adapter_where_they_are_too_many() {
        let gpus = "80GiB".parse().unwrap();
        let found = changes(&job("Qwen3-8B", 0), &gpus, Work::Both);
        assert!(found.fits());
        assert!(texts(&found).contains(&"[[models]] lora_rank = 32".to_owned()), "{found:?}");
    }

    #[test]
    fn one_gpu_is_had_by_turns_where_both_are_too_much_for_it() {
        let gpus = "24GiB".parse().unwrap();
        let found = changes(&job("Qwen3-8B", 32), &gpus, Work::Both);
        assert!(found.fits());
        assert!(texts(&found).contains(&"[torch] shares_gpu = true".to_owned()), "{found:?}");
        let cannot = changes(&Job { turns: Turns::Impossible, ..job("Qwen3-8B", 32) }, &gpus, Work::Both);
        assert!(!cannot.changes.iter().any(|change| change.key == "[torch] shares_gpu"), "{cannot:?}");
    }

    #[test]
    fn layers_are_spread_over_gpus_where_one_is_too_small_to_train() {
        let gpus = "8x80GiB".parse().unwrap();
        let found = changes(&job("Qwen3-8B", 0), &gpus, Work::Both);
        assert!(found.fits());
        assert!(texts(&found).contains(&"[torch] processes = 4".to_owned()), "{found:?}");
        let too_many = changes(&Job { processes: 8, ..job("Qwen3-4B", 32) }, &gpus, Work::Both);
        assert_eq!(texts(&too_many), ["[torch] processes = 7"]);
    }

    #[test]
    fn nothing_is_proposed_that_does_not_suffice() {
        let found = changes(&job("Qwen3-32B", 32), &"24GiB".parse().unwrap(), Work::Both);
        assert!(!found.fits() && found.changes.is_empty());
    }
}
