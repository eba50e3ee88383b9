//! What another grader changes: rewards, and the order of the members of a group, which is what is learnt.

use std::collections::BTreeMap;

use serde::Serialize;

/// A rollout that was graded again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regraded {
    /// Which.
    pub rollout_id: String,
    /// Those with which it shared a task, in a run that tries each several times.
    #[serde(skip)]
    pub group: Option<String>,
    /// What it is recorded to have earned; `None` if nobody has rewarded it.
    pub old: Option<f64>,
    /// What the new grader gives.
    pub new: f64,
}

impl Regraded {
    /// Whether it earns something else.
    pub fn is_changed(&self) -> bool {
        self.old != Some(self.new)
    }
}

/// What the new rewards change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Rollouts that were graded.
    pub graded: usize,
    /// Those of them that earn something else.
    pub changed: usize,
    /// Mean of the recorded rewards of those that have one.
    pub old_mean: Option<f64>,
    /// Mean of the new ones.
    pub new_mean: Option<f64>,
    /// Groups with at least two graded members.
    pub groups: usize,
    /// Those in which two members stand otherwise to each other than before.
    pub reordered_groups: usize,
    /// Those whose members all earned the same and do not any more: only now something can be learnt from them.
    pub revived_groups: usize,
    /// Those from which nothing can be learnt any more, because all members earn the same.
    pub silenced_groups: usize,
}

impl Comparison {
    /// Of all that were graded.
    pub fn of(regraded: &[Regraded]) -> Self {
        let mut groups: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for rollout in regraded {
            if let (Some(group), Some(old)) = (&rollout.group, rollout.old) {
                groups.entry(group).or_default().push((old, rollout.new));
            }
        }
        groups.retain(|_, members| members.len() > 1);
        let count = |holds: fn(&[(f64, f64)]) -> bool| groups.values().filter(|members| holds(members)).count();
        Self {
            graded: regraded.len(),
            changed: regraded.iter().filter(|rollout| rollout.is_changed()).count(),
            old_mean: mean(regraded.iter().filter_map(|rollout| rollout.old)),
            new_mean: mean(regraded.iter().map(|rollout| rollout.new)),
            groups: groups.len(),
            reordered_groups: count(is_reordered),
            revived_groups: count(|members| is_constant(members, old) && !is_constant(members, new)),
            silenced_groups: count(|members| !is_constant(members, old) && is_constant(members, new)),
        }
    }
}

fn old(member: &(f64, f64)) -> f64 {
    member.0
}

fn new(member: &(f64, f64)) -> f64 {
    member.1
}

fn is_constant(members: &[(f64, f64)], reward: fn(&(f64, f64)) -> f64) -> bool {
    members.windows(2).all(|pair| reward(&pair[0]) == reward(&pair[1]))
}

fn is_reordered(members: &[(f64, f64)]) -> bool {
    let moved = |a: &(f64, f64), b: &(f64, f64)| old(a).total_cmp(&old(b)) != new(a).total_cmp(&new(b));
    members.iter().enumerate().any(|(index, a)| members[index + 1..].iter().any(|b| moved(a, b)))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regraded(group: &str, members: &[(Option<f64>, f64)]) -> Vec<Regraded> {
        let member = |(index, &(old, new)): (usize, &(Option<f64>, f64))| Regraded {
            rollout_id: format!("{group}-{index}"),
            group: Some(group.to_owned()),
            old,
            new,
        };
        members.iter().enumerate().map(member).collect()
    }

    #[test]
    fn a_group_is_reordered_when_two_members_stand_otherwise_to_each_other() {
        let of = |members: &[(Option<f64>, f64)]| {
            let Comparison { groups, reordered_groups, revived_groups, silenced_groups, .. } =
                Comparison::of(&regraded("g", members));
            (groups, reordered_groups, revived_groups, silenced_groups)
        };
        assert_eq!(of(&[(Some(0.0), 0.5), (Some(1.0), 2.0)]), (1, 0, 0, 0), "all moved, none past another");
        assert_eq!(of(&[(Some(0.0), 1.0), (Some(1.0), 0.0)]), (1, 1, 0, 0));
        assert_eq!(of(&[(Some(1.0), 1.0), (Some(1.0), 0.0)]), (1, 1, 1, 0));
        assert_eq!(of(&[(Some(0.0), 1.0), (Some(1.0), 1.0)]), (1, 1, 0, 1));
        assert_eq!(of(&[(Some(0.0), 1.0)]), (0, 0, 0, 0), "one member stands to nobody");
        assert_eq!(of(&[(Some(0.0), 1.0), (None, 1.0)]), (0, 0, 0, 0), "nothing is known of how they stood");
    }

    #[test]
    fn means_and_changes_are_of_all_that_were_graded() {
        let mut all = regraded("a", &[(Some(0.0), 1.0), (Some(1.0), 1.0)]);
        all.extend(regraded("b", &[(None, 0.0)]));
        let compared = Comparison::of(&all);
        assert_eq!((compared.graded, compared.changed), (3, 2));
        assert_eq!((compared.old_mean, compared.new_mean), (Some(0.5), Some(2.0 / 3.0)));
        assert_eq!(Comparison::of(&[]), Comparison::default());
    }
}
