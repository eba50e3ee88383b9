//! `fulgurite prune`.

use anyhow::{Context, Result, bail};
use fulgurite_lab::queries::named_store::run_database;
use fulgurite_lab::queries::pruning::prune_all;
use fulgurite_lab::time;
use fulgurite_store::{PruneFilter, Pruned, Space, Store, StoreOptions, redact_url};
use fulgurite_terminal::output;
use fulgurite_terminal::progress::Progress;
use fulgurite_types::RolloutStatus;
use serde_json::json;

use super::arguments::{PruneArguments, StoreArguments};
use super::{confirmed, open};

/// Deletes rollouts that ended long ago, having said which and having been told to.
pub async fn prune(arguments: PruneArguments) -> Result<()> {
    check_is_its_own(&arguments.store)?;
    let status_in = if arguments.status.is_empty() { RolloutStatus::ALL.to_vec() } else { arguments.status.clone() };
    let filter = PruneFilter { ended_before: time::now() - arguments.older_than, status_in };
    // A store that is not there is not made.
    let planned = open(&arguments.store).await?.housekeeping().prunable(&filter).await?;
    if planned.rollouts == 0 || arguments.dry_run {
        let verb = if arguments.dry_run { "would delete" } else { "there is nothing to delete:" };
        report(&arguments, verb, planned, None);
        return Ok(());
    }
    if !arguments.yes {
        let instead = format!("this would delete {}; say --yes, or look first with --dry-run", text(planned));
        confirmed(&format!("delete {}", text(planned)), &instead)?;
    }
    let url = arguments.store.named().url()?;
    let store = Store::open(&url, StoreOptions::default())
        .await
        .with_context(|| format!("cannot open the store {}", redact_url(&url)))?;
    let mut progress = Progress::new(arguments.json);
    let mut show = |deleted: Pruned| progress.set("rollouts deleted", deleted.rollouts, Some(planned.rollouts));
    let deleted = prune_all(&store, &filter, &mut show).await?;
    progress.finish();
    let space = store.housekeeping().give_space_back().await.context(
        "the rollouts are deleted, but their space could not be given back; run this again when nobody else writes",
    )?;
    store.close().await;
    report(&arguments, "deleted", deleted, Some(space));
    Ok(())
}

/// Refuses a run as a name for a store that holds more than that run.
fn check_is_its_own(named: &StoreArguments) -> Result<()> {
    let Some(run) = &named.run else { return Ok(()) };
    let url = named.named().url()?;
    if url != run_database(run) {
        bail!(
            "{} is recorded in {}, which others use as well: name that by --store to delete of all that it has",
            run.display(),
            redact_url(&url)
        );
    }
    Ok(())
}

fn report(arguments: &PruneArguments, verb: &str, pruned: Pruned, space: Option<Space>) {
    let space = space.map(|space| match space {
        Space::GivenBack => "VACUUM has given the space back",
        Space::LeftToTheServer => "the database server uses the space again after its next vacuum",
    });
    if arguments.json {
        output::line(json!({ "dry_run": arguments.dry_run, "deleted": pruned, "space": space }));
    } else {
        output::line(format!("{verb} {}", text(pruned)));
        space.into_iter().for_each(output::line);
    }
}

fn text(pruned: Pruned) -> String {
    let Pruned { rollouts, attempts, spans, generations, generation_uses } = pruned;
    format!(
        "{rollouts} rollouts with {attempts} attempts, {spans} spans, {generations} generations and {generation_uses} \
         uses of their tokens"
    )
}
