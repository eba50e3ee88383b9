//! Models that are served beside the policy: those that agents call and nobody trains, and the judges of `[runner.rubric]`,
//! which are held against what people have judged before anything is run.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::model_roles::served_alongside;
use fulgurite_config::models::ModelEntry;
use fulgurite_lab::records::run_directory::write_whole;
use fulgurite_lab::records::run_files::{JUDGEMENTS, JUDGES_ON_LABELS, model_path};
use fulgurite_proxy::ServedModel;
use fulgurite_runner::{Agreement, JudgeOnLabels, LabelledAnswer, LabelledAnswers, RubricOptions, judge_labelled};
use fulgurite_store::AdminKey;
use fulgurite_trainer::{Reporter, TrainEvent};
use serde_json::json;

use crate::models::open::OpenModel;
use crate::notices::Notices;

/// Those of `[[models]]`, as agents and the runner call them.
///
/// # Errors
/// As [`served_alongside`], and if one cannot be opened.
pub(crate) fn open(loaded: &LoadedConfig, notices: &dyn Notices) -> Result<Vec<ServedModel>> {
    let open_one = |entry: &ModelEntry| {
        let entry = ModelEntry { path: model_path(loaded, entry), ..entry.clone() };
        let opened = OpenModel::open(&entry, &loaded.directory, &loaded.config, notices);
        Ok(opened.with_context(|| format!("[[models]] {:?}", entry.name))?.served)
    };
    served_alongside(&loaded.config)?.into_iter().map(open_one).collect()
}

/// Has the judges of a run judge what people have judged, if the config names such answers; tells how far they agree, and
/// keeps that in the run's directory.
///
/// # Errors
/// If they cannot, or if the first judge agrees with people less often than it must.
pub(crate) async fn hold_against_labels(
    loaded: &LoadedConfig,
    server: &str,
    admin_key: Option<&AdminKey>,
    run_directory: &Path,
    reporter: &mut dyn Reporter,
) -> Result<()> {
    let Some(rubric) = &loaded.config.runner.rubric else { return Ok(()) };
    let Some(LabelledAnswers { file, at_least }) = &rubric.labelled else { return Ok(()) };
    let answers = LabelledAnswer::read(&loaded.resolve(file), &rubric.criteria)?;
    let url = format!("{server}/v1/chat/completions").parse().context("the server's URL")?;
    let key = admin_key.map(|key| key.expose().to_owned());
    let judged = judge_labelled(rubric, Some(run_directory.join(JUDGEMENTS)), url, key, &answers).await?;
    write_whole(&run_directory.join(JUDGES_ON_LABELS), &format!("{:#}\n", json!(judged)))?;
    for JudgeOnLabels { judge, criterion, agreement } in &judged {
        reporter.report(TrainEvent::JudgeOnLabels {
            judge: judge.clone(),
            criterion: criterion.clone(),
            labels: agreement.count(),
            share: agreement.share().unwrap_or_default(),
            kappa: agreement.kappa(),
        });
    }
    check(rubric, *at_least, &judged)
}

/// Whether the judge that rewards agrees with people as often as it must.
fn check(rubric: &RubricOptions, at_least: Option<f64>, judged: &[JudgeOnLabels]) -> Result<()> {
    let mut all = Agreement::default();
    judged.iter().filter(|one| one.judge == rubric.judge).for_each(|one| all += one.agreement);
    match (at_least, all.share()) {
        (Some(at_least), Some(share)) if share < at_least => bail!(
            "[runner.rubric.labelled] at_least = {at_least}: the judge {:?} agrees with {share:.3} of {} labels; another judge, or \
             clearer criteria, may do better",
            rubric.judge,
            all.count()
        ),
        _ => Ok(()),
    }
}
