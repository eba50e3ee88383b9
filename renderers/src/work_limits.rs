//! Bounds on the template work that a thread does for one caller: how much of it, and whether its result is still wanted.
//!
//! A chat template is a program that comes with a model, so that what it costs is known only once it has run.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Brief work: many times what the template of a model takes for 64 KiB of messages, and some milliseconds.
const BRIEF: Allowance = Allowance { steps: 200_000, bytes: 8 << 20, text: 512 << 10 };

/// How long brief work may take: steps are not alike.
const BRIEF_TIME: Duration = Duration::from_millis(20);

/// All small conversations by which a template is found out: many times what the template of a model takes.
const PROBES: Allowance = Allowance { steps: 8_000_000, ..Allowance::ANY };

/// The same, for steps that are slow.
const PROBES_TIME: Duration = Duration::from_secs(20);

/// How much templates may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Steps in all.
    pub(crate) steps: u64,
    /// Bytes that they may make in all.
    pub(crate) bytes: u64,
    /// The longest text or list that they may make.
    pub(crate) text: u64,
}

impl Allowance {
    const ANY: Self = Self { steps: u64::MAX, bytes: u64::MAX, text: u64::MAX };

    /// Whether any of it is less.
    pub(crate) fn is_less_than(self, steps: u64, bytes: u64, text: u64) -> bool {
        self.steps < steps || self.bytes < bytes || self.text < text
    }
}

/// Tells work on another thread that its result is not wanted any more.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Ends the work soon.
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }
}

/// What bounds the templates that a thread renders.
#[derive(Clone, Debug)]
pub(crate) struct WorkLimits {
    pub(crate) allowance: Allowance,
    until: Option<Instant>,
    cancellation: Option<Cancellation>,
    is_stopped: bool,
}

thread_local! {
    static CURRENT: RefCell<Option<WorkLimits>> = const { RefCell::new(None) };
}

/// Does work that renders, if the templates need little for it. `None` where they need more: the work has failed then, and
/// may have been done in part.
pub fn render_briefly<T>(work: impl FnOnce() -> T) -> Option<T> {
    within(WorkLimits::new(BRIEF, Some(BRIEF_TIME), None), work)
}

/// Does work that renders, until it is cancelled: `None` then.
pub fn render_until_cancelled<T>(cancellation: &Cancellation, work: impl FnOnce() -> T) -> Option<T> {
    within(WorkLimits::new(Allowance::ANY, None, Some(cancellation.clone())), work)
}

/// Renders the small conversations by which a template is found out. `None` where it does more for them than the template
/// of any model.
pub(crate) fn probe<T>(work: impl FnOnce() -> T) -> Option<T> {
    within(WorkLimits::new(PROBES, Some(PROBES_TIME), None), work)
}

impl WorkLimits {
    fn new(allowance: Allowance, time: Option<Duration>, cancellation: Option<Cancellation>) -> Self {
        Self { allowance, until: time.map(|time| Instant::now() + time), cancellation, is_stopped: false }
    }

    /// The limits of the work that this thread does.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Takes what a template has used from what the thread may still do.
    pub(crate) fn used(steps: u64, bytes: u64) {
        CURRENT.with_borrow_mut(|current| {
            if let Some(limits) = current {
                limits.allowance.steps = limits.allowance.steps.saturating_sub(steps);
                limits.allowance.bytes = limits.allowance.bytes.saturating_sub(bytes);
            }
        });
    }

    /// Notes that the thread's work has come to its limits.
    pub(crate) fn stop() {
        CURRENT.with_borrow_mut(|current| {
            if let Some(limits) = current {
                limits.is_stopped = true;
            }
        });
    }

    /// Whether a template has to stop now, whatever it may still do.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.is_stopped
            || self.until.is_some_and(|until| now > until)
            || self.cancellation.as_ref().is_some_and(|cancellation| cancellation.0.load(Relaxed))
    }

    /// These limits for work that is part of `outer`'s.
    fn inside(self, outer: Option<&Self>) -> Self {
        let Some(outer) = outer else { return self };
        let (own, around) = (self.allowance, outer.allowance);
        Self {
            allowance: Allowance {
                steps: own.steps.min(around.steps),
                bytes: own.bytes.min(around.bytes),
                text: own.text.min(around.text),
            },
            until: self.until.into_iter().chain(outer.until).min(),
            cancellation: self.cancellation.or_else(|| outer.cancellation.clone()),
            is_stopped: outer.is_stopped,
        }
    }
}

/// Puts the limits of the work around back in their place.
struct Outer {
    limits: Option<WorkLimits>,
    /// Of the work inside when it began.
    steps: u64,
    bytes: u64,
    /// Whether they allow less than the work inside may do of its own.
    is_tighter: bool,
}

fn within<T>(limits: WorkLimits, work: impl FnOnce() -> T) -> Option<T> {
    let outer = CURRENT.take();
    let Allowance { steps, bytes, text } = limits.allowance;
    let is_tighter = outer.as_ref().is_some_and(|outer| outer.allowance.is_less_than(steps, bytes, text));
    let limits = limits.inside(outer.as_ref());
    let outer = Outer { limits: outer, steps: limits.allowance.steps, bytes: limits.allowance.bytes, is_tighter };
    CURRENT.set(Some(limits));
    let done = work();
    let is_stopped = WorkLimits::current().is_some_and(|limits| limits.is_stopped);
    drop(outer);
    (!is_stopped).then_some(done)
}

impl Drop for Outer {
    fn drop(&mut self) {
        let (inner, outer) = (CURRENT.take(), self.limits.take());
        let outer = inner.zip(outer).map(|(inner, mut outer)| {
            let left = |around: u64, before: u64, after: u64| around.saturating_sub(before - after);
            let allowance = &mut outer.allowance;
            allowance.steps = left(allowance.steps, self.steps, inner.allowance.steps);
            allowance.bytes = left(allowance.bytes, self.bytes, inner.allowance.bytes);
            outer.is_stopped |= (inner.is_stopped && self.is_tighter) || outer.is_over(Instant::now());
            outer
        });
        CURRENT.set(outer);
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Message;
    use serde_json::{Map, json};

    use super::*;
    use crate::RenderError;
    use crate::Renderer;
    use crate::python::python_text::from_json;
    use crate::templates::chat_template::ChatTemplate;
    use crate::testing::{FAMILY_TEMPLATES, family_renderer};

    fn render(template: &str) -> Result<String, RenderError> {
        ChatTemplate::compile(template, None).and_then(|template| template.render(from_json(&json!({}))))
    }

    const LONG: &str = "{% for a in range(300) %}{% for b in range(1000) %}{% endfor %}{% endfor %}end";

    /// Brief work, however slow the machine is.
    fn counted<T>(work: impl FnOnce() -> T) -> Option<T> {
        within(WorkLimits::new(BRIEF, None, None), work)
    }

    #[test]
    fn work_that_takes_many_steps_or_makes_much_text_is_not_brief() {
        assert_eq!(render_briefly(|| render("{{ 1 + 1 }}").unwrap()), Some("2".to_owned()));
        assert!(render_briefly(|| render(LONG)).is_none());
        assert!(render_briefly(|| render("{{ 'a' * 1000000 }}")).is_none());
        let many = "{% for a in range(200) %}{% set s = 'a' * 100000 %}{% endfor %}";
        assert!(render_briefly(|| render(many)).is_none());
        assert_eq!(render(LONG).unwrap(), "end");
        assert!(render(many).is_ok() && WorkLimits::current().is_none());
    }

    #[test]
    fn brief_work_of_many_renderings_is_counted_together() {
        let some = "{% for a in range(1000) %}{% for b in range(10) %}{% endfor %}{% endfor %}";
        assert!(counted(|| render(some).unwrap()).is_some());
        assert!(counted(|| (0..40).map(|_| render(some)).filter(Result::is_err).count()).is_none());
    }

    #[test]
    fn what_arrives_in_a_small_request_is_brief_work_for_the_template_of_a_model() {
        let text = "word <b>with</b> marks ".repeat(10);
        let roles = ["user", "assistant"].into_iter().cycle();
        let messages: Vec<Message> = roles.take(250).map(|role| Message::text(role, text.as_str())).collect();
        for name in FAMILY_TEMPLATES {
            let renderer = family_renderer(name);
            let rendered = counted(|| renderer.render_prompt(&messages[..249], &[]).map(|prompt| prompt.tokens.len()));
            assert!(rendered.is_some(), "{name}: {rendered:?}");
            let arguments = Map::from_iter([("enable_thinking".to_owned(), json!(false))]);
            assert!(counted(|| renderer.with_template_arguments(&arguments).is_ok()).is_some(), "{name}");
        }
    }

    #[test]
    fn cancelled_work_ends_and_every_further_rendering_too() {
        let cancellation = Cancellation::default();
        assert!(render_until_cancelled(&cancellation, || render(LONG).unwrap()).is_some());
        cancellation.cancel();
        let ended = render_until_cancelled(&cancellation, || assert!(render(LONG).is_err() && render(LONG).is_err()));
        assert!(ended.is_none());
    }

    #[test]
    fn limits_that_end_work_below_many_macros_are_limits_of_the_work() {
        let below = |calls: usize, work: &str| {
            let call = "{% macro f(n) %}{% if n %}{{ f(n-1) }}{% else %}";
            format!("{call}{work}{{% endif %}}{{% endmacro %}}{{{{ f({calls}) }}}}")
        };
        let list = "{% for i in range(90000) %}{% set x = i * 2 %}{% endfor %}";
        let text = "{% for i in range(40) %}{% set x = 'a' * 400000 %}{% endfor %}";
        for work in [list, text, LONG] {
            for calls in [0, 26, 60] {
                let template = below(calls, work);
                assert!(counted(|| render(&template).is_ok()).is_none(), "{calls}: {work}");
                assert!(render(&template).is_ok(), "{calls}: {work}");
            }
        }
        let forever = below(40, "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}");
        assert_eq!(probe(|| (0..9).filter(|_| render(&forever).is_ok()).count()), None);
        let cancellation = Cancellation::default();
        cancellation.cancel();
        assert_eq!(render_until_cancelled(&cancellation, || render(&below(40, LONG)).is_ok()), None);
    }

    #[test]
    fn probes_are_part_of_the_work_around_them() {
        let forever = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
        let probes = || probe(|| (0..9).filter(|_| render(forever).is_ok()).count());
        assert_eq!(probes(), None);
        assert!(render_briefly(probes).is_none());
        // What the probes came to is their own failure, of which the work around them can make something.
        assert_eq!(render_until_cancelled(&Cancellation::default(), probes), Some(None));
        let short = || probe(|| render("{{ 1 }}").unwrap());
        assert_eq!(render_briefly(short), Some(Some("1".to_owned())));
    }
}
