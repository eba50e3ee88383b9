//! What was gathered for a step.

use fulgurite_types::{Generation, GenerationUse, Verdict};

use super::member::{Member, Phase};
use super::stale_rollouts::StaleRollouts;
use crate::weights::VersionDistances;

/// Rollouts of a harvest that are not learnt from and of which no more is kept than what became of their calls.
#[derive(Default)]
pub(crate) struct PassedOver {
    /// Those that other runs have learnt from.
    pub(crate) trained_before: u64,
    /// Those that are lost because of the weights that sampled them.
    pub(crate) stale: StaleRollouts,
    uses: Vec<GenerationUse>,
}

impl PassedOver {
    /// Adds one that other runs have learnt from.
    pub(crate) fn add_trained(&mut self, member: &Member) {
        self.trained_before += 1;
        self.uses.extend(member.judged().map(use_of));
    }

    /// Adds one that has nothing to train where the weights of versions are so far away.
    pub(crate) fn add_untrainable(&mut self, member: &Member, distances: &VersionDistances) {
        self.stale.add(member, distances);
        self.uses.extend(member.judged().map(use_of));
    }
}

/// What became of a generation.
fn use_of((generation, verdict): (&Generation, Verdict)) -> GenerationUse {
    GenerationUse {
        generation_id: generation.generation_id.clone(),
        cause: verdict.into(),
        tokens: generation.sampled_tokens.len() as u64,
    }
}

/// The rollouts of one plan, group by group.
pub(crate) struct Collected {
    pub(crate) phase: Phase,
    pub(crate) groups: Vec<Vec<Member>>,
    /// Those that failed and were run again.
    pub(crate) replaced: Vec<Member>,
    /// Those that are of no group.
    pub(crate) passed_over: PassedOver,
    /// What there is to say of how their tasks were chosen, by the names of metrics.
    pub(crate) choice: Vec<(&'static str, usize)>,
}

impl Collected {
    /// Groups none of whose rollouts were run again.
    pub(crate) fn of(phase: Phase, groups: Vec<Vec<Member>>) -> Self {
        Self { phase, groups, replaced: Vec::new(), passed_over: PassedOver::default(), choice: Vec::new() }
    }

    /// All rollouts, those that were run again among them.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.groups.iter().flatten().chain(&self.replaced)
    }

    /// Mean negative logprob of the sampled tokens, in nats; `None` where they are too few to judge weights by.
    pub(crate) fn sampled_nll(&self) -> Option<f64> {
        const ENOUGH: usize = 128;
        let calls = self.members().flat_map(|member| &member.generations);
        let logprobs: Vec<f64> =
            calls.flat_map(|call| call.logprobs.iter().flatten()).copied().map(f64::from).collect();
        (logprobs.len() >= ENOUGH).then(|| -logprobs.iter().sum::<f64>() / logprobs.len() as f64)
    }

    /// What became of every token that was sampled.
    pub(crate) fn uses(&self) -> Vec<GenerationUse> {
        let judged = self.members().flat_map(Member::judged);
        judged.map(use_of).chain(self.passed_over.uses.iter().cloned()).collect()
    }
}
