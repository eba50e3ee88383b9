//! Which models fit which GPUs.

use std::path::Path;

use crate::plan::changes::{Change, LORA_RANK};
use crate::plan::gpu::{CARDS, Gpus};
use crate::plan::job::usual_job;
use crate::plan::known_models::{KNOWN_MODELS, KnownModel};
use crate::plan::placement::Work;
use crate::plan::run_plan::{GpuPlan, Remedy};

/// The cards of the table, by name: one of 24, 80 and 141 GB.
const USUAL_CARDS: [&str; 3] = ["RTX 4090", "H100", "H200"];
/// Rank of the table's adapters.
pub const RANK: u64 = 32;

/// Rows of text under a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitTable {
    /// Names of the columns.
    pub header: Vec<String>,
    /// A model each, by what is trained of it.
    pub rows: Vec<Vec<String>>,
}

/// The cards that the table has unless others are named.
pub fn usual_gpus() -> Vec<Gpus> {
    let named = |name: &&str| CARDS.into_iter().find(|card| card.name == *name);
    USUAL_CARDS.iter().filter_map(named).map(Gpus::of_card).collect()
}

impl FitTable {
    /// Every known model on these GPUs, sampled and trained.
    pub fn of(gpus: &[Gpus]) -> Self {
        let header = ["model", "trained"].map(str::to_owned).into_iter().chain(gpus.iter().map(Gpus::text)).collect();
        let kinds = [(Some(RANK), format!("adapter, rank {RANK}")), (None, "all weights".to_owned())];
        let row = |model: &KnownModel, (rank, trained): &(Option<u64>, String)| {
            let job = usual_job(model, *rank);
            let cells = gpus
                .iter()
                .map(|gpus| cell(&GpuPlan::of(&job, gpus.clone(), Work::Both, Path::new(model.name)), rank.is_none()));
            [model.name.to_owned(), trained.clone()].into_iter().chain(cells).collect()
        };
        let rows = kinds.iter().flat_map(|kind| KNOWN_MODELS.iter().map(move |model| row(model, kind))).collect();
        Self { header, rows }
    }

    /// In Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.header.len()));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}{rule}{rows}", line(&self.header))
    }
}

fn cell(plan: &GpuPlan, is_whole: bool) -> String {
    let texts =
        |changes: &[Change]| -> Vec<String> { changes.iter().map(|change| format!("`{}`", change.short())).collect() };
    // An adapter in place of all weights is another row.
    let is_other = |changes: &[Change]| is_whole && changes.iter().any(|change| change.key == LORA_RANK);
    match &plan.remedy {
        None => "yes".to_owned(),
        Some(Remedy::Changes(changes)) if !is_other(changes) => format!("with {}", texts(changes).join(", ")),
        Some(Remedy::MoreGpus { count, changes }) if changes.is_empty() => format!("{count} GPUs"),
        Some(Remedy::MoreGpus { count, changes }) if !is_other(changes) => {
            format!("{count} GPUs with {}", texts(changes).join(", "))
        }
        Some(_) => "no".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_model_on_three_cards() {
        insta::assert_snapshot!(FitTable::of(&usual_gpus()).markdown());
    }
}
