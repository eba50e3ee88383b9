use anyhow::{Context, Result, bail};
use fulgurite_renderers::{TemplateReport, TemplateVerdict, check_template};
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_training::models::model_directory::model_directory;
use serde_json::json;

use crate::template::arguments::TemplateCheckArguments;

/// Says what a model's chat template is good for. Fails where a fault was found.
pub fn check(arguments: &TemplateCheckArguments) -> Result<()> {
    let directory = model_directory(&arguments.model_dir, &TerminalNotices)?;
    let report = check_template(&directory).with_context(|| arguments.model_dir.display().to_string())?;
    match arguments.json {
        true => output::line(json!(report)),
        false => print(&report),
    }
    let faults = report.findings.iter().filter(|finding| finding.verdict == TemplateVerdict::Fault).count();
    match faults {
        0 => Ok(()),
        1 => bail!("1 fault"),
        faults => bail!("{faults} faults"),
    }
}

fn print(report: &TemplateReport) {
    for finding in &report.findings {
        output::line(format!("{:8} {:13} {}", finding.verdict.to_string(), finding.check, finding.message));
    }
}
