//! What became of a sweep's arms, as a table or as JSON.

use fulgurite_lab::sweep::results::{ArmResult, Spread};
use fulgurite_lab::visible::cut;
use fulgurite_terminal::output;
use fulgurite_terminal::table::Columns;
use serde_json::json;

/// Prints the arms, the best first.
pub fn print(arms: &[ArmResult], json: bool) {
    if json {
        for arm in arms {
            let mut line = json!(arm);
            line["event"] = json!("arm");
            output::line(line);
        }
        return;
    }
    output::line("");
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
    columns.print();
}
