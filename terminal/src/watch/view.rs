//! How a watched run is drawn on a terminal.

use crossterm::style::Color;
use fulgurite_lab::doctor::findings::Severity;
use fulgurite_lab::watched::{Alarm, LastAnswer, ServedByMost, Watched};
use unicode_width::UnicodeWidthChar;

use super::chart::{Curve, draw_curves};
use super::grid::{Area, Grid, Span, Weight};

/// What rewards are drawn from, as far as a run has them, and what each line is called.
const REWARDS: [(&str, &str, Color); 4] = [
    ("env/all/reward/total", "train", Color::DarkCyan),
    ("test/env/all/reward/total", "held-out", Color::DarkYellow),
    ("train_mean_nll", "train nll", Color::DarkCyan),
    ("test/nll", "held-out nll", Color::DarkYellow),
];

/// Rows of the alarms, with their border.
const ALARM_ROWS: usize = 6;
/// Rows of the last reply, with their border.
const REPLY_ROWS: usize = 5;
/// Rows below which charts are not made smaller: what is below them is cut off.
const LEAST_CHART_ROWS: usize = 8;

/// Draws the run, and beside its scores the chosen one of its metrics.
pub fn draw(grid: &mut Grid, watched: &Watched, chosen: usize) {
    let Area { width, height, .. } = grid.area();
    grid.write(0, 0, width, &head_line(watched));
    let charts = height.saturating_sub(2 + ALARM_ROWS + REPLY_ROWS).max(LEAST_CHART_ROWS);
    let left = Area { left: 0, top: 1, width: width / 2, height: charts };
    let right = Area { left: width / 2, width: width - width / 2, ..left };
    let scores: Vec<Curve<'_>> = REWARDS
        .iter()
        .map(|(metric, name, colour)| Curve { name, colour: *colour, points: watched.points(metric) })
        .filter(|curve| !curve.points.is_empty())
        .collect();
    let names = scores.iter().flat_map(|curve| [Span::plain("  "), Span::coloured(curve.name, curve.colour)]);
    let title: Vec<Span> = [Span::plain("scores")].into_iter().chain(names).collect();
    picture(grid, left, &title, &scores);
    let metrics = watched.metrics();
    if let Some(metric) = metrics.get(chosen % metrics.len().max(1)) {
        let curve = Curve { name: "", colour: Color::DarkGreen, points: watched.points(metric) };
        let title = format!("{metric} ({}/{})", chosen % metrics.len() + 1, metrics.len());
        picture(grid, right, &[Span::plain(title)], &[curve]);
    } else {
        grid.border(right, &[Span::plain("no step yet")]);
    }
    let alarms = Area { left: 0, top: 1 + charts, width, height: ALARM_ROWS };
    boxed(grid, alarms, "alarms", &alarm_lines(watched.alarms.as_deref()));
    let reply = Area { top: alarms.top + ALARM_ROWS, height: REPLY_ROWS, ..alarms };
    boxed(grid, reply, "last reply", &reply_lines(watched, reply.within_border().width));
    let hint = Span::weighted("q leave   tab, shift-tab another metric", Weight::Dim);
    grid.write(0, reply.top + REPLY_ROWS, width, &[hint]);
}

/// Lines below each other within a border.
fn boxed(grid: &mut Grid, area: Area, title: &str, lines: &[Vec<Span>]) {
    grid.border(area, &[Span::plain(title)]);
    let within = area.within_border();
    for (row, line) in lines.iter().take(within.height).enumerate() {
        grid.write(within.left, within.top + row, within.width, line);
    }
}

fn head_line(watched: &Watched) -> Vec<Span> {
    let of = watched.max_steps.map_or(String::new(), |max| format!(" of {max}"));
    let last = |metric: &str| watched.points(metric).last().map(|(_, value)| *value);
    let mut parts = vec![
        Span::weighted(watched.run_id.clone(), Weight::Bold),
        Span::plain(format!("  {}  {}{of} updates", watched.state.as_str(), watched.updates)),
    ];
    if let Some(reward) = last("env/all/reward/total") {
        parts.push(Span::plain(format!("  reward {reward:+.3}")));
    }
    if let Some(held_out) = last("test/env/all/reward/total") {
        parts.push(Span::plain(format!("  held-out {held_out:+.3}")));
    }
    if let Some(speed) = last(fulgurite_lab::watched::TOKENS_PER_SECOND) {
        parts.push(Span::plain(format!("  {speed:.0} tokens/s")));
    }
    if let Some(ServedByMost { version, servers, all }) = watched.served {
        let version = version.map_or_else(|| "unknown weights".to_owned(), |version| format!("version {version}"));
        let text = format!("  {version} at {servers} of {all} servers");
        parts.push(if servers == all { Span::plain(text) } else { Span::coloured(text, Color::DarkYellow) });
    }
    parts
}

fn picture(grid: &mut Grid, area: Area, title: &[Span], curves: &[Curve<'_>]) {
    grid.border(area, title);
    draw_curves(grid, area.within_border(), curves);
}

fn alarm_lines(alarms: Option<&[Alarm]>) -> Vec<Vec<Span>> {
    let line = |Alarm { severity, name, evidence }: &Alarm| {
        let colour = match severity {
            Severity::Error => Color::DarkRed,
            Severity::Warning => Color::DarkYellow,
        };
        vec![Span::coloured(name.clone(), colour), Span::plain(format!(": {}", plain(evidence)))]
    };
    match alarms {
        None => vec![vec![Span::plain("the run's record is not here, so that nobody can tell")]],
        Some([]) => vec![vec![Span::plain("nothing is amiss by what is recorded")]],
        Some(alarms) => alarms.iter().map(line).collect(),
    }
}

fn reply_lines(watched: &Watched, width: usize) -> Vec<Vec<Span>> {
    let Some(LastAnswer { task, answer, reward }) = &watched.reply else { return Vec::new() };
    let task = wrapped(&plain(task), width).into_iter().map(|line| vec![Span::weighted(line, Weight::Dim)]);
    let answer = wrapped(&format!("{reward:+.3}  {}", plain(answer)), width);
    task.chain(answer.into_iter().map(|line| vec![Span::plain(line)])).collect()
}

/// Text in lines of so many columns at most, broken after a space where there is one.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let columns = |text: &str| text.chars().map(|c| c.width().unwrap_or(0)).sum::<usize>();
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        // A space at the end of a line may be beyond it.
        if used > 0 && used + columns(word.trim_end()) > width {
            lines.push(String::new());
            used = 0;
        }
        for character in word.chars() {
            let more = character.width().unwrap_or(0);
            if used > 0 && used + more > width && character != ' ' {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(character);
            }
            used += more;
        }
    }
    lines
}

/// Text on one line, in which nothing moves the cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use fulgurite_lab::runs::registry::RunState;

    fn watched() -> Watched {
        let step = |n: u32| {
            let value = json!({
                "step": n, "env/all/reward/total": f64::from(n) / 4.0, "optim/entropy": 2.0 - f64::from(n) / 4.0,
                "env/all/total_ac_tokens": 900, "time/sampling": 3.0,
            });
            value.as_object().unwrap().clone()
        };
        let mut steps: Vec<Map<String, Value>> = (0..5).map(step).collect();
        steps[0].insert("test/env/all/reward/total".to_owned(), json!(0.0));
        steps[4].insert("test/env/all/reward/total".to_owned(), json!(0.5));
        Watched {
            run_id: "hello-seed-1-1".to_owned(),
            state: RunState::Running,
            updates: 5,
            max_steps: Some(80),
            steps,
            alarms: Some(vec![Alarm {
                severity: Severity::Warning,
                name: "truncation".to_owned(),
                evidence: "30 % of rollouts\x1b[2J were cut off".to_owned(),
            }]),
            served: None,
            reply: Some(LastAnswer { task: "Say 7".to_owned(), answer: "I am\n17.".to_owned(), reward: 1.0 }),
        }
    }

    fn shown(watched: &Watched, chosen: usize) -> String {
        let mut grid = Grid::new(100, 28);
        draw(&mut grid, watched, chosen);
        grid.lines().map(|line| format!("\"{line}\"\n")).collect()
    }

    #[test]
    fn a_run_is_drawn_with_its_scores_alarms_and_last_reply() {
        insta::assert_snapshot!(shown(&watched(), 0), @r#"
        "hello-seed-1-1  running  5 of 80 updates  reward +1.000  held-out +0.500  300 tokens/s              "
        "┌scores  train  held-out─────────────────────────┐┌optim/entropy (1/6)─────────────────────────────┐"
        "│1.000│                                      ⢀⡠⠔⠊││2.000│⠑⠢⢄⡀                                      │"
        "│     │                                  ⢀⡠⠔⠊⠁   ││     │   ⠈⠑⠢⢄⡀                                  │"
        "│     │                               ⡠⠔⠊⠁       ││     │       ⠈⠑⠢⢄                               │"
        "│     │                           ⣀⠤⠒⠉           ││     │           ⠉⠒⠤⣀                           │"
        "│     │                       ⢀⡠⠔⠊               ││     │               ⠉⠒⠤⣀                       │"
        "│     │                   ⢀⡠⠔⠊⠁               ⣀⣀⠤││     │                   ⠉⠒⠤⣀                   │"
        "│     │               ⢀⡠⠔⠊⠁           ⣀⣀⠤⠤⠒⠒⠉⠉   ││     │                       ⠉⠒⠤⣀               │"
        "│     │           ⢀⡠⠔⠊⠁       ⣀⣀⠤⠤⠒⠒⠉⠉           ││     │                           ⠉⠒⠤⣀           │"
        "│     │       ⢀⡠⠔⠊⠁   ⣀⣀⠤⠤⠒⠒⠉⠉                   ││     │                               ⠑⠢⢄⡀       │"
        "│     │   ⢀⡠⠔⠊⣀⣀⠤⠤⠒⠒⠉⠉                           ││     │                                  ⠈⠑⠢⢄⡀   │"
        "│0.000│⣀⠤⠤⠒⠒⠉⠉                                   ││1.000│                                      ⠈⠑⠢⢄│"
        "│     └──────────────────────────────────────────││     └──────────────────────────────────────────│"
        "│     0                                         4││     0                                         4│"
        "└────────────────────────────────────────────────┘└────────────────────────────────────────────────┘"
        "┌alarms────────────────────────────────────────────────────────────────────────────────────────────┐"
        "│truncation: 30 % of rollouts [2J were cut off                                                     │"
        "│                                                                                                  │"
        "│                                                                                                  │"
        "│                                                                                                  │"
        "└──────────────────────────────────────────────────────────────────────────────────────────────────┘"
        "┌last reply────────────────────────────────────────────────────────────────────────────────────────┐"
        "│Say 7                                                                                             │"
        "│+1.000  I am 17.                                                                                  │"
        "│                                                                                                  │"
        "└──────────────────────────────────────────────────────────────────────────────────────────────────┘"
        "q leave   tab, shift-tab another metric                                                             "
        "#);
    }

    #[test]
    fn keys_choose_the_metric_that_is_drawn() {
        assert!(shown(&watched(), 1).contains("tokens/s (2/6)"));
        assert!(shown(&watched(), 6).contains("optim/entropy (1/6)"), "they go round");
    }

    #[test]
    fn servers_that_have_other_weights_are_counted() {
        let served = Some(ServedByMost { version: Some(4), servers: 2, all: 3 });
        let shown = shown(&Watched { steps: Vec::new(), served, ..watched() }, 0);
        assert!(shown.contains("5 of 80 updates  version 4 at 2 of 3 servers"), "{shown}");
    }

    #[test]
    fn a_run_without_a_step_is_drawn() {
        let watched = Watched { steps: Vec::new(), alarms: None, reply: None, updates: 0, ..watched() };
        let shown = shown(&watched, 3);
        assert!(shown.contains("no step yet") && shown.contains("the run's record is not here"), "{shown}");
    }

    #[test]
    fn a_long_reply_is_wrapped_between_words_and_a_long_word_within() {
        assert_eq!(wrapped("one two three", 7), ["one two ", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh ", "ij"]);
        assert_eq!(wrapped("世界世", 4), ["世界", "世"]);
    }

    #[test]
    fn a_screen_of_any_size_is_drawn_on() {
        for (width, height) in [(0, 0), (1, 1), (7, 3), (30, 12), (400, 200)] {
            draw(&mut Grid::new(width, height), &watched(), 0);
        }
    }
}
