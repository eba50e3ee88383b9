//! Calls of one rollout in the order in which they share the fewest datums.

/// The tokens of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTokens<'a> {
    pub prompt: &'a [u32],
    pub sampled: &'a [u32],
}

impl CallTokens<'_> {
    /// Whether `next`'s prompt begins with everything that this call read and sampled.
    fn is_continued_by(&self, next: &CallTokens<'_>) -> bool {
        next.prompt.strip_prefix(self.prompt).is_some_and(|rest| rest.starts_with(self.sampled))
    }

    fn length(&self) -> usize {
        self.prompt.len() + self.sampled.len()
    }
}

/// Orders calls so that consecutive ones share a datum wherever one continues another, token by token.
///
/// Each call continues the longest other call that its prompt begins with; among equal ones the first. The first
/// continuation of a call stays in its datum, every other one begins a datum of its own, in which the tokens sampled
/// before the branch are only read. So calls that form a tree become one datum per leaf, and each call's sampled
/// tokens are targets in exactly one of them. Takes time quadratic in the number of calls.
pub(crate) fn merging_order(calls: &[CallTokens<'_>]) -> Vec<usize> {
    let mut continuations = vec![Vec::new(); calls.len()];
    let mut heads = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        match continued_call(calls, call) {
            Some(parent) => continuations[parent].push(index),
            None => heads.push(index),
        }
    }
    // A stack with the earliest on top: a branch follows the datum that it left.
    heads.reverse();
    let mut order = Vec::with_capacity(calls.len());
    while let Some(head) = heads.pop() {
        let mut next = Some(head);
        while let Some(call) = next {
            order.push(call);
            heads.extend(continuations[call].iter().skip(1).rev());
            next = continuations[call].first().copied();
        }
    }
    order
}

/// The longest call that `call` continues. One that sampled nothing is continued by nobody, so that a call is always
/// longer than the one that it continues: there are no cycles.
fn continued_call(calls: &[CallTokens<'_>], call: &CallTokens<'_>) -> Option<usize> {
    let mut longest: Option<usize> = None;
    for (index, other) in calls.iter().enumerate() {
        let is_longer = longest.is_none_or(|longest| other.length() > calls[longest].length());
        if is_longer && !other.sampled.is_empty() && other.is_continued_by(call) {
            longest = Some(index);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(calls: &[(&[u32], &[u32])]) -> Vec<usize> {
        let calls: Vec<CallTokens<'_>> = calls.iter().map(|(prompt, sampled)| CallTokens { prompt, sampled }).collect();
        merging_order(&calls)
    }

    #[test]
    fn a_conversation_stays_in_order() {
        assert_eq!(order(&[(&[1], &[2]), (&[1, 2, 3], &[4]), (&[1, 2, 3, 4, 5], &[6])]), [0, 1, 2]);
    }

    #[test]
    fn conversations_that_alternate_are_told_apart() {
        assert_eq!(order(&[(&[1], &[2]), (&[7], &[8]), (&[1, 2, 3], &[4]), (&[7, 8, 9], &[5])]), [0, 2, 1, 3]);
    }

    #[test]
    fn a_branch_follows_the_datum_that_it_left() {
        let calls: [(&[u32], &[u32]); 5] =
            [(&[1], &[2]), (&[1, 2, 3], &[4]), (&[1, 2, 5], &[6]), (&[1, 2, 3, 4], &[9]), (&[8], &[8])];
        assert_eq!(order(&calls), [0, 1, 3, 2, 4]);
    }

    #[test]
    fn a_call_that_comes_before_the_one_it_continues_is_put_after_it() {
        assert_eq!(order(&[(&[1, 2, 3], &[4]), (&[1], &[2])]), [1, 0]);
    }

    #[test]
    fn the_longest_prefix_wins() {
        assert_eq!(order(&[(&[1], &[2]), (&[1], &[2, 3]), (&[1, 2, 3], &[4])]), [0, 1, 2]);
        assert_eq!(order(&[(&[1], &[2, 3]), (&[1], &[2]), (&[1, 2, 3], &[4])]), [0, 2, 1]);
    }

    #[test]
    fn two_calls_that_sampled_nothing_do_not_continue_each_other() {
        assert_eq!(order(&[(&[1], &[]), (&[1], &[])]), [0, 1]);
    }
}
