//! How a watched run is drawn on a terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Wrap};

use super::watched::{Alarm, ServedByMost, Watched};
use crate::doctor::findings::Severity;

/// What rewards are drawn from, as far as a run has them, and what each line is called.
const REWARDS: [(&str, &str, Color); 4] = [
    ("env/all/reward/total", "train", Color::Cyan),
    ("test/env/all/reward/total", "held-out", Color::Yellow),
    ("train_mean_nll", "train nll", Color::Cyan),
    ("test/nll", "held-out nll", Color::Yellow),
];

/// A line of a picture: its name, colour and points.
struct Curve<'a> {
    name: &'a str,
    colour: Color,
    points: Vec<(f64, f64)>,
}

/// Draws the run, and beside its scores the chosen one of its metrics.
pub fn draw(frame: &mut Frame<'_>, watched: &Watched, chosen: usize) {
    let [head, charts, alarms, reply, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(8),
        Constraint::Length(6),
        Constraint::Length(5),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(head_line(watched), head);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(charts);
    let scores: Vec<Curve<'_>> = REWARDS
        .iter()
        .map(|(metric, name, colour)| Curve { name, colour: *colour, points: watched.points(metric) })
        .filter(|curve| !curve.points.is_empty())
        .collect();
    let names = scores.iter().flat_map(|curve| [Span::raw("  "), Span::styled(curve.name, curve.colour)]);
    let title = Line::from_iter([Span::raw("scores")].into_iter().chain(names));
    picture(frame, left, title, &scores);
    let metrics = watched.metrics();
    if let Some(metric) = metrics.get(chosen % metrics.len().max(1)) {
        let curve = Curve { name: "", colour: Color::Green, points: watched.points(metric) };
        let title = format!("{metric} ({}/{})", chosen % metrics.len() + 1, metrics.len());
        picture(frame, right, title.into(), &[curve]);
    } else {
        frame.render_widget(Block::bordered().title("no step yet"), right);
    }
    frame.render_widget(alarm_lines(watched.alarms.as_deref()), alarms);
    frame.render_widget(reply_lines(watched), reply);
    let hint = "q leave   tab, shift-tab another metric";
    frame.render_widget(Line::styled(hint, Style::new().add_modifier(Modifier::DIM)), keys);
}

fn head_line(watched: &Watched) -> Line<'static> {
    let of = watched.max_steps.map_or(String::new(), |max| format!(" of {max}"));
    let last = |metric: &str| watched.points(metric).last().map(|(_, value)| *value);
    let mut parts = vec![
        Span::styled(watched.run_id.clone(), Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!("  {}  {}{of} updates", watched.state.as_str(), watched.updates)),
    ];
    if let Some(reward) = last("env/all/reward/total") {
        parts.push(Span::raw(format!("  reward {reward:+.3}")));
    }
    if let Some(held_out) = last("test/env/all/reward/total") {
        parts.push(Span::raw(format!("  held-out {held_out:+.3}")));
    }
    if let Some(speed) = last(super::watched::TOKENS_PER_SECOND) {
        parts.push(Span::raw(format!("  {speed:.0} tokens/s")));
    }
    if let Some(ServedByMost { version, servers, all }) = watched.served {
        let version = version.map_or_else(|| "unknown weights".to_owned(), |version| format!("version {version}"));
        let text = format!("  {version} at {servers} of {all} servers");
        parts.push(if servers == all { Span::raw(text) } else { Span::styled(text, Color::Yellow) });
    }
    Line::from(parts)
}

fn picture(frame: &mut Frame<'_>, area: Rect, title: Line<'_>, curves: &[Curve<'_>]) {
    let all = || curves.iter().flat_map(|curve| curve.points.iter().copied()).filter(|(_, value)| value.is_finite());
    let ends = |part: fn((f64, f64)) -> f64| {
        let (least, greatest) = all()
            .map(part)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
        if greatest > least {
            [least, greatest]
        } else if least.is_finite() {
            [least - 0.5, least + 0.5]
        } else {
            [0.0, 1.0]
        }
    };
    let (x, y) = (ends(|point| point.0), ends(|point| point.1));
    let datasets = curves.iter().map(|curve| {
        let line = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line);
        line.name(curve.name).style(Style::new().fg(curve.colour)).data(&curve.points)
    });
    let label = |value: f64| if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.3}") };
    let chart = Chart::new(datasets.collect())
        .block(Block::bordered().title(title))
        .x_axis(Axis::default().bounds(x).labels(x.map(|value| format!("{value:.0}"))))
        .y_axis(Axis::default().bounds(y).labels(y.map(label)));
    frame.render_widget(chart, area);
}

fn alarm_lines(alarms: Option<&[Alarm]>) -> Paragraph<'static> {
    let lines: Vec<Line<'static>> = match alarms {
        None => vec![Line::raw("the run's record is not here, so that nobody can tell")],
        Some([]) => vec![Line::raw("nothing is amiss by what is recorded")],
        Some(alarms) => alarms
            .iter()
            .map(|Alarm { severity, name, evidence }| {
                let colour = match severity {
                    Severity::Error => Color::Red,
                    Severity::Warning => Color::Yellow,
                };
                Line::from(vec![
                    Span::styled(name.clone(), Style::new().fg(colour)),
                    Span::raw(format!(": {}", plain(evidence))),
                ])
            })
            .collect(),
    };
    Paragraph::new(lines).block(Block::bordered().title("alarms"))
}

fn reply_lines(watched: &Watched) -> Paragraph<'static> {
    let text = match &watched.reply {
        None => Vec::new(),
        Some((task, answer, reward)) => vec![
            Line::styled(plain(task), Style::new().add_modifier(Modifier::DIM)),
            Line::raw(format!("{reward:+.3}  {}", plain(answer))),
        ],
    };
    Paragraph::new(text).wrap(Wrap { trim: false }).block(Block::bordered().title("last reply"))
}

/// Text on one line, in which nothing moves the cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::runs::registry::RunState;

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
            reply: Some(("Say 7".to_owned(), "I am\n17.".to_owned(), 1.0)),
        }
    }

    fn shown(watched: &Watched, chosen: usize) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 28)).unwrap();
        terminal.draw(|frame| draw(frame, watched, chosen)).unwrap();
        terminal.backend().to_string()
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
}
