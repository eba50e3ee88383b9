//! What a terminal shows of a step while it is made: rollouts that ended, tokens sampled, the learner's passes, and what
//! the policy said.

use fulgurite_trainer::SampleAnswer;
use fulgurite_types::shortened_line;

/// Characters of a task and of an answer that are shown.
const SHOWN: usize = 80;

/// Counts the tokens that were sampled so far.
pub type SampledTokens = Box<dyn Fn() -> u64 + Send>;

/// What a step has come to so far.
pub(super) struct WithinStep {
    sampled: Option<SampledTokens>,
    /// What rollouts are run for, after how many updates, and the tokens that were sampled before them.
    began: Option<(&'static str, u64, u64)>,
    reply: Option<String>,
}

impl WithinStep {
    /// Nothing yet; `sampled` counts tokens, if they are sampled in this process.
    pub(super) fn new(sampled: Option<SampledTokens>) -> Self {
        Self { sampled, began: None, reply: None }
    }

    /// What stands beside the bar of rollouts.
    pub(super) fn rollouts(&mut self, phase: &'static str, step: u64) -> String {
        let now = self.sampled.as_ref().map_or(0, |sampled| sampled());
        let before = match self.began {
            Some((of, at, before)) if (of, at) == (phase, step) => before,
            _ => {
                self.began = Some((phase, step, now));
                now
            }
        };
        match now.saturating_sub(before) {
            0 => format!("{phase} rollouts of step {step}"),
            tokens => format!("{phase} rollouts of step {step}, {tokens} tokens sampled"),
        }
    }

    /// What stands beside the bar of the learner's passes.
    pub(super) fn learning(step: u64) -> String {
        format!("sequences learnt from in step {step}")
    }

    /// Keeps what the policy said until its step is told of.
    pub(super) fn keep_reply(&mut self, SampleAnswer { task, answer, reward }: &SampleAnswer) {
        self.reply = Some(format!(
            "      {reward:+.3}  {} -> {}",
            shortened_line(task, SHOWN, "…"),
            shortened_line(answer, SHOWN, "…")
        ));
    }

    /// What the policy said in the step that is told of.
    pub(super) fn take_reply(&mut self) -> Option<String> {
        self.reply.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn tokens_are_those_of_the_step() {
        let sampled = Arc::new(AtomicU64::new(100));
        let counter = sampled.clone();
        let mut within = WithinStep::new(Some(Box::new(move || counter.load(Ordering::Relaxed))));
        assert_eq!(within.rollouts("train", 3), "train rollouts of step 3");
        sampled.store(142, Ordering::Relaxed);
        assert_eq!(within.rollouts("train", 3), "train rollouts of step 3, 42 tokens sampled");
        assert_eq!(within.rollouts("held_out", 3), "held_out rollouts of step 3");
    }

    #[test]
    fn a_reply_is_told_once_and_moves_no_cursor() {
        let mut within = WithinStep::new(None);
        within.keep_reply(&SampleAnswer {
            task: "Say 7".into(),
            answer: format!("\x1b[2J{}", "x".repeat(99)),
            reward: 0.5,
        });
        let reply = within.take_reply().unwrap();
        assert!(reply.starts_with("      +0.500  Say 7 ->  [2Jxx") && reply.ends_with("x…"), "{reply:?}");
        assert!(within.take_reply().is_none());
    }
}
