//! Lines about a run for people that need nothing but the event they are about.

use std::collections::BTreeMap;

use fulgurite_trainer::{RewardFinding, SampleAnswer, TrainEvent};

use super::stale_harvest;

/// Rollouts with odd rewards that a step names; of the others it says how many there are.
const ODD_REWARDS_NAMED: usize = 5;

/// The lines of an event; none of events that [`TableReporter`](super::TableReporter) shows in its table or beside its bar.
pub(super) fn messages(event: &TrainEvent) -> Vec<String> {
    match event {
        TrainEvent::Corpus { program, lines, is_whole } => vec![corpus(program, *lines, *is_whole)],
        TrainEvent::PageServed { url } => vec![format!("the page is at {url}")],
        TrainEvent::CheckpointPassedOver { directory, message } => {
            vec![format!("{directory} is passed over, as it cannot be gone on from: {message}")]
        }
        TrainEvent::CheckpointNotUploaded { directory, message } => {
            vec![format!("warning: {directory} is not uploaded: {message}")]
        }
        TrainEvent::Waiting { step } => vec![waiting(*step)],
        TrainEvent::AgentsAwaited { url } => {
            vec![format!("harvesting: agents that call {url} and are rewarded there are learnt from")]
        }
        TrainEvent::RunnersAwaited { url } => runners_awaited(url),
        TrainEvent::JudgeOnLabels { judge, criterion, labels, share, kappa } => {
            let kappa = kappa.map_or(String::new(), |kappa| format!(", kappa {kappa:.2}"));
            vec![format!("judge {judge} on {criterion}: agrees with {share:.2} of {labels} labels{kappa}")]
        }
        TrainEvent::OddRewards { phase, step, findings } => odd_rewards(phase, *step, findings),
        TrainEvent::StaleHarvest { step, stale, max_staleness } => {
            vec![stale_harvest::text(*step, *stale, *max_staleness)]
        }
        TrainEvent::NoTrustRegion { max_staleness } => vec![no_trust_region(*max_staleness)],
        TrainEvent::RowsFound { file, form } => {
            vec![format!("rows of {} are {}", file.display(), form.meaning())]
        }
        TrainEvent::MarksAsText { rows, marks } => vec![marks_as_text(*rows, *marks)],
        TrainEvent::JudgeUndecided { step: _, undecided, comparisons, answer } => vec![format!(
            "warning: the judge said neither letter of {undecided} of {comparisons} comparisons, which tie (it said {answer:?})"
        )],
        TrainEvent::StepsSkipped { step, skipped: _, norm, bound, in_a_row } => {
            vec![steps_skipped(*step, *norm, *bound, *in_a_row)]
        }
        TrainEvent::WithoutGradient { step: _, updates, untrained, answers } => {
            vec![without_gradient(*updates, untrained, answers)]
        }
        TrainEvent::WeightsJudged { step, version, is_published, difference } => {
            vec![weights_judged(*step, *version, *is_published, *difference)]
        }
        TrainEvent::WeightsMovedTooFar { step, version, kl, max_kl } => vec![format!(
            "the weights of update {step} are kept back, and version {version} stays: they are {kl:.3} nats a token from \
             what sampled, and [trainer] publish_max_kl is {max_kl}"
        )],
        TrainEvent::SupervisedStep { .. }
        | TrainEvent::RunStarted { .. }
        | TrainEvent::Rollouts { .. }
        | TrainEvent::RolloutsFailed { .. }
        | TrainEvent::Learning { .. }
        | TrainEvent::Sampled { .. }
        | TrainEvent::Step { .. }
        | TrainEvent::StepRecalled { .. }
        | TrainEvent::Finished(_) => Vec::new(),
    }
}

fn corpus(program: &str, lines: u64, is_whole: bool) -> String {
    let stage = if is_whole { "; making its tokenizer" } else { " so far" };
    format!("base model: {lines} lines of corpus by {program}{stage}")
}

fn waiting(step: u64) -> String {
    format!(
        "waiting after {step} updates, as many as the run may make: POST .../runs/RUN/allowed-steps, or --resume \
         --allowed-steps N, has it go on"
    )
}

fn runners_awaited(url: &str) -> Vec<String> {
    vec![
        format!("no [runner] command: rollouts wait at {url} for runners that you start, with"),
        format!("  fulgurite run --server {url} -- AGENT"),
        "or as Agent-lightning's runners with that address as their store".to_owned(),
    ]
}

fn odd_rewards(phase: &str, step: u64, findings: &[RewardFinding]) -> Vec<String> {
    let named = findings.iter().take(ODD_REWARDS_NAMED);
    let mut lines: Vec<String> =
        named.map(|finding| format!("warning: {phase} rewards of step {step}: {finding}")).collect();
    if let Some(more) = findings.len().checked_sub(ODD_REWARDS_NAMED).filter(|more| *more > 0) {
        lines.push(format!("warning: {phase} rewards of step {step}: and {more} more such"));
    }
    lines
}

fn no_trust_region(max_staleness: u64) -> String {
    format!(
        "warning: [trainer] schedule trains on tokens that weights up to {max_staleness} updates older sampled, and the \
         loss importance_sampling has no bounds: one unlikely token can throw the policy far. `loss = \"ppo\"` or \
         `\"cispo\"`, or importance_mask, keeps steps near"
    )
}

fn weights_judged(step: u64, version: u64, is_published: bool, difference: f64) -> String {
    if is_published {
        format!("version {step} is behind the model: held-out conversations cost {difference:+.4} nats a token")
    } else {
        format!(
            "version {step} is kept back, and version {version} stays: held-out conversations cost {difference:+.4} \
             nats a token"
        )
    }
}

fn marks_as_text(rows: u64, marks: u64) -> String {
    format!(
        "warning: {rows} rows spell control tokens of the model in their answers ({marks} in all, such as <think> behind \
         the beginning), which are trained as text: put reasoning in `reasoning_content`, or at the answer's beginning"
    )
}

/// Steps that were left out for their gradient's norm.
fn steps_skipped(step: u64, norm: Option<f64>, bound: Option<f64>, in_a_row: u64) -> String {
    let norm = match (norm, bound) {
        (Some(norm), Some(bound)) => format!("{norm:.3e}, above {bound:.3e} ([trainer] spike_factor)"),
        (Some(norm), None) => format!("{norm:.3e}"),
        (None, _) => "no finite number".to_owned(),
    };
    let again = if in_a_row > 1 { format!(", the {in_a_row} updates before and with it too") } else { String::new() };
    format!("warning: update {step} leaves the weights as they are: its gradient's norm is {norm}{again}")
}

fn without_gradient(updates: usize, untrained: &BTreeMap<String, u64>, answers: &[SampleAnswer]) -> String {
    let causes: Vec<String> = untrained.iter().map(|(cause, tokens)| format!("{cause} {tokens}")).collect();
    let mut lines = vec![format!(
        "warning: {updates} updates in a row changed nothing, for no group of rollouts differed in what its members earned \
         (sampled tokens that were not trained, by cause: {})",
        causes.join(", ")
    )];
    lines.extend(
        answers
            .iter()
            .map(|SampleAnswer { task, answer, reward }| format!("  task {task:?}, reward {reward}: {answer:?}")),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_lines_that_people_read() {
        let url = "http://127.0.0.1:1".to_owned();
        let lines = messages(&TrainEvent::RunnersAwaited { url });
        assert_eq!(lines[1], "  fulgurite run --server http://127.0.0.1:1 -- AGENT");
        let judged = |is_published| TrainEvent::WeightsJudged { step: 4, version: 2, is_published, difference: 0.5 };
        let text = "version 4 is behind the model: held-out conversations cost +0.5000 nats a token";
        assert_eq!(messages(&judged(true)), [text]);
        let text =
            "version 4 is kept back, and version 2 stays: held-out conversations cost +0.5000 nats a token".to_owned();
        assert_eq!(messages(&judged(false)), [text]);
    }
}
