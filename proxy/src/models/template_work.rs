//! Where templates run. They are programs of whoever made the model, so that what one costs is known once it has run.

use fulgurite_api::Refused;
use fulgurite_backends::FairShare;
use fulgurite_renderers::{Cancellation, render_briefly, render_until_cancelled};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::error::ProxyError;
use crate::error::queued_work::QueuedWork;

/// Runs templates without keeping other requests from a thread for longer than some milliseconds.
#[derive(Clone)]
pub(crate) struct TemplateWork {
    /// Places for work that is not brief.
    pub(crate) places: FairShare,
    /// Turns true once answers are to be cut short.
    pub(crate) cut: watch::Receiver<bool>,
}

/// Where a piece of work begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkStart {
    /// On the caller's thread: it goes aside, from its beginning, once it is found not to be brief.
    Here,
    /// On a thread of its own.
    Aside,
}

/// Cancels when it is dropped: whoever waited has left.
#[derive(Default)]
struct CancelledOnDrop(Cancellation);

impl Drop for CancelledOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl TemplateWork {
    /// Does work that renders, and may be begun twice. What is not brief waits for its `owner`'s turn, goes on aside, and
    /// ends when nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        start: WorkStart,
        owner: impl FnOnce() -> String,
        work: impl Fn() -> T + Send + 'static,
    ) -> Result<T, ProxyError> {
        if start == WorkStart::Here
            && let Some(done) = render_briefly(&work)
        {
            return Ok(done);
        }
        let (owner, mut cut) = (owner(), self.cut.clone());
        tokio::select! {
            biased;
            Ok(_) = cut.wait_for(|cut| *cut) => Err(Refused::ShuttingDown.into()),
            done = self.aside(start, &owner, work) => done,
        }
    }

    async fn aside<T: Send + 'static>(
        &self,
        start: WorkStart,
        owner: &str,
        work: impl Fn() -> T + Send + 'static,
    ) -> Result<T, ProxyError> {
        let queued = match start {
            WorkStart::Here => QueuedWork::SlowTemplate,
            WorkStart::Aside => QueuedWork::LargeRequest,
        };
        let full = |full| ProxyError::TooManyWaiting { work: queued, full };
        let place = self.places.enter(owner).await.map_err(full)?;
        let waiting = CancelledOnDrop::default();
        let cancellation = waiting.0.clone();
        let done = spawn_blocking(move || {
            // The place is in use until the work has ended, also where nobody waits for it.
            let _place = place;
            render_until_cancelled(&cancellation, work)
        });
        done.await.ok().flatten().ok_or_else(ProxyError::broken_off)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use fulgurite_backends::ShareLimits;
    use fulgurite_renderers::{Renderer, open_renderer, train_byte_level_tokenizer};
    use fulgurite_types::Message;

    use super::*;

    /// Its template takes all its time for every prompt that ends with `stall`.
    fn stalling_renderer() -> Arc<dyn Renderer> {
        let template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if messages[-1].content == 'stall' %}\
                        {% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}{% endif %}";
        let directory = tempfile::tempdir().unwrap();
        let tokenizer = train_byte_level_tokenizer(["Say"; 2], 280, &[]).unwrap();
        fulgurite_renderers::write_tokenizer_directory(directory.path(), &tokenizer).unwrap();
        let config = directory.path().join("tokenizer_config.json");
        let mut fields: serde_json::Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
        fields["chat_template"] = template.into();
        std::fs::write(&config, fields.to_string()).unwrap();
        open_renderer(directory.path(), "template").unwrap()
    }

    fn work() -> (TemplateWork, watch::Sender<bool>) {
        let places = FairShare::new(ShareLimits { places: 1, waiting_of_owner: 1, waiting: 1 });
        let (sender, cut) = watch::channel(false);
        (TemplateWork { places, cut }, sender)
    }

    /// Renders as often as would take a day.
    fn endless() -> (impl Fn() -> usize + Send + 'static, Arc<AtomicBool>) {
        let (renderer, is_started) = (stalling_renderer(), Arc::new(AtomicBool::new(false)));
        let started = Arc::clone(&is_started);
        let work = move || {
            started.store(true, SeqCst);
            let stall = [Message::text("user", "stall")];
            (0..100_000).filter(|_| renderer.render_prompt(&stall, &[]).is_err()).count()
        };
        (work, is_started)
    }

    #[tokio::test]
    async fn a_template_that_takes_long_ends_when_nobody_waits_for_it_any_more() {
        let (templates, _cut) = work();
        let (endless, is_started) = endless();
        let waiting = templates.run(WorkStart::Aside, String::new, endless);
        tokio::select! {
            done = waiting => panic!("{done:?}"),
            () = async { while !is_started.load(SeqCst) { tokio::task::yield_now().await } } => {}
        }
        // Its place is given back by the work itself.
        templates.places.enter("another").await.unwrap();
    }

    #[tokio::test]
    async fn a_template_that_takes_long_ends_with_the_server() {
        let (templates, cut) = work();
        let (endless, is_started) = endless();
        let ended = async {
            while !is_started.load(SeqCst) {
                tokio::task::yield_now().await;
            }
            cut.send_replace(true);
        };
        let (done, ()) = tokio::join!(templates.run(WorkStart::Here, String::new, endless), ended);
        assert!(matches!(done, Err(ProxyError::Refused(Refused::ShuttingDown))), "{done:?}");
        templates.places.enter("another").await.unwrap();
    }

    #[tokio::test]
    async fn who_finds_the_queue_full_is_told_what_waits() {
        let (mut templates, _cut) = work();
        templates.places = FairShare::new(ShareLimits { places: 1, waiting_of_owner: 0, waiting: 1 });
        let _place = templates.places.enter("another").await.unwrap();
        for (start, why) in [
            (WorkStart::Here, "the model's chat template takes long for this conversation"),
            (WorkStart::Aside, "the request is large"),
        ] {
            let (endless, _) = endless();
            let refused = templates.run(start, String::new, endless).await.unwrap_err().to_string();
            let queue = "it has to wait for its turn, but 0 requests of the same caller wait already";
            assert_eq!(refused, format!("{why}, so that {queue}"));
        }
    }

    #[tokio::test]
    async fn brief_work_needs_no_place() {
        let (templates, _cut) = work();
        let _place = templates.places.enter("another").await.unwrap();
        let renderer = stalling_renderer();
        let render = move || renderer.render_prompt(&[Message::text("user", "Say")], &[]).unwrap().tokens.len();
        assert!(templates.run(WorkStart::Here, || panic!("it takes no turn"), render).await.unwrap() > 0);
    }
}
