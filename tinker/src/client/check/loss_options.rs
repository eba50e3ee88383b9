//! The numbers of a loss: whether a service computes with those that it is sent.

use fulgurite_backends::{BackendError, LossFunction, RatioBounds};
use fulgurite_types::Datum;

use super::batch;
use super::expectation::{is_close_loss, slopes};
use super::finding::{CheckFinding, CheckNumbers, CheckVerdict};
use super::probe_model::{ProbeModel, Workbench};
use super::update::wire_pass;
use crate::client::datums::{loss_of, reported_loss};
use crate::wire::LoraConfig;

const USUAL: RatioBounds = RatioBounds::PPO;
const NARROW: RatioBounds = RatioBounds { low: 0.95, high: 1.05 };
/// Two losses are one if they differ by less than this share of what they should.
const SAME: f64 = 0.1;

/// A loss with two sets of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossOptions {
    pub(super) name: &'static str,
    one: LossFunction,
    other: LossFunction,
}

/// Every loss of a policy that has numbers.
pub(super) const LOSS_OPTIONS: [LossOptions; 4] = [
    LossOptions { name: "ppo clip thresholds", one: LossFunction::Ppo(USUAL), other: LossFunction::Ppo(NARROW) },
    LossOptions { name: "cispo clip thresholds", one: LossFunction::Cispo(USUAL), other: LossFunction::Cispo(NARROW) },
    LossOptions { name: "gspo clip thresholds", one: LossFunction::Gspo(USUAL), other: LossFunction::Gspo(NARROW) },
    LossOptions { name: "dro beta", one: LossFunction::Dro { beta: 0.05 }, other: LossFunction::Dro { beta: 0.5 } },
];

/// Whether the loss over a batch whose ratios lie beyond all bounds changes with the numbers, as its formula does.
pub(super) async fn check_loss_options(
    bench: &Workbench,
    lora: LoraConfig,
    options: LossOptions,
    logprobs: &[Vec<f32>],
) -> Result<CheckFinding, BackendError> {
    let data = batch::far_policy(logprobs);
    let model = bench.model(lora).await?;
    let one = measured(&model, &data, options.one).await?;
    let other = measured(&model, &data, options.other).await?;
    Ok(compare(options.name, &one, &other))
}

/// A loss that was measured, and what it must be.
struct MeasuredLoss {
    reported: Option<f64>,
    expected: f64,
    slopes: Vec<f64>,
}

async fn measured(model: &ProbeModel<'_>, data: &[Datum], loss: LossFunction) -> Result<MeasuredLoss, BackendError> {
    let output = model.pass(wire_pass(data, loss)?).await?;
    let logprobs = model.logprobs(&output, data)?;
    let (expected, slopes) = (loss_of(data, &logprobs, loss), slopes(data, &logprobs, loss));
    Ok(MeasuredLoss { reported: reported_loss(&output), expected, slopes })
}

fn compare(name: &str, one: &MeasuredLoss, other: &MeasuredLoss) -> CheckFinding {
    let (Some(of_one), Some(of_other)) = (one.reported, other.reported) else {
        return CheckFinding::new(name, CheckVerdict::Skipped, "no loss is reported, by which it could be told");
    };
    let numbers = CheckNumbers { loss: Some(of_other), expected_loss: Some(other.expected), ..CheckNumbers::default() };
    let finding = if (of_other - of_one).abs() <= SAME * (other.expected - one.expected).abs() {
        let message = format!("the loss is {of_other:.4} with other numbers too: loss_fn_config is ignored");
        CheckFinding::new(name, CheckVerdict::Wrong, message)
    } else if is_close_loss(of_other, other.expected, &other.slopes) {
        CheckFinding::new(name, CheckVerdict::Ok, format!("the loss is {of_one:.4}, and {of_other:.4} with others"))
    } else {
        let message = format!("with other numbers its loss is {of_other:.4}, and by the formula {:.4}", other.expected);
        CheckFinding::new(name, CheckVerdict::Wrong, message)
    };
    finding.with(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The losses of the batch by two sets of numbers; `reported` is what a service makes of them.
    fn finding(options: LossOptions, reported: impl Fn(f64, f64) -> (Option<f64>, Option<f64>)) -> CheckFinding {
        let logprobs = vec![vec![-2.0; 12]; 4];
        let data = batch::far_policy(&logprobs);
        let expected = |loss| loss_of(&data, &logprobs, loss);
        let (one, other) = reported(expected(options.one), expected(options.other));
        let measured = |loss, reported| MeasuredLoss {
            reported,
            expected: expected(loss),
            slopes: slopes(&data, &logprobs, loss),
        };
        compare(options.name, &measured(options.one, one), &measured(options.other, other))
    }

    #[test]
    fn numbers_that_are_ignored_are_found_for_every_loss() {
        for options in LOSS_OPTIONS {
            let right = finding(options, |one, other| (Some(one), Some(other)));
            assert_eq!(right.verdict, CheckVerdict::Ok, "{right:?}");
            let ignored = finding(options, |one, _| (Some(one), Some(one)));
            assert_eq!(ignored.verdict, CheckVerdict::Wrong, "{ignored:?}");
            assert!(ignored.message.ends_with("loss_fn_config is ignored"), "{ignored:?}");
            let other = finding(options, |one, other| (Some(one), Some(other * 3.0 + 1.0)));
            assert!(other.verdict == CheckVerdict::Wrong && other.message.contains("by the formula"), "{other:?}");
            assert_eq!(finding(options, |_, _| (None, None)).verdict, CheckVerdict::Skipped);
        }
    }
}
