//! `fulgurite learners`: what a server that trains takes, and whether its numbers are right.

pub mod arguments;

use anyhow::{Result, bail};
use fulgurite_config::redaction::public_part;
use fulgurite_config::seconds::seconds;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::paint::Paint;
use fulgurite_tinker::{CheckFinding, CheckVerdict};
use fulgurite_training::learners::{CheckedService, begin_check};
use serde_json::json;

use self::arguments::{LearnersAction, LearnersArguments, LearnersCheckArguments};

/// Does what was asked.
pub async fn learners(arguments: LearnersArguments) -> Result<()> {
    match arguments.action {
        LearnersAction::Check(arguments) => check(arguments).await,
    }
}

/// Makes every probe, and prints what each found. Fails where the server is wrong or failed.
async fn check(arguments: LearnersCheckArguments) -> Result<()> {
    let LearnersCheckArguments { url, base_model, path, api_key_env, lora_rank, timeout, json: is_json } = arguments;
    let service = CheckedService {
        url: url.clone(),
        base_model,
        path: path.clone(),
        api_key_env,
        lora_rank,
        timeout: seconds("--timeout", timeout)?,
    };
    let check = begin_check(service, &TerminalNotices).await?;
    let base_model = check.base_model().to_owned();
    if !is_json {
        let engine = match &path {
            Some(path) => format!("compared with the embedded engine over {}", path.display()),
            None => "compared with formulas alone; --path DIR has the embedded engine compared too".to_owned(),
        };
        output::line(format!("{base_model} at {}, {engine}", public_part(&url)));
    }
    let paint = Paint::for_stdout();
    let findings = check.run(|finding| {
        if !is_json {
            output::line(row(finding, &paint));
        }
    });
    let findings = findings.await?;
    if is_json {
        let (url, path) = (public_part(&url), path.map(|path| path.display().to_string()));
        output::line(json!({ "url": url, "base_model": base_model, "path": path, "findings": findings }));
    }
    let faults: Vec<&str> =
        findings.iter().filter(|finding| finding.verdict.is_fault()).map(|finding| finding.check.as_str()).collect();
    match faults.as_slice() {
        [] => Ok(()),
        faults => bail!("{} of {} checks failed: {}", faults.len(), findings.len(), faults.join(", ")),
    }
}

fn row(finding: &CheckFinding, paint: &Paint) -> String {
    let CheckFinding { check, verdict, message, .. } = finding;
    let word = format!("{:8}", verdict.name());
    let word = match verdict {
        CheckVerdict::Ok | CheckVerdict::Skipped => word,
        CheckVerdict::Refused | CheckVerdict::Ignored => paint.bold(&word),
        CheckVerdict::Wrong | CheckVerdict::Failed => paint.red(&word),
    };
    format!("{word} {check:24} {message}")
}
