//! A run in lines for people.

use super::registry::{HeldOut, HeldOutMeasure, RunEntry};
use crate::time;
use crate::visible::visible_line;

/// A score with its sign; what rounds to zero has a plus.
pub fn signed(value: f64) -> String {
    let rounded = (value * 1000.0).round() / 1000.0;
    format!("{:+.3}", if rounded == 0.0 { 0.0 } else { value })
}

/// What is told of a run, name by name.
pub fn lines(entry: &RunEntry) -> Vec<(&'static str, String)> {
    let score = |score: Option<HeldOut>| {
        score.map_or("-".to_owned(), |score| format!("{} after {} updates", signed(score.value), score.step))
    };
    let rollouts: Vec<String> = entry.rollouts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let number = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.6}"));
    let mut lines = vec![
        ("run", entry.run_id.clone()),
        ("state", entry.state.as_str().to_owned()),
        ("objective", entry.objective.clone()),
        ("seed", entry.seed.to_string()),
        ("started", time::text(entry.start_time)),
        ("updates", entry.updates.to_string()),
        ("checkpoints", entry.checkpoints.to_string()),
        ("held-out", entry.measure.map_or("-", HeldOutMeasure::as_str).to_owned()),
        ("held-out, first", score(entry.first)),
        ("held-out, best", score(entry.best)),
        ("held-out, last", score(entry.last)),
        ("seconds", format!("{:.1}", entry.wall_seconds)),
        ("rollouts", if rollouts.is_empty() { "0".to_owned() } else { rollouts.join(", ") }),
        ("tokens sampled", entry.tokens.sampled.to_string()),
        ("tokens prefilled", format!("{} ({} in whole prompts)", entry.tokens.prefilled, entry.tokens.prompts)),
        ("tokens trained", entry.tokens.trained.to_string()),
        ("tokens of scores", entry.tokens.evaluation.to_string()),
        ("tokens thrown away", entry.tokens.thrown_away.to_string()),
    ];
    if let Some(failure) = &entry.failure {
        lines.insert(2, ("error", visible_line(failure)));
    }
    if let Some(cost) = &entry.cost {
        lines.push(("cost", format!("{} {}", number(Some(cost.total)), cost.currency)));
        lines.push(("cost of a rollout", number(cost.per_rollout)));
        lines.push(("cost of a point", number(cost.per_reward_point)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_zero_is_not_negative() {
        assert_eq!([-0.0004, -0.0, 0.0, 0.0004].map(signed), ["+0.000"; 4]);
        assert_eq!([-0.0006, 0.5, -1.25].map(signed), ["-0.001", "+0.500", "-1.250"]);
    }
}
