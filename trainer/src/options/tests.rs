//! What is refused of `[trainer]`, and what is shown of it.

use serde_json::{Value, json};

use super::{ObjectiveName, TrainerOptions};

fn options_of(objective: &str) -> TrainerOptions {
    serde_json::from_value(json!({ "objective": objective })).unwrap()
}

fn refused(options: &Value) -> String {
    let options: TrainerOptions = serde_json::from_value(options.clone()).unwrap();
    options.check().unwrap_err().to_string()
}

#[test]
fn what_cannot_work_is_refused_with_its_key_and_the_fix() {
    TrainerOptions::default().check().unwrap();
    let is = |options: Value, expected: &str| assert_eq!(refused(&options), expected);
    is(
        json!({ "learning_rate": 0.0 }),
        "[trainer] learning_rate is 0, but must be a finite number above 0, such as 1e-4",
    );
    is(
        json!({ "group_size": 1 }),
        "[trainer] group_size is 1, but must be at least 2: its mean is what each is measured against",
    );
    is(json!({ "beta2": 1.0 }), "[trainer] beta2 is 1, but must be at least 0 and below 1");
    is(
        json!({ "weight_decay": -0.1 }),
        "[trainer] weight_decay is -0.1, but must be a finite number of at least 0; 0 leaves the weights as they are",
    );
    is(json!({ "epsilon": 0.0 }), "[trainer] epsilon is 0, but must be a finite number above 0, such as 1e-4");
    is(
        json!({ "gradient_clip_norm": -1.0 }),
        "[trainer] gradient_clip_norm is -1, but must be a finite number of at least 0; 0 does not clip",
    );
    is(
        json!({ "sampling_parameters": { "temprature": 1.0 } }),
        "[trainer] sampling_parameters.temprature is no sampling parameter; did you mean `temperature`?",
    );
    is(
        json!({ "sampling_parameters": { "top_p": 0.7 } }),
        "[trainer] sampling_parameters.top_p is 0.7, but must be 1.0 or left out: tokens that were sampled from \
         another distribution than the model's are not trained",
    );
    for count in [json!(3.5), json!("4"), json!(0), json!(-1)] {
        is(
            json!({ "sampling_parameters": { "max_tokens": count } }),
            &format!("[trainer] sampling_parameters.max_tokens is {count}, but must be a whole number of at least 1"),
        );
    }
}

#[test]
fn what_would_do_nothing_is_refused() {
    let is = |options: Value, expected: &str| assert_eq!(refused(&options), format!("[trainer] {expected}"));
    let batch = json!({ "standard_deviation_of": "batch" });
    let key = "advantages.standard_deviation_of";
    is(
        json!({ "advantages": batch }),
        &format!("{key} is batch, but nothing is divided without normalize_by_standard_deviation = true"),
    );
    is(
        json!({ "advantages": { "baseline": "batch_mean", "normalize_by_standard_deviation": true } }),
        &format!("{key} is group, but must be batch: the baseline is not of the group either"),
    );
    is(
        json!({ "advantages": { "baseline": "none", "counted": "all" } }),
        "advantages.counted changes nothing where no mean is taken off and nothing is divided: leave it out",
    );
    is(
        json!({ "harvest": {}, "advantages": { "counted": "all" } }),
        "advantages.counted is \"all\", and a harvest reads rewarded rollouts alone: leave it out, or write \"rewarded\"",
    );
    is(
        json!({ "dynamic_sampling": {}, "advantages": { "baseline": "none" } }),
        "dynamic_sampling only groups that are measured against themselves can have nothing to teach: leave it out",
    );
    is(
        json!({ "dynamic_sampling": {}, "harvest": {} }),
        "dynamic_sampling a harvest has no tasks to try in place of others: leave it out",
    );
    is(
        json!({ "dynamic_sampling": { "max_refills": 0 } }),
        "dynamic_sampling.max_refills is 0, but must be at least 1: leave the table out for none",
    );
    is(
        json!({ "loss": "dro", "loss_parameters": { "beta": 1.0 }, "loss_aggregation": "token_mean" }),
        "loss_aggregation must be sum with the loss `dro`, whose beta would not be divided; lower learning_rate instead",
    );
    is(json!({ "curriculum": {}, "harvest": {} }), "curriculum a harvest has no tasks to draw: leave it out");
    is(
        json!({ "curriculum": {}, "pairwise": { "judge": "shorter" } }),
        "curriculum is not for pairwise, by which every group earns the same in all: leave it out",
    );
    is(
        json!({ "curriculum": {}, "dynamic_sampling": { "prioritize": true } }),
        "curriculum draws tasks, and so does dynamic_sampling.prioritize: leave one of them out",
    );
    for (wrong, message) in [
        (json!({ "pass_rate": [0.9, 0.1] }), "pass_rate is [0.9, 0.1], but must be two shares from 0 to 1, in order"),
        (json!({ "window": 0 }), "window is 0, but must be at least 1: a pass rate is of one group at least"),
        (
            json!({ "outside": 0.0 }),
            "outside is 0, but must be from 0.001 to 1: a task that is never tried again is never known to have become easier",
        ),
        (json!({ "replay": 1.0 }), "replay is 1, but must be a share above 0 and below 1: leave it out for none"),
        (json!({ "replay_groups": 0 }), "replay_groups is 0, but must be at least 1: leave out replay for none"),
    ] {
        is(json!({ "curriculum": wrong }), &format!("curriculum.{message}"));
    }
    let ahead = json!({ "async": { "max_staleness": 1 } });
    is(
        json!({ "schedule": ahead, "curriculum": {} }),
        "schedule must be sync with curriculum, which has to know a step's groups before it draws the next tasks",
    );
    is(
        json!({ "schedule": { "minibatches": 2 }, "curriculum": {} }),
        "schedule cannot be in minibatches with curriculum, which is of a whole batch: leave one of them out",
    );
    is(
        json!({ "schedule": ahead, "dynamic_sampling": {} }),
        "schedule must be sync with dynamic_sampling, which has to know a group before it tries a further task",
    );
    is(
        json!({ "schedule": ahead, "harvest": {} }),
        "schedule has no rollouts to run ahead in a harvest, whose own harvest.max_staleness says how old they may be",
    );
    is(
        json!({ "importance_mask": [2.0, 0.5] }),
        "importance_mask is [2, 0.5], but must be two finite ratios from 0 up, the lower one first, such as [0.5, 2.0]",
    );
    let alone = json!({ "group_size": 1, "advantages": { "baseline": "batch_mean" } });
    serde_json::from_value::<TrainerOptions>(alone).unwrap().check().unwrap();
}

#[test]
fn every_key_belongs_to_an_objective() {
    let options = json!(TrainerOptions::default());
    for key in options.as_object().unwrap().keys() {
        assert!(ObjectiveName::ALL.into_iter().any(|name| name.has(key)), "{key}");
    }
}

#[test]
fn a_key_of_another_objective_is_refused_by_name() {
    let sft = options_of("sft");
    let refused = |options: &TrainerOptions, key| options.check_keys([key]).unwrap_err().to_string();
    assert_eq!(
        refused(&sft, "group_size"),
        "[trainer] group_size is no key of objective = \"sft\", but of \"grpo\": leave it out"
    );
    assert!(refused(&sft, "evaluation.samples_per_task").contains("but of \"grpo\""));
    assert!(refused(&TrainerOptions::default(), "train_on").contains("but of \"sft\""));
    let taught = options_of("on_policy_distillation");
    assert!(refused(&taught, "harvest").contains("but of \"grpo\""));
    assert!(refused(&sft, "distillation.teacher").contains("but of \"on_policy_distillation\""));
    let off_policy = options_of("off_policy_distillation");
    assert!(refused(&off_policy, "distillation.discount").contains("but of \"on_policy_distillation\""));
    assert!(refused(&off_policy, "packing").contains("but of \"sft\""));
    off_policy.check_keys(["distillation.top_k", "source.conversations", "evaluation.every"]).unwrap();
    taught.check_keys(["distillation.teacher", "group_size", "kl.coefficient"]).unwrap();
    sft.check_keys(["source.conversations", "learning_rate", "evaluation.every"]).unwrap();
    TrainerOptions::default().check_keys(["harvest.max_staleness", "evaluation.every", "max_steps"]).unwrap();
}

/// An empty table of another objective used to pass, and `harvest = {}` then ended in a harvest that its teacher knew nothing of.
#[test]
fn a_table_of_another_objective_is_refused_by_name() {
    let refused = |objective, key| options_of(objective).check_keys([key]).unwrap_err().to_string();
    assert!(refused("on_policy_distillation", "harvest").contains("but of \"grpo\""));
    assert!(refused("grpo", "source").contains("but of \"sft\""));
    assert!(refused("orpo", "distillation").contains("but of \"on_policy_distillation\""));
    options_of("dpo").check_keys(["preference", "evaluation", "source"]).unwrap();
}

#[test]
fn what_is_read_from_the_flat_table_is_shown_in_it() {
    let written = json!({
        "objective": "kto", "batch_size": 7, "evaluation": { "every": 3 }, "learning_rate": 0.5,
        "preference": { "beta": 0.2, "undesirable_weight": 2.0, "reference": "r" }, "checkpoint_every_tokens": 9,
    });
    let mut options: TrainerOptions = serde_json::from_value(written).unwrap();
    options.set_defaults(&["learning_rate", "evaluation.every"].map(str::to_owned));
    let shown = json!(options);
    let of = |pointer: &str| shown.pointer(pointer).unwrap().clone();
    assert_eq!((of("/objective"), of("/batch_size"), of("/evaluation/every")), (json!("kto"), json!(7), json!(3)));
    assert_eq!((of("/preference/beta"), of("/preference/reference")), (json!(0.2), json!("r")));
    assert_eq!((of("/learning_rate"), of("/learning_rate_schedule")), (json!(0.5), json!("linear")));
    assert_eq!((of("/checkpoint_every"), of("/checkpoint_every_tokens")), (json!(null), json!(9)));
    assert_eq!((of("/group_size"), of("/harvest")), (json!(8), json!(null)), "keys of others have their defaults");
    assert_eq!(serde_json::from_value::<TrainerOptions>(shown).unwrap(), options);
}

#[test]
fn each_objective_has_its_own_defaults() {
    let of = |objective: &str| {
        let mut options = options_of(objective);
        options.set_defaults(&[]);
        let shown = json!(options);
        ["learning_rate", "learning_rate_schedule", "max_steps", "checkpoint_every"].map(|key| shown[key].clone())
    };
    assert_eq!(of("grpo"), [json!(1e-4), json!("constant"), json!(100), json!(1)]);
    assert_eq!(of("sft"), [json!(1e-4), json!("linear"), json!(null), json!(20)]);
    assert_eq!(of("dpo"), [json!(1e-5), json!("linear"), json!(null), json!(20)]);
}
