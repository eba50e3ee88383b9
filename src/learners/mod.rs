//! `fulgurite learners`: what a server that trains takes, and whether its numbers are right.

pub mod arguments;

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_config::redaction::public_part;
use fulgurite_config::seconds::seconds;
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::paint::Paint;
use fulgurite_tinker::{CheckFinding, CheckVerdict, LearnerCheck};
use fulgurite_training::learners::{CheckedService, begin_check};
use serde_json::json;

use self::arguments::{LearnersAction, LearnersArguments, LearnersCheckArguments};

/// Does what was asked.
pub async fn learners(arguments: LearnersArguments) -> Result<()> {
    match arguments.action {
        LearnersAction::Check(arguments) => check(arguments).await,
    }
}

/// Makes every probe, and prints what each found. Fails where the server is wrong, failed or ended.
async fn check(arguments: LearnersCheckArguments) -> Result<()> {
    let (url, path) = (public_part(&arguments.url).to_owned(), arguments.path.clone());
    let is_json = arguments.json;
    let mut interruptions = Interruptions::listen()?;
    let started = tokio::select! {
        started = begin(arguments) => started,
        () = interruptions.next() => Err(anyhow!("interrupted")),
    };
    let check = match started {
        Ok(check) => check,
        Err(error) => {
            if is_json {
                output::line(json!({ "url": url, "error": format!("{error:#}") }));
            }
            return Err(error);
        }
    };
    if !is_json {
        output::line(format!("{} at {url}, {}", check.base_model(), compared_with(path.as_deref())));
    }
    let (paint, mut findings) = (Paint::for_stdout(), Vec::new());
    let run = check.run(|finding| {
        if !is_json {
            output::line(row(finding, &paint));
        }
        findings.push(finding.clone());
    });
    let ended = tokio::select! {
        ended = run => ended.context("the check has ended early"),
        () = interruptions.next() => Err(anyhow!("interrupted")),
    };
    let remains = check.clear().await;
    if is_json {
        let path = path.map(|path| path.display().to_string());
        let error = ended.as_ref().err().map(|error| format!("{error:#}"));
        output::line(json!({
            "url": url, "base_model": check.base_model(), "path": path, "findings": findings, "remains": remains,
            "error": error,
        }));
    } else if !remains.is_empty() {
        output::line(format!("left at the server, which did not remove it: {remains}"));
    }
    ended?;
    let faults: Vec<&str> =
        findings.iter().filter(|finding| finding.verdict.is_fault()).map(|finding| finding.check.as_str()).collect();
    match faults.as_slice() {
        [] => Ok(()),
        faults => bail!("{} of {} checks failed: {}", faults.len(), findings.len(), faults.join(", ")),
    }
}

async fn begin(arguments: LearnersCheckArguments) -> Result<LearnerCheck> {
    let LearnersCheckArguments { url, base_model, path, api_key_env, lora_rank, timeout, json: _ } = arguments;
    let timeout = seconds("--timeout", timeout)?;
    let service = CheckedService { url, base_model, path, api_key_env, lora_rank, timeout };
    begin_check(service, &TerminalNotices).await
}

fn compared_with(path: Option<&Path>) -> String {
    match path {
        Some(path) => format!("compared with the embedded engine over {}", path.display()),
        None => "compared with formulas alone; --path DIR has the embedded engine compared too".to_owned(),
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
