//! `fulgurite store renew-checksums`.

use anyhow::{Context, Result, bail};
use fulgurite_store::{Housekeeping, RenewalMode, TableRenewal, redact_url};
use fulgurite_terminal::output;
use serde_json::json;

use super::arguments::RenewChecksumsArguments;
use super::confirmed;

/// Takes rollouts and attempts for what was recorded, having said which and having been told to.
pub async fn renew_checksums(arguments: RenewChecksumsArguments) -> Result<()> {
    let url = arguments.store.named().url()?;
    let renewed = async |mode| {
        Housekeeping::renew_row_checksums(&url, mode)
            .await
            .with_context(|| format!("cannot renew the checksums of {}", redact_url(&url)))
    };
    let planned = renewed(RenewalMode::Plan).await?;
    if planned.iter().all(TableRenewal::is_needless) {
        return report(&arguments, "there is nothing to renew", &planned);
    }
    if arguments.dry_run {
        return report(&arguments, "would take for granted", &planned);
    }
    if !arguments.yes {
        planned.iter().for_each(|table| output::note(text(table)));
        let instead = "this takes rows for what was recorded that are not; say --yes, or look first with --dry-run";
        confirmed("take these rows for what was recorded", instead)?;
    }
    report(&arguments, "taken for granted", &renewed(RenewalMode::Write).await?)
}

fn report(arguments: &RenewChecksumsArguments, what: &str, tables: &[TableRenewal]) -> Result<()> {
    if arguments.json {
        tables.iter().for_each(|table| output::line(json!(table)));
    } else {
        output::line(what);
        tables.iter().filter(|table| !table.is_needless()).for_each(|table| output::line(text(table)));
    }
    match tables.iter().map(|table| table.rows_left).sum::<u64>() {
        0 => Ok(()),
        left => bail!(
            "rows that cannot be read or lack their counts: {left}; they stay as they are, see `fulgurite store check`"
        ),
    }
}

fn text(table: &TableRenewal) -> String {
    let TableRenewal { table: name, changed_rows, rows_recorded, rows, .. } = table;
    let recorded = rows_recorded.map_or_else(|| "an unknown number".to_owned(), |recorded| recorded.to_string());
    format!("  {name}: {changed_rows} changed; {rows} are there, {recorded} were recorded")
}
