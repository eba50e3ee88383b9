use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::reply::flight::Flight;
use crate::state::deadlines::Deadline;

/// Why a model's host is waited for no longer.
pub(crate) enum Interruption {
    /// There are no listeners left.
    Abandoned,
    /// The server ends.
    ShutDown,
    OutOfTime(Deadline),
}

/// The result of some work, unless its listeners leave, `cut` turns true, or its time runs out.
pub(crate) async fn unless_interrupted<T, E: Clone>(
    work: impl Future<Output = T>,
    flight: &Flight<E>,
    cut: &mut watch::Receiver<bool>,
    deadline: Option<Deadline>,
) -> Result<T, Interruption> {
    let out_of_time = async {
        match deadline {
            Some(deadline) => {
                sleep_until(deadline.at).await;
                deadline
            }
            None => std::future::pending().await,
        }
    };
    tokio::pin!(work, out_of_time);
    loop {
        tokio::select! {
            biased;
            () = flight.abandoned() => if flight.close_if_abandoned() {
                return Err(Interruption::Abandoned);
            },
            Ok(_) = cut.wait_for(|cut| *cut) => return Err(Interruption::ShutDown),
            done = &mut work => return Ok(done),
            deadline = &mut out_of_time => return Err(Interruption::OutOfTime(deadline)),
        }
    }
}
