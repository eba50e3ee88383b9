use tokio::sync::watch;

/// How a proxy comes to its end: what is being answered is counted, and can be cut short.
#[derive(Default)]
pub(crate) struct Shutdown {
    cut: watch::Sender<bool>,
    /// Requests that are being answered or recorded.
    under_way: watch::Sender<usize>,
}

/// A request under way; it is over when this is dropped.
pub(crate) struct OngoingCall(watch::Sender<usize>);

impl Shutdown {
    /// Turns true once answers are to be cut short.
    pub(crate) fn cut(&self) -> watch::Receiver<bool> {
        self.cut.subscribe()
    }

    /// Counts a request in.
    pub(crate) fn begin(&self) -> OngoingCall {
        // No task waits for more of them.
        self.under_way.send_if_modified(|count| {
            *count += 1;
            false
        });
        OngoingCall(self.under_way.clone())
    }

    /// Cuts all answers short, also those that only begin now.
    pub(crate) fn cut_short(&self) {
        self.cut.send_replace(true);
    }

    /// Ends once nothing is under way.
    pub(crate) async fn settled(&self) {
        // The sender is ours, so that the wait cannot fail.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for OngoingCall {
    fn drop(&mut self) {
        self.0.send_if_modified(|count| {
            *count -= 1;
            *count == 0
        });
    }
}
