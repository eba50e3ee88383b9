//! What servers report of the tokens of a prompt, checked.

use crate::{AnswerFault, PromptScores};

/// A token in some place of a prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScoredToken {
    pub(crate) id: u32,
    pub(crate) logprob: f32,
}

/// Scores from the tokens that a server reports for each place after the first: the prompt's own among them, in any order.
///
/// # Errors
/// [`AnswerFault`] if a place is missing, or does not report the prompt's own token.
pub(crate) fn prompt_scores(
    prompt: &[u32],
    rows: Vec<Vec<ScoredToken>>,
    alternatives: usize,
) -> Result<PromptScores, AnswerFault> {
    let targets = prompt.get(1..).unwrap_or_default();
    if rows.len() != targets.len() {
        return Err(AnswerFault::CountsDiffer { tokens: targets.len(), logprobs: rows.len() });
    }
    let mut scores = PromptScores::default();
    for (place, (target, mut row)) in targets.iter().zip(rows).enumerate() {
        let own = row.iter().find(|token| token.id == *target).ok_or_else(|| AnswerFault::Unreadable {
            message: format!("the logprob of token {target} in place {} of the prompt is missing", place + 1),
        })?;
        scores.logprobs.push(own.logprob);
        if alternatives > 0 {
            row.sort_by(|one, other| other.logprob.total_cmp(&one.logprob).then(one.id.cmp(&other.id)));
            row.truncate(alternatives);
            scores.likeliest.push(row.into_iter().map(|token| (token.id, token.logprob)).collect());
        }
    }
    Ok(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_the_prompts_own_token_is_a_fault() {
        let token = |id, logprob| ScoredToken { id, logprob };
        let rows = || vec![vec![token(7, -2.0), token(3, -0.5)], vec![token(4, -1.0), token(5, -1.0)]];
        let scores = prompt_scores(&[1, 7, 5], rows(), 1).unwrap();
        assert_eq!((scores.logprobs, scores.likeliest), (vec![-2.0, -1.0], vec![vec![(3, -0.5)], vec![(4, -1.0)]]));
        assert_eq!(prompt_scores(&[1, 7, 5], rows(), 0).unwrap().likeliest, Vec::<Vec<_>>::new());
        assert!(matches!(prompt_scores(&[1, 7, 6], rows(), 1), Err(AnswerFault::Unreadable { .. })));
        let short = prompt_scores(&[1, 7], rows(), 1);
        assert_eq!(short, Err(AnswerFault::CountsDiffer { tokens: 1, logprobs: 2 }));
    }
}
