use std::time::Duration;

/// The pauses between tries of something that fails for a while: each is twice the one before, up to the longest.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from the first to the longest.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause that is next, which stays the same until it is used.
    pub fn peek(&self) -> Duration {
        self.next.min(self.longest)
    }

    /// The pause before the next try.
    pub fn pause(&mut self) -> Duration {
        let pause = self.peek();
        self.next = pause.saturating_mul(2);
        pause
    }

    /// Begins again with the first pause: something went well.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again() {
        let seconds = |pause: Duration| pause.as_secs();
        let mut backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(7));
        let pauses: Vec<u64> = (0..4).map(|_| seconds(backoff.pause())).collect();
        assert_eq!((pauses, seconds(backoff.peek())), (vec![2, 4, 7, 7], 7));
        backoff.reset();
        assert_eq!((seconds(backoff.peek()), seconds(backoff.pause()), seconds(backoff.peek())), (2, 2, 4));
        assert_eq!(Backoff::new(Duration::MAX, Duration::MAX).pause(), Duration::MAX);
    }
}
