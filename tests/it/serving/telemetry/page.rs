//! A page of metrics, read as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::Server;

/// What `/metrics` said once.
#[derive(Debug)]
pub struct Page {
    pub metrics: BTreeMap<String, Metric>,
    /// By name, with the suffixes of a histogram, and labels.
    samples: BTreeMap<(String, Labels), f64>,
}

type Labels = BTreeMap<String, String>;

/// What is said of one metric.
#[derive(Debug, Default, PartialEq)]
pub struct Metric {
    pub kind: String,
    pub help: String,
    pub labels: BTreeSet<String>,
}

impl Page {
    pub fn of(server: &Server) -> Self {
        let answer = server.get("/metrics");
        assert_eq!(answer.status, 200, "{}", answer.text);
        Self::read(&answer.text)
    }

    fn read(text: &str) -> Self {
        let mut page = Self { metrics: BTreeMap::new(), samples: BTreeMap::new() };
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap();
                page.metrics.entry(name.to_owned()).or_default().help = help.to_owned();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                page.metrics.entry(name.to_owned()).or_default().kind = kind.to_owned();
            } else {
                page.read_sample(line);
            }
        }
        page
    }

    fn read_sample(&mut self, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels: Labels = labels
            .trim_end_matches("\"}")
            .trim_end_matches('}')
            .split("\",")
            .filter_map(|label| label.split_once("=\""))
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .collect();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix).filter(|family| self.metrics.contains_key(*family)))
            .unwrap_or(name);
        let metric = self.metrics.get_mut(family).unwrap_or_else(|| panic!("{name} has no type"));
        metric.labels.extend(labels.keys().filter(|label| *label != "le").cloned());
        self.samples.insert((name.to_owned(), labels), value.parse().unwrap());
    }

    /// The sum of a metric's samples that have these labels and perhaps others.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has_all = |of: &Labels| labels.iter().all(|(label, value)| of.get(*label).is_some_and(|own| own == value));
        let samples = self.samples.iter().filter(|((own, of), _)| own == name && has_all(of));
        samples.map(|(_, value)| value).sum()
    }
}
