//! Which tasks come next by how often they were lately solved.

use std::collections::{BTreeMap, VecDeque};

use fulgurite_backends::derive_seed;
use serde::{Deserialize, Serialize};

use super::task_order::TaskOrder;
use crate::options::CurriculumOptions;
use crate::rollouts::Tries;

/// What a run knows of its tasks, where it draws them by that; part of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curriculum {
    /// The last groups of each task that was tried, by its index, oldest first.
    groups: BTreeMap<usize, VecDeque<Tries>>,
    /// Tasks that come again before their turn, in the order in which they were solved.
    waiting: VecDeque<usize>,
}

/// Where a task's pass rate lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difficulty {
    Untried,
    TooHard,
    Inside,
    TooEasy,
}

/// Whether tasks that wait to come again may be among those that are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replays {
    /// As many as `replay_groups` says.
    Allowed,
    /// None, as of tasks that a step tries in place of others.
    Excluded,
}

/// Tasks that come next.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DrawnTasks {
    /// Their indices.
    pub(crate) tasks: Vec<usize>,
    /// Places of the order that were read for them.
    pub(crate) places_read: u64,
    /// Those that came before their turn.
    pub(crate) replayed: usize,
    /// Those that are tried although their pass rates lie outside.
    pub(crate) outside: usize,
}

/// Whose turn it is, without a curriculum.
pub(crate) struct Turn {
    pub(crate) seed: u64,
    /// The place in the endless order of tasks.
    pub(crate) cursor: u64,
    /// Tasks that are needed.
    pub(crate) count: usize,
}

impl Curriculum {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// `count` tasks: those that wait, and then those of the order, where one outside of the pass rates is mostly skipped. Follows
    /// from what is known of the tasks, the seed and the cursor alone.
    pub(crate) fn draw(
        &mut self,
        options: &CurriculumOptions,
        total: usize,
        turn: &Turn,
        replays: Replays,
    ) -> DrawnTasks {
        let Turn { seed, cursor, count } = *turn;
        let most = if replays == Replays::Allowed { options.replay_groups.min(count) } else { 0 };
        let tasks: Vec<usize> = self.waiting.drain(..most.min(self.waiting.len())).collect();
        let mut drawn = DrawnTasks { replayed: tasks.len(), tasks, ..DrawnTasks::default() };
        let mut order = TaskOrder::new(seed, total);
        while drawn.tasks.len() < count {
            let place = cursor + drawn.places_read;
            drawn.places_read += 1;
            let task = order.at(place);
            let is_outside = matches!(self.difficulty(task, options), Difficulty::TooHard | Difficulty::TooEasy);
            if is_outside && chance(seed, place) >= options.outside {
                continue;
            }
            drawn.outside += usize::from(is_outside);
            drawn.tasks.push(task);
        }
        drawn
    }

    /// Takes in a group of a task; one that is rarely solved, and was now, is to come again.
    pub(crate) fn learn(&mut self, task: usize, tries: Tries, options: &CurriculumOptions) {
        if tries.scored == 0 {
            return;
        }
        let known = self.groups.entry(task).or_default();
        known.push_back(tries);
        while known.len() > options.window {
            known.pop_front();
        }
        let is_rare = |rate: f64| options.replay.is_some_and(|most| rate <= most);
        if tries.solved > 0 && self.pass_rate(task).is_some_and(is_rare) && !self.waiting.contains(&task) {
            self.waiting.push_back(task);
        }
    }

    /// What the metrics of a step say of all tasks.
    pub(crate) fn metrics(&self, options: &CurriculumOptions, total: usize) -> Vec<(&'static str, usize)> {
        let of = |difficulty| {
            let tasks = self.groups.keys().filter(|task| **task < total);
            tasks.filter(|task| self.difficulty(**task, options) == difficulty).count()
        };
        let [hard, inside, easy] = [Difficulty::TooHard, Difficulty::Inside, Difficulty::TooEasy].map(of);
        let mut metrics = vec![
            ("curriculum/tasks_untried", total - hard - inside - easy),
            ("curriculum/tasks_too_hard", hard),
            ("curriculum/tasks_inside", inside),
            ("curriculum/tasks_too_easy", easy),
        ];
        if options.replay.is_some() {
            metrics.push(("curriculum/tasks_waiting", self.waiting.len()));
        }
        metrics
    }

    /// The share of the last groups' rollouts that solved a task; `None` if it was never tried.
    fn pass_rate(&self, task: usize) -> Option<f64> {
        let groups = self.groups.get(&task)?;
        let (solved, scored) =
            groups.iter().fold((0, 0), |(solved, scored), tries| (solved + tries.solved, scored + tries.scored));
        Some(solved as f64 / scored as f64)
    }

    fn difficulty(&self, task: usize, options: &CurriculumOptions) -> Difficulty {
        let [low, high] = options.pass_rate;
        match self.pass_rate(task) {
            None => Difficulty::Untried,
            Some(rate) if rate < low => Difficulty::TooHard,
            Some(rate) if rate > high => Difficulty::TooEasy,
            Some(_) => Difficulty::Inside,
        }
    }
}

/// A number from 0 up and below 1, of 53 bits, for a place of the order.
fn chance(seed: u64, place: u64) -> f64 {
    (derive_seed(seed, &["curriculum", &place.to_string()]) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::super::task_order::tasks_at;
    use super::*;

    const OPTIONS: CurriculumOptions = CurriculumOptions {
        pass_rate: [0.25, 0.75],
        window: 2,
        outside: 0.1,
        solved_at: 1.0,
        replay: Some(0.2),
        replay_groups: 2,
    };

    fn tries(solved: usize) -> Tries {
        Tries { solved, scored: 8 }
    }

    fn turn(cursor: u64, count: usize) -> Turn {
        Turn { seed: 7, cursor, count }
    }

    #[test]
    fn a_pass_rate_is_of_the_last_groups_and_of_those_that_were_scored() {
        let mut known = Curriculum::default();
        known.learn(3, Tries { solved: 0, scored: 0 }, &OPTIONS);
        assert!(known.is_empty());
        for (group, rate) in [(tries(8), 1.0), (tries(4), 0.75), (Tries { solved: 1, scored: 2 }, 0.5)] {
            known.learn(3, group, &OPTIONS);
            assert_eq!(known.pass_rate(3), Some(rate));
        }
        let text = serde_json::to_string(&known).unwrap();
        assert_eq!(text, r#"{"groups":{"3":[[4,8],[1,2]]},"waiting":[]}"#);
        assert_eq!(serde_json::from_str::<Curriculum>(&text).unwrap(), known);
    }

    #[test]
    fn the_bounds_are_inside() {
        let mut known = Curriculum::default();
        for (task, solved) in [(0, 0), (1, 1), (2, 2), (3, 6), (4, 7)] {
            known.learn(task, tries(solved), &CurriculumOptions { replay: None, ..OPTIONS });
        }
        use Difficulty::{Inside, TooEasy, TooHard, Untried};
        let expected = [TooHard, TooHard, Inside, Inside, TooEasy, Untried];
        assert_eq!([0, 1, 2, 3, 4, 5].map(|task| known.difficulty(task, &OPTIONS)), expected);
        let counts = [("untried", 5), ("too_hard", 2), ("inside", 2), ("too_easy", 1), ("waiting", 0)];
        let metrics = known.metrics(&OPTIONS, 10);
        for ((key, count), (name, expected)) in metrics.into_iter().zip(counts) {
            assert_eq!((key, count), (format!("curriculum/tasks_{name}").as_str(), expected));
        }
    }

    #[test]
    fn tasks_inside_come_in_the_order_of_a_run_without_a_curriculum() {
        let mut known = Curriculum::default();
        (0..5).for_each(|task| known.learn(task, tries(4), &OPTIONS));
        let drawn = known.draw(&OPTIONS, 10, &turn(4, 13), Replays::Allowed);
        let expected = DrawnTasks { tasks: tasks_at(7, 10, 4, 13), places_read: 13, ..DrawnTasks::default() };
        assert_eq!(drawn, expected);
    }

    #[test]
    fn a_task_outside_is_mostly_skipped_and_never_given_up() {
        let mut known = Curriculum::default();
        for task in 0..20 {
            known.learn(task, tries(if task < 10 { 4 } else { 8 * (task % 2) }), &OPTIONS);
        }
        let (mut tried, mut cursor, mut outside) = ([0; 20], 0, 0);
        for _ in 0..500 {
            let drawn = known.draw(&OPTIONS, 20, &turn(cursor, 4), Replays::Allowed);
            assert_eq!(drawn, known.draw(&OPTIONS, 20, &turn(cursor, 4), Replays::Allowed));
            drawn.tasks.iter().for_each(|task| tried[*task] += 1);
            cursor += drawn.places_read;
            outside += drawn.outside;
        }
        // 2,000 tasks were drawn: of each reading of all 20 places, 10 inside and 1 outside in the mean.
        let of_outside: usize = tried[10..].iter().sum();
        assert_eq!(of_outside, outside);
        assert!((140..230).contains(&of_outside) && tried[10..].iter().all(|count| *count > 0), "{tried:?}");
        let [least, most] = [tried[..10].iter().min().unwrap(), tried[..10].iter().max().unwrap()];
        assert!(most - least <= 1, "each of those inside is tried once an epoch: {tried:?}");
    }

    #[test]
    fn the_draw_of_a_seed_is_always_the_same() {
        let mut known = Curriculum::default();
        (0..6).for_each(|task| known.learn(task, tries(8 * (task % 2)), &OPTIONS));
        let drawn = known.draw(&OPTIONS, 8, &turn(0, 6), Replays::Allowed);
        let order = tasks_at(7, 8, 0, drawn.places_read as usize);
        let kept = (0..).zip(&order).filter(|(place, task)| **task > 5 || chance(7, *place) < 0.1);
        assert_eq!(drawn.tasks, kept.map(|(_, task)| *task).collect::<Vec<_>>());
        assert_ne!(drawn.tasks, tasks_at(7, 8, 0, 6));
        assert_ne!(drawn.tasks, known.draw(&OPTIONS, 8, &Turn { seed: 8, ..turn(0, 6) }, Replays::Allowed).tasks);
    }

    #[test]
    fn a_task_that_is_rarely_solved_comes_again_once_for_each_group_that_solved_it() {
        let mut known = Curriculum::default();
        for (task, solved) in [(0, 1), (1, 0), (2, 2), (3, 1), (4, 1), (0, 1)] {
            known.learn(task, tries(solved), &OPTIONS);
        }
        assert_eq!(known.waiting, [0, 3, 4], "2 of 8 are too many, and none waits twice");
        assert_eq!(known.draw(&OPTIONS, 9, &turn(0, 3), Replays::Excluded).replayed, 0);
        let drawn = known.draw(&OPTIONS, 9, &turn(0, 3), Replays::Allowed);
        assert_eq!((&drawn.tasks[..2], drawn.replayed, drawn.tasks.len()), (&[0, 3][..], 2, 3));
        known.learn(0, tries(0), &OPTIONS);
        assert_eq!(known.waiting, [4], "a group that did not solve it brings it back no more");
        known.learn(3, tries(1), &OPTIONS);
        assert_eq!(known.draw(&OPTIONS, 9, &turn(9, 2), Replays::Allowed).tasks, [4, 3]);
        let never = CurriculumOptions { replay: None, ..OPTIONS };
        known.learn(5, tries(1), &never);
        assert_eq!(known.draw(&never, 9, &turn(9, 2), Replays::Allowed).replayed, 0);
    }
}
