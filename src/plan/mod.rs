//! `fulgurite plan`: what a run needs of memory and time, before anything is loaded.

pub mod arguments;

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::plan::gpu::Gpus;
use fulgurite_lab::plan::of_config::{ConfiguredJob, PlanOptions};
use fulgurite_lab::plan::run_plan::RunPlan;
use fulgurite_lab::plan::table::{FitTable, usual_gpus};
use fulgurite_terminal::output;
use fulgurite_terminal::table::Columns;
use serde_json::json;

use self::arguments::PlanArguments;

/// Prints the plan of a config, or without one which public models fit.
pub fn plan(arguments: PlanArguments) -> Result<()> {
    let PlanArguments { config, gpu, model_config, rollout_tokens, overrides, json: is_json } = arguments;
    let Some(config) = config else {
        print_table(gpu, is_json);
        return Ok(());
    };
    let mut loaded = LoadedConfig::read_with(Some(&config), &overrides)?;
    loaded.take_adapters()?;
    let options = PlanOptions { gpus: gpu, model: model_config, rollout_tokens: rollout_tokens.map(u64::from) };
    let plan = RunPlan::of(ConfiguredJob::of(&loaded, &options)?);
    if is_json {
        output::line(json!(plan));
    } else {
        plan.lines().iter().for_each(|(name, value)| output::line(format!("{name:9} {value}")));
    }
    Ok(())
}

fn print_table(gpu: Option<Gpus>, is_json: bool) {
    let gpus = gpu.or_else(Gpus::of_this_machine).map_or_else(usual_gpus, |gpus| vec![gpus]);
    let table = FitTable::of(&gpus);
    if is_json {
        output::line(json!({ "header": table.header, "rows": table.rows }));
        return;
    }
    let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
    let mut columns = Columns::new(&header);
    table.rows.into_iter().for_each(|row| columns.push(row.iter().map(|cell| cell.replace('`', "")).collect()));
    output::lines(columns.lines());
}
