//! A page of runs that stands alone: no script, and nothing from elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};

use super::curves::{Curve, svg};

/// Metrics that are drawn, as far as a run has them.
const DRAWN: [&str; 10] = [
    "test/env/all/reward/total",
    "env/all/reward/total",
    "test/nll",
    "optim/loss:sum",
    "optim/entropy",
    "optim/kl_sample_train_v2",
    "optim/gradient_norm_per_token",
    "env/all/by_group/frac_mixed",
    "env/all/ac_tokens_per_turn",
    "time/total",
];

/// What a page tells of a run.
pub struct ReportedRun {
    /// Its name.
    pub name: String,
    /// How it went, name by name.
    pub facts: Vec<(String, String)>,
    /// Where its sampled tokens went.
    pub ledger: BTreeMap<String, u64>,
    /// Metrics of its steps, oldest first.
    pub steps: Vec<Map<String, Value>>,
    /// What is amiss, and what to do.
    pub findings: Vec<(String, String)>,
    /// Rollouts that failed, by why.
    pub failures: BTreeMap<String, u64>,
    /// Its judges: how far they agree with people and with each other, and what they cost.
    pub judges: Vec<(String, String)>,
    /// Held-out tasks, answered again and again.
    pub changed: Vec<ChangedAnswers>,
    /// Those that earned most.
    pub best: Vec<Transcript>,
    /// Those that earned least.
    pub worst: Vec<Transcript>,
    /// Its config.
    pub config: Value,
}

/// A held-out task, and how it was answered as the run went on.
#[derive(Serialize)]
pub struct ChangedAnswers {
    /// The task.
    pub task: String,
    /// The first answer comes first.
    pub answers: Vec<Answer>,
}

/// What was said to a task.
#[derive(Serialize)]
pub struct Answer {
    /// Updates before it.
    pub step: u64,
    /// What it earned.
    pub reward: f64,
    /// What was said last.
    pub said: String,
}

/// A rollout's conversation.
pub struct Transcript {
    /// Its id.
    pub rollout_id: String,
    /// What it earned.
    pub reward: f64,
    /// Who said what.
    pub messages: Vec<(String, String)>,
}

/// No resource is loaded and no script runs, whatever stands in the page.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
    <title>Runs</title>\n<style>body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
    svg{max-width:100%;height:auto}table{border-collapse:collapse}td,th{padding:.15em 1em .15em 0;text-align:left;vertical-align:top}\
    pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f6f6;padding:.5em}h2{border-top:1px solid #ccc;padding-top:1em}\
    </style></head><body>\n";

/// The page; `pictures` are of several runs, and come first.
pub fn page(runs: &[ReportedRun], pictures: &[String]) -> Result<String> {
    let mut out = HEAD.to_owned();
    let names: Vec<String> = runs.iter().map(|run| escape(&run.name)).collect();
    writeln!(out, "<h1>{}</h1>", names.join(", "))?;
    pictures.iter().for_each(|picture| out.push_str(picture));
    for metric in DRAWN {
        let curves: Vec<Curve> = runs
            .iter()
            .map(|run| Curve { name: run.name.clone(), points: points(&run.steps, metric) })
            .filter(|curve| !curve.points.is_empty())
            .collect();
        if !curves.is_empty() {
            writeln!(out, "{}", svg(metric, &curves)?)?;
        }
    }
    for run in runs {
        section(&mut out, run)?;
    }
    out.push_str("</body></html>\n");
    Ok(out)
}

fn section(out: &mut String, run: &ReportedRun) -> Result<()> {
    writeln!(out, "<h2>{}</h2>", escape(&run.name))?;
    table(out, "", run.facts.iter().map(|(name, value)| (name.as_str(), value.clone())))?;
    table(out, "What is amiss", run.findings.iter().map(|(name, value)| (name.as_str(), value.clone())))?;
    table(out, "Sampled tokens", run.ledger.iter().map(|(cause, tokens)| (cause.as_str(), tokens.to_string())))?;
    table(out, "Failures", run.failures.iter().map(|(why, count)| (why.as_str(), count.to_string())))?;
    table(out, "Judges", run.judges.iter().map(|(name, value)| (name.as_str(), value.clone())))?;
    changed(out, &run.changed)?;
    for (title, transcripts) in [("Best answers", &run.best), ("Worst answers", &run.worst)] {
        if !transcripts.is_empty() {
            writeln!(out, "<h3>{title}</h3>")?;
        }
        for Transcript { rollout_id, reward, messages } in transcripts {
            writeln!(out, "<details><summary>{reward:+.3} {}</summary>", escape(rollout_id))?;
            for (role, content) in messages {
                writeln!(out, "<b>{}</b><pre>{}</pre>", escape(role), escape(content))?;
            }
            out.push_str("</details>\n");
        }
    }
    let config = serde_json::to_string_pretty(&run.config)?;
    writeln!(out, "<details><summary>Config</summary><pre>{}</pre></details>", escape(&config))?;
    Ok(())
}

/// Each held-out task with its answers, one below the other.
fn changed(out: &mut String, changed: &[ChangedAnswers]) -> Result<()> {
    if !changed.is_empty() {
        writeln!(out, "<h3>What changed: held-out tasks</h3>")?;
    }
    for ChangedAnswers { task, answers } in changed {
        writeln!(out, "<b>{}</b><table>", escape(task))?;
        for Answer { step, reward, said } in answers {
            let said = escape(said);
            writeln!(out, "<tr><td>after {step} updates</td><td>{reward:+.3}</td><td><pre>{said}</pre></td></tr>")?;
        }
        out.push_str("</table>\n");
    }
    Ok(())
}

fn table<'a>(out: &mut String, title: &str, rows: impl Iterator<Item = (&'a str, String)>) -> Result<()> {
    let rows: Vec<(&str, String)> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    if !title.is_empty() {
        writeln!(out, "<h3>{title}</h3>")?;
    }
    out.push_str("<table>\n");
    for (name, value) in rows {
        writeln!(out, "<tr><td>{}</td><td>{}</td></tr>", escape(name), escape(&value))?;
    }
    out.push_str("</table>\n");
    Ok(())
}

fn points(steps: &[Map<String, Value>], metric: &str) -> Vec<(f64, f64)> {
    let number = |step: &Map<String, Value>, key: &str| step.get(key).and_then(Value::as_f64);
    steps.iter().filter_map(|step| Some((number(step, "step")?, number(step, metric)?))).collect()
}

/// Text that no browser takes for anything else; control characters are left out.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EVIL: &str = "</pre><script>alert(1)</script><img src=x onerror='y()'>";

    fn evil() -> ReportedRun {
        let transcript = || Transcript {
            rollout_id: EVIL.to_owned(),
            reward: 1.0,
            messages: vec![(EVIL.to_owned(), EVIL.to_owned())],
        };
        let step = |n: u64| json!({ "step": n, "env/all/reward/total": n, "optim/entropy": 1.0 });
        ReportedRun {
            name: EVIL.to_owned(),
            facts: vec![(EVIL.to_owned(), EVIL.to_owned())],
            ledger: BTreeMap::from([(EVIL.to_owned(), 1)]),
            steps: (0..3).map(|n| step(n).as_object().unwrap().clone()).collect(),
            findings: vec![(EVIL.to_owned(), EVIL.to_owned())],
            failures: BTreeMap::from([(EVIL.to_owned(), 2)]),
            judges: vec![(EVIL.to_owned(), EVIL.to_owned())],
            changed: vec![ChangedAnswers {
                task: EVIL.to_owned(),
                answers: vec![Answer { step: 0, reward: 1.0, said: EVIL.to_owned() }],
            }],
            best: vec![transcript()],
            worst: vec![transcript()],
            config: json!({ EVIL: EVIL }),
        }
    }

    #[test]
    fn what_an_agent_or_a_model_wrote_is_text_wherever_it_stands() {
        let page = page(&[evil(), evil()], &[]).unwrap();
        for wrong in ["<script", "<img", "onerror='", "</pre><s", "</pre>&lt;"] {
            assert!(!page.contains(wrong), "{wrong}: {page}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert_eq!(page.matches("<svg").count(), 2, "a picture for each metric that there is, of all runs");
        assert!(
            !page.contains("http://") || page.matches("http://").count() == page.matches("http://www.w3.org/").count()
        );
    }
}
