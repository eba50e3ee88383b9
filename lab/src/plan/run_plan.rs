//! A plan as a whole, and how people read it.

use std::path::Path;

use serde::Serialize;

use crate::plan::changes::{Change, PROCESSES, changes};
use crate::plan::gpu::{Gpus, gibibytes};
use crate::plan::host::HostNeed;
use crate::plan::job::Job;
use crate::plan::of_config::{ConfiguredJob, LengthSource};
use crate::plan::placement::{Placement, Work};
use crate::plan::time::TimeEstimate;

/// Numbers of GPUs that are tried where one is too small.
const COUNTS: [u64; 3] = [2, 4, 8];
/// Ranks for which vLLM has kernels (`--max-lora-rank`).
const VLLM_RANKS: [u64; 9] = [1, 8, 16, 32, 64, 128, 256, 320, 512];

/// What a run needs, and what to change where it does not fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunPlan {
    /// The model's name in the config.
    pub model: String,
    /// Numbers of its weights.
    pub parameters: u64,
    /// What was computed with.
    pub job: Job,
    /// Where `rollout_tokens` come from.
    pub length: LengthSource,
    /// What is on the GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuPlan>,
    /// What is in this machine's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostNeed>,
    /// Whether all of it fits.
    pub fits: bool,
    /// What is somewhere else or not counted.
    pub notes: Vec<String>,
}

/// What a run needs of GPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuPlan {
    /// The GPUs.
    pub gpus: Gpus,
    /// What they do.
    pub work: Work,
    /// Where everything is, as the config says.
    pub placement: Placement,
    /// Whether it fits.
    pub fits: bool,
    /// What makes it fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
    /// vLLM's command line, with the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vllm: Option<String>,
    /// How long an update may take, with the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeEstimate>,
}

/// What makes a run fit that does not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Other values of keys.
    Changes(Vec<Change>),
    /// More GPUs of the kind, with these changes.
    MoreGpus {
        /// How many.
        count: u64,
        /// What is to be changed all the same.
        changes: Vec<Change>,
    },
    /// A GPU with so many bytes at least.
    LargerGpu(u64),
}

impl GpuPlan {
    /// Places a job, and looks for what makes it fit.
    pub fn of(job: &Job, gpus: Gpus, work: Work, path: &Path) -> Self {
        let placement = Placement::of(job, &gpus, work);
        let fits = placement.fits();
        let (remedy, job, planned, used) =
            if fits { (None, job.clone(), placement.clone(), gpus.clone()) } else { remedy(job, &gpus, work) };
        let is_planned = planned.fits();
        let vllm = is_planned.then(|| vllm_command(&job, &planned, path)).flatten();
        let time = is_planned.then(|| TimeEstimate::of(&job, &used, &planned)).flatten();
        Self { gpus, work, placement, fits, remedy, vllm, time }
    }
}

fn remedy(job: &Job, gpus: &Gpus, work: Work) -> (Option<Remedy>, Job, Placement, Gpus) {
    let own = changes(job, gpus, work);
    if own.fits() {
        return (Some(Remedy::Changes(own.changes)), own.job, own.placement, gpus.clone());
    }
    for count in COUNTS.into_iter().filter(|count| *count > gpus.count) {
        let more = Gpus { count, ..gpus.clone() };
        let found = changes(job, &more, work);
        if found.fits() {
            let remedy = Remedy::MoreGpus { count, changes: found.changes };
            return (Some(remedy), found.job, found.placement, more);
        }
    }
    let least = own.placement.needed + (gpus.memory - own.placement.usable);
    (Some(Remedy::LargerGpu(least)), own.job, own.placement, gpus.clone())
}

/// What starts vLLM, for a placement.
pub fn vllm_command(job: &Job, placement: &Placement, path: &Path) -> Option<String> {
    let sampler = placement.sampler?;
    let sleeps = if placement.by_turns { " --enable-sleep-mode" } else { "" };
    let (variable, adapters) = match &job.adapter {
        Some(adapter) => {
            let rank = VLLM_RANKS.into_iter().find(|rank| *rank >= adapter.rank).unwrap_or(adapter.rank);
            let flags = format!(" --enable-lora --max-loras 2 --max-lora-rank {rank}");
            let variable = match placement.by_turns {
                true => "VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_RUNTIME_LORA_UPDATING=True",
                false => "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True",
            };
            (variable, flags)
        }
        None => ("VLLM_SERVER_DEV_MODE=1", String::new()),
    };
    let parallel = match sampler.tensor_parallel {
        1 => String::new(),
        size => format!(" --tensor-parallel-size {size}"),
    };
    let utilization = placement.gpu_memory_utilization.unwrap_or(0.9);
    let path = path.display();
    Some(format!(
        "{variable} vllm serve {path}{sleeps}{adapters}{parallel} --max-model-len {} --gpu-memory-utilization {utilization:.2} \
         --logprobs-mode processed_logprobs",
        job.rollout_tokens
    ))
}

impl RunPlan {
    /// Of a config.
    pub fn of(configured: ConfiguredJob) -> Self {
        let ConfiguredJob { name, path, job, length, gpus, host, notes } = configured;
        let gpu = gpus.map(|(gpus, work)| GpuPlan::of(&job, gpus, work, &path));
        let fits = gpu.as_ref().is_none_or(|gpu| gpu.fits) && host.as_ref().is_none_or(HostNeed::fits);
        Self { model: name, parameters: job.shape.parameters(), job, length, gpu, host, fits, notes }
    }

    /// As lines for people, each with its name.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let shape = &self.job.shape;
        let trained = match &self.job.adapter {
            Some(adapter) => format!("an adapter of rank {}", adapter.rank),
            None => "all of them".to_owned(),
        };
        let mut lines = vec![
            (
                "model",
                format!(
                    "{}: {} weights in {} layers; trained: {trained}",
                    self.model,
                    counted(self.parameters),
                    shape.layers
                ),
            ),
            (
                "rollouts",
                format!(
                    "{} at a time, {} tokens each ({})",
                    self.job.parallel,
                    self.job.rollout_tokens,
                    self.length.text()
                ),
            ),
        ];
        lines.extend(self.memory_lines());
        lines
    }

    /// The lines about memory alone.
    pub fn memory_lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if let Some(gpu) = &self.gpu {
            gpu.push_lines(&mut lines);
        }
        if let Some(host) = &self.host {
            lines.push(("memory", host.text()));
        }
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        lines.push(("computed", "by the model's shape; nothing was measured".to_owned()));
        lines
    }
}

impl GpuPlan {
    fn push_lines(&self, lines: &mut Vec<(&'static str, String)>) {
        let parts = |parts: Vec<(&'static str, u64)>| -> String {
            let parts = parts.into_iter().map(|(name, bytes)| format!("{name} {}", gibibytes(bytes)));
            parts.collect::<Vec<_>>().join(", ")
        };
        let Placement { learner, sampler, is_shared, by_turns, needed, usable, training_gpus, .. } = &self.placement;
        lines.push(("gpu", self.gpus.text()));
        if let Some(learner) = learner {
            let checkpoints = if learner.checkpoints { "with" } else { "without" };
            let each = match training_gpus {
                1 => String::new(),
                count => format!(" on each of {count} GPUs"),
            };
            let text = format!(
                "{}{each}: {}; {checkpoints} gradient checkpointing",
                gibibytes(learner.sum()),
                parts(learner.parts())
            );
            lines.push(("learner", text));
        }
        if let Some(sampler) = sampler {
            let each = match (sampler.servers, sampler.tensor_parallel) {
                (1, 1) => String::new(),
                (servers, size) => format!(" on each GPU, {servers} x vLLM of {size}"),
            };
            lines.push(("sampler", format!("{}{each}: {}", gibibytes(sampler.sum()), parts(sampler.parts()))));
        }
        let where_it_is = match (is_shared, by_turns) {
            (true, true) => "both on one GPU by turns",
            (true, false) => "both on one GPU",
            (false, _) => "on the fullest GPU",
        };
        let fits = match (self.fits, self.placement.has_gpus) {
            (true, _) => "yes",
            (false, true) => "no",
            (false, false) => "no, there are too few GPUs",
        };
        lines.push(("fits", format!("{fits}: {} of {}, {where_it_is}", gibibytes(*needed), gibibytes(*usable))));
        lines.extend(self.remedy.iter().flat_map(Remedy::lines));
        if let Some(vllm) = &self.vllm {
            lines.push(("vllm", vllm.clone()));
        }
        if let Some(time) = &self.time {
            lines.push(("update", time.text()));
        }
    }
}

impl Remedy {
    /// As lines for people.
    fn lines(&self) -> Vec<(&'static str, String)> {
        let of = |changes: &[Change]| changes.iter().map(|change| ("change", change.text())).collect::<Vec<_>>();
        match self {
            Remedy::Changes(changes) => of(changes),
            Remedy::MoreGpus { count, changes } => {
                let processes = changes.iter().find(|change| change.key == PROCESSES);
                let last = processes.map_or("one trains".to_owned(), |change| format!("{} train", change.value));
                let mut lines = vec![("gpus", format!("{count} of this kind: the last {last}, the others sample"))];
                lines.extend(of(changes));
                lines
            }
            Remedy::LargerGpu(bytes) => {
                vec![("change", format!("no key helps: it takes a GPU with {}, or a smaller model", gibibytes(*bytes)))]
            }
        }
    }
}

/// Millions or billions.
fn counted(number: u64) -> String {
    match number {
        small if small < 1_000_000 => small.to_string(),
        middle if middle < 1_000_000_000 => format!("{:.0} million", middle as f64 / 1e6),
        large => format!("{:.2} billion", large as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::job::job;

    fn plan(name: &str, rank: u64, gpus: &str) -> RunPlan {
        RunPlan::of(ConfiguredJob {
            name: name.to_owned(),
            path: format!("models/{name}").into(),
            job: job(name, rank),
            length: LengthSource::Assumed,
            gpus: Some((gpus.parse().unwrap(), Work::Both)),
            host: None,
            notes: Vec::new(),
        })
    }

    fn text(plan: &RunPlan) -> String {
        let lines = plan.lines();
        lines.iter().map(|(name, value)| format!("{name:9} {value}\n")).collect()
    }

    #[test]
    fn a_plan_says_what_fits_and_what_to_change() {
        insta::assert_snapshot!(text(&plan("Qwen2.5-1.5B", 32, "rtx4090")));
        insta::assert_snapshot!(text(&plan("Qwen3-4B", 32, "24GiB")));
        insta::assert_snapshot!(text(&plan("Qwen3-8B", 0, "H100")));
        insta::assert_snapshot!(text(&plan("Qwen3-14B", 32, "8xA100")));
        insta::assert_snapshot!(text(&plan("Qwen3-32B", 32, "24GiB")));
    }

    #[test]
    fn vllm_is_started_for_the_next_rank_that_it_has() {
        let job = Job { adapter: job("Qwen3-4B", 20).adapter, ..job("Qwen3-4B", 20) };
        let placement = Placement::of(&job, &"H100".parse().unwrap(), Work::Both);
        let command = vllm_command(&job, &placement, Path::new("models/Qwen3-4B")).unwrap();
        assert!(command.contains("--max-lora-rank 32 "), "{command}");
    }
}
