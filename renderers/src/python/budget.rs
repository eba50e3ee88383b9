//! How much a template may do and make.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use minijinja::Value;

use crate::work_limits::WorkLimits;

/// Steps that a template may take with the smallest of inputs: a fraction of a second.
const STEPS: u64 = 4_000_000;

/// Bytes that it may make in all with the smallest of inputs, of texts and of lists.
const BYTES: u64 = 64 << 20;

/// The longest text or list that it may make with the smallest of inputs.
const TOGETHER: u64 = 4 << 20;

/// How long a template may take with the smallest of inputs, and what each byte of the input adds. Steps are not alike: one
/// may look through a long text. No model's template comes near it.
const TIME: Duration = Duration::from_secs(1);
const TIME_PER_BYTE: Duration = Duration::from_micros(16);

/// Steps between two looks at the clock.
const STEPS_PER_LOOK: u64 = 64;

/// Steps and bytes that each byte of the input adds.
const STEPS_PER_BYTE: u64 = 4;
const BYTES_PER_BYTE: u64 = 32;
const TOGETHER_PER_BYTE: u64 = 8;

/// How deep values may lie in each other.
pub(crate) const VALUE_DEPTH: usize = 200;

/// What a template may still do. It is counted down by everything whose size a template or a message chooses, on one
/// thread at a time: its atomics are plain loads and stores.
#[derive(Debug)]
pub(crate) struct Budget<'c> {
    steps: AtomicU64,
    bytes: AtomicU64,
    together: AtomicU64,
    /// All that the template sees, and what measures it in bytes once the smallest budget is used up.
    input: Option<(&'c Value, MeasureInput)>,
    is_extended: AtomicBool,
    /// The input's, once it is measured.
    size: OnceLock<u64>,
    /// When it began, if its time is bounded.
    began: Option<Instant>,
    /// What pseudo-random choices have come to.
    choices: AtomicU64,
    /// What bounds the work that the template is rendered for, and the steps and bytes of it that there were.
    work: Option<(WorkLimits, u64, u64)>,
    /// Whether that work has come to its limits. The thread of the work hears of it when the budget is dropped there: deep
    /// macros run on a thread of their own.
    is_work_over: AtomicBool,
}

/// What measures an input, in bytes.
type MeasureInput = fn(&Value) -> u64;

/// What a template has used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exhausted {
    /// Too much work.
    #[error("the template does more than a prompt of this size can need: it loops, calls or compares too often")]
    Steps,
    /// Too long.
    #[error("the template takes longer than a prompt of this size can need")]
    Time,
    /// Too much memory.
    #[error("the template makes more text or longer lists than a prompt of this size can need")]
    Bytes,
    /// What the template is rendered for is over.
    #[error("nobody waits any more for what the template makes")]
    Unwanted,
    /// Values within values.
    #[error("the template nests values more than {VALUE_DEPTH} deep")]
    Depth,
    /// A text that holds an address, which is another one each time.
    #[error(
        "the template writes an object that Python would write by its address in memory (help: add `| list`, or call it)"
    )]
    Address,
}

impl From<Exhausted> for minijinja::Error {
    fn from(exhausted: Exhausted) -> Self {
        Self::new(minijinja::ErrorKind::InvalidOperation, exhausted.to_string()).with_source(exhausted)
    }
}

impl<'c> Budget<'c> {
    /// The budget of a template that sees `context`, whose size in bytes is found out where it matters.
    pub(crate) fn new(context: &'c Value, size: MeasureInput) -> Self {
        let work = WorkLimits::current();
        let (mut steps, mut bytes, mut together) = (STEPS, BYTES, TOGETHER);
        if let Some(WorkLimits { allowance, .. }) = &work {
            (steps, bytes) = (steps.min(allowance.steps), bytes.min(allowance.bytes));
            together = together.min(allowance.text);
        }
        let mut budget = Self::of(steps, bytes, together);
        budget.input = Some((context, size));
        budget.began = Some(Instant::now());
        budget.work = work.map(|limits| (limits, steps, bytes));
        budget
    }

    fn of(steps: u64, bytes: u64, together: u64) -> Self {
        Self {
            steps: AtomicU64::new(steps),
            bytes: AtomicU64::new(bytes),
            together: AtomicU64::new(together),
            input: None,
            is_extended: AtomicBool::new(false),
            size: OnceLock::new(),
            began: None,
            choices: AtomicU64::new(0),
            work: None,
            is_work_over: AtomicBool::new(false),
        }
    }

    /// For values that came whole from outside, whose size was bounded there.
    pub(crate) fn unlimited() -> Self {
        Self::of(u64::MAX, u64::MAX, u64::MAX)
    }

    /// Takes steps.
    #[inline]
    pub(crate) fn step(&self, steps: usize) -> Result<(), Exhausted> {
        let steps = steps as u64;
        let before = self.steps.load(Relaxed);
        match before.checked_sub(steps) {
            Some(left) => {
                self.steps.store(left, Relaxed);
                if before / STEPS_PER_LOOK == left / STEPS_PER_LOOK { Ok(()) } else { self.look_at_clock() }
            }
            None if self.extend() => self.step(steps as usize),
            None => Err(Exhausted::Steps),
        }
    }

    fn look_at_clock(&self) -> Result<(), Exhausted> {
        let Some(began) = self.began else { return Ok(()) };
        let now = Instant::now();
        if self.work.as_ref().is_some_and(|(limits, ..)| limits.is_over(now)) {
            self.is_work_over.store(true, Relaxed);
            return Err(Exhausted::Unwanted);
        }
        match now.saturating_duration_since(began) {
            elapsed if elapsed > TIME => self.within_time_of_input(elapsed),
            _ => Ok(()),
        }
    }

    #[cold]
    fn within_time_of_input(&self, elapsed: Duration) -> Result<(), Exhausted> {
        let size = self.size();
        let more = TIME_PER_BYTE.saturating_mul(u32::try_from(size).unwrap_or(u32::MAX));
        if elapsed <= TIME.saturating_add(more) { Ok(()) } else { Err(Exhausted::Time) }
    }

    /// Takes the bytes of one text or list that is about to be made.
    #[inline]
    pub(crate) fn make(&self, bytes: usize) -> Result<(), Exhausted> {
        // What a value costs beside its content.
        let bytes = (bytes as u64).saturating_add(32);
        if bytes > self.together.load(Relaxed) {
            return if self.extend() { self.make(bytes as usize - 32) } else { Err(Exhausted::Bytes) };
        }
        match self.bytes.load(Relaxed).checked_sub(bytes) {
            Some(left) => {
                self.bytes.store(left, Relaxed);
                Ok(())
            }
            None if self.extend() => self.make(bytes as usize - 32),
            None => Err(Exhausted::Bytes),
        }
    }

    /// Takes what it costs to make a list of so many values.
    pub(crate) fn make_items(&self, count: usize) -> Result<(), Exhausted> {
        self.step(count)?;
        self.make(count.saturating_mul(size_of::<Value>()))
    }

    /// Refuses one text of so many bytes that grows in pieces, each of which was taken before.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Exhausted> {
        match bytes as u64 <= self.together.load(Relaxed) {
            true => Ok(()),
            false if self.extend() => self.hold(bytes),
            false => Err(Exhausted::Bytes),
        }
    }

    /// Takes what it costs to look through a text.
    pub(crate) fn look_through(&self, text: &str) -> Result<(), Exhausted> {
        self.step(text.len() / 64)
    }

    /// A number below `count` that looks like chance and is the same for the same prompt.
    pub(crate) fn choose(&self, count: usize) -> usize {
        let next =
            self.choices.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.choices.store(next, Relaxed);
        ((next >> 33) as usize).checked_rem(count).unwrap_or(0)
    }

    fn size(&self) -> u64 {
        *self.size.get_or_init(|| self.input.map_or(0, |(context, size)| size(context)))
    }

    /// Once: adds what the input's size allows, unless the work is bounded to less than the smallest budget.
    #[cold]
    fn extend(&self) -> bool {
        if let Some((limits, ..)) = &self.work
            && limits.allowance.is_less_than(STEPS, BYTES, TOGETHER)
        {
            self.is_work_over.store(true, Relaxed);
            return false;
        }
        if self.input.is_none() || self.is_extended.swap(true, Relaxed) {
            return false;
        }
        let size = self.size();
        let add = |cell: &AtomicU64, per_byte: u64| {
            cell.store(cell.load(Relaxed).saturating_add(size.saturating_mul(per_byte)), Relaxed)
        };
        add(&self.steps, STEPS_PER_BYTE);
        add(&self.bytes, BYTES_PER_BYTE);
        add(&self.together, TOGETHER_PER_BYTE);
        true
    }
}

impl Drop for Budget<'_> {
    fn drop(&mut self) {
        if let Some((_, steps, bytes)) = &self.work {
            let used = |before: &u64, left: &AtomicU64| before.saturating_sub(left.load(Relaxed));
            WorkLimits::used(used(steps, &self.steps), used(bytes, &self.bytes));
            if self.is_work_over.load(Relaxed) {
                WorkLimits::stop();
            }
        }
    }
}
