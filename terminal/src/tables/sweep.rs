//! A sweep's arms as a table.

use fulgurite_lab::sweep::results::{ArmResult, Spread};
use fulgurite_lab::visible::cut;

use crate::table::Columns;

/// The arms, in their order.
pub fn sweep_lines(arms: &[ArmResult]) -> Vec<String> {
    let mut columns = Columns::new(&["arm", "state", "held-out", "reward", "updates", "minutes", "tokens", "error"]);
    for arm in arms {
        let updates = arm.runs.iter().map(|run| run.updates);
        let (least, most) = (updates.clone().min().unwrap_or(0), updates.max().unwrap_or(0));
        columns.push(vec![
            arm.arm.clone(),
            arm.state.as_str().to_owned(),
            Spread::text(arm.held_out),
            Spread::text(arm.reward),
            if least == most { least.to_string() } else { format!("{least} to {most}") },
            format!("{:.1}", arm.minutes),
            arm.tokens.to_string(),
            arm.error.as_deref().map_or(String::new(), cut),
        ]);
    }
    columns.lines()
}
