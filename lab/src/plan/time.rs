//! How long an update may take, by shares of a card's peak that are assumed.

use serde::Serialize;

use crate::plan::gpu::{Card, Gpus};
use crate::plan::job::Job;
use crate::plan::placement::Placement;
use crate::plan::sampler::token_bytes;

/// Assumed share of the card's peak operations while it trains. Llama 3's authors report 0.38 to 0.43 for tuned code
/// (Grattafiori et al. 2024, table 4).
const SHARE_OF_FLOPS: f64 = 0.3;
/// Assumed share of the card's peak bandwidth while it samples.
const SHARE_OF_BANDWIDTH: f64 = 0.6;

/// Seconds of an update. An estimate, of which nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeEstimate {
    /// Of its rollouts, without agents, tools and graders.
    pub sampling_seconds: f64,
    /// Of its passes.
    pub training_seconds: f64,
    /// Assumed share of the peak operations.
    pub assumed_share_of_flops: f64,
    /// Assumed share of the peak bandwidth.
    pub assumed_share_of_bandwidth: f64,
}

impl TimeEstimate {
    /// On GPUs of a known kind.
    pub fn of(job: &Job, gpus: &Gpus, placement: &Placement) -> Option<Self> {
        let card = gpus.card?;
        let training_seconds = placement
            .learner
            .map_or(0.0, |learner| training_flops(job, learner.checkpoints) / (card.flops * SHARE_OF_FLOPS))
            / job.processes as f64;
        Some(Self {
            sampling_seconds: placement
                .sampler
                .map_or(0.0, |sampler| sampling_seconds(job, &card, sampler.servers, sampler.tensor_parallel)),
            training_seconds,
            assumed_share_of_flops: SHARE_OF_FLOPS,
            assumed_share_of_bandwidth: SHARE_OF_BANDWIDTH,
        })
    }
}

impl TimeEstimate {
    /// As people read it.
    pub fn text(&self) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        format!(
            "an estimate, not measured: {} s of sampling and {} s of training, without agents and graders, if {} of the \
             peak operations and {} of the bandwidth are reached",
            whole(self.sampling_seconds),
            whole(self.training_seconds),
            percent(self.assumed_share_of_flops),
            percent(self.assumed_share_of_bandwidth)
        )
    }
}

/// Two digits, which is more than is known.
fn whole(seconds: f64) -> String {
    match seconds {
        small if small < 10.0 => format!("{small:.1}"),
        middle if middle < 100.0 => format!("{middle:.0}"),
        large => format!("{:.0}", (large / 10.0).round() * 10.0),
    }
}

/// Operations of an update's passes.
///
/// A token takes `2 N + 2 layers * tokens * width` forward (Kaplan et al. 2020, table 1), N without the embedding, and twice
/// that back; an adapter's base has no gradients of weights, which is half of the way back. Checkpointing adds a pass forward.
fn training_flops(job: &Job, checkpoints: bool) -> f64 {
    let tokens = (job.rollouts_per_update * job.rollout_tokens) as f64;
    let attention = 2 * job.shape.layers * job.rollout_tokens * job.shape.query_width();
    let forward = (2 * job.shape.multiplied() + attention) as f64;
    let back = if job.adapter.is_some() { 1.0 } else { 2.0 };
    tokens * forward * (1.0 + back + f64::from(u8::from(checkpoints)))
}

/// Each token of the rollouts at a time reads all weights, and the keys and values that are there: half of them on average
/// (Pope et al. 2022, section 2).
fn sampling_seconds(job: &Job, card: &Card, servers: u64, tensor_parallel: u64) -> f64 {
    let at_a_time = job.parallel.min(job.rollouts_per_update).max(1);
    let rounds = job.rollouts_per_update.div_ceil(at_a_time);
    let of_server = at_a_time.div_ceil(servers);
    let read = job.shape.multiplied() * 2 + of_server * job.rollout_tokens / 2 * token_bytes(&job.shape);
    let step = read as f64 / (tensor_parallel as f64 * card.bandwidth * SHARE_OF_BANDWIDTH);
    (rounds * job.rollout_tokens) as f64 * step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::job::job;
    use crate::plan::placement::Work;

    #[test]
    fn time_is_work_by_shares_of_the_peak() {
        let job = job("Qwen3-4B", 32);
        // 131,072 tokens * (2 * 4,022,468,096 + 2*36*2048*4096) * 3 with checkpoints.
        let flops = 131_072.0 * (8_044_936_192.0 + 603_979_776.0) * 3.0;
        assert_eq!(training_flops(&job, true), flops);
        let gpus: Gpus = "H100".parse().unwrap();
        let placement = Placement::of(&job, &gpus, Work::Both);
        let time = TimeEstimate::of(&job, &gpus, &placement).unwrap();
        let passes = if placement.learner.unwrap().checkpoints { 3.0 } else { 2.0 };
        assert!((time.training_seconds - flops / 3.0 * passes / (989e12 * 0.3)).abs() < 1e-9);
        // Four rounds of 2048 steps, each 8 GB of weights and 16 * 1024 tokens of 147,456 bytes.
        let step = (8_044_936_192.0 + 16.0 * 1024.0 * 147_456.0) / (3350e9 * 0.6);
        assert!((time.sampling_seconds - 4.0 * 2048.0 * step).abs() < 1e-9);
        assert_eq!(TimeEstimate::of(&job, &"24GiB".parse().unwrap(), &placement), None);
    }
}
