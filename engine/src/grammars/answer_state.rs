use llguidance::Matcher;
use toktrie::SimpleVob;

use crate::error::EngineError;

/// How far an answer has got in its grammar.
pub(crate) struct Grammar {
    pub(super) matcher: Matcher,
    /// The token that stands for the end.
    pub(super) end: u32,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Grammar").field("is_over", &self.matcher.is_stopped()).finish_non_exhaustive()
    }
}

impl Grammar {
    /// Takes from `logits`, whose token cannot come next, all likelihood. Where the text may end, `stop_tokens` can.
    pub(crate) fn mask(&mut self, logits: &mut [f32], stop_tokens: &[u32]) -> Result<(), EngineError> {
        let mut allowed: SimpleVob = self.matcher.compute_mask_or_eos().map_err(too_complex)?;
        if allowed.is_allowed(self.end) {
            let known = stop_tokens.iter().filter(|token| **token < self.end);
            known.for_each(|token| allowed.allow_token(*token));
        }
        allowed.iter_unset_entries(|token| {
            if let Some(logit) = logits.get_mut(token) {
                *logit = f32::NEG_INFINITY;
            }
        });
        Ok(())
    }

    /// Goes on behind a token that the mask had left.
    pub(crate) fn read(&mut self, token: u32) -> Result<(), EngineError> {
        self.matcher.consume_token(token).map_err(too_complex)
    }
}

/// The grammar's limits are all that a token which the mask had left can fail at.
fn too_complex(error: impl std::fmt::Display) -> EngineError {
    let message = error.to_string();
    EngineError::constraint(message.lines().next().unwrap_or_default().to_owned())
}
