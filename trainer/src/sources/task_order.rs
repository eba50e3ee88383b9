use fulgurite_backends::derive_seed;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Indices of the tasks that stand at `cursor..cursor + count` of an endless reading of `total` tasks, each epoch in
/// an order of its own. A pure function of seed and cursor: a resumed run reads on where the checkpoint stood.
pub(crate) fn tasks_at(seed: u64, total: usize, cursor: u64, count: usize) -> Vec<usize> {
    let mut order = TaskOrder::new(seed, total);
    (cursor..cursor + count as u64).map(|place| order.at(place)).collect()
}

/// The endless reading of tasks, which is worked out epoch by epoch.
pub(crate) struct TaskOrder {
    seed: u64,
    total: usize,
    epoch: Option<u64>,
    /// Of the epoch.
    order: Vec<usize>,
}

impl TaskOrder {
    pub(crate) fn new(seed: u64, total: usize) -> Self {
        Self { seed, total, epoch: None, order: Vec::new() }
    }

    /// The index of the task at a place.
    pub(crate) fn at(&mut self, place: u64) -> usize {
        let total = self.total as u64;
        let epoch = place / total;
        if self.epoch != Some(epoch) {
            self.order = shuffled(derive_seed(self.seed, &["task order", &epoch.to_string()]), self.total);
            self.epoch = Some(epoch);
        }
        self.order[(place % total) as usize]
    }
}

/// The numbers below `total` in a random order (Fisher-Yates).
pub(crate) fn shuffled(seed: u64, total: usize) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..total).collect();
    for end in (1..total).rev() {
        // The bias of a remainder of 64 random bits is below total / 2^64.
        order.swap(end, (random.next_u64() % (end as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_reads_every_task_once_and_a_cursor_reads_on() {
        let all = tasks_at(7, 10, 0, 25);
        for epoch in [&all[..10], &all[10..20]] {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert_ne!(all[..10], all[10..20]);
        assert_eq!(tasks_at(7, 10, 8, 6), all[8..14]);
        assert_ne!(tasks_at(8, 10, 0, 10), all[..10]);
    }
}
