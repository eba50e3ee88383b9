//! The table of a run's updates: its columns, its header and its rows.

use serde_json::{Map, Value};

/// The table's columns that depend on the run: the held-out tasks' named components, in the order in which they appeared.
#[derive(Default)]
pub(super) struct StepColumns {
    /// The names of the components.
    pub(super) components: Vec<String>,
    /// Whether the last header has all of them.
    are_shown: bool,
}

impl StepColumns {
    /// Adds a column for each component of a step that has none yet.
    pub(super) fn recall(&mut self, metrics: &Map<String, Value>) {
        for name in component_names(metrics) {
            if !self.components.contains(&name) {
                self.components.push(name);
                self.are_shown = false;
            }
        }
    }

    /// As [`StepColumns::recall`], for a step that is about to be shown; tells whether a header has to come before it.
    pub(super) fn take_up(&mut self, metrics: &Map<String, Value>) -> bool {
        self.recall(metrics);
        !std::mem::replace(&mut self.are_shown, true)
    }
}

/// The held-out tasks' named components, in the order of the metrics.
fn component_names(metrics: &Map<String, Value>) -> Vec<String> {
    let reserved = ["reward/total", "total_episodes", "failed_episodes"];
    let names = metrics.keys().filter_map(|key| key.strip_prefix("test/env/all/"));
    names.filter(|name| !reserved.contains(name)).map(str::to_owned).collect()
}

/// The table's first line.
pub(super) fn header(components: &[String]) -> String {
    let mut line = format!("{:>5} {:>8} {:>9}", "step", "train", "held-out");
    for name in components {
        line.push_str(&format!(" {name:>9}"));
    }
    line + &format!(" {:>9} {:>9} {:>9} {:>8} {:>8}", "kl", "max diff", "grad/tok", "clip", "seconds")
}

/// The line of a step.
pub(super) fn row(step: u64, metrics: &Map<String, Value>, components: &[String]) -> String {
    let number = |key: &str| metrics.get(key).and_then(Value::as_f64);
    let fixed = |key: &str| number(key).map_or("-".to_owned(), |value| format!("{value:+.3}"));
    let tiny = |key: &str| number(key).map_or("-".to_owned(), |value| format!("{value:.1e}"));
    let held_out = fixed("test/env/all/reward/total");
    let mut line = format!("{step:>5} {:>8} {held_out:>9}", fixed("env/all/reward/total"));
    for name in components {
        line.push_str(&format!(" {:>9}", fixed(&format!("test/env/all/{name}"))));
    }
    let seconds = number("time/total").map_or("-".to_owned(), |value| format!("{value:.1}"));
    let short = |key: &str| number(key).map_or("-".to_owned(), |value| format!("{value:.3}"));
    let (gradient, clip) = (short("optim/gradient_norm_per_token"), short("optim/clip_factor"));
    line + &format!(
        " {:>9} {:>9} {gradient:>9} {clip:>8} {seconds:>8}",
        tiny("optim/kl_sample_train_v1"),
        tiny("optim/logprob_difference_max"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_lines_up_with_its_header() {
        let metrics = json!({
            "env/all/reward/total": -0.25, "test/env/all/reward/total": 0.5, "test/env/all/exact": 0.75,
            "test/env/all/total_episodes": 96, "optim/kl_sample_train_v1": 0.0, "time/total": 1.25,
            "optim/gradient_norm_per_token": 0.277, "optim/clip_factor": 0.0018,
        });
        let metrics = metrics.as_object().unwrap();
        let components = component_names(metrics);
        assert_eq!(components, ["exact"]);
        insta::assert_snapshot!(format!("{}\n{}", header(&components), row(3, metrics, &components)), @r"
         step    train  held-out     exact        kl  max diff  grad/tok     clip  seconds
            3   -0.250    +0.500    +0.750     0.0e0         -     0.277    0.002      1.2
        ");
    }

    #[test]
    fn a_component_that_appears_later_has_a_column_from_then_on() {
        let step = |metrics: Value| metrics.as_object().unwrap().clone();
        let (first, plain) = (step(json!({ "test/env/all/exact": 1 })), step(json!({ "env/all/reward/total": 1 })));
        let later = step(json!({ "test/env/all/brief": 1, "test/env/all/exact": 1 }));
        let mut columns = StepColumns::default();
        assert!(columns.take_up(&first) && !columns.take_up(&plain));
        assert!(columns.take_up(&later) && !columns.take_up(&later));
        assert_eq!(columns.components, ["exact", "brief"]);

        let mut resumed = StepColumns::default();
        [&first, &plain, &later].into_iter().for_each(|step| resumed.recall(step));
        assert!(resumed.take_up(&plain) && !resumed.take_up(&later));
        assert_eq!(resumed.components, columns.components);
    }
}
