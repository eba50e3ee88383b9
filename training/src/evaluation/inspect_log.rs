//! Scores in a log of Inspect AI, as an evaluation of ours (<https://inspect.aisi.org.uk/eval-logs.html>).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_trainer::{SampleScore, TaskScore};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::evaluated_weights::digest;
use super::result_file::ResultFile;

/// The parts of a log that are read.
#[derive(Deserialize)]
struct Log {
    status: String,
    eval: Evaluation,
    #[serde(default)]
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
struct Evaluation {
    #[serde(default)]
    eval_id: Option<String>,
    #[serde(default)]
    run_id: Option<String>,
    task: String,
    model: String,
}

#[derive(Deserialize)]
struct Sample {
    id: Value,
    #[serde(default = "first_epoch")]
    epoch: u64,
    input: Value,
    #[serde(default)]
    target: Value,
    /// By scorer; none of a sample that was not scored.
    #[serde(default)]
    scores: Option<Map<String, Value>>,
    #[serde(default)]
    error: Option<Value>,
}

fn first_epoch() -> u64 {
    1
}

/// Reads a log in JSON. The score of the first scorer, or of the one that is named, is the reward, and the others are components.
/// Epochs are the samples of a task.
///
/// # Errors
/// If it is no log in JSON, has no samples, or was cut short; if a scorer is not there or gives no number.
pub fn read(path: &Path, scorer: Option<&str>) -> Result<ResultFile> {
    let named = || format!("--inspect-log {}", path.display());
    let text = std::fs::read(path).with_context(named)?;
    if text.starts_with(b"PK") {
        bail!(
            "{}: this is Inspect's packed form: `inspect log convert --to json --output-dir DIR` unpacks it",
            named()
        );
    }
    let log: Log =
        serde_json::from_slice(&text).with_context(|| format!("{} is no log of Inspect's in JSON", named()))?;
    if log.status != "success" {
        bail!("{}: its status is `{}`, and the score of an evaluation that was cut short is none", named(), log.status);
    }
    result(log, scorer).with_context(named)
}

fn result(log: Log, scorer: Option<&str>) -> Result<ResultFile> {
    let Log { eval, samples, .. } = log;
    let mut tasks: Vec<(Value, Vec<Sample>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for sample in samples {
        let place = *places.entry(sample.id.to_string()).or_insert(tasks.len());
        if place == tasks.len() {
            tasks.push((json!({ "id": sample.id, "input": sample.input, "target": sample.target }), Vec::new()));
        }
        tasks[place].1.push(sample);
    }
    if tasks.is_empty() {
        bail!("it has no samples: `inspect eval` writes them unless told otherwise");
    }
    let epochs = tasks.iter().map(|(_, samples)| samples.len()).max().unwrap_or_default();
    let scores =
        tasks.into_iter().map(|(task, samples)| task_score(task, samples, scorer)).collect::<Result<Vec<_>>>()?;
    let tasks_digest = digest(&Value::from_iter(scores.iter().map(|score| score.task.clone())));
    let id = eval.eval_id.or(eval.run_id).unwrap_or_else(|| tasks_digest[..8].to_owned());
    Ok(ResultFile {
        run_id: format!("inspect-{}-{id}", eval.task.replace('/', "-")),
        directory: PathBuf::new(),
        evaluated: format!("inspect: {}", eval.task),
        weights: digest(&json!(["inspect", eval.model])),
        weights_from: eval.model,
        step: 0,
        tasks_digest,
        samples: epochs,
        seed: 0,
        scores,
        wall_seconds: 0.0,
    })
}

fn task_score(task: Value, mut samples: Vec<Sample>, scorer: Option<&str>) -> Result<TaskScore> {
    samples.sort_by_key(|sample| sample.epoch);
    let mut score = TaskScore {
        task,
        tags: Vec::new(),
        samples: Vec::new(),
        failed: BTreeMap::new(),
        failure_examples: BTreeMap::new(),
    };
    for sample in samples {
        let Sample { id, epoch, scores, error, .. } = sample;
        let Some(scores) = scores.filter(|scores| error.is_none() && !scores.is_empty()) else {
            let why = error.as_ref().and_then(|error| error["message"].as_str()).unwrap_or("it was not scored");
            *score.failed.entry(why.to_owned()).or_default() += 1;
            continue;
        };
        let mut components = BTreeMap::new();
        for (name, given) in &scores {
            add(&mut components, name, &given["value"]).with_context(|| format!("sample {id}, epoch {epoch}"))?;
        }
        let first = scores.keys().next().map(String::as_str);
        let name = scorer.or(first).unwrap_or_default();
        let Some(reward) = components.remove(name) else {
            let known: Vec<&String> = components.keys().collect();
            bail!("sample {id}, epoch {epoch}: there is no scorer `{name}`: there are {known:?} (--scorer names one)");
        };
        score.samples.push(SampleScore { rollout_id: format!("{id}-{epoch}"), reward, components });
    }
    Ok(score)
}

/// Adds a scorer's value; of one that gives several, each under its own name.
fn add(components: &mut BTreeMap<String, f64>, name: &str, value: &Value) -> Result<()> {
    if let Value::Object(several) = value {
        return several.iter().try_for_each(|(part, value)| add(components, &format!("{name}/{part}"), value));
    }
    let number = number(value).with_context(|| format!("the scorer `{name}` gave {value}, which is no number"))?;
    components.insert(name.to_owned(), number);
    Ok(())
}

/// A value as Inspect's own means count it: correct 1, partial a half, incorrect and no answer 0.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(holds) => Some(f64::from(u8::from(*holds))),
        Value::String(word) => match word.as_str() {
            "C" => Some(1.0),
            "P" => Some(0.5),
            "I" | "N" => Some(0.0),
            word if ["yes", "true"].contains(&word.to_lowercase().as_str()) => Some(1.0),
            word if ["no", "false"].contains(&word.to_lowercase().as_str()) => Some(0.0),
            word => word.parse().ok().filter(|number: &f64| number.is_finite()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(id: u64, epoch: u64, scores: Value) -> Value {
        json!({ "id": id, "epoch": epoch, "input": format!("{id}?"), "target": "x", "scores": scores })
    }

    fn read_log(log: &Value, scorer: Option<&str>) -> Result<ResultFile, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.json");
        std::fs::write(&path, log.to_string()).unwrap();
        read(&path, scorer).map_err(|error| format!("{error:#}"))
    }

    fn log(samples: Vec<Value>) -> Value {
        json!({ "version": 2, "status": "success", "eval": { "eval_id": "e1", "task": "sums", "model": "openai/hello" },
            "samples": samples })
    }

    #[test]
    fn epochs_are_samples_of_a_task_and_the_first_scorer_rewards() {
        let scores = |match_value: Value| json!({ "match": { "value": match_value }, "length": { "value": 3 } });
        let mut failed = sample(2, 2, Value::Null);
        failed["error"] = json!({ "message": "boom" });
        let read = read_log(
            &log(vec![
                sample(1, 2, scores("I".into())),
                sample(1, 1, scores("C".into())),
                sample(2, 1, scores("P".into())),
                failed,
            ]),
            None,
        )
        .unwrap();
        assert_eq!(
            (read.run_id.as_str(), read.weights_from.as_str(), read.samples),
            ("inspect-sums-e1", "openai/hello", 2)
        );
        let rewards: Vec<Vec<f64>> =
            read.scores.iter().map(|task| task.samples.iter().map(|sample| sample.reward).collect()).collect();
        assert_eq!(rewards, [vec![1.0, 0.0], vec![0.5]]);
        assert_eq!(read.scores[0].samples[0].components, BTreeMap::from([("length".to_owned(), 3.0)]));
        assert_eq!(read.scores[1].failed, BTreeMap::from([("boom".to_owned(), 1)]));
        let by_length = read_log(&log(vec![sample(1, 1, scores("C".into()))]), Some("length")).unwrap();
        assert_eq!(by_length.scores[0].samples[0].reward, 3.0);
    }

    #[test]
    fn what_is_no_whole_log_is_refused() {
        let one = || vec![sample(1, 1, json!({ "match": { "value": "C" } }))];
        let changed = |key: &str, value: Value| {
            let mut log = log(one());
            log[key] = value;
            log
        };
        for (log, scorer, expected) in [
            (changed("status", "cancelled".into()), None, "its status is `cancelled`"),
            (changed("samples", json!([])), None, "it has no samples"),
            (json!({ "samples": [] }), None, "is no log of Inspect's in JSON"),
            (log(one()), Some("other"), "there is no scorer `other`: there are [\"match\"]"),
            (
                log(vec![sample(1, 1, json!({ "match": { "value": "good" } }))]),
                None,
                "gave \"good\", which is no number",
            ),
        ] {
            let error = read_log(&log, scorer).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
