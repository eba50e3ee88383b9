//! `fulgurite sql`.

use anyhow::{Context, Result};
use fulgurite_lab::queries::sql_value::{rows_json, value_text};
use fulgurite_lab::visible::cut;
use fulgurite_store::SqlRows;
use fulgurite_terminal::output;
use fulgurite_terminal::table::Columns;

use super::arguments::SqlArguments;
use super::open;

/// Prints what a query gives.
pub async fn sql(arguments: SqlArguments) -> Result<()> {
    let store = open(&arguments.store).await?;
    let found = store.queries().query_sql(&arguments.query).await.context("the query failed")?;
    if arguments.json {
        rows_json(found).for_each(output::line);
        return Ok(());
    }
    let SqlRows { columns, rows } = found;
    if columns.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Columns::new(&names);
    for row in rows {
        table.push(row.into_iter().map(|value| cut(&value_text(value))).collect());
    }
    output::lines(table.lines());
    Ok(())
}
