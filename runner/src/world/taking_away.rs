//! Takes worlds away: what was made outside of them, and the directory that an agent has had to itself.

use serde_json::Value;

use super::disk::{remove_all, remove_below};
use super::fault::on_disk;
use super::hook::Hook;
use super::journal::{Entry, Home};
use super::variables::{Handed, handed_on};

/// Takes a world away and gives what is kept of its teardown. If that fails, or something cannot be removed, what says how
/// it is done stays for the next runner. `given` are the variables that its setup handed on, where they are known: the file
/// of them may have been written by the agent since.
pub(super) async fn take_away(home: Home, entry: Option<Entry>, given: Option<Handed>) -> Option<Value> {
    let path = home.path().to_owned();
    let mut log = None;
    let mut is_whole = true;
    if let Some(container) = entry.as_ref().and_then(|entry| entry.container.as_ref()) {
        container.remove().await;
    }
    if let Some(Entry { teardown: Some(mut teardown), timeout, .. }) = entry {
        // A runner that died in the setup had not yet written what the setup handed on.
        let given = given.or_else(|| handed_on(&path).ok()).unwrap_or_default();
        teardown.environment.extend(given.into_iter().map(|(name, value)| (name, Some(value))));
        let (kept, outcome) = teardown.run(Hook::Teardown, &path, timeout).await;
        log = Some(kept);
        if let Err(fault) = outcome {
            let world = path.display();
            tracing::warn!(%world, %fault, "a world is not taken away whole; the next runner tries again");
            is_whole = false;
        }
    }
    let files = home.files();
    let removed = on_disk(path.clone(), move || match is_whole {
        true => remove_all(&path),
        false => remove_below(&path, &files),
    })
    .await;
    if let Err(fault) = removed {
        tracing::warn!(%fault, "a world's directory stays");
    }
    log
}
