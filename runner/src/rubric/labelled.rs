//! Answers that people have judged, to hold judges against.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use futures::stream;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agreement::Agreement;
use super::judge::{JudgeEndpoint, Rubric};
use super::options::{Criterion, RubricOptions};
use super::question::{Material, request};
use crate::RunnerError;

/// Questions that are asked at a time.
const AT_ONCE: usize = 8;

/// An answer, and which criteria people found it to meet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledAnswer {
    task: Value,
    answer: String,
    #[serde(default)]
    changes: Option<Value>,
    met: BTreeMap<String, bool>,
}

/// How far a judge agrees with people on a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgeOnLabels {
    /// The judge.
    pub judge: String,
    /// The criterion.
    pub criterion: String,
    /// The judge is the first of the two.
    pub agreement: Agreement,
}

/// Why judges were not held against labels.
#[derive(Debug, thiserror::Error)]
pub enum LabelledError {
    /// The file cannot be read.
    #[error("[runner.rubric.labelled] {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: std::io::Error,
    },
    /// A line is none of the kind.
    #[error("[runner.rubric.labelled] {}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1 on.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// There is nothing in it.
    #[error("[runner.rubric.labelled] {} has no answers", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A judge did not judge.
    #[error("on the answer of line {line} of [runner.rubric.labelled], {why}")]
    Judge {
        /// From 1 on.
        line: usize,
        /// What happened.
        why: String,
    },
    /// Judges cannot be asked.
    #[error(transparent)]
    Runner(#[from] RunnerError),
}

impl LabelledAnswer {
    /// The answers in a file of JSON lines, which name criteria of the rubric only.
    ///
    /// # Errors
    /// Which line is wrong, and why.
    pub fn read(path: &Path, criteria: &[Criterion]) -> Result<Vec<(usize, Self)>, LabelledError> {
        let text = fs::read_to_string(path).map_err(|error| LabelledError::Read { path: path.to_owned(), error })?;
        let mut answers = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: String| LabelledError::Line { path: path.to_owned(), line: number + 1, why };
            let answer: Self = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            let is_known = |name: &String| criteria.iter().any(|criterion| criterion.name == *name);
            if let Some(name) = answer.met.keys().find(|name| !is_known(name)) {
                return Err(wrong(format!("met: {name:?} is no criterion of the rubric")));
            }
            if answer.met.is_empty() {
                return Err(wrong("met: it says of no criterion whether it is met".to_owned()));
            }
            answers.push((number + 1, answer));
        }
        if answers.is_empty() {
            return Err(LabelledError::Empty { path: path.to_owned() });
        }
        Ok(answers)
    }
}

/// Has every judge of the rubric judge what people have judged, at the server's own endpoint for model calls: what each says of
/// each criterion, beside what people say. Judgements, and what they cost, are kept in `directory`.
///
/// # Errors
/// If a judge does not judge, or would exceed a limit.
pub async fn judge_labelled(
    options: &RubricOptions,
    directory: Option<PathBuf>,
    url: Url,
    key: Option<String>,
    answers: &[(usize, LabelledAnswer)],
) -> Result<Vec<JudgeOnLabels>, LabelledError> {
    let rubric = Rubric::new(options, directory)?;
    let endpoint = JudgeEndpoint { url, key };
    let mut all = Vec::new();
    for (_, judge) in options.judges() {
        for criterion in &options.criteria {
            let labelled =
                answers.iter().filter_map(|(line, answer)| Some((*line, answer, *answer.met.get(&criterion.name)?)));
            let questions: Vec<_> = labelled
                .map(|(line, LabelledAnswer { task, answer, changes, .. }, label)| {
                    let material = Material { task, answer, changes: changes.as_ref() };
                    let questions =
                        rubric.ask(&endpoint, judge, criterion, request(options, judge, criterion, material));
                    async move {
                        let (judgement, _) = questions.await.map_err(|why| LabelledError::Judge { line, why })?;
                        Ok::<_, LabelledError>(Agreement::of(judgement.met, label))
                    }
                })
                .collect();
            let mut agreement = Agreement::default();
            let mut judged = stream::iter(questions).buffered(AT_ONCE);
            while let Some(one) = judged.next().await {
                agreement += one?;
            }
            if agreement.count() > 0 {
                all.push(JudgeOnLabels { judge: judge.to_owned(), criterion: criterion.name.clone(), agreement });
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_that_is_no_labelled_answer_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let criteria = [Criterion { name: "total".to_owned(), text: "t".to_owned(), weight: 1.0 }];
        let good = json!({ "task": 1, "answer": "a", "met": { "total": true } }).to_string();
        let read = |text: String| {
            fs::write(file.path(), text).unwrap();
            LabelledAnswer::read(file.path(), &criteria).map_err(|error| error.to_string())
        };
        assert_eq!(
            read(format!("{good}\n\n{good}\n")).unwrap().iter().map(|(line, _)| *line).collect::<Vec<_>>(),
            [1, 3]
        );
        assert!(read(format!("{good}\n{{}}")).unwrap_err().contains("line 2: missing field `task`"));
        assert!(read(good.replace("total", "totla")).unwrap_err().contains("\"totla\" is no criterion of the rubric"));
        assert!(read(good.replace("\"total\":true", "")).unwrap_err().contains("line 1: met: it says of no criterion"));
        assert!(read(String::new()).unwrap_err().contains("has no answers"));
    }
}
