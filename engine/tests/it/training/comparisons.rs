//! Losses of comparisons in one pass each way.

use std::sync::Arc;

use fulgurite_backends::{
    AdamParameters, ComparedAnswer, Comparison, Comparisons, Learner, LossFunction, PreferenceLoss,
};
use fulgurite_types::Datum;

use crate::common::{create, files, open, sequence, supervised, tiny_config};

/// Sequences of such lengths, of which the first half is read and the rest trained.
fn data(lengths: &[usize]) -> Arc<[Datum]> {
    let datum = |(row, length): (usize, &usize)| {
        let mut datum = supervised(&sequence(row as u64 + 5, *length, 41), 1.0);
        if let fulgurite_types::LossInputs::Supervised { weights } = &mut datum.loss_inputs {
            weights[..length / 2].fill(0.0);
        }
        datum
    };
    lengths.iter().enumerate().map(datum).collect()
}

fn answer(begin: usize, end: usize, reference: f64) -> Option<ComparedAnswer> {
    Some(ComparedAnswer { data: begin..end, reference })
}

/// Ten datums in four comparisons, one of them of several sequences and one that is more than a pass takes.
fn comparisons(loss: PreferenceLoss) -> (Arc<[Datum]>, Comparisons) {
    let list = vec![
        Comparison { chosen: answer(0, 1, -20.0), rejected: answer(1, 2, -25.0) },
        Comparison { chosen: answer(2, 4, -60.0), rejected: answer(4, 5, -30.0) },
        Comparison { chosen: answer(5, 6, -100.0), rejected: answer(6, 8, -120.0) },
        Comparison { chosen: answer(8, 9, -9.0), rejected: answer(9, 10, -9.0) },
    ];
    (
        data(&[12, 14, 20, 20, 18, 90, 90, 30, 6, 7]),
        Comparisons { loss, others: Vec::new(), scale: 0.25, likelihood_scale: 0.125, list },
    )
}

fn losses() -> [PreferenceLoss; 7] {
    [
        PreferenceLoss::Dpo { beta: 0.1, label_smoothing: 0.0 },
        PreferenceLoss::Ipo { beta: 0.1 },
        PreferenceLoss::Orpo { beta: 0.5 },
        PreferenceLoss::Robust { beta: 0.5, label_smoothing: 0.1 },
        PreferenceLoss::ApoDown { beta: 0.25 },
        PreferenceLoss::Simpo { beta: 2.0, gamma: 0.5 },
        PreferenceLoss::Kto { beta: 0.1, baseline: 0.25, desirable_weight: 1.0, undesirable_weight: 1.5 },
    ]
}

#[tokio::test]
async fn one_pass_is_what_a_forward_pass_and_a_cross_entropy_are() {
    let (_home, directory) = create(&tiny_config(), 1);
    for loss in losses() {
        let (data, comparisons) = comparisons(loss);
        let engine = open(&directory, 2);
        let one = engine.learner();
        let update = one.forward_backward_comparisons(data.clone(), Arc::new(comparisons.clone())).await.unwrap();
        let stepped = one.optimizer_step(AdamParameters::default()).await.unwrap();

        let other = open(&directory, 1);
        let two = other.learner();
        let logprobs = two.forward(data.clone()).await.unwrap();
        let (sum, linear) = comparisons.as_cross_entropy(&data, &logprobs);
        two.forward_backward(linear.into(), LossFunction::CrossEntropy).await.unwrap();
        let expected = two.optimizer_step(AdamParameters::default()).await.unwrap();
        assert!((update.loss_sum - sum).abs() < 1e-6 * sum.abs(), "{loss:?}: {} {sum}", update.loss_sum);
        let (norm, same) = (stepped.gradient_norm, expected.gradient_norm);
        assert!(norm > 0.0 && (norm - same).abs() < 1e-4 * same, "{loss:?}: {norm} {same}");
        for (index, datum) in data.iter().enumerate() {
            let trained = datum.positions() / 2 + 1;
            assert_eq!(update.logprobs[index][trained..], logprobs[index][trained..], "{loss:?}");
        }
    }
}

#[tokio::test]
async fn neither_threads_nor_a_second_time_change_a_bit() {
    let (home, directory) = create(&tiny_config(), 2);
    let trained = async |threads: usize, name: &str| {
        let engine = open(&directory, threads);
        let learner = engine.learner();
        for loss in losses() {
            let (data, comparisons) = comparisons(loss);
            learner.forward_backward_comparisons(data, Arc::new(comparisons)).await.unwrap();
            learner.optimizer_step(AdamParameters::default()).await.unwrap();
        }
        let saved = home.path().join(name);
        learner.save_checkpoint(&saved).await.unwrap();
        files(&saved)
    };
    let one = trained(1, "one").await;
    assert!(one == trained(2, "two").await);
}

#[tokio::test]
async fn the_chosen_answer_becomes_likelier_beside_the_rejected_one() {
    let (_home, directory) = create(&tiny_config(), 3);
    let engine = open(&directory, 2);
    let learner = engine.learner();
    learner.keep_reference().await.unwrap();
    let data = data(&[20, 20]);
    let sums = |logprobs: &[Vec<f32>]| [0, 1].map(|row| logprobs[row][10..].iter().map(|l| f64::from(*l)).sum::<f64>());
    let reference = sums(&learner.forward_reference(data.clone()).await.unwrap());
    let list = vec![Comparison { chosen: answer(0, 1, reference[0]), rejected: answer(1, 2, reference[1]) }];
    let loss = PreferenceLoss::Dpo { beta: 0.1, label_smoothing: 0.0 };
    let comparisons = Arc::new(Comparisons { loss, others: Vec::new(), scale: 1.0, likelihood_scale: 0.0, list });
    let mut costs = Vec::new();
    for _ in 0..20 {
        let update = learner.forward_backward_comparisons(data.clone(), comparisons.clone()).await.unwrap();
        costs.push(update.loss_sum);
        learner.optimizer_step(AdamParameters { learning_rate: 3e-3, ..AdamParameters::default() }).await.unwrap();
    }
    assert!((costs[0] - std::f64::consts::LN_2).abs() < 1e-6, "at the reference nothing is preferred: {}", costs[0]);
    assert!(costs[19] < 0.3, "{costs:?}");
    let after = sums(&learner.forward(data).await.unwrap());
    assert!(after[0] - reference[0] > after[1] - reference[1] + 5.0);
}

#[tokio::test]
async fn comparisons_of_other_datums_are_refused_and_change_nothing() {
    let (_home, directory) = create(&tiny_config(), 4);
    let engine = open(&directory, 1);
    let learner = engine.learner();
    let (rows, comparisons) = comparisons(losses()[0]);
    let error = learner.forward_backward_comparisons(rows[..9].into(), Arc::new(comparisons)).await.unwrap_err();
    assert!(error.to_string().contains("the comparisons have 10 datums, and 9 came"), "{error}");
    assert_eq!(learner.optimizer_step(AdamParameters::default()).await.unwrap().gradient_norm, 0.0);
}
