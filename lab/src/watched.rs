//! What is seen of a run that is watched, read from its store, or where that is a server's from its file of metrics.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use fulgurite_types::Run;
use serde_json::{Map, Value};

use crate::doctor;
use crate::doctor::findings::Severity;
use crate::doctor::servers::ServerFacts;
use crate::records;
use crate::records::exclusive_lock::is_run_held;
use crate::runs::registry::{self, RunState};
use crate::sweep::scores::{self, steps};

/// A metric that is made of others: how fast rollouts sampled.
pub const TOKENS_PER_SECOND: &str = "tokens/s";
/// Metrics that come first where a run has them.
const FIRST: [&str; 4] = ["optim/entropy", "optim/kl_sample_train_v2", TOKENS_PER_SECOND, "optim/loss:sum"];

/// An alarm: how bad, what, and what shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarm {
    /// How bad it is.
    pub severity: Severity,
    /// Its name.
    pub name: String,
    /// What shows it.
    pub evidence: String,
}

/// What most servers of a store sample a model from.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedByMost {
    /// The version; `None` where they do not know it.
    pub version: Option<u64>,
    /// Servers that have it.
    pub servers: usize,
    /// All servers.
    pub all: usize,
}

impl ServedByMost {
    fn of(servers: &ServerFacts) -> Option<Self> {
        let mut counts: BTreeMap<Option<u64>, usize> = BTreeMap::new();
        servers.served.iter().for_each(|served| *counts.entry(served.version).or_default() += 1);
        let (version, servers_with_it) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        Some(Self { version, servers: servers_with_it, all: servers.served.len() })
    }
}

/// An answer of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct LastAnswer {
    /// What it was given to do.
    pub task: String,
    /// What it answered.
    pub answer: String,
    /// What that earned.
    pub reward: f64,
}

/// A run as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// Its id.
    pub run_id: String,
    /// How it stands.
    pub state: RunState,
    /// Updates made.
    pub updates: u64,
    /// Updates at most, if that is known.
    pub max_steps: Option<u64>,
    /// Metrics of its steps, oldest first.
    pub steps: Vec<Map<String, Value>>,
    /// What is amiss; nothing if it cannot be told.
    pub alarms: Option<Vec<Alarm>>,
    /// The version that most servers of its store answer with, and how many have it; nothing without a server.
    pub served: Option<ServedByMost>,
    /// The answer of the rollout that was played last.
    pub reply: Option<LastAnswer>,
}

impl Watched {
    /// Reads a run.
    ///
    /// # Errors
    /// If its file, or its record, cannot be read.
    pub async fn read(directory: &Path) -> Result<Self> {
        let file = records::run_file(directory)?;
        let max_steps = file["trainer"]["max_steps"].as_u64();
        let run_id = file["run_id"].as_str().unwrap_or_default().to_owned();
        let steps = steps(directory);
        let mut watched = Self {
            run_id,
            state: if is_run_held(directory) { RunState::Running } else { RunState::Open },
            updates: scores::updates(&steps),
            max_steps,
            steps,
            alarms: None,
            served: None,
            reply: None,
        };
        // The record of a run at a server is that server's; a run that has just begun has none yet.
        if let Ok((store, run)) = registry::open(directory).await {
            watched.look_into(&store, &run, directory).await?;
            store.close().await;
        }
        Ok(watched)
    }

    async fn look_into(&mut self, store: &fulgurite_store::Store, run: &Run, directory: &Path) -> Result<()> {
        let steps = store.runs().steps(&run.run_id).await?;
        self.state = registry::state(directory, run, &steps);
        self.steps = steps.into_iter().filter_map(|step| step.metrics.as_object().cloned()).collect();
        self.updates = scores::updates(&self.steps);
        let doctor::Seen { findings, answer, servers } = doctor::look(store, run).await?;
        self.served = ServedByMost::of(&servers);
        let alarm = |found: doctor::findings::Finding| Alarm {
            severity: found.severity,
            name: found.name.to_owned(),
            evidence: found.evidence,
        };
        self.alarms = Some(findings.into_iter().map(alarm).collect());
        self.reply = answer.map(|answer| {
            let task = answer.task.as_str().map_or_else(|| answer.task.to_string(), str::to_owned);
            LastAnswer { task, answer: answer.answer, reward: answer.reward }
        });
        Ok(())
    }

    /// The metrics that can be looked at, those that matter most first.
    pub fn metrics(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (name, value) in self.steps.iter().flatten() {
            if value.is_number() && name != "step" && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names.sort();
        let has_speed = !self.points(TOKENS_PER_SECOND).is_empty();
        let first = FIRST
            .iter()
            .filter(|name| names.iter().any(|known| known == *name) || **name == TOKENS_PER_SECOND && has_speed);
        let first: Vec<String> = first.map(|name| (*name).to_owned()).collect();
        names.retain(|name| !first.contains(name));
        first.into_iter().chain(names).collect()
    }

    /// A metric's curve: update and value.
    pub fn points(&self, metric: &str) -> Vec<(f64, f64)> {
        let number = |step: &Map<String, Value>, key: &str| step.get(key).and_then(Value::as_f64);
        let value = |step: &Map<String, Value>| match metric {
            TOKENS_PER_SECOND => {
                let seconds = number(step, "time/sampling").filter(|seconds| *seconds > 0.0)?;
                Some(number(step, "env/all/total_ac_tokens")? / seconds)
            }
            metric => number(step, metric),
        };
        self.steps.iter().filter_map(|step| Some((number(step, "step")?, value(step)?))).collect()
    }
}
