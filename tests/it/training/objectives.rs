//! What `[trainer]` says of the objective, seen through runs of the real command: losses, substeps, a reference, step sizes.

use std::process::Stdio;

use crate::common::project::{EMBEDDED, Project, SMALL, UNEVEN, UNEVEN_GRADE, numbers, saved, weights};
use crate::common::{Ran, eventually, program};
use serde_json::{Value, json};

/// The steps of a run with these lines of `[trainer]` in place of the usual ones, and its summary.
pub(super) fn trained(project: &Project, run: &str, lines: &str) -> (Vec<Value>, Value) {
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let key = |line: &str| line.split_once(" = ").map(|(key, _)| key.to_owned());
    let is_usual =
        |line: &&str| key(line).is_none_or(|one| !lines.lines().any(|other| key(other).as_ref() == Some(&one)));
    let usual: String = config.lines().filter(is_usual).map(|line| format!("{line}\n")).collect();
    std::fs::write(project.path("t.toml"), format!("{usual}{lines}\n")).unwrap();
    let mut steps = project.train(run, &[]);
    std::fs::write(project.path("t.toml"), config).unwrap();
    let summary = steps.pop().unwrap();
    (steps, summary)
}

pub(super) fn refused(project: &Project, lines: &str) -> String {
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    std::fs::write(project.path("t.toml"), format!("{config}{lines}\n")).unwrap();
    let ran = Ran::from(project.command("refused").output().unwrap());
    std::fs::write(project.path("t.toml"), config).unwrap();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    ran.stderr
}

#[test]
fn on_policy_every_loss_is_the_policy_gradient_and_substeps_part_them() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 2"));
    let (_, plain) = trained(&project, "plain", "loss = 'importance_sampling'");
    // At a ratio of 1 nothing is clipped, and each gradient is advantage times that of the logprob.
    for (loss, parameters) in [
        ("ppo", ""),
        ("ppo", "loss_parameters = { ratio_limit = 3.0 }"),
        ("sapo", ""),
        ("cispo", ""),
        ("gspo", ""),
        ("dro", "loss_parameters = { beta = 0.5 }"),
    ] {
        let run = format!("{loss}{}", parameters.len());
        let (_, summary) = trained(&project, &run, &format!("loss = '{loss}'\n{parameters}"));
        assert_eq!(summary["max_logprob_difference"], json!(0.0), "{loss}");
        assert!(weights(&summary) == weights(&plain), "{loss}");
        project.account(&run, &summary);
    }
    let split = |loss: &str| {
        let run = format!("{loss}-split");
        let (steps, summary) = trained(&project, &run, &format!("loss = '{loss}'\nsubsteps = 3\nlearning_rate = 3e-2"));
        assert_eq!(summary["max_logprob_difference"], json!(0.0), "told of the first substep");
        assert!(numbers(&steps, "optim/ratio_max")[0] > 1.0, "the second meets weights that the first has moved");
        project.account(&run, &summary);
        weights(&summary)
    };
    let importance_sampling = split("importance_sampling");
    assert!(importance_sampling != weights(&plain));
    assert!(split("gspo") != importance_sampling, "which clips as soon as a sequence has moved");
}

#[test]
fn an_entropy_bonus_keeps_a_policy_from_certainty_and_a_rollouts_length_divides_its_sum() {
    let project = Project::new(UNEVEN, &SMALL.replace("learning_rate = 1e-3", "learning_rate = 1e-2"));
    let (steps, plain_summary) = trained(&project, "plain", "loss_aggregation = 'token_mean'");
    let bonus = "loss_aggregation = 'token_mean'\nentropy_bonus = 10.0";
    let (uncertain, summary) = trained(&project, "uncertain", bonus);
    assert_eq!(summary["max_logprob_difference"], json!(0.0));
    let [plain, more] = [&steps, &uncertain].map(|steps| numbers(steps, "optim/entropy_exact"));
    assert_eq!(plain[0], more[0], "the same weights");
    assert!(more.last() > plain.last(), "{plain:?} {more:?}");
    let paid = numbers(&uncertain, "optim/entropy_bonus");
    assert!((paid[0] - 10.0 * more[0]).abs() < 1e-9, "{paid:?}");
    let (_, all) = trained(&project, "all", "loss_aggregation = 'token_mean'\ntop_entropy = 1.0");
    let (_, few) = trained(&project, "few", "loss_aggregation = 'token_mean'\ntop_entropy = 0.2");
    assert!(weights(&all) == saved(&plain_summary, "model.safetensors"), "every token teaches");
    assert!(weights(&few) != weights(&all));
    let sum = |lines: &str| numbers(&trained(&project, &lines.len().to_string(), lines).0, "optim/loss:sum")[0];
    let (whole, divided) =
        (sum("loss_aggregation = 'rollout_sum'"), sum("loss_aggregation = 'rollout_sum'\nrollout_length = 8"));
    assert!((whole - 8.0 * divided).abs() < 1e-5 * whole.abs().max(1e-3), "{whole} {divided}");
}

#[test]
fn rollouts_that_failed_count_in_their_groups_mean_by_a_key() {
    let hello = program("hello-agent");
    let agent = format!(
        "command = [\"sh\", \"-c\", 'out=$({hello} {{task}}); n=$(printf %s \"$out\" | wc -c); [ $((n % 4)) -ne 0 ] || exit 1; printf %s \"$out\"']\n"
    );
    let project = Project::new(&format!("{agent}{UNEVEN_GRADE}"), &SMALL.replace("max_steps = 5", "max_steps = 2"));
    let run = |name: &str, lines: &str| {
        let (steps, summary) = trained(&project, name, lines);
        assert!(numbers(&steps, "rollout_errors/agent").iter().any(|count| *count > 0.0), "{steps:?}");
        project.account(name, &summary);
        weights(&summary)
    };
    let plain = run("plain", "");
    assert!(run("rewarded", "advantages = { counted = 'rewarded' }") == plain, "all that earned something are trained");
    assert!(run("all", "advantages = { counted = 'all' }") != plain);
}

#[test]
fn coefficients_that_follow_a_target_are_in_the_checkpoint() {
    let project = Project::new(UNEVEN, &SMALL.replace("learning_rate = 1e-3", "learning_rate = 1e-2"));
    let lines = "kl = { coefficient = 0.5, target = 0.01, horizon = 20 }\nentropy_bonus = { target = 4.0, step = 0.5, greatest = 2.0 }";
    let (steps, summary) = trained(&project, "whole", lines);
    let rollouts = |step: usize| steps[step]["env/all/total_episodes"].as_f64().unwrap();
    let (distances, coefficients) = (numbers(&steps, "kl_policy_base"), numbers(&steps, "optim/kl_coefficient"));
    assert_eq!((coefficients.len(), coefficients[0]), (5, 0.5), "{coefficients:?}");
    // The first update measures no distance from the weights that the run began with.
    for step in 1..5 {
        let error = (distances[step - 1] / 0.01 - 1.0).clamp(-0.2, 0.2);
        let group = numbers(&steps, "sampling/groups_without_signal")[step - 1];
        let taught = rollouts(step - 1) - 3.0 * group;
        let expected = coefficients[step - 1] * (1.0 + error * taught / 20.0);
        assert!((coefficients[step] - expected).abs() < 1e-9, "{distances:?} {coefficients:?}");
    }
    let (entropies, worth) = (numbers(&steps, "optim/entropy_before"), numbers(&steps, "optim/entropy_coefficient"));
    let mut known = 0.0;
    for (step, (entropy, worth)) in entropies.iter().zip(&worth).enumerate() {
        assert_eq!(*worth, if *entropy <= 4.0 { known } else { 0.0 }, "{step}: {entropies:?} {known}");
        known = if *entropy < 4.0 { f64::min(known + 0.5, 2.0) } else { f64::max(known - 0.5, 0.0) };
    }
    for (before, exact) in entropies.iter().zip(numbers(&steps, "optim/entropy_exact")) {
        assert!((before - exact).abs() < 1e-9, "the same weights, twice");
    }

    let resumed = |cut: &str| {
        let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
        project.change_config("[trainer]\n", &format!("[trainer]\n{lines}\n"));
        project.train(cut, &["--max-steps", cut]);
        let resumed = project.train(cut, &["--resume"]).pop().unwrap();
        std::fs::write(project.path("t.toml"), config).unwrap();
        weights(&resumed)
    };
    assert!(resumed("1") == weights(&summary) && resumed("3") == weights(&summary));
}

#[test]
fn a_loss_that_cannot_be_is_refused_before_anything_is_made() {
    let project = Project::new(UNEVEN, SMALL);
    for (lines, expected) in [
        ("loss = 'dro'", "[trainer] loss_parameters.beta is missing: the loss `dro` has no usual one"),
        (
            "loss_parameters = { clip_low = 0.5 }",
            "clip_low is no number of the loss `importance_sampling`: leave it out",
        ),
        ("loss = 'ppo'\nloss_parameters = { ratio_limit = 1.1 }", "ratio_limit is 1.1, below the 1.2 of clip_high"),
        ("rollout_length = 8", "[trainer] rollout_length is of loss_aggregation = \"rollout_sum\": leave it out"),
        ("top_entropy = 0.0", "[trainer] top_entropy is 0, but must be above 0 and at most 1"),
        ("entropy_bonus = -1.0", "[trainer] entropy_bonus is -1, but must be a finite number of at least 0"),
        (
            "entropy_bonus = { target = -1.0 }",
            "[trainer] entropy_bonus.target is -1, but must be a finite number above 0",
        ),
        ("kl = { coefficient = 1.0, horizon = 9 }", "[trainer] kl.horizon is 9, but is of kl.target: leave it out"),
        (
            "kl = { coefficient = 1.0, target = 0.1, in = 'loss' }",
            "[trainer] kl.target is 0.1, but is of kl.in = \"reward\": leave it out",
        ),
        (
            "kl = { coefficient = 0.0, target = 0.1 }",
            "[trainer] kl.target adapts the coefficient by factors, and kl.coefficient is 0",
        ),
        ("loss = 'reinforce'", "unknown variant `reinforce`"),
        ("substeps = 0", "substeps"),
        ("kl = { coefficient = -1.0 }", "[trainer] kl.coefficient is -1, but must be a finite number of at least 0"),
        (
            "kl = { coefficient = 1.0, in = 'loss', discount = 0.5 }",
            "[trainer] kl.discount is 0.5, but is of kl.in = \"reward\": leave it out",
        ),
        ("kl = { coefficient = 1.0, reference = 'base' }", "kl.reference = \"base\": there is no such [[models]]"),
        ("learning_rate_schedule = 'triangle'", "triangle"),
    ] {
        let message = refused(&project, lines);
        assert!(
            message.contains(expected) || lines.contains("reinforce") && message.contains("reinforce"),
            "{message}"
        );
        assert!(!project.path("refused").exists() && !project.path("model-1.training").exists(), "{lines}");
    }
}

#[test]
fn a_reference_keeps_a_policy_near_survives_a_resume_and_costs_nothing_at_0() {
    let project = Project::new(UNEVEN, &SMALL.replace("learning_rate = 1e-3", "learning_rate = 1e-2"));
    let (_, free) = trained(&project, "free", "");
    let (steps, unpaid) = trained(&project, "unpaid", "kl = { coefficient = 0.0 }");
    assert!(weights(&free) == weights(&unpaid));
    let away = numbers(&steps, "kl_policy_base");
    assert_eq!(away[0], 0.0, "it begins as the reference");
    assert!(away[1..].iter().all(|distance| *distance != 0.0), "{away:?}");

    let (_, paid) = trained(&project, "paid", "kl = { coefficient = 5.0, discount = 0.5 }");
    assert!(weights(&paid) != weights(&free));
    assert_eq!(paid["max_logprob_difference"], json!(0.0));
    project.change_config("[trainer]\n", "[trainer]\nkl = { coefficient = 5.0, discount = 0.5 }\n");
    project.train("resumed", &["--max-steps", "2"]);
    let resumed = project.train("resumed", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(&paid), "the reference is not the policy that was resumed");

    // The same weights by name, beside the model that is trained.
    project.change_config("discount = 0.5 }", "discount = 0.5, reference = 'base' }");
    let base = EMBEDDED.replace("model-{seed}", "model-1");
    project.change_config("[base]", &format!("[[models]]\nname = \"base\"\n{base}\n\n[base]"));
    let named = project.train("named", &[]).pop().unwrap();
    assert!(weights(&named) == weights(&paid));
    // An adapter has what it lies over for nothing.
    project.change_config(", reference = 'base'", "");
    project.change_config(&format!("[[models]]\nname = \"base\"\n{base}\n\n"), "");
    project.train_adapters(4);
    let adapter = project.train("adapter", &[]).pop().unwrap();
    project.train("adapter-resumed", &["--max-steps", "3"]);
    let resumed = project.train("adapter-resumed", &["--resume"]).pop().unwrap();
    assert!(saved(&adapter, "adapter_model.safetensors") == saved(&resumed, "adapter_model.safetensors"));
}

#[test]
fn a_penalty_in_the_loss_keeps_a_policy_near_also_at_a_tinker_service_and_survives_a_resume() {
    let project = Project::new(UNEVEN, &SMALL.replace("learning_rate = 1e-3", "learning_rate = 1e-2"));
    let (_, free) = trained(&project, "free", "");
    let (measured, unpaid) = trained(&project, "unpaid", "kl = { coefficient = 0.0, in = 'loss' }");
    assert!(weights(&free) == weights(&unpaid), "a loss of nothing has no gradient");
    assert!(numbers(&measured, "optim/kl_loss:sum").iter().all(|loss| *loss == 0.0));

    project.change_config("[trainer]\n", "[trainer]\nkl = { coefficient = 0.5, in = 'loss' }\nsubsteps = 2\n");
    let paid = project.train("paid", &[]);
    let losses = numbers(&paid, "optim/kl_loss:sum");
    assert!(losses.iter().all(|loss| *loss > 0.0), "the second substep has left the reference: {losses:?}");
    let summary = paid.last().unwrap();
    assert!(weights(summary) != weights(&free));
    project.account("paid", summary);
    project.train("resumed", &["--max-steps", "2"]);
    let resumed = project.train("resumed", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(summary));

    project.train_adapters(4);
    let here = project.train("here", &[]);
    let _server = project.train_at_our_tinker_server();
    let there = project.train("there", &[]);
    let same = |key: &str| assert_eq!(numbers(&there, key), numbers(&here, key), "{key}");
    same("optim/kl_loss:sum");
    same("kl_policy_base");
    same("optim/gradient_norm");
}

#[test]
fn a_tinker_service_keeps_the_reference_of_a_run_too() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 3"));
    project.change_config("[trainer]\n", "[trainer]\nkl = { coefficient = 5.0 }\n");
    project.train_adapters(4);
    let here = project.train("here", &[]).pop().unwrap();
    let _server = project.train_at_our_tinker_server();
    let there = project.train("there", &[]);
    let distances = |run: &str| {
        let steps = std::fs::read_to_string(project.path(run).join("metrics.jsonl")).unwrap();
        let steps: Vec<Value> = steps.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        numbers(&steps, "kl_policy_base")
    };
    assert_eq!(distances("there"), distances("here"));
    assert_eq!(there.last().unwrap()["max_logprob_difference"], json!(0.0));
    assert_eq!(there.last().unwrap()["held_out_reward_after"], here["held_out_reward_after"]);
}

/// Pays for every third letter where the task is odd, and nothing where it is even.
const ODD_TASKS_PAY: &str = concat!(
    "command = [\"hello-agent\", \"{task}\"]\n",
    r#"grade = ["python3", "-c", "import os, re, sys; n = len(sys.stdin.read()); t = int(re.sub(r'\\D', '', os.environ['FULGURITE_TASK'])); print('{\"reward\": %d}' % (n % 3 * (t % 2)))"]"#
);

#[test]
fn groups_without_a_signal_are_refilled_up_to_a_limit_also_in_a_resumed_run() {
    let project = Project::new(ODD_TASKS_PAY, &SMALL.replace("max_steps = 5", "max_steps = 3"));
    let (steps, plain) = trained(&project, "plain", "");
    assert_eq!(numbers(&steps, "sampling/groups"), [3.0; 3]);
    let idle = |steps: &[Value]| numbers(steps, "sampling/groups_without_signal").iter().sum::<f64>();
    assert!(idle(&steps) > 0.0, "half of the tasks teach nothing");

    project.change_config("[trainer]\n", "[trainer]\ndynamic_sampling = { max_refills = 8 }\n");
    let mut steps = project.train("refilled", &[]);
    let refilled = steps.pop().unwrap();
    let teaching: Vec<f64> =
        std::iter::zip(numbers(&steps, "sampling/groups"), numbers(&steps, "sampling/groups_without_signal"))
            .map(|(groups, idle)| groups - idle)
            .collect();
    assert_eq!(teaching, [3.0; 3], "{steps:?}");
    assert!(idle(&steps) > 0.0 && weights(&refilled) != weights(&plain));
    let further: Vec<f64> = numbers(&steps, "sampling/groups").iter().map(|groups| groups - 3.0).collect();
    assert_eq!(numbers(&steps, "sampling/groups_refilled"), further);
    let wasted: f64 = numbers(&steps, "sampling/tokens_without_signal").iter().sum();
    assert_eq!(refilled["untrained_tokens"]["constant_group"].as_f64(), Some(wasted), "{refilled}");
    project.account("refilled", &refilled);

    project.train("resumed", &["--max-steps", "1"]);
    let resumed = project.train("resumed", &["--resume"]).pop().unwrap();
    assert!(
        weights(&resumed) == weights(&refilled),
        "the tasks that were tried in place of others are in the checkpoint"
    );
}

#[test]
fn tasks_that_are_too_hard_teach_nothing_and_those_that_are_half_solved_are_tried_most() {
    let project = Project::new(ODD_TASKS_PAY, &SMALL.replace("max_steps = 5", "max_steps = 4"));
    // One of three solves an odd task, if its answer has as many letters as pay most.
    project.change_config(
        "[trainer]\n",
        "[trainer]\ndynamic_sampling = { max_refills = 2, solve_rate = [0.5, 1.0], solved_at = 2.0, prioritize = true }\n",
    );
    let (steps, summary) = trained(&project, "window", "");
    let outside = numbers(&steps, "sampling/groups_outside_difficulty");
    assert!(!outside.is_empty(), "{steps:?}");
    let account = project.account("window", &summary);
    assert!(account["outside_difficulty"] > 0 && account["trained"] > 0, "{account:?}");
    project.train("resumed", &["--max-steps", "2"]);
    let resumed = project.train("resumed", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(&summary), "how often tasks were solved is in the checkpoint");

    let message = refused(&project, "dynamic_sampling = { solve_rate = [0.9, 0.1] }");
    assert!(
        message.contains("duplicate key") || message.contains("must be two shares from 0 to 1, in order"),
        "{message}"
    );
}

#[test]
fn aggregations_and_baselines_differ_and_entropy_is_exact() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 2"));
    let batch = "normalize_by_standard_deviation = true, standard_deviation_of = 'batch'";
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for (run, lines) in [
        ("sum", ""),
        ("token", "loss_aggregation = 'token_mean'\ngradient_clip_norm = 0"),
        ("rollout", "loss_aggregation = 'rollout_mean'\ngradient_clip_norm = 0"),
        ("dr", "loss_aggregation = 'rollout_sum'\ngradient_clip_norm = 0"),
        ("plus", &format!("advantages = {{ baseline = 'batch_mean', {batch} }}")),
        ("baseline", &format!("advantages = {{ baseline = 'group_mean', {batch} }}")),
        ("reinforce", "advantages = { baseline = 'none' }"),
    ] {
        let (steps, summary) = trained(&project, run, lines);
        assert_eq!(summary["max_logprob_difference"], json!(0.0), "{run}");
        let trained = weights(&summary);
        // Where all rollouts are as long, as they are at their limit, the mean over tokens is that over rollouts.
        assert!(run == "rollout" || !seen.contains(&trained), "{run} trains as another does");
        seen.push(trained);
        project.account(run, &summary);
        for step in &steps[..2] {
            let (exact, estimate) = (&step["optim/entropy_exact"], &step["optim/entropy"]);
            let (exact, estimate) = (exact.as_f64().unwrap(), estimate.as_f64().unwrap());
            // A vocabulary of 300 tokens; the estimate is a mean over a few hundred tokens.
            assert!(exact > 0.0 && exact < 300f64.ln() && (exact - estimate).abs() < 0.5, "{exact} and {estimate}");
        }
    }
}

#[test]
fn the_step_size_follows_its_schedule_after_the_warm_up() {
    let project = Project::new(UNEVEN, &SMALL.replace("learning_rate = 1e-3", "learning_rate = 0.5"));
    let (steps, _) = trained(&project, "linear", "learning_rate_schedule = 'linear'\nwarmup = 2\nmax_steps = 4");
    assert_eq!(numbers(&steps, "optim/lr"), [0.25, 0.5, 0.5, 0.25]);
}

#[test]
fn weight_decay_and_epsilon_reach_the_optimizer() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 1"));
    let trained = |run, keys| weights(&trained(&project, run, keys).1);
    let plain = trained("plain", "");
    assert_ne!(trained("decayed", "weight_decay = 0.5"), plain);
    assert_ne!(trained("epsilon", "epsilon = 1e-2"), plain);
    assert_eq!(trained("usual", "weight_decay = 0.0\nepsilon = 1e-8"), plain);
}

#[test]
fn a_rollout_that_its_limit_cut_off_earns_nothing_where_the_config_says_so() {
    // A model that has hardly learnt anything goes on to its limit nearly always.
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 1"));
    let (steps, plain) = trained(&project, "plain", "");
    let cut = steps[0]["env/all/stop/max_tokens"].as_f64().unwrap();
    assert!(cut > 0.5, "{}", steps[0]);
    assert!(plain["held_out_reward_before"].as_f64().unwrap() > 0.0, "{plain}");
    let (steps, clamped) = trained(&project, "clamped", "zero_reward_on_limit = true");
    let rollouts = steps[0]["env/all/total_episodes"].as_f64().unwrap();
    let earned = steps[0]["env/all/reward/total"].as_f64().unwrap();
    assert!(earned <= 2.0 * (1.0 - cut) + 1e-9, "{earned} of {rollouts}: {}", steps[0]);
    assert_eq!(steps[0]["env/all/zero_reward_on_limit"], json!(1.0), "the mean over those that it befell");
    let before = |summary: &Value| summary["held_out_reward_before"].as_f64().unwrap();
    assert!(before(&clamped) < before(&plain), "evaluations count as training does");
}

#[test]
fn a_base_model_whose_making_was_killed_is_gone_on_with() {
    let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", "max_steps = 1"));
    let slower = "max_steps = 400, cooldown_steps = 2, checkpoint_every = 5";
    project.change_config("max_steps = 5, cooldown_steps = 2", slower);
    project.train("undisturbed", &[]);
    let made = std::fs::read(project.path("model-1/model.safetensors")).unwrap();
    let optimizer = std::fs::read(project.path("model-1/optimizer.state")).unwrap();
    std::fs::remove_dir_all(project.path("model-1")).unwrap();

    let mut train = project.command("killed").stdout(Stdio::null()).spawn().unwrap();
    let checkpoint = project.path("model-1.training/checkpoints/000010");
    eventually("a checkpoint", || checkpoint.exists().then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    assert!(!project.path("model-1").exists(), "it was made before it was killed");
    project.train("again", &[]);
    assert!(std::fs::read(project.path("model-1/model.safetensors")).unwrap() == made);
    assert!(std::fs::read(project.path("model-1/optimizer.state")).unwrap() == optimizer);
    assert!(!project.path("model-1.training").exists());
    let metrics = std::fs::read_to_string(project.path("model-1/fulgurite_base_metrics.jsonl")).unwrap();
    let steps: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbered: Vec<u64> = steps.iter().map(|step| step["step"].as_u64().unwrap()).collect();
    assert_eq!(numbered, (0..=400).collect::<Vec<_>>(), "each step once");
    assert!(steps[0]["train_mean_nll"].as_f64() > steps[399]["train_mean_nll"].as_f64());
    assert_eq!(steps.iter().filter(|step| step["test/accuracy"].is_f64()).count(), 17, "400 / 25, and the end");

    // What was begun from another recipe is begun anew.
    std::fs::rename(project.path("model-1"), project.path("model-1.training")).unwrap();
    project.change_config("max_steps = 400", "max_steps = 5");
    project.train("other", &[]);
    assert!(std::fs::read(project.path("model-1/model.safetensors")).unwrap() != made);
}

#[test]
fn conversations_are_learnt_beside_rewards_also_in_minibatches_and_after_a_resume() {
    let project = Project::new(UNEVEN, SMALL);
    let alone = project.train("alone", &[]).pop().unwrap();
    let chat = |n: usize| {
        json!({ "messages": [
            { "role": "user", "content": format!("Say {n}") }, { "role": "assistant", "content": format!("I am {n}.") },
        ] })
    };
    let chats: String = (0..10).map(|n| format!("{}\n", chat(n))).collect();
    std::fs::write(project.path("chats.jsonl"), chats).unwrap();
    project.change_config(
        "[trainer]\n",
        "[trainer]\nconversations = { file = 'chats.jsonl', weight = 50.0, batch_size = 4 }\n",
    );
    let lines = project.train("mixed", &[]);
    let (mixed, steps) = lines.split_last().unwrap();
    assert!(weights(mixed) != weights(&alone));
    let nll = numbers(steps, "conversations/train_mean_nll");
    assert!(nll.len() == 5 && nll[4] < nll[0], "{nll:?}");
    assert_eq!(numbers(steps, "conversations/epoch"), [0.0, 0.0, 0.0, 1.0, 1.0], "4, 4 and 2 of them");
    assert_eq!(numbers(steps, "env/all/total_episodes"), [9.0; 5]);
    assert_eq!(mixed["max_logprob_difference"], json!(0.0));
    project.account("mixed", mixed);
    project.train("resumed", &["--max-steps", "2"]);
    let resumed = project.train("resumed", &["--resume"]).pop().unwrap();
    assert!(weights(&resumed) == weights(mixed), "the place in the conversations is in the checkpoint");

    project.change_config("[trainer]\n", "[trainer]\nschedule = { minibatches = 1 }\n");
    let parts = project.train("parts", &[]).pop().unwrap();
    assert!(weights(&parts) == weights(mixed));
    project.change_config("schedule = { minibatches = 1 }\n", "substeps = 2\n");
    project.train("substeps", &[]);
    project.train_adapters(4);
    let _server = project.train_at_our_tinker_server();
    let there = project.train("there", &[]);
    let nll = numbers(&there, "conversations/train_mean_nll");
    assert!(nll.len() == 5 && nll[0].is_finite(), "{there:?}");
}

#[test]
fn conversations_that_cannot_be_learnt_are_refused_before_anything_is_sampled() {
    let project = Project::new(UNEVEN, SMALL);
    let assert_refused = |lines: &str, expected: &str| {
        let message = refused(&project, &format!("conversations = {lines}"));
        assert!(message.contains(expected), "{message}");
    };
    assert_refused("{ file = 'none.jsonl' }", "[trainer] conversations.file: cannot read");
    std::fs::write(project.path("chats.jsonl"), "{\"messages\": [{\"role\": \"king\", \"content\": \"\"}]}\n").unwrap();
    assert_refused("{ file = 'chats.jsonl' }", "chats.jsonl");
    assert_refused("{ file = 'chats.jsonl', weight = 0.0 }", "[trainer] conversations.weight is 0, but must be");
    assert_refused(
        "{ file = 'chats.jsonl', batch_size = 0 }",
        "[trainer] conversations.batch_size is 0, but must be at least 1",
    );
}
