//! What is amiss with a run, by what is recorded of it. Nothing here reads or writes anything.

use std::collections::BTreeMap;

use fulgurite_types::ServingState;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::servers::ServerFacts;
use super::stale_harvest::StaleCalls;
use crate::runs::progress::RunProgress;

/// What is recorded of a run.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Metrics of its steps, oldest first.
    pub steps: Vec<Map<String, Value>>,
    /// Its rollouts, by status.
    pub rollouts: BTreeMap<String, u64>,
    /// How far it has come.
    pub progress: RunProgress,
    /// Whether any of its rollouts has a recorded model call.
    pub has_calls: bool,
    /// Calls of its latest training rollouts that declared tools of which the model was not told.
    pub calls_with_unseen_tools: u64,
    /// Groups of its latest training rollouts that have worlds.
    pub groups_with_worlds: u64,
    /// Those of them whose members did not begin in the same state.
    pub groups_of_different_worlds: u64,
    /// Answers of its latest training rollouts.
    pub answers: Vec<Answer>,
    /// What the servers of its store sample from.
    pub servers: ServerFacts,
}

/// What a rollout answered last, and what it earned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The task.
    pub task: Value,
    /// The text of its last model call.
    pub answer: String,
    /// Its reward.
    pub reward: f64,
    /// The reward's named components.
    pub components: BTreeMap<String, f64>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The run cannot learn as it is.
    Error,
    /// It learns worse than it could, or something else than is meant.
    Warning,
}

/// Something that is amiss.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What, by a name that does not change.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What shows it, in words.
    pub evidence: String,
    /// The numbers of that.
    pub numbers: Value,
    /// What to do about it.
    pub what_to_do: &'static str,
    /// Answers that show it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
}

/// Steps at the end of a run that are looked at, and at its beginning.
const LATEST: usize = 10;
/// Steps at an end that a drift is measured between.
const EDGE: usize = 3;
/// Answers that are shown.
const SHOWN: usize = 3;
/// Ended rollouts by which a run is judged while others are still played.
const FEW_ROLLOUTS: u64 = 4;

/// All that is amiss, the worst first.
pub fn findings(facts: &RunFacts) -> Vec<Finding> {
    let all: [fn(&RunFacts) -> Option<Finding>; 15] = [
        divergence,
        no_calls,
        servers_behind,
        tools_not_shown,
        different_worlds,
        failed_rollouts,
        constant_groups,
        truncation,
        parse_failures,
        entropy,
        ratio,
        stale_harvest,
        length_drift,
        repeated_answer,
        one_component,
    ];
    let mut found: Vec<Finding> = all.iter().filter_map(|find| find(facts)).collect();
    found.sort_by_key(|finding| finding.severity);
    found
}

fn divergence(facts: &RunFacts) -> Option<Finding> {
    let diverged =
        |step: &Map<String, Value>| Some((step.get("step").cloned(), step.get("optim/diverged_nll")?.as_f64()));
    let (step, nll) = facts.steps.iter().find_map(diverged)?;
    let cost = nll.map_or_else(|| "no finite number of".to_owned(), |nll| format!("{nll:.1}"));
    Some(Finding {
        name: "divergence",
        severity: Severity::Error,
        evidence: format!("the rows of a step cost {cost} nats a token: the weights know nothing any more"),
        numbers: json!({ "step": step, "nll": nll }),
        what_to_do: "lower [trainer] learning_rate, or warm up to it; begin anew from a checkpoint that was made before",
        answers: Vec::new(),
    })
}

fn no_calls(facts: &RunFacts) -> Option<Finding> {
    let ended = facts.ended()?.all;
    (!facts.has_calls).then(|| Finding {
        name: "no_calls",
        severity: Severity::Error,
        evidence: format!("{ended} rollouts have ended, and not one model call of theirs is recorded"),
        numbers: json!({ "rollouts": ended, "calls": 0 }),
        what_to_do: "have the agent take its base URL from OPENAI_BASE_URL or ANTHROPIC_BASE_URL and its key from \
                     OPENAI_API_KEY or ANTHROPIC_API_KEY; look for a URL that is written into its code or a .env file",
        answers: Vec::new(),
    })
}

fn servers_behind(facts: &RunFacts) -> Option<Finding> {
    let behind = facts.servers.behind();
    let shown: Vec<&str> = behind.iter().map(|(_, text)| text.as_str()).collect();
    let refuses = behind.iter().any(|(served, _)| served.state == ServingState::Refusing);
    (!behind.is_empty()).then(|| Finding {
        name: "servers_behind",
        severity: if refuses { Severity::Error } else { Severity::Warning },
        evidence: shown.join("; "),
        numbers: json!({ "behind": behind.len(), "servers": facts.servers.current().count() }),
        what_to_do: "let each server see the files of the weights under the same path: it tries again by itself; start a \
                     server anew that is not seen, and look at its log",
        answers: Vec::new(),
    })
}

fn tools_not_shown(facts: &RunFacts) -> Option<Finding> {
    let calls = facts.calls_with_unseen_tools;
    (calls > 0).then(|| Finding {
        name: "tools_not_shown",
        severity: Severity::Error,
        evidence: format!("{calls} of the latest calls declared tools that the model's template does not show"),
        numbers: json!({ "calls": calls }),
        what_to_do: "set tools = \"preamble\" of [[models]], which tells the model of tools in the system message, or take a \
                     model whose template shows them (fulgurite template check MODEL_DIR)",
        answers: Vec::new(),
    })
}

fn different_worlds(facts: &RunFacts) -> Option<Finding> {
    let (different, all) = (facts.groups_of_different_worlds, facts.groups_with_worlds);
    (different > 0).then(|| Finding {
        name: "different_worlds",
        severity: Severity::Warning,
        evidence: format!("in {different} of the latest {all} groups the members did not begin in the same world"),
        numbers: json!({ "groups": different, "of": all }),
        what_to_do: "a group is compared with its own mean, so that its members need one state to begin from: have the setup \
                     draw what it draws by FULGURITE_WORLD_SEED, and leave out times and ids",
        answers: Vec::new(),
    })
}

fn failed_rollouts(facts: &RunFacts) -> Option<Finding> {
    let Ended { failed, all: ended } = facts.ended()?;
    let share = failed as f64 / ended as f64;
    (share >= 0.2).then(|| Finding {
        name: "failed_rollouts",
        severity: if failed == ended { Severity::Error } else { Severity::Warning },
        evidence: format!("{failed} of {ended} rollouts failed"),
        numbers: json!({ "failed": failed, "ended": ended, "share": share }),
        what_to_do: "fulgurite rollouts --run RUN --status failed tells why each did",
        answers: Vec::new(),
    })
}

fn constant_groups(facts: &RunFacts) -> Option<Finding> {
    let steps = facts.latest();
    let bad = mean(steps, "env/all/by_group/frac_all_bad")?;
    let good = mean(steps, "env/all/by_group/frac_all_good")?;
    let without = steps.iter().filter(|step| step.get("optim/datums").is_some_and(|datums| datums == 0)).count();
    let is_stuck = without == steps.len();
    if good > bad && facts.progress == RunProgress::MetStopRule {
        // It has learnt what it was to learn.
        return None;
    }
    let had_signal = mean(&facts.steps[..EDGE.min(facts.steps.len())], "env/all/by_group/frac_all_good")? < 0.5;
    let shares =
        format!("{:.0} % of groups earned the same bad reward, {:.0} % the same good one", 100.0 * bad, 100.0 * good);
    (bad + good >= 0.8 || is_stuck).then(|| Finding {
        name: "constant_groups",
        severity: if is_stuck { Severity::Error } else { Severity::Warning },
        evidence: format!("{shares}, in the last {} steps; {without} of them had no gradient", steps.len()),
        numbers: json!({ "all_bad": bad, "all_good": good, "steps": steps.len(), "without_gradient": without }),
        what_to_do: if bad >= good {
            "the tasks are too hard or the grader takes nothing: look at the answers, pay for parts of a solution, \
             begin with easier tasks, or teach the model by examples first (objective = \"sft\")"
        } else if had_signal {
            "the tasks are learnt: end the run here ([trainer] stop ends the next one in time), or add harder tasks"
        } else {
            "the tasks are too easy, or the grader pays for anything: take harder tasks, or grade more strictly"
        },
        answers: facts.shown(),
    })
}

fn truncation(facts: &RunFacts) -> Option<Finding> {
    let share = mean(facts.latest(), "env/all/stop/max_tokens")?;
    (share >= 0.25).then(|| Finding {
        name: "truncation",
        severity: Severity::Warning,
        evidence: format!("{:.0} % of rollouts ended because an answer was cut off", 100.0 * share),
        numbers: json!({ "share": share }),
        what_to_do: "raise the agent's max_tokens, take a model with a longer context, or set [trainer] \
                     zero_reward_on_limit = true so that running into the limit never pays",
        answers: Vec::new(),
    })
}

fn parse_failures(facts: &RunFacts) -> Option<Finding> {
    let share = mean(facts.latest(), "env/all/stop/parse_error")?;
    (share >= 0.1).then(|| Finding {
        name: "parse_failures",
        severity: Severity::Warning,
        evidence: format!("{:.0} % of rollouts ended with an answer that could not be parsed", 100.0 * share),
        numbers: json!({ "share": share }),
        what_to_do: "fulgurite template check MODEL_DIR tells what the template shows; name the model's format by \
                     [[models]] renderer",
        answers: facts.shown(),
    })
}

fn entropy(facts: &RunFacts) -> Option<Finding> {
    let (first, last) = facts.drift("optim/entropy")?;
    // A policy that has reached its goal may well be certain.
    let is_collapsed = last < 0.02 && first > 4.0 * last && facts.progress != RunProgress::MetStopRule;
    let is_growing = last > 2.0 * first && last > first + 1.0;
    (is_collapsed || is_growing).then(|| Finding {
        name: if is_collapsed { "entropy_collapse" } else { "entropy_growth" },
        severity: Severity::Warning,
        evidence: format!("entropy went from {first:.3} to {last:.3} nats a token"),
        numbers: json!({ "first": first, "last": last }),
        what_to_do: if is_collapsed {
            "nothing is tried any more: lower the learning rate, add [trainer] kl, or stop here if the score is what it \
             should be"
        } else {
            "the policy comes apart: lower the learning rate, or take a loss with a trust region ([trainer] loss = \
             \"ppo\")"
        },
        answers: Vec::new(),
    })
}

fn ratio(facts: &RunFacts) -> Option<Finding> {
    let greatest = |key: &str| numbers(facts.latest(), key).into_iter().reduce(f64::max);
    let (ratio, kl) = (greatest("optim/ratio_max")?, greatest("optim/kl_sample_train_v2")?);
    (ratio > 20.0 || kl > 0.05).then(|| Finding {
        name: "ratio_out_of_bounds",
        severity: Severity::Warning,
        evidence: format!("weights that sampled and weights that train differ: ratio up to {ratio:.1}, {kl:.4} nats a token"),
        numbers: json!({ "ratio_max": ratio, "kl_sample_train_v2": kl }),
        what_to_do: "lower max_staleness, set [trainer] importance_mask, or look at the host: its logprobs may be of other \
                     weights or another tokenizer",
        answers: Vec::new(),
    })
}

fn stale_harvest(facts: &RunFacts) -> Option<Finding> {
    // The sum of no numbers is -0.
    let sum = |key: &str| numbers(facts.latest(), key).into_iter().fold(0.0, |sum, number| sum + number);
    let behind = numbers(facts.latest(), "harvest/outdated_by").into_iter().fold(0.0, f64::max);
    let stale = StaleCalls { outdated: sum("harvest/outdated"), behind, foreign: sum("harvest/foreign") };
    Some(Finding {
        name: "stale_harvest",
        severity: Severity::Warning,
        evidence: stale.evidence(facts.latest().len()),
        numbers: json!({ "outdated": stale.outdated, "behind": behind, "foreign": stale.foreign }),
        what_to_do: stale.what_to_do()?,
        answers: Vec::new(),
    })
}

fn length_drift(facts: &RunFacts) -> Option<Finding> {
    let (first, last) = facts.drift("env/all/ac_tokens_per_turn")?;
    let factor = last / first;
    (!(0.4..=2.5).contains(&factor)).then(|| Finding {
        name: "length_drift",
        severity: Severity::Warning,
        evidence: format!("answers went from {first:.1} to {last:.1} tokens a turn"),
        numbers: json!({ "first": first, "last": last, "factor": factor }),
        what_to_do: "look whether the grader pays for length; the aggregation matters too ([trainer] loss_aggregation)",
        answers: facts.shown(),
    })
}

fn repeated_answer(facts: &RunFacts) -> Option<Finding> {
    let mut counts: BTreeMap<&str, Vec<&Answer>> = BTreeMap::new();
    for answer in &facts.answers {
        counts.entry(answer.answer.trim()).or_default().push(answer);
    }
    let (text, same) = counts.into_iter().max_by_key(|(_, same)| same.len())?;
    let mut tasks: Vec<String> = same.iter().map(|answer| answer.task.to_string()).collect();
    tasks.sort_unstable();
    tasks.dedup();
    let share = same.len() as f64 / facts.answers.len() as f64;
    (facts.answers.len() >= 8 && share >= 0.5 && tasks.len() >= 3).then(|| Finding {
        name: "repeated_answer",
        severity: Severity::Warning,
        evidence: format!("{} of the last {} answers are one, to {} tasks", same.len(), facts.answers.len(), tasks.len()),
        numbers: json!({ "answers": facts.answers.len(), "same": same.len(), "tasks": tasks.len(), "text": text }),
        what_to_do: "if the reward is good, the grader takes one answer for all tasks: mend it; else nothing is tried any \
                     more: lower the learning rate, or begin anew from an earlier checkpoint",
        answers: same.into_iter().take(SHOWN).cloned().collect(),
    })
}

fn one_component(facts: &RunFacts) -> Option<Finding> {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, value) in facts.answers.iter().flat_map(|answer| &answer.components) {
        values.entry(name).or_default().push(*value);
    }
    let variances: BTreeMap<&str, f64> = values.iter().map(|(name, values)| (*name, variance(values))).collect();
    let sum: f64 = variances.values().sum();
    let (name, greatest) = variances.iter().max_by(|one, other| one.1.total_cmp(other.1))?;
    let share = greatest / sum;
    (variances.len() >= 2 && facts.answers.len() >= 8 && share >= 0.95).then(|| Finding {
        name: "one_component",
        severity: Severity::Warning,
        evidence: format!("{:.0} % of what rewards differ by is the component `{name}`", 100.0 * share),
        numbers: json!({ "component": name, "share": share, "variances": variances }),
        what_to_do: "the others teach nothing beside it: bring the components to one scale, or leave out what is always the \
                     same",
        answers: Vec::new(),
    })
}

/// Rollouts that have ended.
struct Ended {
    failed: u64,
    all: u64,
}

impl RunFacts {
    /// The rollouts that have ended, where they are enough to judge by: a few, or all that there are.
    fn ended(&self) -> Option<Ended> {
        let of = |statuses: &[&str]| statuses.iter().filter_map(|status| self.rollouts.get(*status)).sum::<u64>();
        let (failed, all) = (of(&["failed"]), of(&["failed", "succeeded"]));
        let in_flight = of(&["queuing", "preparing", "running", "requeuing"]);
        (all >= FEW_ROLLOUTS || all > 0 && in_flight == 0).then_some(Ended { failed, all })
    }

    /// The last steps that learnt from rollouts.
    fn latest(&self) -> &[Map<String, Value>] {
        let end = self.steps.iter().rposition(|step| step.contains_key("optim/datums")).map_or(0, |last| last + 1);
        &self.steps[end.saturating_sub(LATEST)..end]
    }

    /// Means of a metric over the first steps that have it, and over the last.
    fn drift(&self, key: &str) -> Option<(f64, f64)> {
        let values = numbers(&self.steps, key);
        (values.len() >= 2 * EDGE).then(|| {
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            (mean(&values[..EDGE]), mean(&values[values.len() - EDGE..]))
        })
    }

    fn shown(&self) -> Vec<Answer> {
        self.answers.iter().rev().take(SHOWN).cloned().collect()
    }
}

fn numbers(steps: &[Map<String, Value>], key: &str) -> Vec<f64> {
    steps.iter().filter_map(|step| step.get(key)?.as_f64()).collect()
}

fn mean(steps: &[Map<String, Value>], key: &str) -> Option<f64> {
    let values = numbers(steps, key);
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use fulgurite_types::ServedWeights;

    use super::*;

    fn steps(of: impl Fn(u32) -> Value) -> Vec<Map<String, Value>> {
        (0..12).map(|step| of(step).as_object().unwrap().clone()).collect()
    }

    fn healthy(step: u32) -> Value {
        json!({
            "step": step, "optim/datums": 8, "optim/entropy": 1.0, "optim/ratio_max": 1.0, "optim/kl_sample_train_v2": 0.0,
            "env/all/by_group/frac_all_bad": 0.2, "env/all/by_group/frac_all_good": 0.1,
            "env/all/stop/max_tokens": 0.0, "env/all/stop/parse_error": 0.0, "env/all/ac_tokens_per_turn": 20.0,
        })
    }

    fn with(key: &'static str, value: impl Fn(u32) -> f64) -> RunFacts {
        let steps = steps(|step| {
            let mut metrics = healthy(step);
            metrics[key] = json!(value(step));
            metrics
        });
        let rollouts = BTreeMap::from([("succeeded".to_owned(), 9)]);
        RunFacts { steps, rollouts, has_calls: true, ..RunFacts::default() }
    }

    fn names(facts: &RunFacts) -> Vec<&'static str> {
        findings(facts).into_iter().map(|finding| finding.name).collect()
    }

    fn answer(task: usize, text: &str, components: &[(&str, f64)]) -> Answer {
        let components = components.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Answer { task: json!(task), answer: text.to_owned(), reward: 0.0, components }
    }

    #[test]
    fn nothing_is_found_in_a_run_that_learns_and_in_one_that_has_not_begun() {
        assert_eq!(names(&with("step", f64::from)), Vec::<&str>::new());
        assert_eq!(names(&RunFacts::default()), Vec::<&str>::new());
    }

    #[test]
    fn each_metric_out_of_bounds_is_found_and_just_within_is_not() {
        let rising = |from: f64, to: f64| move |step| if step < 6 { from } else { to };
        for (key, from, to, within, name) in [
            ("env/all/by_group/frac_all_bad", 0.9, 0.9, 0.3, "constant_groups"),
            ("env/all/stop/max_tokens", 0.9, 0.9, 0.2, "truncation"),
            ("env/all/stop/parse_error", 0.1, 0.2, 0.05, "parse_failures"),
            ("optim/entropy", 1.0, 0.01, 0.1, "entropy_collapse"),
            ("optim/entropy", 1.0, 3.0, 1.9, "entropy_growth"),
            ("optim/ratio_max", 1.0, 50.0, 5.0, "ratio_out_of_bounds"),
            ("optim/kl_sample_train_v2", 0.0, 0.2, 0.01, "ratio_out_of_bounds"),
            ("harvest/outdated", 0.0, 98.0, 0.0, "stale_harvest"),
            ("harvest/foreign", 0.0, 1.0, 0.0, "stale_harvest"),
            ("env/all/ac_tokens_per_turn", 20.0, 80.0, 40.0, "length_drift"),
            ("env/all/ac_tokens_per_turn", 20.0, 5.0, 12.0, "length_drift"),
        ] {
            assert_eq!(names(&with(key, rising(from, to))), [name], "{key}");
            assert_eq!(names(&with(key, rising(within, within))), Vec::<&str>::new(), "{key}");
        }
    }

    #[test]
    fn weights_that_left_all_bounds_are_an_error() {
        let mut facts = with("step", f64::from);
        facts.steps[3].insert("optim/diverged_nll".to_owned(), json!(4711.5));
        let found = findings(&facts);
        assert_eq!((found[0].name, found[0].severity), ("divergence", Severity::Error));
        assert!(found[0].evidence.contains("4711.5 nats"), "{}", found[0].evidence);
        facts.steps[3].insert("optim/diverged_nll".to_owned(), Value::Null);
        assert_eq!(findings(&facts)[0].name, "divergence");
    }

    #[test]
    fn a_run_without_a_gradient_is_an_error_with_answers() {
        let mut facts = with("optim/datums", |_| 0.0);
        for step in &mut facts.steps {
            step.insert("optim/datums".to_owned(), json!(0));
            step.insert("env/all/by_group/frac_all_good".to_owned(), json!(1.0));
            step.insert("env/all/by_group/frac_all_bad".to_owned(), json!(0.0));
        }
        facts.answers = (0..5).map(|task| answer(task, &format!("I am {task}."), &[])).collect();
        let found = findings(&facts);
        assert_eq!((found[0].name, found[0].severity), ("constant_groups", Severity::Error));
        assert_eq!(found[0].answers.len(), 3);
        assert!(found[0].what_to_do.contains("too easy"));
        assert_eq!(found[0].numbers["without_gradient"], 10);
    }

    #[test]
    fn rollouts_without_calls_and_failed_ones_are_found() {
        let rollouts = BTreeMap::from([("failed".to_owned(), 3), ("succeeded".to_owned(), 1)]);
        let facts = RunFacts { rollouts, ..RunFacts::default() };
        assert_eq!(names(&facts), ["no_calls", "failed_rollouts"]);
        assert_eq!(findings(&facts)[1].numbers["share"], 0.75);
    }

    #[test]
    fn a_run_whose_first_rollouts_are_still_played_has_no_findings() {
        let run = |queuing: u64, running: u64, succeeded: u64, failed: u64| {
            let of = [("queuing", queuing), ("running", running), ("succeeded", succeeded), ("failed", failed)];
            let rollouts = of.into_iter().map(|(status, count)| (status.to_owned(), count)).collect();
            RunFacts { rollouts, ..RunFacts::default() }
        };
        assert_eq!(names(&run(504, 8, 0, 0)), Vec::<&str>::new(), "none has ended");
        assert_eq!(names(&RunFacts { has_calls: true, ..run(504, 4, 4, 0) }), Vec::<&str>::new(), "calls are recorded");
        assert_eq!(names(&run(504, 7, 0, 1)), Vec::<&str>::new(), "one failure among the first is no share yet");
        assert_eq!(names(&run(504, 4, 4, 0)), ["no_calls"]);
        assert_eq!(names(&run(0, 0, 1, 0)), ["no_calls"], "all have ended");
    }

    #[test]
    fn a_run_that_met_its_stop_rule_is_not_told_that_its_tasks_are_too_easy() {
        let learnt = |step: u32| if step < 6 { 0.2 } else { 0.95 };
        let met = |facts: RunFacts| RunFacts { progress: RunProgress::MetStopRule, ..facts };
        let good = "env/all/by_group/frac_all_good";
        assert_eq!(names(&met(with(good, learnt))), Vec::<&str>::new());
        assert_eq!(names(&met(with("optim/entropy", |step| if step < 6 { 1.0 } else { 0.01 }))), Vec::<&str>::new());
        // While it goes on, and at the limit of its updates, it is said what that means.
        let facts = with(good, |step| if step < 3 { 0.2 } else { 0.95 });
        assert!(findings(&facts)[0].what_to_do.contains("the tasks are learnt"));
        let facts = RunFacts { progress: RunProgress::Ended, ..with(good, |_| 0.95) };
        assert!(findings(&facts)[0].what_to_do.contains("too easy"));
        // What no member solves is not what a stop rule asks for.
        assert_eq!(names(&met(with("env/all/by_group/frac_all_bad", |_| 0.95))), ["constant_groups"]);
    }

    #[test]
    fn tools_that_the_model_never_hears_of_are_found() {
        let facts = RunFacts { calls_with_unseen_tools: 4, ..with("step", f64::from) };
        assert_eq!(names(&facts), ["tools_not_shown"]);
    }

    #[test]
    fn a_server_that_takes_no_calls_for_want_of_new_weights_is_an_error() {
        let served = |state| ServedWeights {
            server_id: "s".into(),
            url: "http://s".into(),
            model: "m".into(),
            version: Some(3),
            state,
            message: None,
            time: 9.0,
        };
        let published = json!({
            "position": 1, "model": "m", "version": 4, "weights_id": "0".repeat(32), "parent_id": null, "run_id": null,
            "step": null, "time": 1.0, "source": {}, "cause": "update", "published_time": 1.0,
        });
        for (state, severity) in [(ServingState::Behind, Severity::Warning), (ServingState::Refusing, Severity::Error)]
        {
            let published = vec![serde_json::from_value(published.clone()).unwrap()];
            let servers = ServerFacts { published, served: vec![served(state)] };
            let found = findings(&RunFacts { servers, ..RunFacts::default() }).remove(0);
            assert_eq!((found.name, found.severity, &found.numbers["behind"]), ("servers_behind", severity, &json!(1)));
        }
    }

    #[test]
    fn groups_that_do_not_begin_in_one_world_are_found() {
        let facts = RunFacts { groups_with_worlds: 4, ..with("step", f64::from) };
        assert_eq!(names(&facts), Vec::<&str>::new());
        assert_eq!(names(&RunFacts { groups_of_different_worlds: 1, ..facts }), ["different_worlds"]);
    }

    #[test]
    fn one_answer_to_several_tasks_is_found() {
        let mut facts =
            RunFacts { answers: (0..8).map(|task| answer(task, "yes", &[])).collect(), ..RunFacts::default() };
        assert_eq!(names(&facts), ["repeated_answer"]);
        facts.answers = (0..8).map(|_| answer(1, "yes", &[])).collect();
        assert_eq!(names(&facts), Vec::<&str>::new(), "one task has one answer");
        facts.answers = (0..8).map(|task| answer(task, &task.to_string(), &[])).collect();
        assert_eq!(names(&facts), Vec::<&str>::new());
    }

    #[test]
    fn a_component_that_hides_the_others_is_found() {
        let of = |scale: f64| RunFacts {
            answers: (0..8u8)
                .map(|n| {
                    let parity = f64::from(n % 2);
                    answer(n.into(), &n.to_string(), &[("style", parity), ("length", scale * parity)])
                })
                .collect(),
            ..RunFacts::default()
        };
        assert_eq!(names(&of(100.0)), ["one_component"]);
        assert_eq!(names(&of(1.0)), Vec::<&str>::new());
    }
}
