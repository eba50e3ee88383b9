//! How far sampler and trainer differ, told apart by which weights sampled a token, as a run's steps have it.
use std::sync::Arc;

use fulgurite_trainer::TrainerOptions;
use serde_json::{Map, Value, json};

use crate::accounting::{Reached, run_in};

/// The metrics of the steps of a run with these tasks and keys of `[trainer]`, in order.
async fn steps(tasks: &[&str], keys: Value) -> Vec<Value> {
    let options: TrainerOptions = serde_json::from_value(keys).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (store, summary) = run_in(directory.path(), Reached::InProcess, tasks, &Arc::default(), options).await;
    summary.unwrap();
    store.runs().steps("run").await.unwrap().into_iter().map(|step| step.metrics).collect()
}

/// The numbers of a step whose names begin so, by the rest of the name.
fn by_cause(metrics: &Value, name: &str) -> Map<String, Value> {
    let metrics = metrics.as_object().unwrap();
    let named = metrics.iter().filter_map(|(key, value)| Some((key.strip_prefix(name)?.to_owned(), value.clone())));
    named.collect()
}

fn causes(values: &[(&str, f64)]) -> Map<String, Value> {
    values.iter().map(|(cause, value)| ((*cause).to_owned(), json!(value))).collect()
}

#[tokio::test]
async fn what_older_weights_sampled_is_told_from_what_the_trained_ones_did() {
    let keys = json!({ "max_steps": 2, "schedule": { "async": { "max_staleness": 1 } } });
    let steps = steps(&["swapped_weights"], keys).await;
    let of = |step: usize, name: &str| by_cause(&steps[step], name);
    // At first every token is sampled by the weights that train, with the logprob that those give.
    assert_eq!(of(0, "optim/kl_sample_train_v1/"), causes(&[("same_weights", 0.0)]));
    assert_eq!(of(0, "optim/kl_sample_train_v2/"), causes(&[("same_weights", 0.0)]));
    assert_eq!(of(0, "optim/ratio_max/"), causes(&[("same_weights", 1.0)]));
    assert_eq!(of(0, "optim/trained_tokens/"), causes(&[("same_weights", 9.0)]));
    // Of three calls of three tokens each, the first token was sampled before the swap, at a logprob of -0.75 and not -0.5.
    let parts = |stale: f64, same_weights: f64| causes(&[("stale", stale), ("same_weights", same_weights)]);
    assert_eq!(of(1, "optim/kl_sample_train_v1/"), parts(-0.25, 0.0));
    assert_eq!(of(1, "optim/kl_sample_train_v2/"), parts(0.03125, 0.0));
    assert_eq!(of(1, "optim/ratio_max/"), parts(0.25f64.exp(), 1.0));
    assert_eq!(of(1, "optim/trained_tokens/"), parts(3.0, 6.0));
    let whole = |name: &str| steps[1][name].as_f64().unwrap();
    assert!((whole("optim/kl_sample_train_v1") - 3.0 * -0.25 / 9.0).abs() < 1e-12);
    assert!((whole("optim/kl_sample_train_v2") - 3.0 * 0.03125 / 9.0).abs() < 1e-12);
    assert_eq!((whole("optim/ratio_max"), whole("optim/trained_tokens")), (0.25f64.exp(), 9.0));
}

#[tokio::test]
async fn substeps_move_the_weights_and_minibatches_do_not() {
    let tasks = ["honest", "another"];
    for (keys, expected) in [
        (json!({ "max_steps": 1, "substeps": 2 }), causes(&[("same_weights", 9.0), ("earlier_substeps", 9.0)])),
        (json!({ "max_steps": 1, "schedule": { "minibatches": 2 } }), causes(&[("same_weights", 18.0)])),
        // What is not recorded of each token is counted all the same.
        (json!({ "max_steps": 1, "record_tokens": false }), causes(&[("same_weights", 18.0)])),
    ] {
        let steps = steps(&tasks, keys.clone()).await;
        assert_eq!(by_cause(&steps[0], "optim/trained_tokens/"), expected, "{keys}");
    }
}
